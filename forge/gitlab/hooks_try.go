package gitlab

import (
	"context"
	"fmt"
	"net/http"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// TryHook has GitLab send a sample of a push to a hook now. What the receiver
// answered is among the deliveries, a moment later; GitLab refuses more than five
// tries a minute.
func (h *Host) TryHook(ctx context.Context, r forge.Repo, hook int64) error {
	w := editing("try the hook of %s", r)
	_, err := h.ask(ctx, w, http.MethodPost, fmt.Sprintf("projects/%d/hooks/%d/test/push_events", r.ID, hook), nil, nil)
	return err
}

// LastDelivery is the newest that GitLab remembers; the zero one for none. It
// needs GitLab 17.3; before, it is NotFound.
func (h *Host) LastDelivery(ctx context.Context, r forge.Repo, hook int64) (HookDelivery, error) {
	w := reading("list the deliveries of a hook of %s", r).live()
	got, _, err := list[HookDelivery](ctx, h, w, fmt.Sprintf("projects/%d/hooks/%d/events", r.ID, hook), gitlab.ListOptions{PerPage: 1})
	if err != nil || len(got) == 0 {
		return HookDelivery{}, err
	}
	return got[0], nil
}
