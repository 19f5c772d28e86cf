package github

import (
	"context"
	"fmt"
	"net/http"
	"time"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Delivery is a webhook delivery of the App that nobody has taken.
type Delivery struct {
	GUID       string
	Event      string
	Action     string
	Repository int64 // 0 for none
	At         time.Time
	Status     int    // HTTP; 0 if the receiver could not be reached
	Why        string // in GitHub's words
}

// maxDeliveryPages bounds how far back is looked, in hundreds.
const maxDeliveryPages = 20

// ErrMoreDeliveries says that there are more than are looked at.
var ErrMoreDeliveries = fmt.Errorf("more than %d deliveries since then", maxDeliveryPages*pageSize)

// FailedDeliveries lists the deliveries since a time that were not answered with
// success, nor were when they were delivered again; latest first. GitHub keeps
// them for three days and delivers none again by itself. With
// [ErrMoreDeliveries] come those that were found among the latest.
func (h *Host) FailedDeliveries(ctx context.Context, since time.Time) ([]Delivery, error) {
	const op = "list the App's failed deliveries"
	if h.key == nil {
		return nil, &forge.Error{Reason: forge.Unauthorized, Op: op}
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Lane: transport.Sweep})
	client := h.api(h.asApp())
	taken := map[string]bool{}
	var out []Delivery
	o := &api.ListCursorOptions{PerPage: pageSize}
	for range maxDeliveryPages {
		got, res, err := client.Apps.ListHookDeliveries(ctx, o)
		if err != nil {
			return nil, fail(op, transport.Read, err)
		}
		for _, d := range got {
			switch {
			case d.GetID() <= 0:
				return nil, fail(op, transport.Read, odd("a delivery without an id"))
			case d.GetDeliveredAt().Time.Before(since):
				return out, nil
			case d.GetStatusCode() >= http.StatusOK && d.GetStatusCode() < http.StatusMultipleChoices:
				taken[d.GetGUID()] = true
			case !taken[d.GetGUID()]:
				taken[d.GetGUID()] = true // one line for each
				out = append(out, Delivery{
					GUID: d.GetGUID(), Event: d.GetEvent(), Action: d.GetAction(), Repository: d.GetRepositoryID(),
					At: d.GetDeliveredAt().Time, Status: d.GetStatusCode(), Why: d.GetStatus(),
				})
			}
		}
		if res.Cursor == "" {
			return out, nil
		}
		o.Cursor = res.Cursor
	}
	return out, &forge.Error{Reason: forge.Invalid, Op: op, Err: ErrMoreDeliveries}
}

// AppHook is where GitHub sends the App's webhooks.
type AppHook struct {
	URL         string // "": nowhere
	ContentType string // json or form
	Insecure    bool   // the receiver's certificate is not verified
}

// AppHook asks where the App's webhooks go. A personal token has none:
// Unauthorized.
func (h *Host) AppHook(ctx context.Context) (AppHook, error) {
	const op = "ask where the App's webhooks go"
	if h.key == nil {
		return AppHook{}, &forge.Error{Reason: forge.Unauthorized, Op: op}
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Live: true})
	client := h.api(h.asApp())
	req, err := client.NewRequest(http.MethodGet, "app/hook/config", nil)
	if err != nil {
		return AppHook{}, fail(op, transport.Read, err)
	}
	var c struct {
		URL         string `json:"url"`
		ContentType string `json:"content_type"`
		Insecure    any    `json:"insecure_ssl"` // "1" or 1
	}
	_, err = client.Do(ctx, req, &c)
	if err = fail(op, transport.Read, err); forge.IsReason(err, forge.NotFound) {
		return AppHook{}, nil // an App that never had one
	}
	if err != nil {
		return AppHook{}, err
	}
	return AppHook{URL: c.URL, ContentType: c.ContentType, Insecure: fmt.Sprint(c.Insecure) == "1"}, nil
}
