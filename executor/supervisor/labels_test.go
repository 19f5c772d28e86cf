package supervisor

import (
	"slices"
	"testing"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
)

// TestF4_OnlyTheLabelThatIsSet: a fresh repository is not made to offer all of
// writ's labels before the first is shown: writes are taken one a second, and its
// first task would wait for them.
func TestF4_OnlyTheLabelThatIsSet(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	for _, c := range f.scene.Bot.Calls(forgetest.On(forgetest.EnsureLabels)) {
		if len(c.Texts) != 2 { // name and description of one
			t.Errorf("made at once: %q", c.Texts)
		}
	}
	offered := f.scene.Fake.Labels(f.scene.Repo)
	if !slices.Contains(offered, kernel.LabelCompleted) || slices.Contains(offered, kernel.LabelBlocked) || slices.Contains(offered, kernel.LabelRetryPending) {
		t.Errorf("the repository offers %q", offered)
	}
	must(t, f.task.tracker.setLabel(t.Context(), kernel.LabelCompleted))
	calls := f.scene.Bot.Calls(forgetest.Any())
	if last := calls[len(calls)-2:]; last[0].Op == forgetest.EnsureLabels || last[1].Op != forgetest.AddLabel {
		t.Errorf("a label that was made is looked for again: %v", last)
	}
}
