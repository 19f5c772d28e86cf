package setup

import "fmt"

// Error is what a person is told: what is wrong, and what to do.
type Error struct {
	Text   string // sentences
	Remedy string
	Usage  bool  // the command line is wrong, nothing was done
	Err    error // the cause; it may be nil
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Err }

// wrong is an Error with a remedy.
func wrong(remedy, format string, args ...any) *Error {
	return &Error{Text: fmt.Sprintf(format, args...), Remedy: remedy}
}
