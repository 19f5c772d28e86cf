package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

const (
	// baseDoubt is how long a base can't be read before the tasks are told: what a
	// copy that lags behind lacks for a moment is nobody's business.
	baseDoubt = time.Minute
	// baseSoon is when a base is tried again that the server doesn't give, and
	// baseAgain when one is that is bad in itself: the branch has to move first,
	// which a server that is told of pushes notices by itself.
	baseSoon  = time.Minute
	baseAgain = time.Hour
	// surveyTime bounds how long a base is tried before a claim. What takes longer
	// is found out by the run.
	surveyTime = 2 * time.Minute
	// mostSurveys bounds the commits that are remembered: the base of a world, and
	// some that it had before.
	mostSurveys = 16
)

// survey is what is known of one commit of the base.
type survey struct {
	commit  git.OID
	listed  bool               // its entries were judged
	whole   bool               // every file of it was laid out, or it took too long
	faults  []kernel.Violation // of the commit itself
	failing int64              // since when it can't be read, Clock.BootMs; 0: it can be
	doubts  []kernel.Violation // why, once that has lasted
}

// surveys remembers what is known of a world's base commits, for all its tasks.
type surveys struct {
	mu   sync.Mutex
	list []*survey // the one that was looked up last at the end
}

// at calls f with what is known of a commit.
func (all *surveys) at(commit git.OID, f func(*survey)) {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := slices.IndexFunc(all.list, func(s *survey) bool { return s.commit == commit })
	s := &survey{commit: commit}
	if i >= 0 {
		s = all.list[i]
		all.list = slices.Delete(all.list, i, i+1)
	}
	all.list = append(all.list[max(0, len(all.list)+1-mostSurveys):], s)
	f(s)
}

// failed notes that a commit can't be read, and returns why once that is to be
// told: at once where the commit itself is bad.
func (all *surveys) failed(commit git.OID, boot int64, err error) (vs []kernel.Violation) {
	all.at(commit, func(s *survey) {
		if te, ok := errors.AsType[*git.TreeError](err); ok {
			s.faults = []kernel.Violation{scope.UnusableBase(te.Path, te.Err.Msg)}
			vs = s.faults
			return
		}
		if s.failing == 0 {
			s.failing = max(boot, 1)
		}
		if boot-s.failing >= baseDoubt.Milliseconds() {
			s.doubts = []kernel.Violation{doubt(commit, err)}
			vs = s.doubts
		}
	})
	return vs
}

// doubt is what is told of a base that can't be read for long: by its own fault
// as far as the server says, or by somebody's.
func doubt(commit git.OID, err error) kernel.Violation {
	if git.Lasting(err) || git.CodeOf(err) == git.CodeProtocol {
		v := scope.UnusableBase("", words(err))
		v.Subject = string(commit)
		return v
	}
	return kernel.Violation{Code: kernel.CodeEnvRepository, Subject: string(commit), Detail: "The base commit can't be read: " + words(err)}
}

// read notes that a commit could be read.
func (all *surveys) read(commit git.OID) {
	all.at(commit, func(s *survey) { s.failing, s.doubts = 0, nil })
}

// readTerms reads the contract in force. Where that can't be read, a task that stands still
// is left as it is.
func (o *observer) readTerms(ctx context.Context, refs git.Refs) (terms, error) {
	t, err := o.contracts.read(ctx, refs)
	if err != nil || t.unread == nil {
		return t, err
	}
	if o.standsStill(ctx, refs.OID(o.StateRef())) {
		return t, t.unread
	}
	o.lookAgain(len(o.s.surveys.doubtsOf(t.in.BaseCommit)) > 0)
	return t, nil
}

// doubtsOf are those of a commit.
func (all *surveys) doubtsOf(commit git.OID) (vs []kernel.Violation) {
	all.at(commit, func(s *survey) { vs = s.doubts })
	return vs
}

// standsStill reports whether HEAD says that nobody needs to execute the task
// now, or can't be read.
func (o *observer) standsStill(ctx context.Context, head git.OID) bool {
	if head.IsZero() {
		return false
	}
	commit, err := o.s.deps.Repo.Commit(ctx, head)
	if err != nil {
		return true
	}
	ev, err := lease.ReadEvent(lease.Head{OID: string(head), Message: commit.Message, CommitterSeconds: commit.Committer.Seconds, CommitterOK: commit.Committer.OK})
	if err != nil {
		return false
	}
	switch kernel.TaskState(ev.State) {
	case kernel.TaskCompleted, kernel.TaskBlocked, kernel.TaskWaiting:
		return true
	}
	return false
}

// lookAgain notes when a task is looked at again that the base keeps from being
// claimed.
func (o *observer) lookAgain(soon bool) {
	wait := baseAgain
	if soon {
		wait = baseSoon
	}
	o.baseWake = o.s.now().WallMs + wait.Milliseconds()
}

// baseFaults are what is known to be wrong with the base of a task that may be
// claimed. No file is read for it.
func (o *observer) baseFaults(c *observation) (vs []kernel.Violation) {
	in := c.intake
	soon := false
	o.s.surveys.at(in.BaseCommit, func(s *survey) {
		if !s.listed {
			s.listed = true
			if te, ok := errors.AsType[*scope.TreeError](scope.CheckBase(scopeEntries(in.base))); ok {
				s.faults = []kernel.Violation{te.Violation()}
			}
		}
		vs = s.faults
		if c.request != kernel.RequestTick && len(vs) == 0 {
			vs, soon = s.doubts, len(s.doubts) > 0 // a tick finds out anew
		}
	})
	if len(vs) > 0 {
		o.lookAgain(soon)
	}
	return vs
}

// surveyBase tries the base of a task that would be claimed now, before it is:
// one that no run can use would be claimed and given back for ever.
func (o *observer) surveyBase(ctx context.Context, c *observation) error {
	surveyor, ok := o.s.deps.Executor.(executor.Surveyor)
	if !ok || o.worker.run != nil || c.request != kernel.RequestTick {
		return nil
	}
	if kernel.DecideOn(c.facts, "").Action != kernel.ActionClaim {
		return nil
	}
	commit := c.intake.BaseCommit
	whole := false
	o.s.surveys.at(commit, func(s *survey) { whole = s.whole })
	if whole {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	vs, err := surveyor.Survey(limited, c.intake.Spec.Builder, o.worker.baseAt(commit, c.intake.base))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && limited.Err() == nil:
		if vs = o.s.surveys.failed(commit, o.s.now().BootMs, err); len(vs) == 0 {
			return err
		}
		o.lookAgain(true)
	case len(vs) > 0:
		o.s.surveys.condemn(commit, vs)
		o.lookAgain(false)
	default:
		o.s.surveys.read(commit)
		o.s.surveys.at(commit, func(s *survey) { s.whole = true })
	}
	c.facts.Environment = slices.Concat(c.facts.Environment, vs)
	return nil
}

// condemn notes what is wrong with a commit itself.
func (all *surveys) condemn(commit git.OID, vs []kernel.Violation) {
	all.at(commit, func(s *survey) { s.faults = vs })
}

// scopeEntries are a tree's entries as the scope room knows them.
func scopeEntries(tree git.Tree) []scope.Entry {
	out := make([]scope.Entry, len(tree.Entries))
	for i, e := range tree.Entries {
		out[i] = scope.Entry{Path: e.Path, Mode: e.Mode.String(), OID: string(e.OID)}
	}
	return out
}
