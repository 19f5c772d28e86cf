// Package gitlabtest is a GitLab for tests: version 4 of the REST API as far as
// writ uses it, two GraphQL queries, git over HTTP, and webhooks in both signing
// forms. It keeps state, and holds to what GitLab publishes of itself:
//
//   - who may do what by access level, inherited and shared memberships included;
//   - pages by offset with their headers, ETag and 304, rate-limit headers;
//   - quick actions in notes and descriptions are executed and taken out, carriage
//     returns and white space at the end are taken out, as GitLab does;
//   - a change of labels or a state writes a resource event, an edit a system note;
//   - a hook that fails four times in a row is left alone for a while.
//
// It is stricter than GitLab in one thing: a parameter that it doesn't know, or
// of another type, is refused and kept as a complaint, so that an adapter's
// requests are held to the published ones.
//
// A test lets it refuse and lie: see [Server.Lie] and [Server.Lag]. It has no clock of
// its own; times of two acts always differ by a millisecond or more.
package gitlabtest
