package builder

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
)

// A secret in a file name is refused, and neither it nor its bytes are kept.
func TestF3_SecretInAPath(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-token"
	b := newBed(t, func(c *Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }
	})
	s := script(`echo '// changed' >> calc/add.go; echo hidden > "calc/$TOKEN"; mkdir "calc/x-$TOKEN" "calc/x-"; ln -s a "calc/l-$TOKEN"
echo one > "calc/x-$TOKEN/f"; echo '// changed' > calc/same.go; echo '// changed' > "calc/$TOKEN.go"`)
	s.Argv, s.Env = append(s.Argv, "--key="+secret), map[string]string{"TOKEN": secret}
	o := b.build(b.job(s))
	if got := codes(o); got != umbrella+"scope.file_type path.unsafe" {
		t.Errorf("codes = %q", got)
	}
	want := "add calc/[redacted], add calc/[redacted].go, modify calc/add.go, add calc/same.go, add calc/x-[redacted]/f"
	if got := paths(o.Diff); got != want {
		t.Errorf("changes = %s", got)
	}
	if len(o.Contents) != 2 {
		t.Errorf("%d contents are kept", len(o.Contents))
	}
	if !slices.Contains(o.Diff.Violations, kernel.Violation{Code: kernel.CodePathUnsafe, Subject: "calc/[redacted]", Detail: "The path holds a secret."}) {
		t.Errorf("violations = %v", o.Diff.Violations)
	}
	all, err := json.Marshal(o)
	if err != nil || strings.Contains(string(all), secret) {
		t.Errorf("kept: %s, %v", all, err)
	}
	// Where nothing else is wrong the change is refused, too.
	s = script(`echo hidden > "calc/$TOKEN"`)
	s.Env = map[string]string{"TOKEN": secret}
	if o := b.build(b.job(s)); codes(o) != umbrella+"path.unsafe" || len(o.Contents) != 0 {
		t.Errorf("codes = %q, %d contents", codes(o), len(o.Contents))
	}
}

// A builder that uses the disk up is not judged, and its workspace is gone when
// its outcome is there.
func TestX8_FullDiskIsFreed(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) { c.Limits.DiskReserveBytes = 1 << 60 })
	r, err := b.local.Build(t.Context(), b.job(script("echo '// changed' >> calc/add.go")))
	if err != nil {
		t.Fatal(err)
	}
	b.await(r)
	if dir := r.(*build).tree.dir; dir == "" {
		t.Error("there was no workspace")
	} else if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the workspace is there: %v", err)
	}
	if o := r.Outcome(); codes(o) != "execution.resource" || o.Result.Exit.Cause != kernel.CauseResource {
		t.Errorf("codes = %q, exit %+v", codes(o), o.Result.Exit)
	}
}

// A workspace that its builder closed is the builder's fault, and no path of the
// host is named.
func TestClosed_Workspace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`echo '// changed' >> calc/add.go; chmod 000 .`)
	want := umbrella + "scope.mode"
	if os.Geteuid() == 0 {
		want = codes(o) // root can read it whatever its mode
	}
	if codes(o) != want || strings.Contains(codes(o), "environment") {
		t.Errorf("codes = %q, want %q: %v", codes(o), want, o.Violations)
	}
	if all, err := json.Marshal(o.Diff.Violations); err != nil || strings.Contains(string(all), b.work) {
		t.Errorf("violations = %s, %v", all, err)
	}
}

// exited is the ending of a builder that did well.
func exited() ending { return ending{exit: kernel.Exit{Cause: kernel.CauseExited}} }

// judged is a build whose workspace is to be judged.
func judged(t *testing.T) *build {
	t.Helper()
	b := newBed(t)
	job := b.job(script("true"))
	s, err := newScope(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	j := &build{l: b.local, job: job, scope: s, tree: &tree{dir: t.TempDir()}}
	if err := os.Mkdir(filepath.Join(j.tree.dir, "workspace"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(j.workspace(), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestX5_StopWhileJudged(t *testing.T) {
	t.Parallel()
	b := judged(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, end, vs := b.judge(ctx, exited())
	if end.exit.Cause != kernel.CauseStopped || len(vs) != 0 || len(v.Violations) != 0 {
		t.Errorf("exit %+v, %v, %v", end.exit, vs, v.Violations)
	}
}

func TestS16_JudgingEnds(t *testing.T) {
	t.Parallel()
	b := judged(t)
	b.l.judgeLimit = time.Nanosecond
	v, end, vs := b.judge(t.Context(), exited())
	if words(v.Violations) != umbrella+"scope.size" || len(vs) != 0 || end.exit.Cause != kernel.CauseExited {
		t.Errorf("exit %+v, %v, %v", end.exit, vs, v.Violations)
	}
}

// A workspace that isn't there is the system's doing; its place is not named.
func TestClosed_NoHostPath(t *testing.T) {
	t.Parallel()
	b := judged(t)
	b.tree.dir = filepath.Join(b.tree.dir, "gone")
	_, _, vs := b.judge(t.Context(), exited())
	if len(vs) != 1 || vs[0].Code != kernel.CodeEnvState || strings.Contains(vs[0].Detail, "gone") {
		t.Errorf("violations = %v", vs)
	}
}
