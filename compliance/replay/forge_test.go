package replay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// TestR7_InstanceLies: the signer writes its whole ledger anew, chain,
// tree and signature, around one lie. What a record says must still follow from
// the others.
func TestR7_InstanceLies(t *testing.T) {
	x := completed(t)
	other := func(body map[string]any, key string) { body[key] = "sha256:" + strings.Repeat("0", 64) }
	in := func(body map[string]any, path ...string) map[string]any {
		for _, p := range path {
			body = body[p].(map[string]any)
		}
		return body
	}
	first := func(body map[string]any, key string) map[string]any { return body[key].([]any)[0].(map[string]any) }
	for _, c := range []struct {
		name  string
		kind  kernel.Kind // of the record that lies and is named
		nth   int
		check string
		edit  func(map[string]any)
	}{
		{"decision of another state", kernel.KindDecision, 4, "decisions", func(b map[string]any) { b["state"] = "blocked" }},
		{"decision without its reason", kernel.KindDecision, 1, "decisions", func(b map[string]any) { first(in(b, "reasons"), "children")["holds"] = false }},
		{"decision on other facts", kernel.KindDecision, 3, "decisions", func(b map[string]any) { other(b, "facts_hash") }},
		{"audit entry of other facts", kernel.KindAudit, 2, "audit", func(b map[string]any) { other(b, "params_hash") }},
		{"audit entry out of its chain", kernel.KindAudit, 3, "audit", func(b map[string]any) { other(b, "prev") }},
		{"audit entry of a change that can't be", kernel.KindAudit, 1, "audit", func(b map[string]any) { b["state_to"] = "EXECUTING" }},
		{"audit entry with another verdict", kernel.KindAudit, 2, "audit", func(b map[string]any) { b["decision"] = "DENY" }},
		{"intent of an effect that wasn't decided", kernel.KindIntent, 1, "effects", func(b map[string]any) { b["effect"] = "heartbeat" }},
		{"intent of another dispatch", kernel.KindIntent, 1, "effects", func(b map[string]any) { other(b, "digest") }},
		{"receipt of another state", kernel.KindReceipt, 2, "receipts", func(b map[string]any) { other(b, "snapshot_hash_before") }},
		{"plan of another spec", kernel.KindPlan, 0, "plan", func(b map[string]any) { other(b, "spec_hash") }},
		{"plan without a check", kernel.KindPlan, 0, "plan", func(b map[string]any) { b["invariants"] = []any{"scope", "message"} }},
		{"spec that nobody read so", kernel.KindSpec, 0, "plan", func(b map[string]any) { b["summary"] = "something else" }},
		{"builder that failed", kernel.KindBuilderResult, 0, "result", func(b map[string]any) { in(b, "result")["status"] = "failure" }},
		{"builder that ended otherwise", kernel.KindBuilderResult, 0, "result", func(b map[string]any) { in(b, "exit")["code"] = 1 }},
		{"check that failed", kernel.KindRunResult, 0, "result", func(b map[string]any) { first(b, "checks")["passed"] = false }},
		{"check that ran once", kernel.KindRunResult, 0, "result", func(b map[string]any) { first(b, "checks")["runs"] = 1 }},
		{"check that contradicted itself", kernel.KindRunResult, 0, "result", func(b map[string]any) { first(b, "checks")["stable"] = false }},
		{"check of another tree", kernel.KindRunResult, 0, "result", func(b map[string]any) { b["tree"] = strings.Repeat("1", 40) }},
		{"no check", kernel.KindRunResult, 0, "result", func(b map[string]any) { b["checks"] = []any{} }},
		{"diff with fewer changes", kernel.KindDiff, 0, "result", func(b map[string]any) { b["changes"] = b["changes"].([]any)[1:] }},
		{"diff of other bytes", kernel.KindDiff, 0, "change", func(b map[string]any) { other(first(b, "changes"), "after_hash") }},
		{"diff of another base", kernel.KindDiff, 0, "change", func(b map[string]any) { first(b, "changes")["before_id"] = strings.Repeat("1", 40) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := x.clone()
			y.t = t
			var seq int64
			y.forge(func(list []kernel.Record) []kernel.Record {
				seq = list[nth(list, c.kind, c.nth)].Seq
				return change(c.kind, c.nth, c.edit)(list)
			})
			r := y.verify()
			wantFailed(t, r, c.check)
			wantBad(t, r, seq, c.name)
			for _, name := range []string{"signature", "tree", "records", "proofs"} {
				if i := slices.IndexFunc(r.Checks, func(k Check) bool { return k.Name == name }); !r.Checks[i].OK {
					t.Errorf("the forgery itself is not sound: %s", r.Checks[i].Detail)
				}
			}
		})
	}
}

