package webhook_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/writbot/writ/webhook"
)

// TestStartup: before the server is there, the process lives and takes nothing; after
// that the address is the server's, without a moment in which it is nobody's.
func TestStartup(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	url := "http://" + l.Addr().String()
	o := webhook.NewStartup(slog.New(slog.DiscardHandler), l.(*net.TCPListener))
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/healthz", http.StatusOK},
		{http.MethodHead, "/healthz", http.StatusOK},
		{http.MethodPost, "/healthz", http.StatusServiceUnavailable},
		{http.MethodGet, "/readyz", http.StatusServiceUnavailable},
		{http.MethodPost, "/hooks/local", http.StatusServiceUnavailable},
	} {
		if got := status(t, c.method, url+c.path); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.want)
		}
	}
	silent := dial(t, l.Addr()) // one that sends nothing holds nothing up
	if err := o.End(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(silent).ReadByte(); err == nil {
		t.Error("a connection of before is still answered")
	}
	waits := dial(t, l.Addr()) // between the two
	if _, err := waits.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	line, err := bufio.NewReader(waits).ReadString('\n')
	if err != nil || !strings.Contains(line, "418") {
		t.Errorf("who came between the two got %q, %v", line, err)
	}
	if err := o.End(); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

func dial(t *testing.T, at net.Addr) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func status(t *testing.T, method, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}
