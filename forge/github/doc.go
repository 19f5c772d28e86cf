// Package github is the adapter for GitHub: github.com, GitHub Enterprise Cloud
// with its own host, and Enterprise Server. It acts as an installed GitHub App,
// or with a personal token for small set-ups.
//
// A repository is known by its numeric id. Its name is looked up by the id, and
// again every minute, so that a repository which was renamed is found, and
// another one that took its name is not. Tokens of an installation are made for
// that one repository and for what the act needs, and end within the hour.
//
// What go-github v60 and ghinstallation do on their own is switched off or gone
// around: redirects, the memory of rate limits, names that aren't escaped.
package github
