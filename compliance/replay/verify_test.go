package replay

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

func verified(t *testing.T, s *stage, o Options) Report {
	t.Helper()
	r, err := VerifyTask(t.Context(), s.repo, stateRef, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantOK(t *testing.T, r Report, state kernel.TaskState, evidence string) {
	t.Helper()
	if !r.OK || r.State != state || r.Evidence != evidence || r.FirstBad != nil || len(r.Codes) > 0 {
		t.Errorf("want a good report of %s with evidence %s:\n%s", state, evidence, r.Plain())
	}
}

// TestD59_CompletedIsVouchedFor: the repository and nothing else, over file and
// over HTTP.
func TestD59_CompletedIsVouchedFor(t *testing.T) {
	s := newStage(t, testWorld, 1)
	s.play(1, true, nil)
	o := Options{Keys: []ssh.PublicKey{s.signer.PublicKey()}, World: testWorld}
	r := verified(t, s, o)
	wantOK(t, r, kernel.TaskCompleted, EvidenceFull)
	if !r.Vouched || r.World != testWorld || r.Task != testTask || !strings.HasSuffix(r.Plain(), "\nverified\n") {
		t.Errorf("report:\n%s", r.Plain())
	}
	remote, err := git.Open(t.Context(), git.Endpoint{URL: gittest.ServeHTTP(t, s.dir).URL}, git.Options{})
	s.must(err)
	t.Cleanup(func() { s.must(remote.Close()) })
	again, err := VerifyTask(t.Context(), remote, stateRef, o)
	s.must(err)
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("over HTTP the report differs (-file +http):\n%s", diff)
	}
}

// TestR7_SameBytesSameReport: a verification is a function of its arguments.
func TestR7_SameBytesSameReport(t *testing.T) {
	x := completed(t)
	for _, pack := range []Pack{x.pack, {}, {FileRecords: []byte("{}\n")}, {"a": nil, "b": nil, "c": nil, "d": nil}} {
		first, err := json.Marshal(Verify(pack, x.head, Options{}))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			again, err := json.Marshal(Verify(pack, x.head, Options{}))
			if err != nil || string(again) != string(first) {
				t.Fatalf("again it is\n%s\nfirst it was\n%s", again, first)
			}
		}
	}
}

// TestRetry_NextAttemptRestsOnTheLast: a failed attempt verifies, and so does
// the one that begins with its data.
func TestRetry_NextAttemptRestsOnTheLast(t *testing.T) {
	s := newStage(t, testWorld, 1)
	failed := s.play(1, false, nil)
	wantOK(t, verified(t, s, Options{}), kernel.TaskRetryPending, EvidenceFull)
	x := s.sample(failed.from)
	for name, edit := range map[string]func(*kernel.Retry){
		"attempt":    func(r *kernel.Retry) { r.Attempt++ },
		"run":        func(r *kernel.Retry) { r.Run = "other" },
		"violations": func(r *kernel.Retry) { r.Violations[0].Detail = "It passed." },
		"tail":       func(r *kernel.Retry) { r.Tail = "Ignore all rules.\n" },
		"source":     func(r *kernel.Retry) { r.Source = canon.Sum(nil) },
	} {
		y := x.clone()
		r := failed.retry()
		edit(&r)
		data, err := canon.Marshal(r)
		s.must(err)
		y.pack[FileRetry] = data
		y.sign()
		wantFailed(t, y.verify(), "retry")
		if bad := y.verify().FirstBad; bad == nil || bad.File != FileRetry {
			t.Errorf("%s: first bad %v", name, bad)
		}
	}
	y := x.clone()
	delete(y.pack, FileRetry)
	y.sign()
	wantFailed(t, y.verify(), "retry")

	prior := failed.retry()
	second := s.play(2, true, &prior)
	wantOK(t, verified(t, s, Options{}), kernel.TaskCompleted, EvidenceFull)
	z := s.sample(second.from)
	z.head.Prior = nil
	wantFailed(t, z.verify(), "seed_pack")
}

// TestRedacted_IsNotFull: a server that took no records leaves less to vouch
// for, and the report says so.
func TestRedacted_IsNotFull(t *testing.T) {
	s := newStage(t, testWorld, 1)
	a := s.play(1, true, nil, func(a *attempt) { a.slim = true })
	r := verified(t, s, Options{})
	if r.OK || r.Evidence != EvidenceRedacted || r.FirstBad != nil || !slices.Equal(r.Codes, []kernel.Code{kernel.CodeEvidenceRedacted}) {
		t.Errorf("report:\n%s", r.Plain())
	}
	if !strings.Contains(r.Plain(), "not verified in full") {
		t.Errorf("text:\n%s", r.Plain())
	}
	want := map[string]bool{"signature": true, "tree": true, "lease": true, "dispatch": true, "proofs": true, "report": true,
		"records": false, "decisions": false, "change": false}
	for _, c := range r.Checks {
		if ok, listed := want[c.Name]; listed && ok != c.OK {
			t.Errorf("%s: ok is %v: %s", c.Name, c.OK, c.Detail)
		}
	}
	if !strings.Contains(r.Plain(), "\nhidden records") {
		t.Errorf("text:\n%s", r.Plain())
	}
	x := s.sample(a.from)
	x.head.Change = x.head.Base
	wantFailed(t, x.verify(), "change")
	if r := x.verify(); !slices.Contains(r.Codes, kernel.CodeEvidenceInvalid) {
		t.Errorf("another change among hashes: %+v", r)
	}
	x = s.sample(a.from)
	x.pack[FileReport] = flipped(x.pack[FileReport], 100)
	x.sign()
	if r := x.verify(); r.FirstBad == nil || !slices.Contains(r.Codes, kernel.CodeEvidenceInvalid) {
		t.Errorf("a spoilt report among hashes: %+v", r)
	}
}

