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
	"github.com/writbot/writ/executor/sandbox"
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
	verify, dir := b.scope.Verify, b.workspace()
	if b.tree.layered {
		verify, dir = b.scope.VerifyAbove, sandbox.Upper(dir)
	}
	v, err := verify(limited, dir)
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
	return scope.Verdict{}, end, []kernel.Violation{{Code: kernel.CodeEnvWorkspace, Subject: "workspace", Detail: detail}}
}

// refused is the verdict on a workspace as a whole.
func refused(code kernel.Code, detail string) scope.Verdict {
	return scope.Verdict{Violations: []kernel.Violation{
		{Code: kernel.CodeScopeViolation, Detail: "Broken rules of scope: 1."},
		{Code: code, Subject: "workspace", Detail: detail},
	}}
}

// withoutSecrets refuses changes whose paths or contents hold a secret: both are
// published as they are. Of paths the diff keeps a redacted form, each once, and the
// bytes are dropped, so that nothing of it can be delivered (cases F3, S18).
func (l *Local) withoutSecrets(d *kernel.Diff, contents map[string][]byte) map[string][]byte {
	refused, kept := false, map[string]bool{}
	bad := func(code kernel.Code, path, detail string) {
		refused = true
		d.Violations = append(d.Violations, kernel.Violation{Code: code, Subject: path, Detail: detail})
	}
	for i := range d.Changes {
		c := &d.Changes[i]
		switch {
		case l.cfg.Redact(c.Path) != c.Path:
			c.Path = l.clean(c.Path, maxNameBytes)
			bad(kernel.CodePathUnsafe, c.Path, "The path holds a secret.")
		case l.cfg.Holds(contents[c.AfterID]):
			bad(kernel.CodeSecretDetected, c.Path, "The file holds a secret.")
		default:
			kept[c.AfterID] = true
		}
	}
	if !refused {
		return contents
	}
	if !slices.ContainsFunc(d.Violations, func(v kernel.Violation) bool { return v.Code == kernel.CodeScopeViolation }) {
		d.Violations = append(d.Violations, kernel.Violation{Code: kernel.CodeScopeViolation, Detail: "Paths or files hold a secret."})
	}
	contents = maps.Clone(contents)
	maps.DeleteFunc(contents, func(id string, _ []byte) bool { return !kept[id] })
	byPath := func(x, y kernel.Change) int { return strings.Compare(x.Path, y.Path) }
	slices.SortStableFunc(d.Changes, byPath)
	d.Changes = slices.CompactFunc(d.Changes, func(x, y kernel.Change) bool { return x.Path == y.Path })
	return contents
}
