package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// TestL18_VerifyNamesACopy: evidence that is whole and signed says of itself where
// it belongs, so that a copy of the ref is named without being asked for a world.
func TestL18_VerifyNamesACopy(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	for name, c := range map[string]struct {
		copied func(*HeadInfo, *Options)
		check  string
	}{
		"to another ref":   {func(h *HeadInfo, _ *Options) { h.Ref = "refs/heads/writ/task/3" }, "binding"},
		"to another task":  {func(h *HeadInfo, _ *Options) { h.Task, h.Ref = 4, "refs/writ/task/4" }, "binding"},
		"to another world": {func(_ *HeadInfo, o *Options) { o.World = "example.test/team/victim" }, "binding"},
	} {
		h, o := x.head, Options{}
		c.copied(&h, &o)
		r := Verify(x.pack, h, o)
		if r.OK || len(r.Codes) == 0 || !strings.Contains(fmt.Sprint(r.Codes), string(kernel.CodeStateForeign)) {
			t.Errorf("%s: %v %v", name, r.OK, r.Codes)
		}
		if first, _, _ := strings.Cut(r.Plain(), "\n"); !strings.Contains(first, testWorld) || strings.Contains(first, "nobody vouched") != (o.World == "") {
			t.Errorf("%s: the first line is %q", name, first)
		}
	}
}

// TestL18_VerifyWantsAStamp: a commit that doesn't say where it belongs, or says it
// twice, or whose lease belongs elsewhere, is not verified.
func TestL18_VerifyWantsAStamp(t *testing.T) {
	s := newStage(t, testWorld, 1)
	x := s.sample(s.play(1, true, nil).from)
	head := string(x.head.Commit.Message)
	world := kernel.TrailerWorld + ": " + testWorld + "\n"
	for name, message := range map[string]string{
		"no world":        strings.Replace(head, world, "", 1),
		"two worlds":      strings.Replace(head, world, world+world, 1),
		"in another case": strings.Replace(head, world, world+strings.ToUpper(kernel.TrailerWorld)+": elsewhere\n", 1),
		"another format":  strings.Replace(head, kernel.TrailerFormat+": 1", kernel.TrailerFormat+": 2", 1),
		"no number":       strings.Replace(head, kernel.TrailerSeq+": ", kernel.TrailerSeq+": 0", 1),
		"another world":   strings.Replace(head, world, kernel.TrailerWorld+": elsewhere\n", 1),
		"another issue":   strings.Replace(head, kernel.TrailerIssue+": 2031 ", kernel.TrailerIssue+": 2032 ", 1),
	} {
		if message == head {
			t.Fatalf("%s: nothing was changed", name)
		}
		y := x.clone()
		y.signMessage(message)
		wantFailed(t, y.verify(), "binding")
	}
}
