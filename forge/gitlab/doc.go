// Package gitlab is GitLab, gitlab.com or self-managed from 16.0 on, behind the
// role interfaces of package forge. Only this package knows the library beneath.
//
// Numbers: issues and merge requests count apart on GitLab, so a merge request
// !7 is the change 1,000,000,007 here; see [ChangeNumber].
//
// Text: GitLab executes a line that begins with a slash as a quick action, in
// comments and in descriptions of merge requests. Each such line leaves with a
// space in front of it, which Markdown doesn't show, and loses it again when our
// own text is read. GitLab takes carriage returns out, and white space at the end.
//
// Permissions: Guest is read, Planner and Reporter triage, Developer write,
// Maintainer maintain, Owner admin; between two, the lower. Memberships that are
// inherited or come with an invited group count; those that have ended or wait
// for a seat don't, nor does anything of an account that isn't active.
//
// History: labels and states come from resource events, edits and moves from
// system notes. GitLab shows no former text, and hides system notes whose author
// was banned, so no event has a digest, and the absence of an edit proves
// nothing: approvals need a signed payload or the digest in words.
//
// A confidential issue of a project that isn't private is not there for writ:
// what is recorded of a task is as public as the repository.
package gitlab
