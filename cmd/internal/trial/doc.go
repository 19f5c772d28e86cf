// Package trial says what a contract would have said to the commits of a history, by
// the engine that judges what builders leave: the scope of package scope, the budgets
// and the commit message of package contract (`writ contract try`).
//
// A commit is compared with its first parent, as a task's result is with its base. What
// it may change is what it did change, unless the contract's defaults.allowed_files says
// which paths; what is left to judge then are the rules for all paths, their classes and
// the budgets. The message is the one that writ would write with the commit's first line
// as the title. Checks aren't run, and what only a task can break, such as a time
// limit, isn't judged.
//
// It reads a repository on disk, directory by directory and only where something changed,
// and writes nothing.
package trial
