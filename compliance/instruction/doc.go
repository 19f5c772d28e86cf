// Package instruction reads an issue: the binding part (which files, what
// outcome, which checks, which builder) and the prose around it, which is data
// (seed 001, "Deterministic Dispatch"; CASES I7 to I9, I14).
//
// # The binding part
//
// Either one fenced block with the info string writ, at the top level of the
// issue's Markdown, holding strict YAML:
//
//	```writ
//	allowed_files: [calc/**, go.mod]
//	expected_outcome: "`go test ./calc` passes and Add handles negative numbers"
//	checks: [test]
//	builder: default
//	```
//
// or the headings that an issue form writes, at the top level, exactly so and
// in any order: "### Allowed files" (one pattern a line, or separated by a comma
// and a space; list marks and backticks are fine), "### Expected outcome",
// "### Checks" (as files, or a list of ticked boxes), "### Builder". What
// follows a heading up to the next heading is its value; "_No response_" means
// none. Two blocks, a heading twice, or both forms in one issue are
// execution.dispatch.malformed. What is quoted, nested in a list or in another
// block, or inside an HTML comment is text and nothing else.
// A block or heading inside an open HTML element is instruction.hidden_content.
//
// What the issue leaves out comes from the contract's defaults. Without names
// of checks all of the contract's checks run.
//
// # The prose
//
// The rest of title and body goes to the builder as quoted data. HTML comments
// and link definitions ("[x]: url \"title\"", used or not) are cut from it, since an
// approver who reads the rendered issue can't see them, and the cuts are
// counted; inside code they are text. A comment that isn't closed where it
// begins is refused, because renderers disagree about what it hides.
//
// # Characters
//
// Title and body must be valid UTF-8 without code points that a reader can't
// see, code included: instruction.hidden_content names each with its place.
// Tabs and line ends (LF, CRLF) are fine, and so are U+200D and U+FE0E/U+FE0F
// inside an emoji.
//
// # Words
//
// [AmbiguousWords] is the list. Matches are whole words, in any case, over one
// line end at most; code, quoted strings, block quotes and HTML don't count.
// In files, outcome and checks a match is execution.dispatch.nondeterministic;
// in title and prose the contract's language.prose decides.
package instruction
