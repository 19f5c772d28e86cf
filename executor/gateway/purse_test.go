package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// counting is a purse that pays until it is told not to.
type counting struct {
	mu      sync.Mutex
	refuses error
	most    []Usage
	used    []*Usage
}

func (p *counting) Reserve(_ context.Context, most Usage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses == nil {
		p.most = append(p.most, most)
	}
	return p.refuses
}

func (p *counting) Settle(_ Usage, used *Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = append(p.used, used)
}

func paying(p *counting) func(*Server) { return func(s *Server) { s.c.Purse = p } }

// TestPurse_ReservedAndSettled: what a request may use at most is reserved before it goes
// out, and settled once, by what the provider said, by what was reserved where its answer
// broke off, and by nothing where the provider refused it. What costs nothing needs none.
func TestPurse_ReservedAndSettled(t *testing.T) {
	refused := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }
	for name, c := range map[string]struct {
		path, body string
		answer     http.HandlerFunc
		basis      Basis // "" for nothing
		reserves   int
	}{
		"measured":   {"/v1/messages", bodies["/v1/messages"], answers(stream, messageBegin+messageEnd, false), Measured, 1},
		"breaks off": {"/v1/messages", bodies["/v1/messages"], answers(stream, messageBegin, true), Reserved, 1},
		"refused":    {"/v1/messages", bodies["/v1/messages"], refused, "", 1},
		"denied":     {"/v1/messages", `{"model":"m","max_tokens":1,"messages":[],"mcp_servers":[1]}`, refused, "", 0},
		"free":       {"/v1/messages/count_tokens", `{"model":"m","messages":[]}`, answers("application/json", `{"input_tokens":1}`, false), "", 0},
	} {
		p := &counting{}
		g, o := provided(t, "anthropic", c.answer, paying(p))
		_, _ = io.Copy(io.Discard, g.post(o, c.path, c.body).Body)
		r := g.record()
		if len(p.most) != c.reserves || len(p.used) != c.reserves {
			t.Errorf("%s: reserved %v, settled %v", name, p.most, p.used)
			continue
		}
		if c.reserves == 0 {
			continue
		}
		if m := p.most[0]; m.Output != 50 || m.Input == 0 || m.Model != "m" {
			t.Errorf("%s: reserved %+v", name, m)
		}
		if u := p.used[0]; (u == nil) != (c.basis == "") || u != nil && (u.Basis != c.basis || *u != *r.Usage) {
			t.Errorf("%s: settled %+v", name, u)
		}
	}
}

// TestPurse_Refused: a request that can't be paid doesn't go out, and the agent is told by
// name, in a form that it takes for final.
func TestPurse_Refused(t *testing.T) {
	var got []string
	p := &counting{refuses: errors.New("the attempt has reached 7: " + strings.Repeat("x", 2*maxText))}
	g, o := provided(t, "anthropic", heard(&got, "{}"), paying(p))
	a := g.post(o, "/v1/messages", bodies["/v1/messages"])
	said, r := text(t, a), g.record()
	if len(got) > 0 || a.StatusCode != http.StatusBadRequest || a.Header.Get(shouldRetry) != "false" || !strings.Contains(said, CodeBudget) || !strings.Contains(said, "the attempt has reached 7") {
		t.Errorf("the provider was asked %q, the agent told %d %s", got, a.StatusCode, said)
	}
	if r.Verdict != Denied || r.Code != CodeBudget || r.Usage != nil || len(r.Detail) > maxText || len(p.used) > 0 {
		t.Errorf("recorded %+v, settled %v", r, slices.Clone(p.used))
	}
}

// full is a purse whose requests wait for others.
type full struct {
	counting
	waits, left chan struct{}
}

func (p *full) Reserve(ctx context.Context, _ Usage) error {
	close(p.waits)
	<-ctx.Done()
	close(p.left)
	return ctx.Err()
}

// TestPurse_TheClientGoesAway: nobody waits for what a request may use once its client is
// gone, though the run goes on; nothing goes out, and nothing is reserved.
func TestPurse_TheClientGoesAway(t *testing.T) {
	var got []string
	p := &full{waits: make(chan struct{}), left: make(chan struct{})}
	g, o := provided(t, "anthropic", heard(&got, "{}"), func(s *Server) { s.c.Purse = p })
	c, body := g.dial(), bodies["/v1/messages"]
	fmt.Fprintf(c, "POST http://%s/v1/messages HTTP/1.1\r\nHost: %[1]s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", o.at("example.com"), len(body), body)
	<-p.waits
	select {
	case <-p.left:
		t.Fatal("nothing was waited for")
	default:
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r := g.want(Allowed, CodeBroken)
	if <-p.left; len(got) > 0 || len(p.used) > 0 || r.Usage != nil {
		t.Errorf("the provider was asked %q, settled %v, recorded %+v", got, p.used, r)
	}
}
