package forgetest

import (
	"context"

	"github.com/writbot/writ/forge"
)

// snapshot is an issue as it was, for the reads that still come from a replica.
type snapshot struct {
	left     int
	issue    forge.Issue
	history  []forge.Event
	comments []forge.Comment
}

// Stale takes the issue as it is now, and answers the next reads of it (Issue,
// History, Comments, its entry in ListIssues) from that copy, as a replica does
// that lags behind. reads counts them all together.
func (f *Faults) Stale(ctx context.Context, r forge.Repo, number int64, reads int) error {
	issue, err := f.inner.Issue(ctx, r, number)
	if err != nil {
		return err
	}
	history, err := f.inner.History(ctx, r, number)
	if err != nil {
		return err
	}
	comments, err := f.inner.Comments(ctx, r, number)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale[issueKey{r.ID, number}] = &snapshot{reads, issue, history, comments}
	return nil
}

// replica returns the copy that answers this read, nil if the forge itself does.
func (f *Faults) replica(r forge.Repo, number int64) *snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stale[issueKey{r.ID, number}]
	if s == nil || s.left == 0 {
		return nil
	}
	s.left--
	return s
}
