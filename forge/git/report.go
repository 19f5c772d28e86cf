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

// judgeReport turns the server's report into an outcome.
func (r *Repo) judgeReport(ctx context.Context, cmds []Command, report *packp.ReportStatus, said string, err error) Outcome {
	said = r.clean.clean(said)
	if err != nil {
		return r.noReport(ctx, cmds, err, said)
	}
	out := Outcome{Status: Won, Reason: said}
	if report.UnpackStatus != "ok" {
		return r.refusedAll(cmds, strings.TrimSpace("unpack "+r.clean.clean(report.UnpackStatus)+"\n"+said))
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
			out.PerRef = append(out.PerRef, RefStatus{c.Ref, classify(words), words})
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
		if classify(words) == Refused {
			return r.refusedAll(cmds, words)
		}
		said = strings.TrimSpace(words + "\n" + said)
	}
	if r.local != nil && ctx.Err() == nil && classify(said) == Refused {
		if refs, err := r.Refs(ctx, refNames(cmds)...); err == nil && allAtOld(refs, cmds) {
			return r.refusedAll(cmds, said)
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

func (r *Repo) refusedAll(cmds []Command, why string) Outcome {
	out := Outcome{Status: Refused, Reason: why, Err: refusedError(why)}
	for _, c := range cmds {
		out.PerRef = append(out.PerRef, RefStatus{c.Ref, Refused, why})
	}
	return out
}

// settle decides over all refs. Requests of several commands are atomic, so one
// failure is the failure of all; the others' reasons say nothing then.
func (r *Repo) settle(ctx context.Context, cmds []Command, out Outcome, said string) Outcome {
	var reasons []string
	won, refused, lost := 0, false, false
	for _, s := range out.PerRef {
		if s.Status == Won {
			won++
			continue
		}
		reasons = append(reasons, s.Ref+": "+s.Reason)
		refused = refused || s.Status == Refused
		lost = lost || s.Status == Lost
	}
	if won == len(cmds) {
		return out
	}
	out.Reason = strings.TrimSpace(strings.Join(reasons, "\n") + "\n" + said)
	switch {
	case won > 0:
		return Outcome{Status: Unknown, PerRef: out.PerRef, Reason: out.Reason,
			Err: fail(CodeProtocol, "the server moved some refs and not others", "read the refs again", nil)}
	case refused:
		out.Status = Refused
	case lost:
		out.Status = Lost
	default:
		// The reasons are general ones: the words of git's own ref code, which it
		// writes beside the report, are more exact. Where they say nothing
		// either, the refs tell.
		if out.Status = classify(said); out.Status == Unknown {
			return r.reread(ctx, cmds, out)
		}
	}
	return finishOutcome(out)
}

func finishOutcome(out Outcome) Outcome {
	for i := range out.PerRef {
		out.PerRef[i].Status = out.Status
	}
	if out.Status == Lost {
		out.Err = lostError(out.Reason)
	} else {
		out.Err = refusedError(out.Reason)
	}
	return out
}

// reread asks the repository itself: a ref that has left Old was lost, refs that
// all stand still were refused.
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
		out.Status = Refused
	}
	return finishOutcome(out)
}

// What servers say. The words are git's, and those of the forges that differ.
// They are the protocol's only way to give a reason. lostExactly comes first:
// these words say nothing else, while the refusals are looked for in text that
// may hold a path as well.
var (
	lostExactly  = []string{"but expected", "reference already exists", "file exists"}
	refusedWords = []string{
		"declined", "prohibited", "denied", "protected", "not allowed", "not permitted", "forbidden", "quota", "exceed",
		"too large", "checked out", "unpacker error", "missing necessary objects", "hidden ref", "funny refname",
		"non-fast-forward", "read-only", "read only", "aborted by hook", "cannot create", "rule violation", "violate",
		"bad pack", "index-pack", "permission", "no space left",
	}
	lostWords = []string{
		"already exists", "stale info", "fetch first", "cannot lock ref", "unable to lock",
		"failed to lock", "lock failure", "lock_failure", "unable to resolve reference", "does not exist",
	}
)

// classify judges a reason. Unknown: the words do not tell.
func classify(words string) Status {
	s := strings.ToLower(words)
	for _, group := range []struct {
		words  []string
		status Status
	}{{lostExactly, Lost}, {refusedWords, Refused}, {lostWords, Lost}} {
		for _, w := range group.words {
			if strings.Contains(s, w) {
				return group.status
			}
		}
	}
	return Unknown
}
