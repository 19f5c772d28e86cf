package builder

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
)

// judgeLimit bounds how long a workspace is walked and hashed: the walk's own
// bounds, 8 GiB and 100,000 new entries, take a minute on a slow disk.
const judgeLimit = 5 * time.Minute

// ran reports whether there is something to judge: the program ran, nobody
// stopped it, and its workspace is still there.
func (e ending) ran() bool {
	return e.exit.Cause != kernel.CauseStartFailed && e.exit.Cause != kernel.CauseStopped && !e.diskLow
}

// judge verifies the workspace. A stop meanwhile makes the build a stopped one.
// What the builder did to keep its workspace from being judged is a broken rule;
// the rest is the system's, and in unjudged.
func (b *build) judge(ctx context.Context, end ending) (v scope.Verdict, _ ending, unjudged []kernel.Violation) {
	if !end.ran() {
		return v, end, nil
	}
	limited, cancel := context.WithTimeout(ctx, b.l.judgeLimit)
	defer cancel()
	v, err := b.scope.Verify(limited, b.workspace())
	switch {
	case ctx.Err() != nil:
		return scope.Verdict{}, stoppedEarly(), nil
	case err == nil:
		return v, end, nil
	case errors.Is(err, context.DeadlineExceeded):
		return refused(kernel.CodeScopeSize, "The workspace could not be read within "+b.l.judgeLimit.String()+"."), end, nil
	case errors.Is(err, fs.ErrPermission):
		return refused(kernel.CodeScopeMode, "The mode of the workspace does not let it be read."), end, nil
	}
	// The error names a path of the host.
	b.l.cfg.Log.Error("a workspace can't be judged", "run", b.job.Run, "error", err)
	detail := "The workspace can't be read."
	var no syscall.Errno
	if errors.As(err, &no) {
		detail = "The workspace can't be read: " + no.Error() + "."
	}
	return scope.Verdict{}, end, []kernel.Violation{{Code: kernel.CodeEnvState, Subject: "workspace", Detail: detail}}
}

// refused is the verdict on a workspace as a whole.
func refused(code kernel.Code, detail string) scope.Verdict {
	return scope.Verdict{Violations: []kernel.Violation{
		{Code: kernel.CodeScopeViolation, Detail: "Broken rules of scope: 1."},
		{Code: code, Subject: "workspace", Detail: detail},
	}}
}

// withoutSecrets refuses changes whose paths hold a secret: a path is published
// as it is. The diff keeps a redacted form of each, once, and the bytes are
// dropped, so that nothing of it can be delivered (case F3).
func (l *Local) withoutSecrets(d *kernel.Diff, contents map[string][]byte) map[string][]byte {
	var clean, redacted []kernel.Change
	for _, c := range d.Changes {
		if l.cfg.Redact(c.Path) == c.Path {
			clean = append(clean, c)
			continue
		}
		c.Path = l.clean(c.Path, maxNameBytes)
		redacted = append(redacted, c)
		d.Violations = append(d.Violations, kernel.Violation{Code: kernel.CodePathUnsafe, Subject: c.Path, Detail: "The path holds a secret."})
	}
	if len(redacted) == 0 {
		return contents
	}
	if !slices.ContainsFunc(d.Violations, func(v kernel.Violation) bool { return v.Code == kernel.CodeScopeViolation }) {
		d.Violations = append(d.Violations, kernel.Violation{Code: kernel.CodeScopeViolation, Detail: "Paths hold a secret."})
	}
	kept := map[string]bool{}
	for _, c := range clean {
		kept[c.AfterID] = true
	}
	contents = maps.Clone(contents)
	maps.DeleteFunc(contents, func(id string, _ []byte) bool { return !kept[id] })
	byPath := func(x, y kernel.Change) int { return strings.Compare(x.Path, y.Path) }
	d.Changes = slices.Concat(clean, redacted)
	slices.SortStableFunc(d.Changes, byPath)
	d.Changes = slices.CompactFunc(d.Changes, func(x, y kernel.Change) bool { return x.Path == y.Path })
	return contents
}
