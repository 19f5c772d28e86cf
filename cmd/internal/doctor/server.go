package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// maxReady bounds what is read of an answer, in bytes.
const maxReady = 1 << 20

// readiness is what /readyz answers.
type readiness struct {
	Ready    bool `json:"ready"`
	Draining bool `json:"draining"`
	Checks   []struct {
		Name   string `json:"name"`
		OK     bool   `json:"ok"`
		Reason string `json:"reason"`
	} `json:"checks"`
}

// server asks the one that runs at the configured address, if there is one.
func (h *house) server(ctx context.Context) result {
	address := Nearest(h.Config.Server.ProbesAt())
	url := "http://" + address + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return bad("Mend server.listen or server.probes.", "%s can't be asked.", url)
	}
	// Past any proxy: it is this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return skipped("No writ serve runs at %s (server.probes, or else server.listen).", address)
	}
	if err != nil {
		return bad("See the server's log, and whether its configuration is this one.", "The server at %s doesn't answer: %s.", address, plain(errors.Unwrap(err)))
	}
	defer res.Body.Close()
	var ready readiness
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReady))
	if err == nil {
		err = json.Unmarshal(body, &ready)
	}
	if err != nil {
		return bad("See what else listens there, or give another server.listen or server.probes.", "%s is no server of writ's: it answers %d.", url, res.StatusCode)
	}
	return ready.judge(address)
}

func (r readiness) judge(address string) result {
	var failing []string
	for _, c := range r.Checks {
		if !c.OK {
			text := c.Name
			if c.Reason != "" {
				text += " (" + strings.TrimSuffix(c.Reason, ".") + ")"
			}
			failing = append(failing, text)
		}
	}
	const remedy = "The checks here say more, and so does the server's log."
	switch {
	case r.Draining:
		return warn("Wait, or start it again.", "The server at %s is about to end.", address)
	case !r.Ready:
		return bad(remedy, "The server at %s isn't ready: %s.", address, strings.Join(failing, ", "))
	case len(failing) > 0:
		return warn(remedy, "The server at %s does without %s.", address, strings.Join(failing, ", "))
	}
	return ok("A server answers at %s, and is ready.", address)
}

// Nearest is where a server that listens there is reached from its own machine.
func Nearest(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
