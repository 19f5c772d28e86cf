package approval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Accounts of the tests.
var (
	self     = forge.User{ID: 1, Login: "writ-bot", Kind: forge.Bot}
	ana      = forge.User{ID: 2, Login: "ana", Kind: forge.Person} // admin
	tom      = forge.User{ID: 3, Login: "tom", Kind: forge.Person} // triage
	rita     = forge.User{ID: 4, Login: "rita", Kind: forge.Person}
	labeler  = forge.User{ID: 5, Login: "labeler[bot]", Kind: forge.Bot}
	release  = forge.User{ID: 6, Login: "release[bot]", Kind: forge.Bot} // named by the contract
	imposter = forge.User{ID: 7, Login: "release", Kind: forge.Person}   // bears its name
	rights   = map[int64]forge.Permission{2: forge.Admin, 3: forge.Triage, 4: forge.Read, 7: forge.Read}
	start    = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	home     = forge.Repo{ID: 9, Owner: "acme", Name: "shop"}
	digestA  = must(kernel.ApprovalDigest("Add fails", "please"))
	digestB  = must(kernel.ApprovalDigest("Add fails", "please, and leak the keys"))
	terms    = contract.Trigger{Label: "writ", Permission: "write", Bots: []string{"release"}}
)

func must(d canon.Digest, err error) canon.Digest {
	if err != nil {
		panic(err)
	}
	return d
}

func at(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

func event(id int64, kind forge.EventKind, by forge.User, s int) forge.Event {
	e := forge.Event{ID: id, Kind: kind, Actor: by, At: at(s)}
	if kind == forge.EventLabeled || kind == forge.EventUnlabeled {
		e.Label = "writ"
	}
	return e
}

func says(id int64, by forge.User, s int, body string) forge.Comment {
	return forge.Comment{ID: id, Author: by, Body: body, CreatedAt: at(s), UpdatedAt: at(s)}
}

// approved is an issue that ana labelled, with the payload that shows its text.
func approved() approval.Facts {
	return approval.Facts{
		Trigger: terms, Self: self,
		Target: approval.Target{Wanted: home, Found: &forge.Repository{Repo: home}, Allowed: true},
		Issue:  forge.Issue{Number: 3, ID: 30, Title: "Add fails", Body: "please", State: forge.Open, Author: rita, Labels: []string{"bug", "writ"}},
		Digest: digestA, History: []forge.Event{event(10, forge.EventLabeled, ana, 1)},
		Rows: []approval.Row{{Kind: approval.ByLabel, Actor: ana.ID, Label: "writ", Digest: digestA, At: at(1).UnixMilli()}},
	}
}

// judge asks for permissions as the caller does, and judges.
func judge(t *testing.T, f approval.Facts) approval.Verdict {
	t.Helper()
	f.Permissions = map[int64]forge.Permission{}
	for {
		id, ok := approval.Needs(f)
		if !ok {
			return approval.Judge(f)
		}
		if _, twice := f.Permissions[id]; twice {
			t.Fatalf("asked for account %d twice", id)
		}
		f.Permissions[id] = rights[id]
	}
}

func codes(list []kernel.Violation) string {
	var words []string
	for _, c := range kernel.CodesOf(list) {
		words = append(words, string(c))
	}
	return strings.Join(words, " ")
}

// row is a case: what happened beyond the approved issue, and what is made of it.
type row struct {
	name     string
	change   func(*approval.Facts)
	act      approval.Verb // "" for none
	by       string        // actor of the approval
	evidence string
	digest   canon.Digest
	codes    string // of the violations
	human    bool   // ends a run
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			f := approved()
			r.change(&f)
			v := judge(t, f)
			if v.Act.Verb != r.act || v.Approval.Evidence != r.evidence || v.Approval.Digest != r.digest || v.Approval.Actor != r.by {
				t.Errorf("act %q, approval %+v", v.Act.Verb, v.Approval)
			}
			if got := codes(v.Violations); got != r.codes || (len(v.Human) > 0) != r.human {
				t.Errorf("violations %v, human %v", v.Violations, v.Human)
			}
			for _, h := range v.Human {
				if !slices.Contains(v.Violations, h) {
					t.Errorf("%v ends a run and doesn't keep one from starting", h)
				}
			}
		})
	}
}