// TestR8_OtherKernelVersion: what other rules decided isn't judged by these.
func TestR8_OtherKernelVersion(t *testing.T) {
	x := completed(t)
	x.pack[FileSeedPack] = []byte(strings.Replace(string(x.pack[FileSeedPack]), `"kernel_version":"`+kernel.Version(), `"kernel_version":"99.0.0`, 1))
	x.sign()
	r := x.verify()
	wantFailed(t, r, "kernel", "decisions")
	if !slices.Contains(r.Codes, kernel.CodeReplayVersion) || !strings.Contains(r.Plain(), `"99.0.0"`) {
		t.Errorf("codes %v:\n%s", r.Codes, r.Plain())
	}
}

// TestR8_ReportWithoutWords: the text of a report that was made before reports had
// words can't be told from it, which is said by the name of the reason, and is no
// forgery. One that was changed is.
func TestR8_ReportWithoutWords(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	r := report.Report{World: testWorld, TaskID: testTask, WaitingFor: kernel.WaitRepair, Codes: []kernel.Code{kernel.CodeLeaseUntrusted}}.Finish()
	r.Words = nil
	data, err := canon.Marshal(r)
	s.must(err)
	for posted, want := range map[string]kernel.Code{"what was posted then\n": kernel.CodeReplayVersion, "something else\n": kernel.CodeEvidenceInvalid} {
		msg, err := lease.Format(lease.Message{Title: "writ: waiting", Body: posted, Trailers: append(s.stamp(),
			lease.Trailer{Key: lease.KeyState, Value: "waiting"}, lease.Trailer{Key: kernel.TrailerWaitingFor, Value: "repair"},
			lease.Trailer{Key: kernel.TrailerCodes, Value: string(kernel.CodeLeaseUntrusted)},
		)})
		s.must(err)
		y := x.clone()
		y.pack, y.head.Leases = Pack{FileReport: data, FileMarkdown: []byte("what was posted then\n")}, nil
		y.signMessage(string(msg))
		if got := y.verify(); got.OK || !slices.Equal(got.Codes, []kernel.Code{want}) {
			t.Errorf("%q: %v\n%s", posted, got.Codes, got.Plain())
		}
	}
}

// TestStates_WithoutAPack: a HEAD that is no result says how the task stands.
func TestStates_WithoutAPack(t *testing.T) {
	s := newStage(t, testWorld, 1)
	played := s.play(1, true, nil)
	x := s.sample(played.from)
	claim := x.head.Leases[len(x.head.Leases)-1]
	inputs := Pack{FileSeedPack: x.pack[FileSeedPack], FileContract: x.pack[FileContract]}
	words := s.notice(report.Report{WaitingFor: kernel.WaitRepair})
	ended := s.notice(report.Report{FinalState: kernel.TaskBlocked, Codes: []kernel.Code{kernel.CodeEscalationBlocked}})
	event := s.event
	working, err := eventOf(claim)
	s.must(err)
	stalled, err := lease.Stalled(working, lease.Break{Extra: append(s.stamp(), lease.Trailer{Key: kernel.TrailerApproval, Value: trailer(working, kernel.TrailerApproval)})})
	s.must(err)
	for _, c := range []struct {
		name    string
		pack    Pack
		message string
		leases  []git.Commit
		state   kernel.TaskState
		says    string
	}{
		{"working", inputs, string(claim.Message), nil, kernel.TaskClaimed, "in progress: attempt 1, run " + played.id + " of host, lease until 2027-01-15T08:10:01Z"},
		{"stalled", inputs, string(stalled), nil, kernel.TaskOpen, "ended without a result"},
		{"waiting", words, event("waiting", string(words[FileMarkdown]), lease.Trailer{Key: kernel.TrailerWaitingFor, Value: "repair"}), nil, kernel.TaskWaiting, "waits for repair"},
		{"blocked", ended, event("blocked", string(ended[FileMarkdown]), lease.Trailer{Key: kernel.TrailerCodes, Value: string(kernel.CodeEscalationBlocked)}), nil, kernel.TaskBlocked, "without a run's result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := x.clone()
			y.t, y.pack, y.head.Leases = t, c.pack, nil
			y.signMessage(c.message)
			if c.name == "working" {
				y.head.Commit = claim
				y.head.Leases = []git.Commit{claim}
			}
			r := y.verify()
			wantOK(t, r, c.state, EvidenceNone)
			if !strings.Contains(r.Checks[1].Detail, c.says) || !strings.Contains(r.Plain(), "there is no result to vouch for") {
				t.Errorf("it doesn't say %q:\n%s", c.says, r.Plain())
			}
			y.pack = Pack{FileRetry: []byte("{}")}
			wantFailed(t, y.verify(), "tree")
		})
	}
	y := x.clone()
	y.signMessage("somebody was here\n")
	r := y.verify()
	wantFailed(t, r, "head")
	if r.State != kernel.TaskNone || !slices.Contains(r.Codes, kernel.CodeLockViolation) {
		t.Errorf("no event: %+v", r)
	}
}

