package e2e

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
)

const (
	// postWorkers send at once, so that deliveries overtake each other.
	postWorkers = 8
	// postWindow is how far one may overtake others, in deliveries.
	postWindow = 64
	// One delivery of loseOne never arrives; one of doubleOne is posted again.
	loseOne   = 40
	doubleOne = 3
	// postWait is how long a sender waits that has nothing to send, or was refused.
	postWait = 20 * time.Millisecond
)

// poster sends the deliveries of a forge as badly as networks do: some not at
// all, some several times, none in its order. What is refused is sent again
// later. Writ's own acts come from its own process and aren't among them.
type poster struct {
	url    string
	client *http.Client
	ended  chan struct{}
	all    sync.WaitGroup

	mu                  sync.Mutex
	random              *rand.Rand
	pending             []local.Delivery
	kept                []local.Delivery // that were taken, to be posted again
	posted, again, lost int
	arrived             map[string]bool
}

func newPoster(t testing.TB, url string) *poster {
	p := &poster{
		url: url, ended: make(chan struct{}), random: rand.New(rand.NewPCG(1, 2)), arrived: map[string]bool{},
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: postWorkers}},
	}
	for range postWorkers {
		p.all.Go(p.run)
	}
	t.Cleanup(func() {
		close(p.ended)
		p.all.Wait()
		p.client.CloseIdleConnections()
	})
	return p
}

// take is a local.Hook's Drop: the forge sends none of these itself.
func (p *poster) take(d local.Delivery) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.random.IntN(loseOne) == 0 {
		p.lost++
	} else {
		p.pending = append(p.pending, d)
	}
	return true
}

func (p *poster) run() {
	tick := time.NewTicker(postWait)
	defer tick.Stop()
	for {
		d, ok := p.next()
		if ok && p.send(d) {
			p.arrive(d)
			select {
			case <-p.ended:
				return
			default:
				continue
			}
		}
		if ok {
			p.later(d)
		}
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
	}
}

func (p *poster) next() (local.Delivery, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 {
		return local.Delivery{}, false
	}
	i := p.random.IntN(min(len(p.pending), postWindow))
	d := p.pending[i]
	p.pending[i] = p.pending[0]
	p.pending = p.pending[1:]
	return d, true
}

func (p *poster) send(d local.Delivery) bool {
	r, err := http.NewRequest(http.MethodPost, p.url, bytes.NewReader(d.Body))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(local.HeaderEvent, d.Event)
	r.Header.Set(local.HeaderDelivery, d.ID)
	r.Header.Set(local.HeaderSignature, local.Sign([]byte(localtest.Secret), d.Body))
	answer, err := p.client.Do(r)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode/100 == 2
}

// arrive counts a delivery that was taken, and may post it again.
func (p *poster) arrive(d local.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted++
	if p.arrived[d.ID] {
		p.again++
	} else {
		p.kept = append(p.kept, d)
	}
	p.arrived[d.ID] = true
	if p.random.IntN(doubleOne) == 0 {
		p.pending = append(p.pending, d)
	}
}

func (p *poster) later(d local.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = append(p.pending, d)
}

// finish posts old deliveries again until there were so many, and returns when
// all are taken.
func (p *poster) finish(deliveries int) {
	p.mu.Lock()
	for p.posted+len(p.pending) < deliveries && len(p.kept) > 0 {
		p.pending = append(p.pending, p.kept[p.random.IntN(len(p.kept))])
	}
	p.mu.Unlock()
	tick := time.NewTicker(postWait)
	defer tick.Stop()
	for {
		p.mu.Lock()
		n, posted := len(p.pending), p.posted
		p.mu.Unlock()
		if n == 0 && posted >= deliveries {
			return
		}
		<-tick.C
	}
}

// figures says how many were taken, how many of those were there already, and
// how many were never sent.
func (p *poster) figures() (posted, again, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posted, p.again, p.lost
}
