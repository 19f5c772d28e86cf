package builder

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// TestCheck_LackedByTheBaseToo: a check that fails for what the base lacks as well is no
// failure of the change, and says what is lacking and where it is given.
func TestCheck_LackedByTheBaseToo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, tt := range []struct {
		text string
		code kernel.Code
		what string
		key  string
	}{
		{"no-such-lint calc", kernel.CodeLacksProgram, "no-such-lint", "`prepare` in .writ/contract.yaml"},
		{"echo 'make: no-such-lint: No such file or directory'; echo 'make: *** [Makefile:3: lint] Error 127'; exit 2", kernel.CodeLacksProgram, "no-such-lint", "`checks.ro`"},
		{`echo 'exec: "protoc": executable file not found in $PATH'; exit 1`, kernel.CodeLacksProgram, "protoc", "`checks.ro`"},
		{"bash -c 'exec 3<>/dev/tcp/127.0.0.1/1'; exit 3", kernel.CodeLacksLoopback, "socket", "`checks.loopback: true`"},
		{"echo 'go: dial tcp: lookup proxy.golang.org: no such host'; exit 1", kernel.CodeLacksNetwork, "proxy.golang.org", "`hosts` of the check c"},
		{"echo 'curl: (6) Could not resolve host: example.org'; exit 6", kernel.CodeLacksNetwork, "example.org", "`checks.egress`"},
		{"echo 'npm error getaddrinfo EAI_AGAIN registry.npmjs.org'; exit 1", kernel.CodeLacksNetwork, "registry.npmjs.org", "`prepare`"},
	} {
		out := b.check(changed(b), shCheck("c", tt.text))
		c := out.Run.Checks[0]
		if c.Passed || c.Lacks == nil || *c.Lacks != (kernel.Lack{Code: tt.code, What: tt.what}) {
			t.Errorf("%s: %+v, lacks %+v", tt.text, c, c.Lacks)
		}
		if words(out.Violations) != string(tt.code) || len(out.Violations) != 1 || !strings.Contains(out.Violations[0].Detail, tt.key) || !strings.Contains(out.Violations[0].Detail, tt.what) {
			t.Errorf("%s: %+v", tt.text, out.Violations)
		}
	}
}

// TestCheck_LackedByTheChangeAlone: what a change says that it lacks counts where the base,
// of which the change has no byte, lacks the very same in its own run. A program of the
// workspace is the change's to bring, and what neither the host saw nor the words name is
// nothing.
func TestCheck_LackedByTheChangeAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, text := range []string{
		"test -e calc/sub.go || no-such-lint; true; test -e calc/sub.go",
		"if test -e calc/new; then echo 'sh: 1: no-such-lint: not found'; else echo 'sh: 1: another: not found'; fi; exit 127",
		"if test -e calc/new; then no-such-lint; else exit 127; fi",
		"if test -e calc/new; then echo 'lookup proxy.golang.org: no such host'; fi; exit 1",
		"echo 'No space left on device'; exit 1",
		"echo 'socket: address family not supported'; exit 1",
		"bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>/dev/null; exit 3",
		"./new-script.sh",
		"/workspace/new-script.sh",
		"echo 'lookup localhost: no such host'; exit 1",
		`echo 'exec: "no-such-lint": executable file not found in $PATH'; test -e calc/new && exit 3 || exit 4`,
	} {
		out := b.check(changed(b), shCheck("c", text))
		if c := out.Run.Checks[0]; c.Passed || c.Lacks != nil || words(out.Violations) != "execution.check.failed" {
			t.Errorf("%s: %+v, lacks %+v, %v", text, c, c.Lacks, out.Violations)
		}
	}
}

// TestCheck_LackedSpace: it is the sandbox that says whether a limit of its room was
// reached, and a run that was ended for it needs no word of its own.
func TestCheck_LackedSpace(t *testing.T) {
	t.Parallel()
	k := &checks{l: newBed(t).local}
	for _, tt := range []struct {
		end  ending
		said string
		want string
	}{
		{ending{exit: kernel.Exit{Code: 1, Cause: kernel.CauseExited}, limits: []sandbox.Limit{sandbox.LimitProcesses, sandbox.LimitTmpBytes}}, "write /tmp/x: no space left on device", "`limits.tmp`"},
		{ending{exit: kernel.Exit{Code: -1, Cause: kernel.CauseResource}, limits: []sandbox.Limit{sandbox.LimitTmpFiles}}, "", "`limits.tmp_files`"},
		{ending{exit: kernel.Exit{Code: -1, Cause: kernel.CauseResource}, limits: []sandbox.Limit{sandbox.LimitDisk}}, "", "`limits.disk_reserve`"},
		{ending{exit: kernel.Exit{Code: -1, Cause: kernel.CauseResource}, limits: []sandbox.Limit{sandbox.LimitMemory}}, "no space left on device", ""},
		{ending{exit: kernel.Exit{Code: 1, Cause: kernel.CauseExited}, limits: []sandbox.Limit{sandbox.LimitTmpBytes}}, "ok", ""},
		{ending{exit: kernel.Exit{Code: 1, Cause: kernel.CauseExited}}, "no space left on device", ""},
	} {
		got := k.lacks(kernel.Check{Argv: []string{"sh"}}, tt.end, tt.said, nil)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(k.lackWords(kernel.Check{}, got[0]), tt.want)) {
			t.Errorf("%+v, %q: %+v", tt.end, tt.said, got)
		}
	}
}

// TestCheck_LackedHost: a host that the gateway denies is lacking where the run names it,
// and a connection that only the base asked for is none of the check's.
func TestCheck_LackedHost(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	k := &checks{l: b.local}
	c := kernel.Check{Name: "c", Argv: []string{"sh"}, Hosts: []string{"registry.example.org"}}
	denied := &kernel.Egress{Denied: []kernel.Denied{{Host: "sum.example.org", Rule: "contract"}, {Host: "telemetry.example.org"}}}
	end := ending{exit: kernel.Exit{Code: 1, Cause: kernel.CauseExited}}
	got := k.lacks(c, end, "verifying: sum.example.org: 403 Forbidden", denied)
	if want := []kernel.Lack{{Code: kernel.CodeLacksNetwork, What: "sum.example.org"}}; !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := k.lacks(c, end, "lookup other.example.org: no such host", nil); len(got) > 0 {
		t.Errorf("a check with a network lacks %+v", got)
	}
	crowd, words := &kernel.Egress{}, ""
	for i := range 3 * maxLacks {
		host := "h" + strings.Repeat("a", i+1) + ".example.org"
		crowd.Denied = append(crowd.Denied, kernel.Denied{Host: host, Rule: "contract"})
		words += host + ": 403 Forbidden\n"
	}
	if got := k.lacks(c, end, words, crowd); len(got) != maxLacks {
		t.Errorf("of those that were denied %d are noted", len(got))
	}
	many := strings.Repeat("x", 10)
	for i := range 3 * maxLacks {
		many += "\nlookup h" + strings.Repeat("a", i+1) + ".example.org: no such host"
	}
	c.Hosts = nil
	if got := k.lacks(c, end, many, nil); len(got) != maxLacks {
		t.Errorf("%d are noted", len(got))
	}
}
