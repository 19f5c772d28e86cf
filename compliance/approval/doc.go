// Package approval says who approved which bytes of an issue, and what speaks
// against it (cases I1, I3 to I6, I12, I13).
//
// It is pure: [Facts] hold everything that was read of the forge, and [Judge]
// names the act that counts, the digest it is bound to, and all violations. It
// reads no forge, no clock and no ledger.
//
// # Acts
//
// An act is what somebody did on the issue: the contract's label set or taken
// off, or a comment whose first line is a command:
//
//	/writ run              approve the text as it was then, and start
//	/writ approve DIGEST   approve the text with this digest
//	/writ retry [TEXT]     as run; also moves on from what waits for repair, and
//	                       adds TEXT to the next dispatch, as data
//	/writ stop             stop, and take back every approval before, whatever
//	                       follows on the line
//
// Two more are no acts, and ask for words only: /writ explain and /writ help. Each
// command is owed one answer ([Commands]), be it refused; strangers get one an hour.
//
// A comment that was edited is no command, for whoever edited it need not be who
// wrote it; only a stop counts all the same, from the edit on. A stop that was seen to
// count goes on to count ([Facts].Stopped), also where its comment is edited or
// deleted, or its author may not do so any more. Acts count by numeric account id, kind of account and live
// permission; the newest one of somebody who may decides. What others do changes
// nothing, with two exceptions: a label that was taken off approves nothing any
// more, whoever took it off, and nothing that was said before a person, or a bot that the
// contract names, closed the issue counts once it is put back open, whoever does that
// ([Closed]). The forge's own history has both, so that nobody who looks needs to have
// seen them. What took back the act that a live run rests on ends that run, though
// somebody approved anew before anybody looked ([Facts].Live).
//
// # Evidence
//
// The digest of the approved bytes comes, in order, from the signed payload of
// the approving event ([Row]), from the forge's history where it knows the text,
// or shows that there was no edit since, and else from a person who names it in
// `/writ approve DIGEST`. A retry has, failing all that, the bytes that the task was
// last claimed on done again ([Facts].Earlier). Content is compared, not times: an edit in the same
// second as the act is an edit after it.
package approval
