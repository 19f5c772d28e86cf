// Package inbox is what stands between the outside and the supervisor: the
// deliveries that came in, and the schedule of when each task is to be looked
// at. Both are durable, in the instance's one database.
//
// # Deliveries
//
// A delivery is only a hint: it says "look at this task", and the decision is
// made from what is read then. So [Inbox.Accept] stores two things in one
// transaction, the delivery under (hook, the forge's id), and a due time for
// each task it concerns. The same delivery again is counted, and makes its
// tasks due again (case W6). The one thing that only a delivery knows is
// what an approving event's signed body said: that is kept as evidence, with
// the bytes.
//
// # The schedule
//
// There is one row per task, and a mark does due = min(due, at): many events
// are one look. The scheduler takes a task to look at it, and gives it back with the
// time of the next look. Marks made meanwhile are kept apart and win if they are
// earlier, so a mark is never lost; and because taking is durable and
// [Inbox.Recover] gives back what a dead process had taken, neither is a task.
//
// Times are Unix milliseconds, and come from the caller: nothing here reads a
// clock or starts a goroutine.
//
// Beside these, the inbox keeps what the scheduler must not forget over a
// restart: pauses, how far each sweep of a world has come, failures in a row,
// and what people asked of a task.
package inbox