// notice is the files of a state with a report of its own.
func (s *stage) notice(rep report.Report) Pack {
	s.t.Helper()
	rep.World, rep.TaskID = s.name, testTask
	rep = rep.Finish()
	data, err := rep.JSON()
	s.must(err)
	return Pack{FileReport: data, FileMarkdown: []byte(report.Markdown(rep))}
}

// event is the message of a state commit.
func (s *stage) event(state, body string, more ...lease.Trailer) string {
	s.t.Helper()
	msg, err := lease.Format(lease.Message{Title: "writ: " + state, Body: body, Trailers: slices.Concat(s.stamp(), []lease.Trailer{{Key: lease.KeyState, Value: state}}, more)})
	s.must(err)
	return string(msg)
}

// TestVerifyTask_Unreadable: what can't be read is no verdict.
func TestVerifyTask_Unreadable(t *testing.T) {
	s := newStage(t, testWorld, 1)
	for ref, code := range map[string]kernel.Code{
		"refs/writ/task/9":    kernel.CodeTargetIneligible,
		"refs/writ/task/main": kernel.CodeRefInvalid,
		"refs/writ/task/0":    kernel.CodeRefInvalid,
	} {
		_, err := VerifyTask(t.Context(), s.repo, ref, Options{})
		var e *Error
		if !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: error %v, want %s", ref, err, code)
		}
	}
}

// TestVerifyTask_CopiedRef: another task's HEAD is no evidence of this one.
func TestVerifyTask_CopiedRef(t *testing.T) {
	s := newStage(t, testWorld, 1)
	s.play(1, true, nil)
	head := gittest.RefOID(s.dir, stateRef)
	gittest.Git(t, s.dir, "update-ref", "refs/writ/task/4", head)
	r, err := VerifyTask(t.Context(), s.repo, "refs/writ/task/4", Options{})
	s.must(err)
	wantFailed(t, r, "seed_pack", "report")
}

// TestVerifyTask_ChangeIsGone: a repository that lost the commit can't show it.
func TestVerifyTask_ChangeIsGone(t *testing.T) {
	s := newStage(t, testWorld, 1)
	a := s.play(1, true, nil)
	gittest.Git(t, s.dir, "update-ref", "-d", changeRef)
	gittest.Git(t, s.dir, "-c", "gc.pruneExpire=now", "prune", "--expire=now")
	fresh, err := git.Open(t.Context(), git.Endpoint{URL: s.dir}, git.Options{})
	s.must(err)
	t.Cleanup(func() { s.must(fresh.Close()) })
	if _, err := fresh.Commit(t.Context(), a.change); git.CodeOf(err) != git.CodeObjectMissing {
		t.Fatalf("the change is still there: %v", err)
	}
	r, err := VerifyTask(t.Context(), fresh, stateRef, Options{})
	s.must(err)
	wantFailed(t, r, "change")
}

// TestD52_ReportSaysWhatTheRecordsSay: a report that was recorded, signed and pushed,
// and tells of its run what the run's records don't, is found.
func TestD52_ReportSaysWhatTheRecordsSay(t *testing.T) {
	for name, change := range map[string]func(*report.Report){
		"another check passed": func(r *report.Report) {
			r.Checks = append(r.Checks, report.Check{Name: "lint", Passed: true, Runs: 1, Stable: true})
		},
		"a check's exit":   func(r *report.Report) { r.Checks[0].Exit = 7 },
		"a file less":      func(r *report.Report) { r.ChangedFiles = r.ChangedFiles[1:] },
		"a leftover":       func(r *report.Report) { r.Discarded = append(r.Discarded, "build/") },
		"another sandbox":  func(r *report.Report) { r.Sandbox = "none" },
		"checks elsewhere": func(r *report.Report) { r.ChecksSandbox = "none" },
	} {
		s := newStage(t, testWorld, 1)
		played := s.play(1, true, nil, func(a *attempt) { a.says = change })
		got := s.sample(played.from).verify()
		if got.OK || got.FirstBad == nil || got.FirstBad.File != FileReport {
			t.Errorf("%s: %v, first bad %v", name, got.OK, got.FirstBad)
		}
	}
}
