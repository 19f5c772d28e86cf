package replay

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// put makes HEAD a commit with these files on the sample's, and reads it back.
func (x sample) put(files Pack, message string) sample {
	x.t.Helper()
	objs := git.NewObjects()
	parent := x.head.Commit.OID
	a := &attempt{stage: x.stage}
	head := x.stage.commit(objs, a.treeIn(objs, files), parent, []byte(message))
	x.stage.push(objs, git.Command{Ref: stateRef, Old: parent, New: head})
	return x.stage.sample(x.from)
}

// TestD52_NoticeSaysWhatHeadSays: a report at a HEAD that no run's pack belongs to is
// held against HEAD, and what it can't be held against is said.
func TestD52_NoticeSaysWhatHeadSays(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	head := canon.Sum([]byte("the last record"))
	trailers := []lease.Trailer{
		{Key: kernel.TrailerAttempt, Value: "2"}, {Key: kernel.TrailerInterruptions, Value: "1"}, {Key: kernel.TrailerLedgerHead, Value: string(head)},
		{Key: kernel.TrailerWaitingFor, Value: kernel.WaitRepair}, {Key: kernel.TrailerCodes, Value: string(kernel.CodeStateRollback)},
	}
	for name, c := range map[string]struct {
		lie  func(*report.Report)
		good bool
	}{
		"the truth":            {func(*report.Report) {}, true},
		"it waits for another": {func(r *report.Report) { r.WaitingFor = kernel.WaitApproval }, false},
		"it has ended":         {func(r *report.Report) { r.WaitingFor, r.FinalState = "", kernel.TaskRetryPending }, false},
		"it waits for nothing": {func(r *report.Report) { r.WaitingFor = "" }, false},
		"another code":         {func(r *report.Report) { r.Codes = []kernel.Code{kernel.CodeApprovalUnproven} }, false},
		"another attempt":      {func(r *report.Report) { r.Attempts = 1 }, false},
		"another interruption": {func(r *report.Report) { r.Interruptions = 0 }, false},
		"another ledger":       {func(r *report.Report) { r.LedgerHead = canon.Sum(nil) }, false},
		"a change":             {func(r *report.Report) { r.ChangeCommit = strings.Repeat("1", 40) }, false},
		"verified, and no less": {func(r *report.Report) {
			r.Dispatched, r.Verified, r.RunID, r.DispatchHash, r.WaitingFor, r.ChangeCommit = true, true, "x", head, kernel.WaitMerge, "1"
		}, false},
		"another dispatch": {func(r *report.Report) {
			r.Dispatched, r.RunID, r.DispatchHash = true, trailerOf(x.head.Commit, kernel.TrailerRun), head
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rep := report.Report{WaitingFor: kernel.WaitRepair, Codes: []kernel.Code{kernel.CodeStateRollback}, Attempts: 2, Interruptions: 1, LedgerHead: head}
			c.lie(&rep)
			y := x.clone()
			y.t, y.pack = t, s.notice(rep)
			said := slices.Clone(trailers)
			if rep.WaitingFor == "" && rep.FinalState == "" {
				said = slices.DeleteFunc(said, func(tr lease.Trailer) bool { return tr.Key == kernel.TrailerWaitingFor })
			}
			y.signMessage(s.event("waiting", string(y.pack[FileMarkdown]), said...))
			r := y.verify()
			if !c.good {
				if len(said) < len(trailers) {
					wantFailed(t, r, "head")
				} else {
					wantFailed(t, r, "report")
				}
				return
			}
			wantOK(t, r, kernel.TaskWaiting, EvidenceNone)
			if !strings.Contains(r.Plain(), "is not verified: no records belong to this state") {
				t.Errorf("it vouches for what it compared with nothing:\n%s", r.Plain())
			}
		})
	}
}

// TestR1_FilesOfAnotherState: a state has the files that something is held against;
// those of a commit below it, carried along, are named as not verified.
func TestR1_FilesOfAnotherState(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, false, nil).from)
	waits := s.event("waiting", "The server doesn't take it.\n", lease.Trailer{Key: kernel.TrailerWaitingFor, Value: kernel.WaitRule})
	for name := range known {
		y := x.clone()
		y.pack = Pack{name: []byte("{}")}
		y.signMessage(waits)
		if name != FileSeedPack && name != FileContract {
			wantFailed(t, y.verify(), "tree")
		}
	}
	y := x.clone()
	y.pack = maps.Clone(x.pack)
	y.pack[FileMerge] = []byte("{}")
	y.sign()
	wantFailed(t, y.verify(), "tree")

	below := x.head.Commit.OID
	y = x.put(x.pack, waits)
	r := y.verify()
	wantOK(t, r, kernel.TaskWaiting, EvidenceNone)
	if !strings.Contains(r.Plain(), "carried along from the commit "+string(below)) || strings.Contains(r.Plain(), "what was recorded") {
		t.Errorf("it vouches for what another commit says:\n%s", r.Plain())
	}
	z := y.put(s.notice(report.Report{WaitingFor: kernel.WaitRepair}), waits)
	wantFailed(t, z.verify(), "tree")
}