// TestR7_DiffIsMatchedAgain: a diff that breaks a rule, and says that it breaks none, is held
// against the rules again.
func TestR7_DiffIsMatchedAgain(t *testing.T) {
	x := completed(t)
	for says, edit := range map[string]func(map[string]any){
		"cmd/main.go: No allowed pattern covers it.": func(c map[string]any) { c["path"] = "cmd/main.go" },
		"calc/AGENTS.md: It is protected.":           func(c map[string]any) { c["path"] = "calc/AGENTS.md" },
		"budgets: The change is over its budget.":    func(c map[string]any) { c["size"] = 1 << 40 },
	} {
		y := x.clone()
		y.forge(change(kernel.KindDiff, 0, func(b map[string]any) { edit(b["changes"].([]any)[0].(map[string]any)) }))
		r := y.verify()
		wantFailed(t, r, "result")
		if !strings.Contains(r.Plain(), "Matched again, "+says) {
			t.Errorf("want %q in\n%s", says, r.Plain())
		}
	}
}

// TestR7_FactsMakeTheDecision: facts that were changed afterwards give
// another decision.
func TestR7_FactsMakeTheDecision(t *testing.T) {
	x := completed(t)
	x.forge(change(kernel.KindObservation, 4, func(b map[string]any) {
		b["run"].(map[string]any)["check_fails"] = []any{map[string]any{"code": "execution.check.failed", "detail": "", "subject": "test"}}
	}))
	wantFailed(t, x.verify(), "decisions", "audit")
}

// TestR7_FactsThatCanNotBe: facts that no kernel ever had are a fault of the
// evidence, and no crash of who reads it.
func TestR7_FactsThatCanNotBe(t *testing.T) {
	x := completed(t)
	var seq int64
	x.forge(func(list []kernel.Record) []kernel.Record {
		seq = list[nth(list, kernel.KindObservation, 4)].Seq
		return change(kernel.KindObservation, 4, func(b map[string]any) { b["run"].(map[string]any)["phase"] = "judged" })(list)
	})
	wantBad(t, x.verify(), seq, "judged without a judgement")
}

