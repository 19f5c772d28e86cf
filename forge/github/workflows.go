package github

import (
	"context"
	"time"

	"github.com/writbot/writ/forge"
)

// workflowsAge is how long what an installation may do with workflows is believed.
const workflowsAge = 10 * time.Minute

// workflows is what was heard last.
type workflows struct {
	may  bool
	seen time.Time
}

// Workflows reports whether writ's pushes may change workflows: an App needs a permission
// of its own for that, which [Needed] doesn't have. What a personal token may do GitHub doesn't tell; it says so at the
// push. Once this has said that they may, git's tokens are made for it.
func (h *Host) Workflows(ctx context.Context, r forge.Repo) (bool, error) {
	if h.key == nil {
		return true, nil
	}
	now := h.now()
	h.mu.Lock()
	known, there := h.workflows[r.ID]
	h.mu.Unlock()
	if there && now.Sub(known.seen) < workflowsAge {
		return known.may, nil
	}
	p, err := h.place(ctx, "find "+r.String(), r)
	if err != nil {
		return false, err
	}
	held, err := h.Held(ctx, p.about.Repo)
	if err != nil {
		return false, err
	}
	may := held.Permissions["workflows"] == "write"
	h.mu.Lock()
	h.workflows[r.ID] = workflows{may, now}
	h.mu.Unlock()
	return may, nil
}
