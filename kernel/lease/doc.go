// Package lease reads and writes the state events of seed 000 and decides who
// may take a state ref over. It is pure: bytes, clock readings and run ids go in,
// messages and verdicts come out. It knows no task, contract or forge, gives no
// state but `working` a meaning, and carries trailers that it doesn't know through.
// This comment is the specification of the message format.
//
// # The message
//
// Every commit on a state ref is an event; only the one at HEAD counts, and
// history is never read. A lease commit, as [Working] writes it:
//
//	writ: working
//
//	Make Add handle negative numbers.
//
//	aynig-state: done
//
//	aynig-state: working
//	aynig-origin-state: open
//	aynig-run-id: 3f0c2a52-7d0e-4b9a-9a51-0d3c7f4e6b18
//	aynig-runner-id: builder-7.example.org
//	aynig-lease-seconds: 120
//	writ-attempt: 1
//
// (The line about `done` is the end of somebody's text. It is no trailer.)
//
// The title is the first paragraph. It is for people and has no effect.
//
// The body is the prompt: the bytes between the blank line that ends the title
// and the blank line before the trailer block, without the line end before the
// latter. Nothing else is taken off or changed. In a message whose title ends
// in CRLF that line end is CRLF too. Without a trailer block the body reaches
// to the end of the message.
//
// The trailers are those that git finds, in the words of the oracle `git
// interpret-trailers --parse --no-divider` on the full message, default
// configuration:
//
//   - The message ends at a NUL byte, and at git's scissors line.
//   - Empty lines, lines beginning with #, and an old "Conflicts:" list with
//     its indented paths are ignored where they end the message.
//   - The last paragraph above that tail is the trailer block if it isn't the
//     title and all its lines are trailers; or if one of its lines begins with
//     "Signed-off-by: " or "(cherry picked from commit " and for each three
//     other lines there is a trailer. Lines beginning with # don't count.
//   - A trailer is a key of letters, digits and hyphens, spaces or tabs or none,
//     a colon, and a value, which is trimmed. A following line that begins with
//     white space continues it; unfolding leaves one space.
//   - A line `---` has no meaning. White space is space, tab, CR and LF.
//
// # The event
//
// [ReadEvent] is the second layer. Git ignores the case of keys and allows them
// to repeat; an event has each reserved key at most once, in exact case.
//
//	aynig-state          every event: selects the command. [ValidState], exact
//	aynig-origin-state   working: the state that was claimed
//	aynig-run-id         working: a UUID, fresh for each claim
//	aynig-runner-id      working: the host
//	aynig-lease-seconds  working: time to live, decimal, no sign or leading zero
//	aynig-stalled-run    stalled: the run whose lease ended, or "unknown"
//
// A commit without exactly one good `aynig-state` is no event. A `working`
// commit with a key missing, repeated, misspelt, out of place or out of range,
// or with a committer date that can't be read, is malformed ([CodeMalformed]):
// a lock like any other, that ends by observation alone.
//
// # Writing
//
// [Working], [Renew] and [Stalled] write the two reserved states. [Format]
// writes the messages of the layers above, which choose their states; it
// refuses these two and every reserved trailer but `aynig-state` (A17, A24).
// All of them write title, empty line, body, empty line, trailers; they refuse
// what isn't one line where one line belongs, and return nothing that doesn't
// read back equal. So a body may end in text that looks like trailers, contain
// `---`, CRLF or bytes of no encoding: it neither adds nor hides one. Only a
// NUL byte and the scissors line can't be written.
//
// # Time
//
// A lease is liveness, not safety: a stale holder's result is refused by
// compare-and-swap, whatever the clocks say. [Judge] lets a lease be broken
// when its date has passed *and* this instance saw HEAD unchanged for the
// lease time on a clock that counts suspend ([Observe]). A holder renews after
// a third of the lease, and past its renew deadline, some time before the end, it
// has killed its executor ([NewDeadlines]). Its commits are dated by its wall
// clock, never backwards ([NextCommitterSeconds]).
// Wall times are Unix milliseconds; git's dates and lease times are seconds and
// say so in their names.
package lease
