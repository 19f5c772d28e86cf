package approval

import (
	"slices"

	"github.com/writbot/writ/forge"
)

// Asked is a command in a comment, as it is to be answered.
type Asked struct {
	Command Command
	ID      string // as that of the act that it would be
	Comment int64
	Author  forge.User
	At      int64 // Unix milliseconds, by the forge's clock
	Edited  bool  // the comment was, so it is no command but a stop
	Known   bool  // what the author may do was asked
	May     bool  // the author has what the contract demands
	// OnChange says that it stands in the conversation of the delivered change, where
	// [Fix] alone counts.
	OnChange bool
}

const (
	// oldest is how far back a command may lie to be answered, in milliseconds: what
	// was said longer ago than a day concerns nobody any more.
	oldest = 86_400_000
	// strangersPause is how long a stranger isn't answered again, in milliseconds.
	strangersPause = 3_600_000
)

// Commands lists the commands on the issue and on its change, each the oldest first. Those
// of writ itself and of bots that the contract doesn't name are left out: bots that answer
// one another don't end.
func Commands(f Facts) []Asked {
	var out []Asked
	for n, c := range slices.Concat(f.Comments, f.Talk) {
		cmd, ok := ParseCommand(c.Body)
		a := Act{Verb: cmd.Verb, Actor: c.Author, Ref: c.ID, At: c.CreatedAt.UnixMilli()}
		if !ok || c.Author.ID == 0 || f.own(a) != nil || c.Author.Kind == forge.Bot && !named(c.Author, f.Trigger) {
			continue
		}
		asked := Asked{Command: cmd, ID: a.ID(), Comment: c.ID, Author: c.Author, At: a.At, Edited: edited(c), OnChange: n >= len(f.Comments)}
		_, asked.Known = f.Permissions[c.Author.ID]
		asked.Known = asked.Known || c.Author.Kind == forge.Bot
		asked.May = f.mayNot(a) == nil
		out = append(out, asked)
	}
	return out
}

// Owed are those of the commands that an answer is owed to: of the last day, by
// authors that the forge was asked about, and of those who may not do such things
// one an hour each, so that no stranger can have writ answer without end. now is in
// Unix milliseconds.
func Owed(list []Asked, now int64) []Asked {
	last := map[int64]int64{}
	var out []Asked
	for _, a := range list {
		recent := now-a.At < oldest
		if !a.May {
			before, heard := last[a.Author.ID]
			if heard && a.At-before < strangersPause {
				continue
			}
			last[a.Author.ID] = a.At
			recent = now-a.At < strangersPause
		}
		if a.Known && recent {
			out = append(out, a)
		}
	}
	return out
}

// Unknown are the authors of commands of the last day about whom the forge was not
// asked, those of the newest first.
func Unknown(list []Asked, now int64) []int64 {
	var out []int64
	for _, a := range slices.Backward(list) {
		if !a.Known && now-a.At < oldest && !slices.Contains(out, a.Author.ID) {
			out = append(out, a.Author.ID)
		}
	}
	return out
}

// Latest is the time of each account's newest command or label, Unix milliseconds.
func Latest(f Facts) map[int64]int64 {
	out := map[int64]int64{}
	for _, a := range f.acts() {
		out[a.Actor.ID] = max(out[a.Actor.ID], a.At)
	}
	for _, c := range Commands(f) {
		out[c.Author.ID] = max(out[c.Author.ID], c.At)
	}
	return out
}
