package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a program finds does not depend on the host or on who runs writ.
func TestInside_TheSameEverywhere(t *testing.T) {
	spec := script(t, `
id -un; id -u; id -g; pwd; hostname; umask; tty
echo "$HOME $TMPDIR $EXTRA"; ls -A $HOME $TMPDIR; env | cut -d= -f1 | sort | tr '\n' ' '; echo
cat /run/writ/dispatch.json; cat; grep -E 'NoNewPrivs|Seccomp:|CapEff|CapBnd' /proc/self/status | tr -d '\t'
ls -A /run/writ; ulimit -c; echo $0; ip link 2>/dev/null | grep -c ether; exec 1>&-`)
	spec.Env = append(BaseEnv(), "EXTRA=e x")
	spec.Umask = 0o077
	spec.OutDir = t.TempDir()
	spec.Files = []File{{Target: RunDir + "/dispatch.json", Content: []byte("{\"v\":1}\n")}}
	spec.Stdin = strings.NewReader("instruction\n")
	want := `writ
1000
1000
/workspace
writ
0077
not a tty
/home/writ /tmp e x
/home/writ:

/tmp:
EXTRA HOME LANG LOGNAME PATH PWD SHELL TMPDIR TZ USER ` + `
{"v":1}
instruction
CapEff:0000000000000000
CapBnd:0000000000000000
NoNewPrivs:1
Seccomp:2
dispatch.json
init
out
0
/run/writ/init
0
`
	if diff := cmp.Diff(want, succeed(t, newSandbox(t), spec)); diff != "" {
		t.Errorf("inside (-want +got):\n%s", diff)
	}
}

// The caller reads what the program left, and a second program finds it.
func TestInside_WorkspaceStays(t *testing.T) {
	b := newSandbox(t)
	spec := script(t, "mkdir -p a/b && echo text > a/b/c && chmod 700 a")
	if err := os.WriteFile(filepath.Join(spec.Workspace, "given"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, b, spec)
	spec.Argv[2] = "cat a/b/c given && echo more >> given"
	if out := succeed(t, b, spec); out != "text\nx" {
		t.Errorf("output: %q", out)
	}
	if data, err := os.ReadFile(filepath.Join(spec.Workspace, "given")); err != nil || string(data) != "xmore\n" {
		t.Errorf("given holds %q, %v", data, err)
	}
}

func TestStart_RefusesBadSpecs(t *testing.T) {
	dir := t.TempDir()
	good := Spec{Argv: []string{"true"}, Workspace: dir}
	for name, change := range map[string]func(*Spec){
		"no program":           func(s *Spec) { s.Argv = nil },
		"zero byte":            func(s *Spec) { s.Env = []string{"A=b\x00c"} },
		"relative workspace":   func(s *Spec) { s.Workspace = "." },
		"no workspace":         func(s *Spec) { s.Workspace = dir + "/none" },
		"link for a workspace": func(s *Spec) { s.Workspace = dir + "/link" },
		"mount is missing":     func(s *Spec) { s.ReadOnly = []Mount{{Source: dir + "/none"}} },
		"mount over /proc":     func(s *Spec) { s.ReadOnly = []Mount{{Source: dir, Target: "/proc/1"}} },
		"mount over /":         func(s *Spec) { s.ReadOnly = []Mount{{Source: "/"}} },
		"file over init":       func(s *Spec) { s.Files = []File{{Target: initPath}} },
		"unclean target":       func(s *Spec) { s.Files = []File{{Target: "/run/writ/../x"}} },
		"large file":           func(s *Spec) { s.Files = []File{{Target: "/run/writ/x", Content: make([]byte, MaxFileBytes+1)}} },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Symlink("/", dir+"/link"); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			spec := good
			change(&spec)
			_, err := newSandbox(t).Start(t.Context(), spec)
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeSpec {
				t.Errorf("error = %v, want %s", err, CodeSpec)
			}
		})
	}
}

func TestNone_TranslatesPlaces(t *testing.T) {
	spec := script(t, `pwd; cat "$D"; echo x > "$O/r"; ls "$1"`, WorkspaceDir+"/sub")
	spec.OutDir = t.TempDir()
	spec.Env = append(BaseEnv(), "D="+RunDir+"/dispatch.json", "O="+OutDir)
	spec.Files = []File{{Target: RunDir + "/dispatch.json", Content: []byte("d\n")}}
	if err := os.MkdirAll(spec.Workspace+"/sub/there", 0o755); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, NewNone(Config{}), spec); out != spec.Workspace+"\nd\nthere\n" {
		t.Errorf("output: %s", out)
	}
	if data, err := os.ReadFile(spec.OutDir + "/r"); err != nil || string(data) != "x\n" {
		t.Errorf("result %q, %v", data, err)
	}
}

