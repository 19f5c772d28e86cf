package builder

import (
	"context"
	"sync"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// onBase runs a check that failed on the base once more, where nothing of the change is:
// who reads that it failed wants to know whether the change made it fail, and what the
// change lacks of its surroundings counts as that where the base lacks it, too. It says
// nothing of a run that had to be ended for its time, nor where the host failed. Nor is
// there a base to compare with where the preparation was made from the change's own key
// files, for it would run with the dependencies of the change, nor for what somebody
// pushed, which is the whole tree of its job.
func (k *checks) onBase(ctx context.Context, c kernel.Check, failed kernel.CheckResult, lacks []kernel.Lack) (baseEnd, bool) {
	ended := failed.Exit.Cause == kernel.CauseExited || len(lacks) > 0
	if failed.Passed || !failed.Stable || !ended || ctx.Err() != nil {
		return baseEnd{}, false
	}
	if k.job.Trusted != nil || k.prep != nil && k.prep.change != nil {
		return baseEnd{}, false
	}
	data, err := canon.Marshal(c)
	if err != nil || k.job.Base.Commit == "" {
		return baseEnd{}, false
	}
	key := k.job.Base.Commit + " " + string(canon.Sum(data))
	if end, sure := k.l.bases.known(key); sure {
		return end, true
	}
	k.feed.hold()
	defer k.feed.release()
	t, err := k.l.stock.take(ctx, k.feed, use{runner: true})
	if err != nil {
		return baseEnd{}, false
	}
	w, egress := k.l.newWatch(nil), k.l.newEgressLog(taskName(k.job.World, k.job.Task), 0)
	end := k.in(ctx, t, c, 0, w, egress)
	if end.err != nil && !isProgramFault(end.err) || end.exit.Cause == kernel.CauseStopped {
		return baseEnd{}, false
	}
	made := baseEnd{exit: end.exit, lacks: k.lacks(c, end, k.l.evidence(w.stdout).Tail, egress.result())}
	if end.exit.Cause != kernel.CauseExited && len(made.lacks) == 0 {
		return baseEnd{}, false
	}
	k.l.bases.add(key, made)
	return made, true
}

// compare tells of a failed check how it ends on the base. What it lacks as the base does
// is no fault of the change, and is told in place of the failure.
func (k *checks) compare(ctx context.Context, c kernel.Check, out *kernel.CheckResult, lacks []kernel.Lack, vs []kernel.Violation) []kernel.Violation {
	base, tried := k.onBase(ctx, c, *out, lacks)
	if !tried {
		return vs
	}
	if base.exit.Cause == kernel.CauseExited && out.Exit.Cause == kernel.CauseExited {
		out.OnBase = &base.exit
	}
	lack, alike := lackOf(lacks, base.lacks)
	if !alike || base.exit != out.Exit {
		return vs
	}
	out.Lacks = &lack
	return []kernel.Violation{{Code: lack.Code, Subject: c.Name, Detail: k.lackWords(c, lack)}}
}

// agreeing is how many runs on a base must have ended alike before it isn't asked any more.
const agreeing = 2

// maxBaseEnds bounds what is remembered.
const maxBaseEnds = 1024

// baseEnds remember how checks end on bases. An end that lacks something is never kept: the
// operator may have installed the program or made room since. The zero value is ready.
type baseEnds struct {
	mu sync.Mutex
	of map[string]baseEnd // by commit and check
}

type baseEnd struct {
	exit  kernel.Exit
	lacks []kernel.Lack
	runs  int
}

func (b *baseEnds) known(key string) (end baseEnd, sure bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end = b.of[key]
	return end, end.runs >= agreeing
}

func (b *baseEnds) add(key string, made baseEnd) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(made.lacks) > 0 {
		delete(b.of, key)
		return
	}
	if b.of == nil || len(b.of) >= maxBaseEnds {
		b.of = map[string]baseEnd{}
	}
	if was := b.of[key]; was.exit == made.exit {
		made.runs = was.runs
	}
	made.runs++
	b.of[key] = made
}
