package approval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
)

// TestI14_ManyStrangers: who comments can't have the forge asked without end, and
// nobody counts about whom it wasn't asked. Those who were asked about are
// remembered, so that strangers don't keep an approval from counting for ever.
func TestI14_ManyStrangers(t *testing.T) {
	f := approved()
	f.Permissions = map[int64]forge.Permission{}
	for i := range int64(200) {
		f.Comments = append(f.Comments, says(100+i, forge.User{ID: 1000 + i, Login: "s", Kind: forge.Person}, 10+int(i), "/writ run"))
	}
	for round := range 10 {
		asked := 0
		for {
			id, ok := approval.Needs(f)
			if !ok {
				break
			}
			asked++
			f.Permissions[id] = rights[id]
		}
		if asked > 60 {
			t.Fatalf("the forge was asked %d times", asked)
		}
		v := approval.Judge(f)
		if !approval.TooMany(f) {
			if round < 3 || v.Act.Actor != ana || len(v.Violations) > 0 {
				t.Errorf("after %d rounds: %+v", round, v)
			}
			return
		}
		if len(v.Violations) == 0 {
			t.Errorf("approved by somebody nobody asked about: %+v", v)
		}
		f.Remembered = len(f.Permissions)
	}
	t.Error("the approval never counts")
}

// TestI6_CommandsToAnswer: writ's own words and those of strange bots are none.
func TestI6_CommandsToAnswer(t *testing.T) {
	f := approved()
	f.Permissions = map[int64]forge.Permission{ana.ID: forge.Admin, rita.ID: forge.Read}
	f.Comments = []forge.Comment{
		says(20, self, 2, "/writ run"), says(21, labeler, 2, "/writ run"), says(22, ana, 2, "good morning"),
		says(23, ana, 3, "/writ help"), says(24, rita, 4, "/writ frob"), says(25, release, 5, "/writ run"), says(26, tom, 6, "/writ stop"),
	}
	f.Comments[3].UpdatedAt = at(9)
	var got []string
	for _, a := range approval.Commands(f) {
		got = append(got, fmt.Sprintf("%d %s may=%v known=%v edited=%v", a.Comment, a.Command.Verb, a.May, a.Known, a.Edited))
	}
	want := []string{
		"23 help may=true known=true edited=true", "24 frob may=false known=true edited=false",
		"25 run may=true known=true edited=false", "26 stop may=false known=false edited=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("commands %q", got)
	}
}

// TestI14_StrangersAnHourEach: however often a stranger comments, he is answered
// once an hour, and nobody else waits for it.
func TestI14_StrangersAnHourEach(t *testing.T) {
	f := approved()
	f.Permissions = map[int64]forge.Permission{ana.ID: forge.Admin, rita.ID: forge.Read, tom.ID: forge.Triage}
	for i := range 150 {
		f.Comments = append(f.Comments, says(int64(100+i), rita, i*60, "/writ run"))
	}
	f.Comments = append(f.Comments, says(300, ana, 9000, "/writ run"), says(301, tom, 9000, "/writ run"))
	answered := func(now int) (out []int64) {
		for _, a := range approval.Owed(approval.Commands(f), at(now).UnixMilli()) {
			out = append(out, a.Comment)
		}
		return out
	}
	if got := answered(9001); len(got) != 3 || !slices.Equal(got[1:], []int64{300, 301}) {
		t.Errorf("answered are %v", got)
	}
	if got := answered(9000 + 3600); !slices.Equal(got, []int64{300}) {
		t.Errorf("an hour later, answered are %v", got)
	}
	if got := answered(9000 + 86_400); len(got) != 0 {
		t.Errorf("a day later, answered are %v", got)
	}
	f.Permissions = nil
	if got := approval.Unknown(approval.Commands(f), at(9001).UnixMilli()); !slices.Equal(got, []int64{tom.ID, ana.ID, rita.ID}) || len(answered(9001)) > 0 {
		t.Errorf("to be asked about: %v", got)
	}
}

