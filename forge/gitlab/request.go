package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// account is under what pace and pauses are kept: there is one token.
const account = "gitlab"

// perPage is the largest page that GitLab serves.
const perPage = 100

// maxPages bounds every listing: 100,000 entries.
const maxPages = 1000

var errTooMany = errors.New("more pages than an instance reads")

// how says what a request is.
type how struct {
	op    string
	write bool
	call  transport.Call
}

func reading(format string, args ...any) how {
	op := fmt.Sprintf(format, args...)
	return how{op: op, call: transport.Call{Op: op, Account: account, Lane: transport.Read}}
}

func (w how) live() how {
	w.call.Live = true
	return w
}

func (w how) sweep() how {
	w.call.Lane = transport.Sweep
	return w
}

// creating is a write that people are told of, editing another one.
func creating(format string, args ...any) how {
	w := reading(format, args...)
	w.write, w.call.Lane = true, transport.Create
	return w
}

func editing(format string, args ...any) how {
	w := reading(format, args...)
	w.write, w.call.Lane = true, transport.Edit
	return w
}

// in is the option that puts a context on a request.
func (w how) in(ctx context.Context) gitlab.RequestOptionFunc {
	return gitlab.WithContext(transport.With(ctx, w.call))
}

// err is what the caller is told. Errors of the transport are told as they are;
// what else there is comes from reading an answer of success.
func (w how) err(err error) error {
	var e *forge.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &forge.Error{Reason: forge.Unavailable, Op: w.op, Applied: w.write, Err: err}
	}
	return &forge.Error{Reason: forge.Unavailable, Op: w.op, Applied: w.write, Err: fmt.Errorf("the answer can't be read: %w", err)}
}

// refuse is an error of our own.
func (w how) refuse(reason forge.Reason, format string, args ...any) error {
	return &forge.Error{Reason: reason, Op: w.op, Err: fmt.Errorf(format, args...)}
}

// other is an answer of success that is about something else, or about nothing:
// nothing of it is believed.
func (w how) other(ours bool) error {
	if ours {
		return nil
	}
	return &forge.Error{Reason: forge.Unavailable, Op: w.op, Applied: w.write, Err: errors.New("the answer is not about what was asked")}
}

// odd is an answer of success that has something which no such answer can have: a
// null in a list, an id that nothing has. Nothing of it is believed.
func (w how) odd(format string, args ...any) error {
	return &forge.Error{Reason: forge.Unavailable, Op: w.op, Applied: w.write, Err: fmt.Errorf("the answer can't be used: "+format, args...)}
}

func response(res *gitlab.Response) *http.Response {
	if res == nil {
		return nil
	}
	return res.Response
}

// answered reports whether GitLab refused with that status and those words.
func answered(err error, status int, words string) bool {
	var s *transport.StatusError
	return errors.As(err, &s) && s.Status == status && strings.Contains(strings.ToLower(s.Words), words)
}

// pages reads a list to its end. A page may be shorter than asked for and not be
// the last, so that only the header counts.
func pages[T any](w how, ask func(gitlab.ListOptions) ([]T, *gitlab.Response, error), each func(T) error) error {
	var read transport.List
	for at, n := 1, 0; at > 0; n++ {
		if n == maxPages {
			return w.refuse(forge.Invalid, "%w", errTooMany)
		}
		some, res, err := ask(gitlab.ListOptions{Page: at, PerPage: perPage})
		if err != nil {
			return w.err(err)
		}
		if err := read.Add(response(res)); err != nil { //nolint:bodyclose // the library has read and closed it
			return w.err(err)
		}
		for n, one := range some {
			if v := reflect.ValueOf(one); v.IsZero() {
				return w.odd("entry %d of the list is null", n)
			}
			if err := each(one); err != nil {
				return err
			}
		}
		next := res.NextPage
		if next > 0 && next <= at {
			return w.refuse(forge.Invalid, "page %d is said to follow page %d", next, at)
		}
		at = next
	}
	return nil
}

// collect is pages into a slice.
func collect[T any](w how, ask func(gitlab.ListOptions) ([]T, *gitlab.Response, error)) ([]T, error) {
	var out []T
	err := pages(w, ask, func(one T) error {
		out = append(out, one)
		return nil
	})
	return out, err
}

// ask makes a request that the library has no type for.
func (h *Host) ask(ctx context.Context, w how, method, path string, with, into any) (*gitlab.Response, error) {
	req, err := h.api.NewRequest(method, path, with, []gitlab.RequestOptionFunc{w.in(ctx)})
	if err != nil {
		return nil, w.err(err)
	}
	res, err := h.api.Do(req, into)
	return res, w.err(err)
}

func ptr[T any](v T) *T { return &v }

const changeBase = forge.MergeRequests

// ChangeNumber is the number, in the words of package forge, of the merge
// request !iid.
func ChangeNumber(iid int64) int64 { return changeBase + iid }

// thread is an issue or a merge request, as comments hang on it.
type thread struct {
	merge bool
	iid   int
}

// threadOf reads a number.
func threadOf(number int64) thread {
	if number > changeBase {
		return thread{true, int(number - changeBase)}
	}
	return thread{false, int(number)}
}