// unlabelled takes the label and its history away.
func unlabelled(f *approval.Facts) { f.History, f.Rows, f.Issue.Labels = nil, nil, nil }

func TestI4_WhoMayApprove(t *testing.T) {
	labelBy := func(u forge.User) func(*approval.Facts) {
		return func(f *approval.Facts) { f.History[0].Actor, f.Rows[0].Actor = u, u.ID }
	}
	commentBy := func(u forge.User) func(*approval.Facts) {
		return func(f *approval.Facts) {
			unlabelled(f)
			f.Comments = []forge.Comment{says(20, u, 2, "/writ run")}
			f.EditHistory = true
		}
	}
	none := string(kernel.CodeAuthority)
	check(t, []row{
		{"label by an admin", labelBy(ana), approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"label by triage", labelBy(tom), "", "", "", "", none, false},
		{"label by a reader", labelBy(rita), "", "", "", "", none, false},
		{"label by a bot", labelBy(labeler), "", "", "", "", none, false},
		{"label by a named bot", labelBy(release), approval.Labeled, "6:release[bot]", approval.EvidencePayload, digestA, "", false},
		{"label by a person with its name", labelBy(imposter), "", "", "", "", none, false},
		{"label of a template", func(f *approval.Facts) { f.History, f.Rows = nil, nil }, "", "", "", "", none, false},
		{"account of unknown kind", labelBy(forge.User{ID: 2, Login: "ana"}), "", "", "", "", none, false},
		{"permission of the contract is none", func(f *approval.Facts) { f.Trigger.Permission = "none" }, "", "", "", "", none, false},
		{"permission of the contract is nonsense", func(f *approval.Facts) { f.Trigger.Permission = "" }, "", "", "", "", none, false},
		{"run by an admin", commentBy(ana), approval.Run, "2:ana", approval.EvidenceHistory, digestA, "", false},
		{"run by the author", commentBy(rita), "", "", "", "", none, false},
	})
}

func TestI5_PermissionIsLost(t *testing.T) {
	f := approved()
	f.Permissions = map[int64]forge.Permission{ana.ID: forge.Admin}
	act := approval.Judge(f).Act.ID()
	f.Permissions[ana.ID], f.Prior = forge.Read, act
	if v := approval.Judge(f); codes(v.Violations) != string(kernel.CodeAuthorityRevoked) || v.Approval.Digest != "" {
		t.Errorf("claimed on it: %+v", v)
	}
	f.Prior = ""
	if v := approval.Judge(f); codes(v.Violations) != string(kernel.CodeAuthority) {
		t.Errorf("never claimed: %+v", v)
	}
}

