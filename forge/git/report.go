package git

import (
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

func lostError(why string) *Error {
	return fail(CodeLost, "another writer was first: "+why, "read the refs again", nil)
}

func refusedError(why string) *Error {
	if why == "" {
		why = "it gives no reason"
	}
	return fail(CodePushRefused, "the server refuses the push: "+why,
		"ask the server's administrator to allow it, or change what is pushed", nil)
}

func unableError(why string) *Error {
	if why == "" {
		why = "it gives no reason"
	}
	return fail(CodeUnable, "the server can't take the push: "+why,
		"it is tried again until the server can; look at its disk, its state and its log", nil)
}

// judgeReport turns the server's report into an outcome.
func (r *Repo) judgeReport(ctx context.Context, cmds []Command, report *packp.ReportStatus, said string, err error) Outcome {
	said = r.clean.clean(said)
	if err != nil {
		return r.noReport(ctx, cmds, err, said)
	}
	out := Outcome{Status: Won, Reason: said}
	if report.UnpackStatus != "ok" {
		unpack := "unpack " + r.clean.clean(report.UnpackStatus)
		g := readAll(unpack, said)
		if g.space = g.space || read(said).space; g.status != Refused {
			g.status = Unable // nothing was moved, so nobody was first
		}
		return r.all(cmds, g, strings.TrimSpace(unpack+"\n"+said))
	}
	reasons := map[string]string{}
	for _, s := range report.CommandStatuses {
		reasons[s.ReferenceName.String()] = s.Status
	}
	for _, c := range cmds {
		reason, ok := reasons[c.Ref]
		switch {
		case !ok:
			return Outcome{Status: Unknown, Reason: said, Err: fail(CodeProtocol,
				"the server says nothing about "+c.Ref, "read the refs again", nil)}
		case reason == "ok":
			out.PerRef = append(out.PerRef, RefStatus{c.Ref, Won, ""})
		default:
			words := r.clean.clean(reason)
			out.PerRef = append(out.PerRef, RefStatus{c.Ref, read(words).status, words})
		}
	}
	return r.settle(ctx, cmds, out, said)
}

// noReport is Unknown, but for a server that says why it went away before it
// acted on anything, and for a git process on this machine that gave a reason
// and ended: it will not act any more, and the refs tell whether it had.
func (r *Repo) noReport(ctx context.Context, cmds []Command, err error, said string) Outcome {
	var server *errServer
	if errors.As(err, &server) {
		words := r.clean.clean(server.words)
		if g := read(words); g.status == Refused || g.status == Unable {
			return r.all(cmds, g, words)
		}
		said = strings.TrimSpace(words + "\n" + said)
	}
	if g := read(said); r.local != nil && ctx.Err() == nil && (g.status == Refused || g.status == Unable) {
		if refs, err := r.Refs(ctx, refNames(cmds)...); err == nil && allAtOld(refs, cmds) {
			return r.all(cmds, g, said)
		}
	}
	return Outcome{Status: Unknown, Reason: said, Err: unreachable("the server's report did not arrive", err)}
}

func allAtOld(refs Refs, cmds []Command) bool {
	for _, c := range cmds {
		if refs.OID(c.Ref) != c.Old {
			return false
		}
	}
	return true
}

// all is an answer that is about every ref.
func (r *Repo) all(cmds []Command, g guess, why string) Outcome {
	out := Outcome{Status: g.status, Space: g.space, Account: g.account, Reason: why}
	for _, c := range cmds {
		out.PerRef = append(out.PerRef, RefStatus{c.Ref, g.status, why})
	}
	return finishOutcome(out)
}

// settle decides over all refs. Requests of several commands are atomic, so one
// failure is the failure of all; the others' reasons say nothing then.
func (r *Repo) settle(ctx context.Context, cmds []Command, out Outcome, said string) Outcome {
	var reasons, words []string
	won := 0
	for _, s := range out.PerRef {
		if s.Status == Won {
			won++
			continue
		}
		reasons, words = append(reasons, s.Ref+": "+s.Reason), append(words, s.Reason)
	}
	if won == len(cmds) {
		return out
	}
	out.Reason = strings.TrimSpace(strings.Join(reasons, "\n") + "\n" + said)
	if won > 0 {
		return Outcome{Status: Unknown, PerRef: out.PerRef, Reason: out.Reason,
			Err: fail(CodeProtocol, "the server moved some refs and not others", "read the refs again", nil)}
	}
	// Where the reasons are general ones, the words that git or a hook wrote beside
	// the report are more exact. Where they say nothing either, the refs tell.
	g := readAll(strings.Join(words, "\n"), said)
	if g.status == Unknown {
		return r.reread(ctx, cmds, out)
	}
	out.Status, out.Space, out.Account = g.status, g.space, g.account
	return finishOutcome(out)
}

func finishOutcome(out Outcome) Outcome {
	for i := range out.PerRef {
		out.PerRef[i].Status = out.Status
	}
	switch out.Status {
	case Lost:
		out.Err = lostError(out.Reason)
	case Unable:
		out.Err = unableError(out.Reason)
	default:
		out.Err = refusedError(out.Reason)
	}
	return out
}

// reread asks the repository itself: a ref that has left Old was lost. Where all
// stand still, and no word names a rule, the server wasn't able to move them.
func (r *Repo) reread(ctx context.Context, cmds []Command, out Outcome) Outcome {
	refs, err := r.Refs(ctx, refNames(cmds)...)
	if err != nil {
		// The server said no, so nothing was applied; only why is open. Lost is
		// the answer after which everything is read again.
		out.Status = Lost
		return finishOutcome(out)
	}
	out.Status = Lost
	if allAtOld(refs, cmds) {
		out.Status = Unable
	}
	return finishOutcome(out)
}
