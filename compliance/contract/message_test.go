package contract

import (
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

func TestMessage(t *testing.T) {
	c := Default()
	msg, faults := c.Message("Add handles negative numbers", 12, Trailer{"Writ-Task", "12"}, Trailer{"Writ-Run", "r\n1"})
	want := "writ: Add handles negative numbers (#12)\n\nWrit-Task: 12\nWrit-Run: r 1\n"
	if msg != want || len(faults) > 0 {
		t.Errorf("%q %v", msg, faults)
	}
}

func TestDefaultCommit(t *testing.T) {
	c := Default()
	if f := c.commitFindings(); c.Commit != defaultCommit || len(f) > 0 {
		t.Errorf("%+v: %v", c.Commit, f)
	}
}

func TestF2_HostileTitles(t *testing.T) {
	c := Default()
	for _, title := range []string{
		"Fixes #99", "closes: GH-99", "resolve org/repo#9", "Fixes https://x.example/o/r/issues/9", "implements !7", "[skip ci] x", "x [ci skip]",
		"***NO_CI***", "a\n\nSigned-off-by: X <x@x>", "a\r\nCo-authored-by: X <x@x>", "hey @org/all", "a\x1b[31mb", "a\u202eb", "{task} {title}",
		"Greet again, reverts commit " + strings.Repeat("a1", 20), "Reverts " + strings.Repeat("A1", 32), "reverted " + strings.Repeat("a1*", 20),
		"reverts !*9", "Reverts acme/shop#9", "fixes gh*-9",
		"", "   ", strings.Repeat("x", 10_000), "\xff\xfe", "`$(rm)`", "<!-- x -->", "skip-checks: true",
	} {
		msg, faults := c.Message(title, 7, Trailer{"Writ-Task", "7"})
		if len(faults) > 0 {
			t.Errorf("%q: %v", title, faults)
		}
		subject, _, _ := strings.Cut(msg, "\n")
		if len(subject) > MaxSubjectBytes || strings.Count(msg, "\n") != 3 || !strings.HasSuffix(subject, "(#7)") || strings.Count(msg, "#") != 1 {
			t.Errorf("%q became %q", title, msg)
		}
		if strings.ContainsAny(msg, "@[]*\x1b") {
			t.Errorf("%q became %q", title, msg)
		}
	}
}

func TestF2_CheckMessage(t *testing.T) {
	const pattern = `^writ: `
	for _, bad := range []string{
		"feat: x\n", "writ: Fixes #99\n", "writ: x\n\ncloses org/r#1\n", "writ: x\n\nResolves: GH-4\n", "writ: x\n\nFixes https://h/o/r/issues/1\n",
		"writ: x\n\nimplement !3\n", "writ: x [skip ci]\n", "writ: x\n\n[CI skip]\n", "writ: x [no ci]\n", "writ: x\n\n***NO_CI***\n", "writ: x\n\n\nskip-checks: true\n",
		"writ: this reverts commit " + strings.Repeat("a1", 20) + "\n", "writ: x\n\nReverts acme/shop#3\n", "writ: reverted: !3\n", "writ: x\n\nThis reverts merge request g/p!3\n",
		"writ: @all\n", "writ: x\n\nSigned-off-by: A <a@b>\n", "writ: x\n\nco-authored-by: A <a@b>\n", "writ: x\n\naynig-state: done\n",
		"writ: a\x1b[0m\n", "writ: a\u200bb\n", "", "\n", "writ: " + strings.Repeat("x", MaxSubjectBytes) + "\n", "writ: \xff\n",
	} {
		faults := CheckMessage(pattern, bad)
		if len(faults) == 0 {
			t.Errorf("%q passes", bad)
		}
		for _, f := range faults {
			if f.Code != kernel.CodeMessageInvalid {
				t.Errorf("%q: %v", bad, f)
			}
		}
	}
	for _, good := range []string{"writ: x (#9)\n", "writ: fix the prefix of issue 9\n\nWrit-Task: 9\n", "writ: a@b is an address\n", "writ: closes the gap (#12)\n"} {
		if faults := CheckMessage(pattern, good); len(faults) > 0 {
			t.Errorf("%q: %v", good, faults)
		}
	}
	if faults := CheckMessage("(", "x\n"); len(faults) == 0 {
		t.Error("a broken pattern passes")
	}
}

func TestF2_PatternAndTemplateAgree(t *testing.T) {
	for template, ok := range map[string]bool{
		"writ: {title} (#{task})": true, "feat: {title}": false, "writ: {title} #{task}": false, "writ: Fixes #{task} (#{task})": false,
		"writ: {titel} (#{task})": false, "writ: {} (#{task})": false, "writ: x} (#{task})": false, "writ: {title} [skip ci] (#{task})": false,
	} {
		text := "version: 1\ncommit: {template: '" + template + "'}\n"
		_, _, faults := Load([]byte(text), Source{Name: Path})
		if ok != (len(faults) == 0) {
			t.Errorf("%s: %v", template, faults)
		}
	}
}
