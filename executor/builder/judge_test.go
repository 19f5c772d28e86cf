package builder

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/sandbox"
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

// TestS18_SecretInAFile: a secret that writ was given is delivered in no file, as it is
// or encoded, and none of its bytes are kept.
func TestS18_SecretInAFile(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-token"
	b := newBed(t, func(c *Config) {
		r := report.NewRedactor([]string{secret})
		c.Redact, c.Holds = r.String, r.Holds
	})
	s := script(`echo '// changed' >> calc/add.go; echo "key := $TOKEN" > calc/key.go; printf 'x:%s' "$TOKEN" | base64 > calc/other.go`)
	s.Env = map[string]string{"TOKEN": secret}
	o := b.build(b.job(s))
	if got := codes(o); got != umbrella+"secret.detected" {
		t.Errorf("codes = %q", got)
	}
	if got := paths(o.Diff); got != "modify calc/add.go, add calc/key.go, add calc/other.go" || len(o.Contents) != 1 {
		t.Errorf("changes = %s, %d contents", got, len(o.Contents))
	}
	if !slices.Contains(o.Diff.Violations, kernel.Violation{Code: kernel.CodeSecretDetected, Subject: "calc/key.go", Detail: "The file holds a secret."}) {
		t.Errorf("violations = %v", o.Diff.Violations)
	}
	for _, data := range o.Contents {
		if bytes.Contains(data, []byte(secret)) {
			t.Error("its bytes are kept")
		}
	}
}

// A builder that uses the disk up is not judged, and its workspace is gone when
// its outcome is there. Of one whose disk others use up that is no fault: it is
// judged if it succeeds, and interrupted if it fails or can't go on.
func TestX8_FullDiskIsFreed(t *testing.T) {
	t.Parallel()
	var st unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &st); err != nil {
		t.Fatal(err)
	}
	free := int64(st.Bavail) * st.Bsize // others may take some hundred megabytes of it meanwhile
	for name, c := range map[string]struct {
		script  string
		reserve int64
		codes   string
		cause   string
		freed   bool
	}{
		"by itself":               {"i=0; while :; do i=$((i+1)); head -c 16777216 /dev/zero > big$i; done", free - 512<<20, "execution.resource", kernel.CauseResource, true},
		"by others":               {"echo '// changed' >> calc/add.go", free + 1<<30, "", kernel.CauseExited, false},
		"by others, and it fails": {"echo '// changed' >> calc/add.go; exit 1", free + 1<<30, "environment.disk.low", kernel.CauseStopped, true},
		"by others, all of it":    {"sleep 1000", 1 << 60, "environment.disk.low", kernel.CauseStopped, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, func(cfg *Config) { cfg.Limits.DiskReserveBytes = c.reserve })
			b.local.stock.disk = func(int64) bool { return true } // it was laid out before others filled the disk
			r, err := b.local.Build(t.Context(), b.job(script(c.script)))
			if err != nil {
				t.Fatal(err)
			}
			b.await(r)
			if dir := r.(*build).tree.dir; dir == "" {
				t.Error("there was no workspace")
			} else if _, err := os.Lstat(dir); c.freed && !os.IsNotExist(err) {
				t.Errorf("the workspace is there: %v", err)
			}
			if o := r.Outcome(); codes(o) != c.codes || o.Result.Exit.Cause != c.cause {
				t.Errorf("codes = %q, exit %+v", codes(o), o.Result.Exit)
			}
			low := slices.ContainsFunc(b.local.Environment(t.Context(), "script"), func(v kernel.Violation) bool { return v.Code == kernel.CodeEnvDisk })
			if low != (name != "by itself") {
				t.Errorf("before a claim, low is %v", low)
			}
		})
	}
}

// leaving is a sandbox whose program is taken away while writ runs, or whose programs
// can't come to the workspaces.
type leaving struct {
	sandbox.Sandbox
	gone, far bool
}

func (l *leaving) err() error {
	if l.gone {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Msg: "the program bwrap was not found"}
	}
	return nil
}

func (l *leaving) Probe(context.Context) error { return l.err() }

func (l *leaving) Reaches(string) error {
	if l.far {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Msg: "the program's user can't pass through it"}
	}
	return nil
}

func (l *leaving) Start(ctx context.Context, s sandbox.Spec) (*sandbox.Process, error) {
	if l.gone {
		return nil, l.err()
	}
	return l.Sandbox.Start(ctx, s)
}

// TestX1_SandboxGoesAway: a sandbox that worked at the start and doesn't any more is
// known before the next claim, and so is that it is back.
func TestX1_SandboxGoesAway(t *testing.T) {
	t.Parallel()
	box := &leaving{}
	b := newBed(t, func(c *Config) { box.Sandbox, c.Sandbox = c.Sandbox, box })
	missing := func() bool {
		return slices.ContainsFunc(b.local.Environment(t.Context(), "script"), func(v kernel.Violation) bool { return v.Code == kernel.CodeSandboxUnavailable })
	}
	if missing() {
		t.Fatal("it isn't there at the start")
	}
	box.gone = true
	if o := b.sh("true"); codes(o) != string(kernel.CodeSandboxUnavailable) {
		t.Errorf("codes = %q", codes(o))
	}
	if !missing() {
		t.Error("the next claim would be as vain")
	}
	box.gone, box.far = false, true
	if !missing() {
		t.Error("nobody could come to the next workspace")
	}
	box.far = false
	if missing() {
		t.Error("it is back, and nothing is claimed")
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
	if len(vs) != 1 || vs[0].Code != kernel.CodeEnvWorkspace || strings.Contains(vs[0].Detail, "gone") {
		t.Errorf("violations = %v", vs)
	}
}