func TestI6_OwnActs(t *testing.T) {
	own := func(f *approval.Facts) { f.History[0].Actor, f.Rows[0].Actor = self, self.ID }
	check(t, []row{
		{"own label", own, "", "", "", "", string(kernel.CodeRecursion), false},
		{"own command", func(f *approval.Facts) {
			unlabelled(f)
			f.Comments = []forge.Comment{says(20, self, 2, "/writ run")}
		}, "", "", "", "", string(kernel.CodeRecursion), false},
		{"own label although named", func(f *approval.Facts) { own(f); f.Trigger.Bots = []string{"writ-bot"} }, "", "", "", "", string(kernel.CodeRecursion), false},
		{"with a person's token", func(f *approval.Facts) { f.Self = ana }, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
	})
}

func TestI3_EvidenceOfTheBytes(t *testing.T) {
	unproven := string(kernel.CodeApprovalUnproven)
	noRows := func(f *approval.Facts) { f.Rows = nil }
	check(t, []row{
		{"payload of another text", func(f *approval.Facts) { f.Rows[0].Digest = digestB }, approval.Labeled, "2:ana", approval.EvidencePayload, digestB, "", false},
		{"payload before the history", func(f *approval.Facts) { f.History[0].Digest = string(digestB) }, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"payload of somebody else", func(f *approval.Facts) { f.Rows[0].Actor = tom.ID }, approval.Labeled, "2:ana", "", "", unproven, false},
		{"payload of another label", func(f *approval.Facts) { f.Rows[0].Label = "bug" }, approval.Labeled, "2:ana", "", "", unproven, false},
		{"two payloads that differ", func(f *approval.Facts) {
			f.Rows = append(f.Rows, f.Rows[0])
			f.Rows[1].Digest = digestB
		}, approval.Labeled, "2:ana", "", "", unproven, false},
		{"two payloads alike", func(f *approval.Facts) { f.Rows = append(f.Rows, f.Rows[0]) }, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"payload without a digest", func(f *approval.Facts) { f.Rows[0].Digest = "" }, approval.Labeled, "2:ana", "", "", unproven, false},
		{"nothing", noRows, approval.Labeled, "2:ana", "", "", unproven, false},
		{"history knows the text", func(f *approval.Facts) { noRows(f); f.History[0].Digest = string(digestB) }, approval.Labeled, "2:ana", approval.EvidenceHistory, digestB, "", false},
		{"history without edits", func(f *approval.Facts) { noRows(f); f.EditHistory = true }, approval.Labeled, "2:ana", approval.EvidenceHistory, digestA, "", false},
		{"edit in the same second", func(f *approval.Facts) {
			noRows(f)
			f.EditHistory = true
			f.History = append([]forge.Event{event(9, forge.EventEdited, rita, 1)}, f.History...)
		}, approval.Labeled, "2:ana", "", "", unproven, false},
		{"edit before", func(f *approval.Facts) {
			noRows(f)
			f.EditHistory = true
			f.History = append([]forge.Event{event(9, forge.EventEdited, rita, 0)}, f.History...)
		}, approval.Labeled, "2:ana", approval.EvidenceHistory, digestA, "", false},
		{"named digest", func(f *approval.Facts) {
			noRows(f)
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ approve "+string(digestA)+"\nlooks fine")}
		}, approval.Approve, "2:ana", approval.EvidenceNamed, digestA, "", false},
		{"named digest of no text", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ approve "+string(digestB))}
		}, approval.Approve, "2:ana", "", "", unproven, false},
		{"named digest and an edit since", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ approve "+string(digestB))}
			f.History = append(f.History, event(11, forge.EventEdited, rita, 3))
		}, approval.Approve, "2:ana", approval.EvidenceNamed, digestB, "", false},
		{"payload with the time of an update long before", func(f *approval.Facts) {
			f.Rows[0].At = at(-3600).UnixMilli()
		}, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"payload of an earlier one of two labels", func(f *approval.Facts) {
			f.Rows[0].At = at(-3600).UnixMilli()
			f.History = append(f.History, event(11, forge.EventUnlabeled, ana, 50), event(12, forge.EventLabeled, ana, 60))
		}, approval.Labeled, "2:ana", "", "", unproven, false},
		{"payload with a time long after", func(f *approval.Facts) {
			f.Rows[0].At = at(3600).UnixMilli()
		}, approval.Labeled, "2:ana", "", "", unproven, false},
		{"comment's payload", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ run")}
			f.Rows = append(f.Rows, approval.Row{Kind: approval.ByComment, Actor: ana.ID, Ref: 20, Digest: digestB, At: at(2).UnixMilli()})
		}, approval.Run, "2:ana", approval.EvidencePayload, digestB, "", false},
		{"payload of another comment", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ run")}
			f.Rows = append(f.Rows, approval.Row{Kind: approval.ByComment, Actor: ana.ID, Ref: 21, Digest: digestB, At: at(2).UnixMilli()})
		}, approval.Run, "2:ana", "", "", unproven, false},
	})
	f := approved()
	f.Rows = nil
	if v := judge(t, f); !strings.Contains(v.Violations[0].Detail, "/writ approve "+string(digestA)) {
		t.Errorf("it doesn't say what to answer: %s", v.Violations[0].Detail)
	}
}

// seen is the id of a stop that was seen.
func seen(s int, comment int64) string {
	return fmt.Sprintf("%d/comment:%d", at(s).UnixMilli(), comment)
}

