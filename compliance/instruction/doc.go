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
// # What the builder is told
//
// Title, and of the body what its page shows, as quoted data. A person approves
// what GitHub or GitLab renders, so what that leaves out is left out here too,
// from the prose and from the values of the form's headings. Everything else
// stays byte for byte. Each cut counts, and notes for the report name its kind,
// the number of its characters and its lines. Where renderers disagree about
// what is hidden the issue is refused with instruction.hidden_content. It
// takes odd markup to get there; templates, logs and mistakes in HTML don't.
//
//	in the issue                              the approver sees     the builder is told
//	----------------------------------------  --------------------  -----------------------------
//	<!-- comment -->, <!-->, <!-- x --!>      nothing               nothing
//	<!-- without an end, <div without >       depends               refused
//	<!DOCTYPE>, <?php ?>, <![CDATA[ ]]>       depends               refused
//	<b title="x">text</b>                     text                  <b>text</b>
//	List<String>, other unknown tags          List                  List
//	<template>x</template>, script, style,    nothing, the text,    nothing; refused if it
//	  title, svg and the like, hidden         or the source         doesn't end where it begins
//	<details>x</details>                      x, after a click      x, and a note
//	[text](url "title")                       text                  [text](url)
//	[text][label], with [label]: url "title"  text                  [text](url)
//	[text](<words>), [text](data:x)           text                  [text]()
//	[](url)                                   nothing               nothing
//	[[text|target]] (GitLab's wiki links)     text, or all of it    [[text]]
//	![description](url "title"){width=9}      the image             ![](url)
//	[label]: url, used or not                 nothing               nothing
//	[^1]: text, with [^1] in a text           text                  [^1]: text
//	[^1]: text, without                       nothing               nothing
//	a table row's cells beyond the header's   nothing               nothing
//	```go title=x                             the code              ```go
//	```mermaid, plantuml, math, $x$, $$x$$    a drawing             the source; nothing if it has
//	                                                                what hides text: comments,
//	                                                                styles, \phantom and the like
//	```geojson, topojson, stl, json:table     a drawing             nothing
//	&#8203;, &shy; and other characters       nothing               refused
//	  that can't be seen
//	code spans and code blocks                all of it             all of it
//
// Limits, each instruction.too_large unless it says otherwise:
//
//	MaxTitleBytes, MaxBodyBytes, MaxOutcomeBytes  bytes of each text
//	MaxMarks             the marks [ ] ! * _ outside code, in the whole body
//	MaxNesting           quotes, lists and footnotes inside one another
//	MaxDestinationBytes  a link's destination; a longer one is cut
//	MaxInlinedBytes      the destinations that reference links bring, all together;
//	                     beyond it a reference has none, which is noted
//
// Three things this can't do. A destination is seen only with the pointer on
// the link, and may read like a sentence. What a page shows far to the right,
// far down or in tiny letters counts as seen. A forge that renders otherwise
// than those two may show less.
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
// line end at most; code, quoted strings, block quotes, addresses, HTML and what
// was cut don't count. In files, outcome and checks a match is
// execution.dispatch.nondeterministic; in title and prose the contract's
// language.prose decides.
package instruction