// TestE3_EffectsWithoutTheirRecords takes records out of a soundly forged
// ledger.
func TestE3_EffectsWithoutTheirRecords(t *testing.T) {
	x := completed(t)
	drop := func(kind kernel.Kind, n int) func([]kernel.Record) []kernel.Record {
		return func(list []kernel.Record) []kernel.Record {
			at := nth(list, kind, n)
			return slices.Delete(list, at, at+1)
		}
	}
	for _, c := range []struct {
		name   string
		edit   func([]kernel.Record) []kernel.Record
		checks []string
	}{
		{"no intent of the dispatch", drop(kernel.KindIntent, 1), []string{"effects", "audit"}},
		{"no outcome of the dispatch", drop(kernel.KindOutcome, 1), []string{"effects"}},
		{"outcome of nothing", change(kernel.KindOutcome, 1, func(b map[string]any) { b["key"] = "dispatch:other" }), []string{"effects"}},
		{"outcome of another effect", change(kernel.KindOutcome, 1, func(b map[string]any) { b["effect"] = "checks" }), []string{"effects"}},
		{"outcome twice", func(list []kernel.Record) []kernel.Record {
			at := nth(list, kernel.KindOutcome, 1)
			return slices.Insert(list, at, list[at])
		}, []string{"effects"}},
		{"no record of the dispatch", drop(kernel.KindDispatch, 0), []string{"dispatch", "effects"}},
		{"no intent of a heartbeat", drop(kernel.KindIntent, 2), []string{"effects"}},
		{"no observation", drop(kernel.KindObservation, 4), []string{"decisions"}},
		{"no decision", drop(kernel.KindDecision, 1), []string{"effects"}},
		{"no verdict", drop(kernel.KindDecision, 5), []string{"result"}},
		{"no audit entry before the effect", drop(kernel.KindAudit, 2), []string{"audit"}},
		{"no seed pack", drop(kernel.KindSeedPack, 0), []string{"seed_pack"}},
		{"no checks", drop(kernel.KindRunResult, 0), []string{"result"}},
		{"no diff", drop(kernel.KindDiff, 0), []string{"result", "change"}},
		{"no report", drop(kernel.KindReport, 0), []string{"report"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := x.clone()
			y.t = t
			y.forge(c.edit)
			wantFailed(t, y.verify(), c.checks...)
		})
	}
}

// TestE3_AnnouncedAgainThoughDone: only what the server did not do may be announced again.
func TestE3_AnnouncedAgainThoughDone(t *testing.T) {
	x := completed(t)
	x.forge(func(list []kernel.Record) []kernel.Record {
		at := nth(list, kernel.KindIntent, 2)
		for list[at].Kind != kernel.KindDecision {
			at--
		}
		done := nth(list, kernel.KindOutcome, 2) + 1
		return slices.Insert(list, done, list[at], list[nth(list, kernel.KindIntent, 2)], list[done-1])
	})
	for _, c := range x.verify().Checks {
		if c.Name == "effects" && !strings.Contains(c.Detail, "announced a second time") {
			t.Errorf("%s", c.Detail)
		}
	}
}

// TestE3_EffectWithoutAuditEntry: the machine's entries form a sound chain of
// their own, but none lets the dispatch begin (promise P6).
func TestE3_EffectWithoutAuditEntry(t *testing.T) {
	x := completed(t)
	x.forge(func(list []kernel.Record) []kernel.Record {
		at := nth(list, kernel.KindAudit, 6) // of the dispatch: IDLE, VALIDATING, ARBITRATING; 7th: into EXECUTING
		for ; !bytes.Contains(list[at].Body, []byte(`"state_to":"EXECUTING"`)); at++ {
		}
		list[at].Body = bytes.Replace(list[at].Body, []byte(`"state_to":"EXECUTING"`), []byte(`"state_to":"AUDITING"`), 1)
		for at++; !bytes.Contains(list[at].Body, []byte(`"state_from":"EXECUTING"`)); at++ {
		}
		return rechained(t, slices.Delete(list, at, at+1))
	})
	r := x.verify()
	wantFailed(t, r, "audit")
	for _, c := range r.Checks {
		if c.Name != "audit" && !c.OK {
			t.Errorf("%s failed, too: %s", c.Name, c.Detail)
		}
	}
}

