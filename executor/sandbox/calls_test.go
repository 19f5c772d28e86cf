package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// sweepEnd is above every number that this kernel has, with room for some that
// only later ones have; testdata/sweep.c has the same.
const sweepEnd = 640

// sweeper is testdata/sweep.c as a program that everybody can run.
var sweeper = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(sweeperVar); given != "" {
		return given, nil
	}
	self, err := publicSelf()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "sweep")
	out, err := exec.Command("gcc", "-O1", "-Wall", "-static", "-o", path, "testdata/sweep.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
})

// sweeperVar tells TestOrdinaryUser's run, which is elsewhere, where it is.
const sweeperVar = "WRIT_TEST_SWEEPER"

// sweepArgs are the words of a sweep; without calls it makes all of them.
func sweepArgs(t *testing.T, v victim, calls ...uintptr) []string {
	t.Helper()
	path, err := sweeper()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{path}
	for _, name := range []string{v.Key, v.Readable, v.Open, v.Dir, v.Terminal} {
		args = append(args, outside+name)
	}
	args = append(args, fmt.Sprint(v.Pid))
	for _, nr := range calls {
		args = append(args, fmt.Sprint(nr))
	}
	return args
}

// sweep is a Spec that makes each system call.
func sweep(t *testing.T, v victim) Spec {
	t.Helper()
	spec := script(t, "")
	spec.Workspace, spec.Argv = removable(t), sweepArgs(t, v)
	spec.ReadOnly = []Mount{{Source: v.Readable}, {Source: filepath.Dir(spec.Argv[0])}}
	return spec
}

// answers reads the errors of each call from what sweep.c printed.
func answers(t *testing.T, out string) map[string][]string {
	t.Helper()
	if !strings.HasSuffix(out, "sweep: end\n") {
		t.Fatalf("it did not run to its end:\n%s", out)
	}
	got := map[string][]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 {
			got[f[0]] = f[1:]
		}
	}
	return got
}

// TestX10_EachSystemCall makes each system call of this kernel, by number, at each
// level. Nothing outside changes, and a number that the table of the level without
// namespaces doesn't have is answered as by a kernel without it.
func TestX10_EachSystemCall(t *testing.T) {
	eachLevel(t, func(t *testing.T, s Sandbox) {
		t.Parallel()
		v := newVictim(t)
		before := v.state(t)
		r := start(t, s, sweep(t, v))
		<-r.Done() // go test's own limit ends a hang
		got := answers(t, r.out.Text())
		v.intact(t, before)
		if len(got) < sweepEnd {
			t.Errorf("%d calls were made", len(got))
		}
		if s.Name() != "landlock" {
			return
		}
		listed := tableNumbers(runtime.GOARCH)
		for nr := range uintptr(sweepEnd) {
			_, ok := listed[nr]
			if errors := got[fmt.Sprint(nr)]; !ok && !answeredOtherwise(nr) && !slices.Equal(errors, []string{"38"}) {
				t.Errorf("%s isn't in the table and is answered %v", callName(runtime.GOARCH, nr), errors)
			}
		}
	})
}

// answeredOtherwise reports whether a number outside the table has another answer
// than that it is unknown.
func answeredOtherwise(nr uintptr) bool {
	return nr == unix.SYS_FALLOCATE || // refused as by a file system without it
		// The kernel answers these two before it asks the filter. They do nothing
		// but in code that the kernel itself put there for a tracer.
		isCall(nr, "uprobe") || isCall(nr, "uretprobe")
}

// tableNumbers are the calls of the table, with their rows.
func tableNumbers(arch string) map[uintptr]row {
	out := map[uintptr]row{}
	for _, r := range rows {
		for name := range strings.FieldsSeq(r.calls) {
			if nr, ok := callNumbers[arch][name]; ok {
				out[nr] = r
			}
		}
	}
	return out
}

// TestX10_Alone makes the calls of each row with nothing around them but the layer
// that the row says makes them harmless: no other layer, no other user, no limits.
// A missing layer would let root's calls change the machine, and root's programs
// have a user without rights in any case, so that such a user makes them.
func TestX10_Alone(t *testing.T) {
	if os.Geteuid() == 0 {
		asOrdinaryUser(t, "^TestX10_Alone$", "TestX10_Alone")
		return
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			var calls []uintptr
			for name := range strings.FieldsSeq(r.calls) {
				if nr, ok := callNumbers[runtime.GOARCH][name]; ok {
					calls = append(calls, nr)
				}
			}
			before := v.state(t)
			reached := v
			if r.held == byItself { // such calls need a descriptor, and row "files" gives none of a terminal
				reached.Terminal = "/nonexistent"
			}
			if got := answers(t, alone(t, r.held, reached, calls...)); len(got) < len(calls) {
				t.Errorf("only %d of %d calls were made", len(got), len(calls))
			}
			v.intact(t, before)
		})
	}
}

