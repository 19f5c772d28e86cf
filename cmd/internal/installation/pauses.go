package installation

import (
	"context"
	"fmt"
	"slices"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// What a person asks of a server, beside kernel's acts on one task.
const (
	ActPause   = "pause"
	ActUnpause = "unpause"
)

// SetPause begins or ends a pause. said is "" where that changed something. A pause
// of a repository that hadn't been reached yet is kept under what people call it.
func SetPause(ctx context.Context, in *inbox.Inbox, r Request, called func(world string) string) (said string, err error) {
	list, err := in.Pauses(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(list, func(p inbox.Pause) bool { return called(p.World) == called(r.World) })
	what := Request{World: called(r.World)}.Paused()
	switch on := r.Act == ActPause; {
	case on && at >= 0:
		return fmt.Sprintf("%s is paused already, %s; that pause stays as it was", what, pauseWords(list[at])), nil
	case !on && at < 0:
		return notPaused(what, list, called), nil
	case !on:
		r.World = list[at].World
		return "", in.SetPause(ctx, r.pause(), false)
	default:
		return "", in.SetPause(ctx, r.pause(), true)
	}
}

// notPaused says that a pause could not be ended, and which there are.
func notPaused(what string, list []inbox.Pause, called func(world string) string) string {
	said := what + " wasn't paused by `writ pause`"
	for _, p := range list {
		one := Request{World: called(p.World)}
		said += fmt.Sprintf("\n%s is, %s: %s", one.Paused(), pauseWords(p), one.Unpause())
	}
	return said + "\nA pause by a file lasts until the file is removed."
}

// pauseWords say since when, by whom and why.
func pauseWords(p inbox.Pause) string {
	words := "since " + PauseSince(p) + " by " + p.By
	if p.Reason != "" {
		words += " (" + p.Reason + ")"
	}
	return words
}

// PauseSince is when a pause began, in UTC.
func PauseSince(p inbox.Pause) string { return kernel.Timestamp(p.SinceMs / 1000) }

// Paused is what a pause is of.
func (r Request) Paused() string {
	if r.World == "" {
		return "everything"
	}
	return r.World
}

// Unpause is the command that ends a pause.
func (r Request) Unpause() string {
	if r.World == "" {
		return "`writ unpause`"
	}
	return "`writ unpause --world " + r.World + "`"
}

func (r Request) pause() inbox.Pause {
	return inbox.Pause{World: r.World, SinceMs: r.Time, By: r.Actor, Reason: r.Reason}
}

// PausesOf are the pauses that concern a world, as its kernel records them.
func PausesOf(list []inbox.Pause, world string, meant func(string) string) (out []supervisor.Pause) {
	for _, p := range list {
		of := kernel.PauseWorld
		switch {
		case p.World != "" && meant(p.World) != world:
			continue
		case p.SinceMs == 0:
			of = kernel.PauseFile
		case p.World == "":
			of = kernel.PauseAll
		}
		out = append(out, supervisor.Pause{Of: of, Since: p.SinceMs, Actor: p.By, Reason: p.Reason})
	}
	return out
}
