package webhook

import (
	"strconv"
	"strings"
)

// taskBranches are those that belong to a task, and are named by its number.
var taskBranches = []string{"refs/heads/writ/change/", "refs/heads/writ/task/"}

// pushedTo is the world if a push was to one of its branches, "" for a tag.
func pushedTo(ref, world string) string {
	if !strings.HasPrefix(ref, "refs/heads/") {
		return ""
	}
	return world
}

// maxTask is the largest number that a record holds, see package canon.
const maxTask = 1<<53 - 1

// taskOfRef is the task that a branch belongs to; 0 for none.
func taskOfRef(ref string) int64 {
	for _, prefix := range taskBranches {
		if rest, ok := strings.CutPrefix(ref, prefix); ok {
			n, err := strconv.ParseInt(rest, 10, 64)
			if err == nil && n > 0 && n <= maxTask && strconv.FormatInt(n, 10) == rest {
				return n
			}
		}
	}
	return 0
}
