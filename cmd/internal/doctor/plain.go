package doctor

import (
	"errors"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// plain is an error as a part of a sentence: what it is about was said already.
func plain(err error) string {
	if err == nil {
		return "no reason was given"
	}
	text := err.Error()
	var fe *forge.Error
	var ge *git.Error
	switch {
	case errors.As(err, &fe):
		text = string(fe.Reason)
		if fe.Err != nil {
			text += ": " + fe.Err.Error()
		}
	case errors.As(err, &ge):
		text = ge.Msg // its cause is for programs
	}
	return strings.TrimSuffix(oneLine(text), ".")
}
