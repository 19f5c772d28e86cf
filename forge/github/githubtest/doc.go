// Package githubtest has a GitHub for tests: npm's package emulate, which keeps
// accounts, repositories, issues, Apps with their installations and signed
// webhooks, with git over HTTP beside it. What emulate lacks and GitHub has is
// added in emulator.mjs, each addition with a word: accounts by id, reactions,
// commit statuses, the history of edits, renamed events and repositories,
// permissions of people, conditional requests, GUIDs of deliveries. manifest.mjs
// has the pages on which a person makes an App from a manifest and installs it.
//
// The tools come from .ci/setup. Without them a test fails.
package githubtest