func TestCommands(t *testing.T) {
	const hides = "Its text has parts that the page may not show; put them in backticks."
	long := "/writ run" + strings.Repeat(" ", 2100)
	for body, want := range map[string]approval.Command{
		"/writ run":                         {Verb: approval.Run},
		"/writ run\nbecause":                {Verb: approval.Run},
		"/writ   run \r\nmore":              {Verb: approval.Run},
		"/writ stop":                        {Verb: approval.Stop},
		"/writ reject":                      {Verb: approval.Stop, Reject: true},
		"/writ  Reject, it is wrong":        {Verb: approval.Stop, Reject: true, Loose: true},
		"/writ accept":                      {Verb: approval.Accept, Fault: "It needs the digest that writ names, and nothing else."},
		"/writ accept x":                    {Verb: approval.Accept, Fault: "Its digest is none: sha256: and 64 small hexadecimal digits."},
		"/writ stop, that is wrong":         {Verb: approval.Stop, Loose: true},
		"/writ stop please\r\nmore":         {Verb: approval.Stop, Loose: true},
		"/Writ Stop!":                       {Verb: approval.Stop, Loose: true},
		"/writ \tstop":                      {Verb: approval.Stop},
		"/writ\u00a0stop":                   {Verb: approval.Stop},
		"/writ stop" + long:                 {Verb: approval.Stop, Loose: true},
		"/writ stop\u200b":                  {Verb: approval.Stop, Loose: true},
		"/writ stopping":                    {Verb: "stopping", Fault: "There is no such command."},
		"/writ retry":                       {Verb: approval.Retry},
		"/writ retry\nit <b\u200b> failed":  {Verb: approval.Retry},
		"/writ retry  use\tthe  parser":     {Verb: approval.Retry, Text: "use the parser"},
		"/writ retry a\u200bb":              {Verb: approval.Retry, Fault: "Its text has characters that can't be seen."},
		"/writ retry a\xff":                 {Verb: approval.Retry, Fault: "Its text has characters that can't be seen."},
		"/writ retry use `<T>`\nlog <b":     {Verb: approval.Retry, Text: "use `<T>`"},
		"/writ retry use *a*\n\n<!-- b -->": {Verb: approval.Retry, Text: "use *a*"},
		"/writ retry a <!-- b -->":          {Verb: approval.Retry, Fault: hides},
		"/writ retry a <!-- b\nc -->":       {Verb: approval.Retry, Fault: hides},
		"/writ retry [a](b \"c\")":          {Verb: approval.Retry, Fault: hides},
		"/writ retry a&#8203;b":             {Verb: approval.Retry, Fault: hides},
		"/writ retry a $b$":                 {Verb: approval.Retry, Fault: hides},
		"/writ refresh":                     {Verb: approval.Refresh},
		"/writ refresh it":                  {Verb: approval.Refresh, Fault: "Nothing may follow it on the line."},
		"/writ explain":                     {Verb: approval.Explain},
		"/writ help":                        {Verb: approval.Help},
		"/writ help me":                     {Verb: approval.Help, Fault: "Nothing may follow it on the line."},
		long:                                {Fault: "Its line is too long."},
		"/writ approve " + string(digestA):  {Verb: approval.Approve, Digest: digestA},
		"/writ approve":                     {Verb: approval.Approve, Fault: "It needs the digest that writ names, and nothing else."},
		"/writ approve SHA256:" + strings.TrimPrefix(string(digestA), "sha256:"): {Verb: approval.Approve, Fault: "Its digest is none: sha256: and 64 small hexadecimal digits."},
		"/writ run please": {Verb: approval.Run, Fault: "Nothing may follow it on the line."},
		"/writ":            {Fault: "It names nothing to do."},
		"/writ frobnicate": {Verb: "frobnicate", Fault: "There is no such command."},
		"/writ label":      {Verb: "label", Fault: "There is no such command."},
	} {
		if got, ok := approval.ParseCommand(body); !ok || got != want {
			t.Errorf("%q: %+v %v", body, got, ok)
		}
	}
	for _, body := range []string{"", "hello\n/writ run", " /writ run", "> /writ run", "/writrun", "/WRIT run", "`/writ run`"} {
		if got, ok := approval.ParseCommand(body); ok {
			t.Errorf("%q is a command: %+v", body, got)
		}
	}
}