// TestR1_SealedWorkIsNotJudged: what lies sealed beside a lease is its manifest's, of
// the lease's dispatch, and nobody's verified work.
func TestR1_SealedWorkIsNotJudged(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	sealedAt := x.head.Leases[0]
	r := reader{ctx: t.Context(), repo: s.repo, head: HeadInfo{Task: testTask, Ref: stateRef}}
	s.must(r.read(sealedAt.OID))
	y := sample{t, s, x.from, s.key, r.pack, r.head}
	rep := y.verify()
	wantOK(t, rep, kernel.TaskClaimed, EvidenceNone)
	if !strings.Contains(rep.Plain(), "nobody has judged it yet") {
		t.Errorf("sealed work is vouched for:\n%s", rep.Plain())
	}
	m := *newVerifier(y.pack, y.head, Options{}).sealed
	m.Dispatch.Instruction += "And more.\n"
	data, err := m.Encode()
	s.must(err)
	z := y.clone()
	z.pack[FileSealed] = data
	wantFailed(t, z.verify(), "dispatch")

	ev, err := eventOf(sealedAt)
	s.must(err)
	stalled, err := lease.Stalled(ev, lease.Break{Extra: append(s.stamp(), lease.Trailer{Key: kernel.TrailerApproval, Value: trailer(ev, kernel.TrailerApproval)})})
	s.must(err)
	z = y.clone()
	z.signMessage(string(stalled))
	wantOK(t, z.verify(), kernel.TaskOpen, EvidenceNone)
	for name := range z.pack {
		if strings.HasPrefix(name, "sealed/") {
			z.pack[name] = []byte("another content")
		}
	}
	z.signMessage(string(stalled))
	wantFailed(t, z.verify(), "tree")
}

// TestP5_RunOfTheResult: HEAD tells of the run that its lease was claimed for, also
// where there is no result.
func TestP5_RunOfTheResult(t *testing.T) {
	x := completed(t)
	run := trailerOf(x.head.Commit, kernel.TrailerRun)
	message := string(x.head.Commit.Message)
	for name, says := range map[string]string{
		"another run": strings.Replace(message, "writ-run-id: "+run, "writ-run-id: 5"+run[1:], 1),
		"no run":      strings.Replace(message, "writ-run-id: "+run+"\n", "", 1),
	} {
		y := x.clone()
		y.signMessage(says)
		if r := y.verify(); says == message || r.OK {
			t.Errorf("%s:\n%s", name, r.Plain())
		}
	}
}

// TestD52_ResultsBelow: results below HEAD are named, each once, whoever stands above
// them.
func TestD52_ResultsBelow(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	const says = "another result below, not verified here"
	if r := verified(t, s, Options{}); len(r.Results) != 0 || strings.Contains(r.Plain(), says) {
		t.Errorf("HEAD is named as below itself:\n%s", r.Plain())
	}
	first := string(x.head.Commit.OID)
	s.signer = git.NewSigner(testKey(t, 2).SSHSigner())
	x = x.put(x.pack, string(x.head.Commit.Message)) // by another key
	second := string(x.head.Commit.OID)
	x.put(Pack{}, s.event("waiting", "", lease.Trailer{Key: kernel.TrailerWaitingFor, Value: kernel.WaitRepair}))
	r := verified(t, s, Options{})
	if len(r.Results) != 2 || r.Results[0].Commit != second || r.Results[1].Commit != first || r.Results[0].Signer == r.Results[1].Signer ||
		strings.Count(r.Plain(), says) != 2 {
		t.Errorf("results below HEAD: %+v\n%s", r.Results, r.Plain())
	}
	s.signer = git.NewSigner(s.key.SSHSigner())
	last := s.sample(x.from)
	last.put(Pack{}, string(x.head.Commit.Message))
	if r := verified(t, s, Options{}); len(r.Results) != 1 {
		t.Errorf("one result is named twice: %+v", r.Results)
	}
}
