// Package plan holds the kernel's semantics for what a task means and how it is
// done: interpretations and their collapse, the intent graph, build plans and
// their verification (seed 003, §4 to §11). It is pure and uses integers only.
//
// The way of a task is: seed pack, interpretations (proposals), [Collapse],
// [Commit] to a [Spec], a [Plan] derived by [DerivePlan] or proposed and held
// to [Verify], and for each step [VerifyStep] on a proposed diff and its run
// result. Today the kernel derives the only interpretation and a plan of one
// step itself; planners and more steps come in by the same doors.
//
// # The rule of collapse, version 1
//
// Changing anything below is breaking: it bumps kernel/VERSION, rewrites the
// goldens on purpose, and is noted in VERSIONING.md (seed 003 §5).
//
// More candidates than budgets.interpretations are refused as
// policy.budget_exceeded, and nothing more is looked at.
//
// Sifting. A candidate is dropped, with the first reason that holds, as
//
//   - invalid, if its kind or version is another, source, summary, expected
//     outcome or allowed files are missing, a pattern or assumption is blank
//     or stands twice, or its confidence is outside 0 to 1,000,000;
//   - self_contradiction, if it assumes a text and its negation;
//   - duplicate, if its content hash is one of a candidate kept before.
//
// Two assumptions are the same if they are equal without outer white space and
// in ASCII lower case. The negation of an assumption is "not " before it: that
// is how a planner says that it assumes the opposite. Two candidates contradict
// each other if one assumes the negation of what the other assumes.
//
// Refusing. No candidate left is plan.no_interpretation. More nodes (candidates
// left plus their distinct assumptions) than budgets.nodes is
// policy.budget_exceeded. More pairs of candidates that contradict each other
// than budgets.contradictions is plan.contradictions_exceeded. All that apply
// are reported.
//
// Scoring. A candidate's cost is the sum of
//
//	  1 point   per code point of its summary
//	 20 points  per allowed pattern
//	 50 points  per assumption
//	100 points  per allowed pattern with a ** segment
//
// It depends on the candidate's content alone. A proposer's confidence doesn't
// count: it is no evidence.
//
// Choosing. The least cost wins; of equal costs the content hash that comes
// first as text. Every other candidate is contradicted, if it contradicts the
// winner, or else outscored.
//
// Real bytes, of three candidates with the budgets 3, 5 and 1: the winner, then
// cost, hash and fate of each.
//
//	{"allowed_files":["calc/add.go","calc/add_test.go"],"assumptions":["not overflow wraps"],"confidence":null,"expected_outcome":"tests pass","kind":"interpretation","source":"planner-b","summary":"Handle negatives in Add","v":1}
//	113 sha256:a9b07da45629a3f689844ba3975965d9cda855a7e924e2c1f3f5f40d437ddad4 chosen
//	142 sha256:72241d9173291cf36ef348cf9f10428edc8b02a4d5dbdb109419d6f8a52bf565 outscored
//	204 sha256:ec37b8afb5a37842db340c22c7dae7870b3dba419e1aba9b3320a6215c46a9b3 contradicted
//
// # The graph
//
// Edges lead between nodes that are there. depends_on and refines, taken
// together, never close a cycle; contradicts may. An edge from a node to itself
// is refused, for contradictions too: nothing here has a use for it (seed 003
// §6). The order of a graph puts each node after what it depends on or refines,
// the least id first.
//
// # Plans
//
// A plan's pins are the seed pack's, its invariants exactly "scope", "message"
// and "check:" with each check's name, and a step asks for nothing beyond the
// fixed frame. A step's targets are patterns out of the allowed files,
// literally; whether a path matches one is a question for scope verification,
// which has the one table of patterns.
package plan
