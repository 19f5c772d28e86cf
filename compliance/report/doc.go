// Package report says what became of a task: the compliance report of seed 001
// as JSON, as Markdown that is safe to post, and as plain text for a terminal;
// the execution log; and the redactor that every output passes through.
//
// # Untrusted text
//
// Paths, names, details of violations, output of builders and checks may hold
// anything. In Markdown they stand in fenced blocks only, each line behind a
// bar, so that none can end the fence, be a quick action (/close) or a heading,
// for CommonMark as well as for forges that look for such lines with a regular
// expression. References after closing keywords are broken up, because some
// forges look for them inside code, too. Control characters, escape sequences
// and invisible code points are shown as escapes (case F1), in the names of files
// also blanks that a page would not show, so that no two look alike.
//
// # Redaction
//
// A [Redactor] knows the secrets of this process and the shapes of common
// tokens (case F3). It is a net under the rule that no secret is written
// anywhere, not the rule.
package report