// rechained numbers and links the task's audit entries anew.
func rechained(t *testing.T, list []kernel.Record) []kernel.Record {
	t.Helper()
	var last *machine.Entry
	for i, r := range list {
		if r.Kind != kernel.KindAudit || r.Task != testTask {
			continue
		}
		e, err := decoded[machine.Entry](r.Body)
		if err == nil && last != nil {
			e.Seq = last.Seq + 1
			e.Prev, err = last.Digest()
		}
		if err == nil {
			list[i].Body, err = canon.Marshal(*e)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	return list
}

// TestP5_SecondDispatch: one run has one dispatch.
func TestP5_SecondDispatch(t *testing.T) {
	x := completed(t)
	x.forge(func(list []kernel.Record) []kernel.Record {
		from, to := nth(list, kernel.KindObservation, 1), nth(list, kernel.KindObservation, 2)
		again := slices.Clone(list[from:to])
		for i := range again {
			again[i].Body = json.RawMessage(bytes.ReplaceAll(again[i].Body, []byte(`"dispatch:`), []byte(`"dispatch:again-`)))
		}
		return slices.Insert(list, to, again...)
	})
	wantFailed(t, x.verify(), "effects")
}

// TestR6_OtherWorlds: evidence of one world is none of another's, nor one
// task's another's.
func TestR6_OtherWorlds(t *testing.T) {
	x := completed(t)
	other := newStage(t, "example.test/team/beta", 1)
	y := other.sample(other.play(1, true, nil).from)
	if r := y.verify(); !r.OK {
		t.Fatalf("the other world's pack fails:\n%s", r.Plain())
	}
	wantFailed(t, Verify(y.pack, y.head, Options{World: testWorld}), "seed_pack", "records")
	for _, files := range [][]string{
		{FileRecords}, {FileRecords, FileProofs}, {FileRecords, FileProofs, FileCheckpoint}, {FileSeedPack}, {FileReport, FileMarkdown},
	} {
		z := x.clone()
		for _, name := range files {
			z.pack[name] = y.pack[name]
		}
		z.sign()
		if r := z.verify(); r.OK || r.FirstBad == nil {
			t.Errorf("%v of another world pass", files)
		}
	}
	x.head.Task = testTask + 1
	wantFailed(t, x.verify(), "seed_pack", "records")
}

// TestKeys_WhoSigned: a good signature says who, and not that somebody vouched.
func TestKeys_WhoSigned(t *testing.T) {
	x := completed(t)
	stranger := testKey(t, 2).SSHSigner().PublicKey()
	if r := x.verify(); !r.OK || r.Vouched || r.Signer != x.key.Fingerprint() || !strings.Contains(r.Plain(), "nobody vouched for this key") {
		t.Errorf("without keys: %+v", r)
	}
	r := Verify(x.pack, x.head, Options{Keys: []ssh.PublicKey{stranger}})
	wantFailed(t, r, "signature")
	if !slices.Contains(r.Codes, kernel.CodeLeaseUntrusted) {
		t.Errorf("codes %v, want %s", r.Codes, kernel.CodeLeaseUntrusted)
	}
	r = Verify(x.pack, x.head, Options{Keys: []ssh.PublicKey{stranger, x.key.SSHSigner().PublicKey()}})
	if !r.OK || !r.Vouched {
		t.Errorf("with the signer's key: %+v", r)
	}
	y := x.clone()
	y.key = testKey(t, 2)
	y.sign()
	wantFailed(t, y.verify(), "lease", "records", "proofs")
	y = x.clone()
	y.head.Commit = y.raw(y.head.Commit.Tree, y.head.Commit.Parents, string(y.head.Commit.Message), nil)
	wantFailed(t, y.verify(), "signature")
}

// TestChange_IsWhatWasChecked tampers with the delivered commit. The instance
// signs a HEAD that names the tampered one.
func TestChange_IsWhatWasChecked(t *testing.T) {
	x := completed(t)
	tree := x.head.Change.Tree.Entries
	file := func(path string) git.Entry { e, _ := x.head.Change.Tree.Find(path); return e }
	with := func(edit func(list []git.Entry) []git.Entry) func(*Snapshot) {
		return func(s *Snapshot) { s.Tree.Entries = edit(slices.Clone(tree)) }
	}
	message, parents := string(x.head.Change.Commit.Message), x.head.Change.Commit.Parents
	for _, c := range []struct {
		name string
		edit func(*Snapshot)
	}{
		{"extra file", with(func(l []git.Entry) []git.Entry {
			return append(l, git.Entry{Path: "calc/zz.go", Mode: git.ModeFile, OID: file("calc/add.go").OID})
		})},
		{"file left out", with(func(l []git.Entry) []git.Entry { return l[1:] })},
		{"deleted file kept", with(func(l []git.Entry) []git.Entry {
			return append(l, git.Entry{Path: "calc/old.go", Mode: git.ModeFile, OID: git.HashBlob([]byte(baseFiles["calc/old.go"]))})
		})},
		{"changed mode", with(func(l []git.Entry) []git.Entry { l[1].Mode = git.ModeExec; return l })},
		{"other bytes", with(func(l []git.Entry) []git.Entry { l[1].OID = git.HashBlob([]byte("other")); return l })},
		{"other parent", func(*Snapshot) { parents = []git.OID{x.head.Commit.OID} }},
		{"second parent", func(*Snapshot) { parents = []git.OID{x.stage.base, x.head.Commit.OID} }},
		{"no parent", func(*Snapshot) { parents = nil }},
		{"amended message", func(*Snapshot) { message += "\nCo-authored-by: somebody\n" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := x.clone()
			y.t = t
			message, parents = string(x.head.Change.Commit.Message), x.head.Change.Commit.Parents
			s := *x.head.Change
			c.edit(&s)
			slices.SortFunc(s.Tree.Entries, byPath)
			id, err := git.NewObjects().Tree(s.Tree.Entries)
			if err != nil {
				t.Fatal(err)
			}
			s.Commit = y.raw(id, parents, message, nil)
			old := string(x.head.Change.Commit.OID)
			y.head.Change = &s
			wantFailed(t, y.verify(), "change") // HEAD names another one
			y.signMessage(strings.ReplaceAll(string(x.head.Commit.Message), old, string(s.Commit.OID)))
			wantFailed(t, y.verify(), "change")
		})
	}
}

// TestChange_MustBeThere: what can't be read isn't vouched for.
func TestChange_MustBeThere(t *testing.T) {
	x := completed(t)
	for _, spoil := range []func(*sample){
		func(y *sample) { y.head.Change = nil },
		func(y *sample) { y.head.Base = nil },
		func(y *sample) { y.head.Blobs = nil },
		func(y *sample) {
			for id, data := range y.head.Blobs {
				y.head.Blobs[id] = append(bytes.Clone(data), '!')
			}
		},
		func(y *sample) { y.head.Base = &Snapshot{Commit: y.head.Change.Commit, Tree: y.head.Change.Tree} },
	} {
		y := x.clone()
		spoil(&y)
		wantFailed(t, y.verify(), "change")
	}
}

// TestD11_DispatchIsRebuilt: the claim is enough, the copy of the dispatch
// isn't needed; another one is found.
func TestD11_DispatchIsRebuilt(t *testing.T) {
	x := completed(t)
	y := x.clone()
	delete(y.pack, FileDispatch)
	y.sign()
	if r := y.verify(); !r.OK {
		t.Errorf("without dispatch.json:\n%s", r.Plain())
	}
	y.head.Leases = nil
	wantFailed(t, y.verify(), "lease", "dispatch")
	y = x.clone()
	y.head.Leases = nil // the dispatch's own words then
	r := y.verify()
	wantFailed(t, r, "lease")
	if i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "dispatch" }); !r.Checks[i].OK {
		t.Errorf("dispatch: %s", r.Checks[i].Detail)
	}
	y = x.clone()
	d, err := decoded[kernel.Dispatch](y.pack[FileDispatch])
	if err != nil {
		t.Fatal(err)
	}
	d.AllowedFiles = []string{"**/*.go"}
	if y.pack[FileDispatch], err = canon.Marshal(d); err != nil {
		t.Fatal(err)
	}
	y.signMessage(strings.ReplaceAll(string(x.head.Commit.Message), string(canon.Sum(x.pack[FileDispatch])), string(canon.Sum(y.pack[FileDispatch]))))
	wantFailed(t, y.verify(), "dispatch", "lease")
}
