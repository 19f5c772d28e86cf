package webhook

import "strconv"

// changeMarker begins the description of a change that writ opened. It is a hint, as the
// whole event is: whoever copies it has writ look once more.
var changeMarker = lazy(`^<!-- writ:task:[^ ]{1,400}:([1-9][0-9]{0,18}) run=`)

// TaskOfChange is the task that a change delivers by its description; 0 for none.
func TaskOfChange(description string) int64 {
	m := changeMarker().FindStringSubmatch(description)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > maxTask {
		return 0
	}
	return n
}