// The attempts must be able to succeed, or their failure means nothing. They change
// all that their user owns and runs, so that it is one who has nothing else.
func TestX10_WithoutASandbox(t *testing.T) {
	if os.Geteuid() == 0 {
		asOrdinaryUser(t, "^TestX10_WithoutASandbox$", "TestX10_WithoutASandbox")
		return
	}
	if os.Getenv(elsewhereVar) == "" {
		t.Log("it needs a user of its own, whom only root can give")
		return
	}
	for _, try := range []struct {
		call    string
		changed func(victim) string
	}{
		{"chmod", func(v victim) string { return perm(v.Key) }},
		{"fchmod", func(v victim) string { return perm(v.Readable) }},
		{"setxattr", func(v victim) string { return attributes(v.Key) }},
		{"fsetxattr", func(v victim) string { return attributes(v.Readable) }},
		{"setxattrat", func(v victim) string { return attributes(v.Key) }},
		{"utimensat", func(v victim) string { return changedAt(v.Key) }},
		{"fchown", func(v victim) string { return changedAt(v.Readable) }},
		{"truncate", func(v victim) string { return content(v.Key) }},
		{"kill", func(v victim) string { return statField(v.Pid, 0) }},
		{"prlimit64", func(v victim) string {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", v.Pid))
			return string(data)
		}},
		{"setpriority", func(v victim) string { return statField(v.Pid, 16) }}, // the last, since it is every process's
	} {
		t.Run(try.call, func(t *testing.T) {
			nr, ok := callNumbers[runtime.GOARCH][try.call]
			if !ok {
				return // the architecture has another call for it
			}
			v := newVictim(t)
			before := try.changed(v)
			out := alone(t, "", v, nr)
			if strings.Contains(out, " 38\n") {
				return // this kernel hasn't got the call
			}
			ctx, stop := context.WithTimeout(t.Context(), waitLimit)
			defer stop()
			for try.changed(v) == before { // a signal changes its process only when that one runs next
				if ctx.Err() != nil {
					t.Fatalf("it changed nothing, though nothing was in its way: %s", out)
				}
				runtime.Gosched()
			}
		})
	}
}

func perm(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return info.Mode().String()
}

func attributes(path string) string {
	list := make([]byte, 100)
	n, err := unix.Llistxattr(path, list)
	return fmt.Sprint(string(list[:max(n, 0)]), err)
}

func changedAt(path string) string {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return fmt.Sprint(st.Ctim, err)
}

func content(path string) string {
	data, err := os.ReadFile(path)
	return fmt.Sprint(string(data), err)
}

func statField(pid, field int) string {
	if f := statOf(pid); f != nil {
		return string(f[field])
	}
	return "gone"
}

// Programs for another interface of the processor don't get to make a call.
func TestX10_ForeignInterface(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Log("the interface is that of amd64")
		return
	}
	dir := place(t)
	source, program := filepath.Join(dir, "a.c"), filepath.Join(dir, "foreign")
	const text = `#include <stdio.h>
#include <unistd.h>
int main(void) {
	int pid;
	long x32 = syscall(0x40000000 + 39);
	printf("x32: %ld\n", x32);
	fflush(stdout);
	__asm__ volatile("int $0x80" : "=a"(pid) : "a"(20));
	printf("i386: %d\n", pid);
	return 0;
}
`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-static", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	outside, _ := exec.Command(program).Output()
	missing := !bytes.Contains(outside, []byte("i386: "))
	if missing {
		t.Logf("this kernel itself has no such interface, so that nobody can try to use it: %s", outside)
	}
	eachLevel(t, func(t *testing.T, s Sandbox) {
		spec := script(t, "./foreign")
		data, err := os.ReadFile(program)
		if err == nil {
			err = writeProgram(filepath.Join(spec.Workspace, "foreign"), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, s, spec)
		if e := r.finish(t); missing {
			if e.Code == 0 || strings.Contains(r.out.Text(), "i386: ") {
				t.Errorf("exit = %+v; output:\n%s", e, r.out.Text())
			}
		} else if e.Code != 128+int(unix.SIGSYS) || r.out.Text() != "x32: -1\nBad system call\n" && r.out.Text() != "x32: -1\n" {
			t.Errorf("exit = %+v; output:\n%s", e, r.out.Text())
		}
	})
}
