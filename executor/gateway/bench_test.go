package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// benchBody is what one request of the throughput carries, in bytes.
const benchBody = 64 << 20

// BenchmarkGateway asks a server on loopback for a large answer, and for a small one over a
// new connection, through the gateway's tunnel and directly, one after the other.
func BenchmarkGateway(b *testing.B) {
	large := bytes.Repeat([]byte("a"), benchBody)
	o := newOrigin(b, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(large)
		}
	})
	limits := generous
	limits.Down = 1 << 40
	g := open(b, o.lists("example.com"), limits)
	through := g.client(o)
	through.Transport.(*http.Transport).DisableKeepAlives = true
	pool := x509.NewCertPool()
	pool.AddCert(o.Certificate())
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	ask := func(c *http.Client, u string) time.Duration {
		began := time.Now()
		answer, err := c.Get(u)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	at := "https://" + o.at("example.com")
	here, err := url.Parse(o.URL)
	if err != nil {
		b.Fatal(err)
	}
	var much, floor time.Duration
	little, least := time.Hour, time.Hour // the shortest: what else the machine does only adds
	for b.Loop() {
		much += ask(through, at+"/large")
		floor += ask(direct, here.String()+"/large")
		little = min(little, ask(through, at))
		least = min(least, ask(direct, here.String()))
		for range 2 {
			g.record()
		}
	}
	b.ReportMetric(float64(benchBody)*float64(b.N)/(1<<20)/much.Seconds(), "MiB/s")
	b.ReportMetric(floor.Seconds()/much.Seconds(), "x-direct")
	b.ReportMetric(float64(little-least)/float64(time.Millisecond), "added-ms")
}