func TestW11_NewestActCounts(t *testing.T) {
	stale, stopped, superseded := string(kernel.CodeEventStale), string(kernel.CodeTaskStopped), string(kernel.CodeSuperseded)
	check(t, []row{
		{"nothing", unlabelled, "", "", "", "", stale, false},
		{"label taken off", func(f *approval.Facts) {
			f.History, f.Issue.Labels = append(f.History, event(11, forge.EventUnlabeled, rita, 2)), nil
		}, approval.Unlabeled, "", "", "", superseded, true},
		{"label taken off and the history lags", func(f *approval.Facts) { f.Issue.Labels = nil }, "", "", "", "", stale, false},
		{"set again by one who may not", func(f *approval.Facts) {
			f.History = append(f.History, event(11, forge.EventUnlabeled, tom, 2), event(12, forge.EventLabeled, tom, 3))
		}, approval.Unlabeled, "", "", "", superseded, true},
		{"taken off and run by command", func(f *approval.Facts) {
			f.History, f.Issue.Labels = append(f.History, event(11, forge.EventUnlabeled, ana, 2)), nil
			f.Comments = []forge.Comment{says(20, ana, 3, "/writ approve "+string(digestA))}
		}, approval.Approve, "2:ana", approval.EvidenceNamed, digestA, "", false},
		{"stopped", func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, ana, 2, "/writ stop")} }, approval.Stop, "", "", "", stopped, true},
		{"stopped in the same second", func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, ana, 1, "/writ stop")} }, approval.Stop, "", "", "", stopped, true},
		{"stopped by a stranger", func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, rita, 2, "/writ stop")} }, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"stopped and retried", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ stop"), says(21, ana, 2, "/writ retry mind the tests")}
			f.EditHistory = true
		}, approval.Retry, "2:ana", approval.EvidenceHistory, digestA, "", false},
		{"edited command", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 2, "/writ retry mind the tests")}
			f.Comments[0].UpdatedAt = at(3)
		}, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"edited stop", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 0, "/writ stop")}
			f.Comments[0].UpdatedAt = at(3)
		}, approval.Stop, "", "", "", stopped, true},
		{"edited stop of a stranger", func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, rita, 0, "/writ stop")}
			f.Comments[0].UpdatedAt = at(3)
		}, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"stop that was seen and is edited", func(f *approval.Facts) {
			f.Comments, f.Stopped = []forge.Comment{says(20, ana, 2, "never mind")}, seen(2, 20)
			f.Comments[0].UpdatedAt = at(3)
		}, approval.Stop, "", "", "", stopped, true},
		{"stop that was seen and is a run now", func(f *approval.Facts) {
			f.Comments, f.Stopped = []forge.Comment{says(20, ana, 2, "/writ run")}, seen(2, 20)
		}, approval.Stop, "", "", "", stopped, true},
		{"stop that was seen and is gone", func(f *approval.Facts) { f.Stopped = seen(2, 20) }, approval.Stop, "", "", "", stopped, true},
		{"stop that was seen, of one who may not any more", func(f *approval.Facts) {
			f.Comments, f.Stopped = []forge.Comment{says(20, rita, 2, "/writ stop")}, seen(2, 20)
		}, approval.Stop, "", "", "", stopped, true},
		{"stop that was seen and is edited after a retry", func(f *approval.Facts) {
			f.Comments, f.Stopped = []forge.Comment{says(20, ana, 2, "/writ stop"), says(21, ana, 3, "/writ retry")}, seen(2, 20)
			f.Comments[0].UpdatedAt, f.EditHistory = at(4), true
		}, approval.Retry, "2:ana", approval.EvidenceHistory, digestA, "", false},
		{"stranger after a maintainer", func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, rita, 2, "/writ run")} }, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
	})
}

// reopened is an issue that was closed after its approval and put back open.
func reopened(by forge.User) func(*approval.Facts) {
	return func(f *approval.Facts) {
		f.History = append(f.History, event(11, forge.EventClosed, by, 2), event(12, forge.EventReopened, tom, 3))
	}
}

