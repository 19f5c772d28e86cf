// Package instruction reads an issue: the binding part (which files, what
// outcome, which checks, which builder) and the prose around it, which is data
// (seed 001, "Deterministic Dispatch"; cases I7 to I9, I14, I15).
//
// The binding part is one fenced block with the info string writ, in strict
// YAML, or the headings of the issue form ("### Allowed files", "### Expected
// outcome", "### Checks", "### Builder"), at the top level of the Markdown and
// outside HTML. Two blocks, a heading twice or both forms are
// execution.dispatch.malformed. What is left out comes from the contract.
//
// What decides must be on the page as it is. An entry of the form's lists is
// what a code span or block holds, or text that both forges show as it was typed
// (letters, digits, blanks and / . _ - * ? + = @ ( ), outside of emphasis, links
// and whatever else the page shows otherwise). A value of the block stands in it
// without escapes and on one line. Any other entry is refused by name, and so is
// a heading that only looks like one of the form's. In the block, and in a code
// block with a list of the form, no line has more than 100 characters, 40 blanks
// at its begin or 8 in a row inside: a page may hide what is beyond its edge.
//
// The builder is told what both GitHub and GitLab plainly show, written anew:
//
//	text, headings, lists, quotes,     as they are; escapes as the character
//	  alerts, tables, emphasis
//	- [x] and - [ ]                    as they are
//	code                               all of it, but for what follows more than 100
//	                                   blanks in a line; of its first line the language
//	[text](address "title")            text
//	https://, www., <address>          the address; where a forge may shorten it,
//	                                   without query and fragment
//	[^1] with its footnote             both, numbered
//	br kbd sub sup b i code            their text, where they have no attributes; code
//	                                   kbd sub sup and code spans not in one another
//	<details>                          the summary, and that it is folded
//	images                             "(image, not shown)"
//	words like <T>, no HTML elements   nothing of the tag
//	@name :emoji: #1                   as they are
//
// Everything else is left out, and notes for the report say what and where:
// comments, other HTML with what it holds, definitions and whatever looks like
// one, formulas, code blocks in a language that isn't on the list (drawings),
// and text that some renderer may read otherwise than the library. In doubt it
// is left out: to lose what was visible is a nuisance, to tell what was hidden
// an attack. Where it isn't certain how far something hides, and where a
// character can't be seen, the issue is refused: instruction.hidden_content.
//
// Characters: title and body are valid UTF-8 without code points that a reader
// can't see, code included. Tabs, LF, CRLF and what joins emoji are fine.
//
// Words: [AmbiguousWords], whole, in any case. In files, outcome and checks a
// match is execution.dispatch.nondeterministic; in title and prose the
// contract's language.prose decides. Code, quotes and addresses don't count.
//
// Limits (Max…) are instruction.too_large. What is approved is the digest of
// title and body as they are, not of what is told.
package instruction
