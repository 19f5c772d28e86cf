package supervisor

import (
	"fmt"
	"sort"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

func exitWords(e kernel.Exit) string {
	switch {
	case e.Cause != kernel.CauseExited:
		return e.Cause
	case e.Signal != "":
		return e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

func passWord(passed bool) string {
	if passed {
		return "passed"
	}
	return "failed"
}

func sortEntries(list []git.Entry) {
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
}