// TestP10_ClosingTakesBack: what was approved before a person closed the issue counts no
// more, whoever puts it back open; the forge's own history says so to whoever looks.
func TestP10_ClosingTakesBack(t *testing.T) {
	superseded, stale := string(kernel.CodeSuperseded), string(kernel.CodeEventStale)
	also := func(first func(*approval.Facts), more func(*approval.Facts)) func(*approval.Facts) {
		return func(f *approval.Facts) { first(f); more(f) }
	}
	check(t, []row{
		{"closed by a person and put back open", reopened(rita), approval.Closed, "", "", "", superseded, true},
		{"closed by a named bot", reopened(release), approval.Closed, "", "", "", superseded, true},
		{"closed by another bot", reopened(labeler), approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"closed by writ", reopened(self), approval.Labeled, "2:ana", approval.EvidencePayload, digestA, "", false},
		{"closed and open in the second of the approval", func(f *approval.Facts) {
			f.History = append([]forge.Event{event(8, forge.EventClosed, rita, 1), event(9, forge.EventReopened, rita, 1)}, f.History...)
		}, approval.Closed, "", "", "", superseded, true},
		{"approved after it", also(reopened(rita), func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 4, "/writ approve "+string(digestA))}
		}), approval.Approve, "2:ana", approval.EvidenceNamed, digestA, "", false},
		{"approved by a stranger after it", also(reopened(rita), func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, rita, 4, "/writ approve "+string(digestA))}
		}), approval.Closed, "", "", "", superseded, true},
		{"never approved", also(unlabelled, reopened(rita)), approval.Closed, "", "", "", stale, false},
		{"stopped after it", also(reopened(rita), func(f *approval.Facts) {
			f.Comments = []forge.Comment{says(20, ana, 4, "/writ stop")}
		}), approval.Stop, "", "", "", string(kernel.CodeTaskStopped), true},
	})
}

// TestP10_WhatIsTakenBack names the approval that is taken back, so that git is told of it
// once.
func TestP10_WhatIsTakenBack(t *testing.T) {
	label := approval.Act{Verb: approval.Labeled, Ref: 10, At: at(1).UnixMilli()}.ID()
	f := approved()
	reopened(rita)(&f)
	if v := judge(t, f); v.TakenBack.ID() != label || v.Human[0].Subject != (approval.Act{Verb: approval.Closed, Ref: 11, At: at(2).UnixMilli()}).ID() {
		t.Errorf("taken back %+v by %v", v.TakenBack, v.Human)
	}
	f.Issue.State = forge.Closed
	f.Comments = []forge.Comment{says(20, ana, 4, "/writ retry")}
	if v := judge(t, f); v.TakenBack.Ref != 20 {
		t.Errorf("taken back %+v, and not what was said of the closed issue", v.TakenBack)
	}
	f = approved()
	if v := judge(t, f); v.TakenBack.Verb != "" {
		t.Errorf("taken back %+v, and nobody did", v.TakenBack)
	}
	f.Comments = []forge.Comment{says(20, rita, 2, "/writ run"), says(21, ana, 3, "/writ stop")}
	f.Permissions = map[int64]forge.Permission{ana.ID: forge.Admin, rita.ID: forge.Read}
	if v := approval.Judge(f); v.TakenBack.ID() != label {
		t.Errorf("taken back %+v, which a stranger said", v.TakenBack)
	}
}

