package supervisor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestD52_ReportFollowsFromTheRecords: whatever ends a run without a result, and
// whoever looks afterwards, the report says what the ledger has: that a builder was
// started, which run, what it was given, and what it had changed by then.
func TestD52_ReportFollowsFromTheRecords(t *testing.T) {
	t.Parallel()
	halt := func(b *bench) { must(b.t, b.sup.Halt(b.t.Context(), 1, "local:0:root", "look first")) }
	foreign := func(b *bench) {
		gittest.Commit(b.t, b.bare, "refs/writ/task/1", b.ref("refs/writ/task/1"), map[string]string{"note": "hi\n"})
		b.tick()
	}
	for _, c := range []struct {
		name  string
		at    kernel.Action
		ends  func(*bench)
		files []string
	}{
		{"halted while it builds", kernel.ActionDispatch, halt, nil},
		{"a foreign push while it builds", kernel.ActionDispatch, foreign, nil},
		{"the runner ends while it builds", kernel.ActionDispatch, func(b *bench) { b.ask(kernel.RequestShutdown) }, nil},
		{"the runner ends while the checks run", kernel.ActionChecks, func(b *bench) { b.ask(kernel.RequestShutdown) }, []string{"out.txt"}},
		{"halted while the checks run", kernel.ActionChecks, halt, []string{"out.txt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = termsWithCheck })
			b.reach(c.at)
			run := b.task.worker.run.id
			c.ends(b)
			says := func() report.Report { // of a halted task as well, whose machine takes no request
				t.Helper()
				l, err := b.task.observer.observe(t.Context(), kernel.RequestLook, "local:0:root")
				must(t, err)
				d, err := kernel.Decide(l.facts)
				must(t, err)
				rep, err := b.task.Report(t.Context(), Status{Decision: d, Facts: l.facts, Intake: l.intake, Head: l.head})
				must(t, err)
				return rep
			}
			want := canon.Sum(body[json.RawMessage](b, kernel.KindDispatch))
			before := says()
			if !before.Dispatched || before.Verified || before.RunID != run || before.DispatchHash != want || c.files != nil && !slices.Equal(before.ChangedFiles, c.files) {
				t.Errorf("%+v, want run %s dispatched as %s", before, run, want)
			}
			if strings.HasPrefix(c.name, "halted") {
				return // a halted task isn't opened again
			}
			b.open()
			if after := says(); !after.Dispatched || after.RunID != run || after.DispatchHash != want || !slices.Equal(after.ChangedFiles, before.ChangedFiles) {
				t.Errorf("another process says %+v", after)
			}
		})
	}
}

// TestD46_MetadataInAClone reads from a plain clone what was recorded of an
// execution: the five facts that seed 001 logs, and the hashes of dispatch, streams
// and results.
func TestD46_MetadataInAClone(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	b := newBench(t, bare, func(b *bench) { b.place.terms = termsWithCheck })
	b.until(kernel.StandFinal)
	clone := t.TempDir()
	gittest.Git(t, clone, "clone", "--quiet", "--bare", bare, "c.git")
	git := func(args ...string) string { return gittest.Git(t, clone, append([]string{"-C", "c.git"}, args...)...) }
	git("fetch", "--quiet", "origin", "refs/writ/task/1:refs/writ/task/1")
	file := func(name string) string { return git("show", "refs/writ/task/1:"+name) }

	said := git("cat-file", "commit", "refs/writ/task/1")
	hash := string(canon.Sum([]byte(strings.TrimSuffix(file(replay.FileDispatch), "\n"))))
	if !strings.Contains(said, "\n"+kernel.TrailerDispatch+": "+hash+"\n") || !strings.Contains(said, "\naynig-state: completed\n") {
		t.Errorf("HEAD doesn't name the dispatch %s:\n%s", hash, said)
	}
	kinds := map[kernel.Kind]json.RawMessage{}
	for _, line := range strings.Split(strings.TrimSpace(file(replay.FileRecords)), "\n") {
		var r kernel.Record
		must(t, json.Unmarshal([]byte(line), &r))
		kinds[r.Kind] = r.Body
	}
	if canon.Sum(kinds[kernel.KindDispatch]) != canon.Digest(hash) {
		t.Error("the recorded dispatch is another")
	}
	var d kernel.Dispatch
	var res kernel.BuilderResult
	var run kernel.RunResult
	for kind, v := range map[kernel.Kind]any{kernel.KindDispatch: &d, kernel.KindBuilderResult: &res, kernel.KindRunResult: &run} {
		must(t, json.Unmarshal(kinds[kind], v))
	}
	wrote := body[kernel.BuilderResult](b, kernel.KindBuilderResult)
	if d.Timestamp == "" || res.Exit != wrote.Exit || res.Stdout != wrote.Stdout || res.Stderr != wrote.Stderr || !slices.Equal(res.Argv, wrote.Argv) ||
		len(run.Checks) != 1 || !run.Checks[0].Passed {
		t.Errorf("dispatch at %q; builder %+v; checks %+v", d.Timestamp, res, run.Checks)
	}
	var rep report.Report
	must(t, json.Unmarshal([]byte(file(replay.FileReport)), &rep))
	if rep.FinalState != kernel.TaskCompleted || !rep.Verified || rep.DispatchHash != canon.Digest(hash) {
		t.Errorf("the report says %+v", rep)
	}
	r, err := replay.VerifyTask(t.Context(), b.repo, "refs/writ/task/1", replay.Options{Keys: []ssh.PublicKey{b.key}, World: b.place.cfg.World})
	if err != nil || !r.OK {
		t.Errorf("%v\n%s", err, r.Plain())
	}
}
