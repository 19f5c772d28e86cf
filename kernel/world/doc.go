// Package world is the WorldKernel of seed 002: the state of one governed
// repository as one instance knows it. It is a fold of the instance's records
// and nothing else; nothing outside this package folds records into state.
//
// # Two ways in, one engine
//
// A record that is durable is folded by [Kernel.Apply]: that is recovery, and
// all that a replay needs. A request that is being handled goes through the
// facade: [Kernel.Begin] gives a [Round], which takes the drafts of the
// request, answers actions and mechanisms, and settles.
//
//	r := k.Begin(now)
//	err := r.Observe(drafts...)               // what was seen, decided, is to be done
//	results, err := r.AcceptActions(r.Actions())
//	receipt, err := r.SettleRound(seed)
//	records, _, err := k.Chain().Seal(now, r.Drafts())
//	// the ledger stores the records, all or none
//	err = k.Commit(r, records)
//
// Until Commit nothing happened: a round that is dropped leaves no trace.
// Observe and SettleRound fold what they get by the rules of Apply; Commit takes the
// round's fold over once the very bytes that it folded are stored. Both ways run the
// same rules and reach the same state, byte for byte. A round copies what it changes and
// shares the rest with the kernel; what it was given is encoded once, and its drafts are
// sealed ([canon.Sealed]).
//
// A round belongs to one instance; its number counts that instance's settled
// rounds. Drafts of several appends may share a round, and a
// ledger that ends inside a round is gone on with.
//
// # What a round changes
//
// Records are checked as they come, and kept as bookkeeping of their task:
// hashes of what was proposed and committed, the last decision, the open
// intent. The world changes when the round is settled, in three stages (seed
// 002, data flow):
//
//   - produce: effects that came to be give their tasks the decided state; a
//     pushed result becomes the accepted one of its approval; builders' actions get
//     their answers. A person's act took effect as it was accepted;
//   - consume: attempts, interruptions and builders' counters are charged,
//     reservations are taken and given up;
//   - environment: what was seen of HEAD, the approval and the contract is
//     taken in; HEAD decides, so it comes last. Of what is older than an effect
//     of this round only that it was seen is taken in. What was pushed is seen
//     once a later look shows it: until then the server's word for it is kept
//     apart ([Unshown]), and a result that didn't last accepted nothing.
//
// Then completed tasks go to the archive, the state is hashed, and the receipt
// says the hash before and after. A receipt that says anything else than the
// fold is `ledger.corrupt`.
//
// Audit entries, reports, adoptions and rotations of keys change nothing and belong
// to no round. What whoever drives the tasks asks for beside the state is folded with
// the records and saved with it: the last audit entry of each task's kernel, what it was
// claimed on, the names of its work, its pushes, and whether a person went on with an
// older ledger.
//
// # What is enforced here
//
//   - A decision rests on an observation of its round, and an observation's
//     view of the task is the fold's.
//   - A spec commits a recorded interpretation, a plan verifies against the
//     seed pack of its round, in the order of seed 003 §11.
//   - An effect has an intent, an intent the decision that names the effect,
//     one for one; starting and accepting work needs ALLOW and a task that
//     isn't halted. A task has one effect at a time: while its outcome is open
//     or unknown, only the very same one may be tried again.
//   - An outcome has its open intent (invariant E3).
//   - A dispatch is of the committed plan and the pinned contract, follows the
//     decision that allows it, and what is handed out has its digest (E4). A
//     run is dispatched once (P5).
//   - A run that goes on with sealed work was claimed on facts that hold of it. It
//     has no dispatch, and its result and diff are those of the run that had one.
//   - A run is accepted with its result, diff and checks recorded, by a verdict
//     before its push, and at most one per approval and epoch (E1), counting
//     one whose push may still come to be.
//
// Whoever breaks one of these gets an [*Error] with the [Fault], and nothing
// has changed.
//
// # Words
//
// Members are builders. An action is a builder's outcome: its code is the hash
// of the diff record, its key the run id. Or it is a person's act: its code is the hash
// of the act, its agent "person:" and who acted. Land is the path space: what live
// runs of this instance may change. Contracts are the governance contract in
// force. Constraints are bounds that nothing in the world moves. The schemas
// say the meaning and unit of each field; all numbers are
// integers.
//
// The package calls no model, no network, no file and no clock, and starts
// nothing. A Kernel and its rounds serve one caller at a time.
package world