func TestLimits_ZeroMeansDefault(t *testing.T) {
	if diff := cmp.Diff(DefaultLimits(), Limits{}.withDefaults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := Limits{Processes: -1, TmpBytes: 5}.withDefaults()
	if got.Processes != -1 || got.TmpBytes != 5 || got.CPU != DefaultCPU {
		t.Errorf("limits = %+v", got)
	}
}

func TestCgroupMount(t *testing.T) {
	const info = `25 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
37 25 0:32 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw
`
	if got := cgroupMount(info); got != "/sys/fs/cgroup/unified" {
		t.Errorf("mount = %q", got)
	}
	if got := cgroupMount(strings.ReplaceAll(info, "cgroup2", "cgroup")); got != "" {
		t.Errorf("mount = %q, want none", got)
	}
}

// A delegated control group gets the limits, and its counters are understood.
// Directories stand in for the kernel's, since few test machines delegate one.
func TestCgroup_LimitsAndCounters(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"memory.max": "max", "memory.oom.group": "0", "pids.max": "max", "cgroup.kill": "",
		"memory.events": "low 0\noom 3\noom_kill 2\n", "cpu.stat": "usage_usec 1500000\nuser_usec 7\n", "memory.peak": "4096\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &cgroup{path: dir}
	c.limit(Limits{MemoryBytes: 1000, Processes: 7})
	c.kill()
	for name, want := range map[string]string{"memory.max": "1000", "pids.max": "9", "memory.oom.group": "1", "cgroup.kill": "1"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s holds %q, %v, want %s", name, got, err, want)
		}
	}
	if !c.holdsMemory() || c.counter("memory.events", "oom_kill") != 2 || c.cpu() != 1500*time.Millisecond || c.peak() != 4096 {
		t.Errorf("memory %v, kills %d, cpu %v, peak %d", c.holdsMemory(), c.counter("memory.events", "oom_kill"), c.cpu(), c.peak())
	}
	c = &cgroup{path: t.TempDir()}
	c.limit(Limits{MemoryBytes: 1000})
	if c.holdsMemory() {
		t.Error("a group without the controller is said to hold memory")
	}
}

// What a killed writ left is cleaned up, what a living one uses is not.
func TestK4_EmptyGroupsAreSwept(t *testing.T) {
	parent := t.TempDir()
	const noProcess = 1 << 30 // above any process id
	dead, alive, other := fmt.Sprintf(cgroupName, noProcess, 1), fmt.Sprintf(cgroupName, os.Getpid(), 1), "system.slice"
	for _, name := range []string{dead, alive, other} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	sweepCgroups(parent)
	for name, want := range map[string]bool{dead: false, alive: true, other: true} {
		if _, err := os.Stat(filepath.Join(parent, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

func TestMeasure_SeesThisProcess(t *testing.T) {
	got := (&meter{uncounted: true}).measure(os.Getpid())
	if !slices.Contains(got.pids, os.Getpid()) || got.threads < 2 || got.memory < 1<<20 {
		t.Errorf("measure = %+v", got)
	}
}

// The package comment shows the remedy as users get it.
func TestRemedyIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := "//\t" + strings.ReplaceAll(Remedy, "\n", "\n//\t") + "\n"; !strings.Contains(string(doc), want) {
		t.Errorf("doc.go does not contain:\n%s", want)
	}
}

// TestInside_LaterValuesWin: a program finds each variable once, with the last value that
// it was given.
func TestInside_LaterValuesWin(t *testing.T) {
	eachLevel(t, func(t *testing.T, s Sandbox) {
		spec := Spec{Argv: []string{"/usr/bin/env"}, Workspace: place(t)}
		spec.Env = append(BaseEnv(), "A=1", "TZ=Mars", "A=", "GIT_CONFIG_NOSYSTEM=0", "A=a=b")
		r := start(t, s, spec)
		<-r.Done()
		got := map[string][]string{}
		for line := range strings.Lines(r.out.Text()) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			got[key] = append(got[key], value)
		}
		for key, want := range map[string]string{"A": "a=b", "TZ": "Mars", "GIT_CONFIG_NOSYSTEM": "0", "LANG": "C.UTF-8"} {
			if !slices.Equal(got[key], []string{want}) {
				t.Errorf("%s is %q, want %q once", key, got[key], want)
			}
		}
	})
}
