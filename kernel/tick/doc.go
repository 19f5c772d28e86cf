// Package tick decides what the branch runner does (seed 000): one evaluation of
// one branch, from the commit at its HEAD, this runner's own observation and a
// reading of the clocks. It is pure. It knows no task, contract or forge, and no
// state but `working`: which command a state selects is a file's name.
//
// A tick goes so, and executor/branch walks it:
//
//	Decide    HEAD → nothing, held, take over, or run the command of its state
//	Resolve   the state → a file of .aynig, contained after links are resolved
//	Claim     the message of the lease commit that is pushed before anything runs
//	Environ   what the command is given
//	Complete  HEAD afterwards → done, lost or invalid
//
// Nothing here looks at an exit code, at output, or below HEAD.
package tick