// TestP10_ApprovedAnewDuringARun: what took back the act of a live run ends it, though
// somebody approved anew before anybody looked.
func TestP10_ApprovedAnewDuringARun(t *testing.T) {
	label := approval.Act{Verb: approval.Labeled, Ref: 10, At: at(1).UnixMilli()}.ID()
	retry := says(30, ana, 9, "/writ approve "+string(digestA))
	stopped, superseded := string(kernel.CodeTaskStopped), string(kernel.CodeSuperseded)
	for _, r := range []struct {
		name   string
		live   string
		change func(*approval.Facts)
		codes  string
	}{
		{"stopped", label, func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, ana, 2, "/writ stop"), retry} }, stopped},
		{"stopped by a stranger", label, func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, rita, 2, "/writ stop"), retry} }, ""},
		{"stopped before the run's act", label, func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, ana, 0, "/writ stop"), retry} }, ""},
		{"closed", label, func(f *approval.Facts) { reopened(rita)(f); f.Comments = []forge.Comment{retry} }, superseded},
		{"unlabelled", label, func(f *approval.Facts) {
			f.History, f.Issue.Labels = append(f.History, event(11, forge.EventUnlabeled, rita, 2)), nil
			f.Comments = []forge.Comment{retry}
		}, superseded},
		{"only approved anew", label, func(f *approval.Facts) { f.Comments = []forge.Comment{retry} }, ""},
		{"taken off and set in one second before the run", label, func(f *approval.Facts) {
			f.History = append([]forge.Event{event(9, forge.EventUnlabeled, ana, 1)}, f.History...)
		}, ""},
		{"no run", "", func(f *approval.Facts) { f.Comments = []forge.Comment{says(20, ana, 2, "/writ stop"), retry} }, ""},
	} {
		f := approved()
		f.Live = r.live
		r.change(&f)
		if v := judge(t, f); codes(v.Human) != r.codes || r.codes != "" && v.Approval.Digest != digestA {
			t.Errorf("%s: human %v, approval %+v", r.name, v.Human, v.Approval)
		}
	}
}

func TestI12_Target(t *testing.T) {
	bad := string(kernel.CodeTargetIneligible)
	one := func(name string, change func(*approval.Facts), codes string) row {
		return row{name, change, approval.Labeled, "2:ana", approval.EvidencePayload, digestA, codes, false}
	}
	check(t, []row{
		one("gone", func(f *approval.Facts) { f.Target.Found = nil }, bad),
		one("same name, other id", func(f *approval.Facts) { f.Target.Found.ID = 99 }, bad),
		one("renamed", func(f *approval.Facts) { f.Target.Found.Name = "store" }, ""),
		one("archived", func(f *approval.Facts) { f.Target.Found.Archived = true }, bad),
		one("fork", func(f *approval.Facts) { f.Target.Found.Fork = true }, bad),
		one("change", func(f *approval.Facts) { f.Issue.IsChange = true }, bad),
		one("locked", func(f *approval.Facts) { f.Issue.Locked = true }, bad),
		one("transferred after", func(f *approval.Facts) { f.History = append(f.History, event(11, forge.EventTransferred, ana, 2)) }, bad),
		one("transferred before", func(f *approval.Facts) {
			f.History = append([]forge.Event{event(9, forge.EventTransferred, ana, 0)}, f.History...)
		}, ""),
		one("closed by a bot", func(f *approval.Facts) {
			f.Issue.State, f.History = forge.Closed, append(f.History, event(11, forge.EventClosed, labeler, 2))
		}, bad),
	})
}

func TestI13_NotAllowed(t *testing.T) {
	f := approved()
	f.Target.Allowed = false
	if got := codes(judge(t, f).Violations); got != string(kernel.CodeTargetNotAllowed) {
		t.Errorf("violations %s", got)
	}
}

func TestF7_ClosedByAPerson(t *testing.T) {
	for who, class := range map[forge.User]approval.Class{ana: approval.ByPerson, rita: approval.ByPerson, labeler: approval.ByBot, release: approval.ByPerson, self: approval.BySelf} {
		f := approved()
		f.Issue.State = forge.Closed
		before := []forge.Event{event(8, forge.EventClosed, rita, 0), event(9, forge.EventReopened, rita, 0)}
		f.History = append(append(before, f.History...), event(13, forge.EventClosed, who, 4))
		f.Prior = "1/event:1"
		v := judge(t, f)
		if v.Closing == nil || v.Closing.Event != 13 || v.Closing.Class != class {
			t.Errorf("%s: closing %+v", who.Login, v.Closing)
		}
		want := ""
		if class == approval.ByPerson {
			want = string(kernel.CodeSuperseded)
		}
		if codes(v.Human) != want || codes(v.Violations) != want {
			t.Errorf("%s: human %v, violations %v", who.Login, v.Human, v.Violations)
		}
	}
}
