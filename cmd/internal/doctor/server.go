package doctor

import (
	"net"
	"strings"
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
