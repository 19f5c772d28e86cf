package main

import (
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"

	"github.com/writbot/writ/cmd/internal/problem"
)

// nextStep is what a person may want to do after a run, as commands.
func nextStep(j *job, exit int) string {
	at := "--repo " + shellquote.Join(j.place.URL)
	if j.flags.state != "" {
		at += " --state-dir " + shellquote.Join(j.flags.state)
	}
	switch exit {
	case problem.ExitDone:
		change := fmt.Sprintf("writ/change/%d", j.number)
		see := "the branch " + change
		if strings.HasPrefix(j.place.URL, "/") {
			see = "git -C " + shellquote.Join(j.place.URL) + " show " + change
		}
		return fmt.Sprintf("see the change:  %s\nverify it:       writ verify %s --task %d", see, shellquote.Join(j.place.URL), j.number)
	case problem.ExitRetry:
		return "run the same command again when the retry is due; it takes the next attempt"
	case problem.ExitBlocked:
		return fmt.Sprintf("when the cause is mended:  writ task resume %d %s", j.number, at)
	case problem.ExitHeld:
		return fmt.Sprintf("see who works on it:  writ task show %d %s", j.number, at)
	case problem.ExitWaiting:
		return fmt.Sprintf("see what it waits for:  writ task show %d %s", j.number, at)
	}
	return ""
}
