package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// trial is a request of the gateway's own to a provider. It needs the key and costs
// nothing; no program can make it.
type trial struct {
	Path string            `json:"path"`
	Head map[string]string `json:"head,omitempty"`
	// Refused are statuses by which the provider says that it doesn't take the key, beside
	// 401 and 402.
	Refused []int `json:"refused,omitempty"`
}

// ErrKey is that a provider was reached, and doesn't take the key.
var ErrKey = errors.New("the provider doesn't take the key")

// Try finds out whether a provider is reached as programs reach it through this gateway, and
// takes the key. An error that isn't [ErrKey] says that it isn't reached, or serves nobody
// now. That it forbids this one request (403), or doesn't know it (404), is none: there are
// keys for models alone, and proxies without a list of them.
func (s *Server) Try(ctx context.Context, r Rule) error {
	port := uint16(DefaultPort)
	if len(r.Ports) > 0 {
		port = r.Ports[0]
	}
	d := s.c.Decider.Decide(Ask{Host: r.Host, Port: port, Method: http.MethodPost})
	if d.Code != "" {
		return denied(d.Code, "the rules don't allow it")
	}
	if d.credential == nil || d.credential.API == nil || d.credential.API.Trial == nil {
		return nil
	}
	status, err := s.try(ctx, d, *d.credential.API.Trial)
	switch {
	case err != nil:
		return err
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, slices.Contains(d.credential.API.Trial.Refused, status):
		return fmt.Errorf("%w: it answers with the status %d", ErrKey, status)
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return fmt.Errorf("it answers with the status %d", status)
	}
	return nil
}

// try sends the request, and is the status of the answer.
func (s *Server) try(ctx context.Context, d Decision, t trial) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.Host+t.Path, http.NoBody)
	if err != nil {
		return 0, err
	}
	for name, value := range t.Head {
		req.Header.Set(name, value)
	}
	req.Header.Set("Accept-Encoding", "identity")
	x := &exchange{server: s}
	out, err := x.reach(ctx, d, d.Port)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer stop()
	answer, err := x.reverse(ctx, req, d, out)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
