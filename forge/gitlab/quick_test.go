package gitlab

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writbot/writ/forge"
)

// hostile are texts that GitLab would execute something of.
var hostile = []string{
	"/close",
	"/close\n\nand more",
	"Done.\n/close",
	"Done.\r\n/close\r\n",
	"Done.\n\r/close",
	"Done.\n/clo\rse",
	"Done.\n/CLOSE  ",
	"\n\n/label ~writ\n/title gone",
	"```\n/label ~writ\n```\n/close",
	"~~~\n/close\n~~~",
	"````\n/close\n````",
	"```go\n/close", // never ends
	"<details>\n\n/close\n\n</details>",
	">>>\n/lock\n>>>\n/lock",
	"* a\n/reopen\n/unlabel ~bug\n/relabel ~writ\n/confidential",
	" /close\n  /close\n/ close\n//close",
	"<!-- writ:report run=0198 -->\n/close",
	"/shrug\n/tableflip",
}

// TestF1_QuickActions: nothing that writ posts is executed, wherever it is put,
// and it is found again as it was sent.
func TestF1_QuickActions(t *testing.T) {
	w := newWorld(t)
	ctx, bot := t.Context(), w.bot
	for n, text := range hostile {
		i := w.file(t)
		c := must[forge.Comment](t)(bot.AddComment(ctx, w.repo, i.Number, text))
		sent := strings.TrimRight(strings.ReplaceAll(text, "\r", ""), " \n")
		found := func(what string) {
			t.Helper()
			all := w.comments(t, i.Number)
			if len(all) != 1 || all[0].ID != c.ID || all[0].Body != sent {
				t.Errorf("%s %q was found as %+v", what, text, all)
			}
		}
		found("comment")
		ok(t, bot.EditComment(ctx, w.repo, c.ID, "harmless"))
		ok(t, bot.EditComment(ctx, w.repo, c.ID, text))
		found("edited comment")

		change := w.change(t, "writ/change/"+string(rune('a'+n)), "Fix it", text)
		ok(t, bot.EditChange(ctx, w.repo, change.Number, "Fix it", "harmless"))
		ok(t, bot.EditChange(ctx, w.repo, change.Number, "Fix it", text))
		if got := must[forge.Change](t)(bot.FindChange(ctx, w.repo, change.Head, "")); got.Body != sent || change.Body != sent || got.State != forge.ChangeOpen {
			t.Errorf("change %q was found as %+v", text, got)
		}
		now := w.issue(t, i.Number)
		if now.State != forge.Open || len(now.Labels) > 0 || now.Title != i.Title || now.Locked {
			t.Errorf("after %q the issue is %+v", text, now)
		}
	}
	if got := w.Executed(); len(got) > 0 {
		t.Errorf("executed: %q", got)
	}
}

// TestF1_TheFakeExecutes: the same texts do harm when they are sent as they are.
func TestF1_TheFakeExecutes(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"Done.\n/close", "Done.\n\r/clo\rse", "```go\n/close", "~~~\n/close\n~~~"} {
		i := w.file(t)
		must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, text))
		if got := w.issue(t, i.Number).State; got != forge.Closed {
			t.Errorf("after %q the issue is %s", text, got)
		}
	}
	i := w.file(t)
	must[forge.Comment](t)(w.owner.AddComment(t.Context(), w.repo, i.Number, "```\n/close\n```"))
	if got := w.issue(t, i.Number).State; got != forge.Open {
		t.Errorf("code was executed: the issue is %s", got)
	}
}

// TestF1_OthersText: what somebody else wrote is read as he wrote it.
func TestF1_OthersText(t *testing.T) {
	w := newWorld(t)
	i := must[forge.Issue](t)(w.owner.FileIssue(t.Context(), w.repo, "A path", "see\n /usr/bin"))
	must[forge.Comment](t)(w.reader.AddComment(t.Context(), w.repo, i.Number, " /writ run"))
	if got := w.comments(t, i.Number)[0].Body; got != " /writ run" {
		t.Errorf("a stranger's comment is read as %q", got)
	}
	if i.Body != "see\n /usr/bin" {
		t.Errorf("an issue is read as %q", i.Body)
	}
}

// TestF1_QuietAndLoud: no line of what is sent begins with a slash, nothing but
// one space is put in front of any, and it is all taken back.
func TestF1_QuietAndLoud(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"/", " ", "\n", "\r", "close", "`", "~", ">", "\t", "\u00a0", "é"})).Draw(t, "text"), "")
		sent, plain := quiet(text), strings.ReplaceAll(text, "\r", "")
		if slices.ContainsFunc(strings.Split(sent, "\n"), func(l string) bool { return strings.HasPrefix(l, "/") }) || strings.Contains(sent, "\r") {
			t.Fatalf("%q is sent as %q", text, sent)
		}
		if got := loud(sent); got != plain {
			t.Fatalf("%q came back as %q", plain, got)
		}
		if strings.Count(sent, "\n") != strings.Count(plain, "\n") || strings.ReplaceAll(sent, " ", "") != strings.ReplaceAll(plain, " ", "") {
			t.Fatalf("%q is sent as %q: more than a space was added", text, sent)
		}
	})
}
