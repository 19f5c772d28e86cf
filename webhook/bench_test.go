package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

// What is measured: 64 connections that send deliveries of 4 KiB, each waiting
// for its answer before it sends the next.
const (
	benchConnections = 64
	benchBody        = 4 << 10
	benchTasks       = 500
	// benchSlow bounds the way that waits for a slow disk each time.
	benchSlow = 2000
)

// BenchmarkDeliveries is how many deliveries a second the receiver takes, in
// the same run as a bare handler that checks the signature and stores nothing
// (the ceiling), and as the receiver with each delivery in a synchronous
// transaction of its own (the naive way); then these two with a disk that takes
// 3 ms longer for each commit. What the senders cost is measured by itself. A
// labeled event is evidence, so its body is kept; an edited one isn't.
func BenchmarkDeliveries(b *testing.B) {
	slowDisk(b)
	for _, action := range []string{"edited", "labeled"} {
		rates := map[string]float64{}
		for _, way := range []string{"senders", "ceiling", "naive", "receiver", "naive+3ms", "receiver+3ms"} {
			b.Run(action+"/"+way, func(b *testing.B) {
				addr := benchServer(b, way)
				most := b.N
				if way == "naive+3ms" {
					most = min(b.N, benchSlow)
				}
				rates[way] = measure(b, addr, action, most)
				plain, slow, _ := strings.Cut(way, "+")
				if plain != "receiver" {
					return
				}
				if naive := rates[strings.TrimSuffix("naive+"+slow, "+")]; naive > 0 {
					b.ReportMetric(rates[way]/naive, "x-naive")
				}
				if ceiling := rates["ceiling"]; ceiling > 0 {
					b.ReportMetric(rates[way]/ceiling, "x-ceiling")
				}
			})
		}
	}
}

// slowDir is part of the path of a store whose disk is slow.
const slowDir = "a-disk-that-takes-3ms"

// slowDisk has each commit to such a store wait, as a disk would have it wait.
func slowDisk(b *testing.B) {
	b.Helper()
	if hooked.Swap(true) {
		return // go test calls a benchmark several times
	}
	sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, dsn string) error {
		if !strings.Contains(dsn, slowDir) {
			return nil
		}
		c.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			<-time.After(3 * time.Millisecond)
			return 0
		})
		return nil
	})
}

var hooked atomic.Bool

func benchServer(b *testing.B, way string) string {
	b.Helper()
	switch way {
	case "senders":
		return nullServer(b)
	case "ceiling":
		return bareServer(b)
	}
	way, slow, _ := strings.Cut(way, "+")
	dir := b.TempDir()
	if slow != "" {
		dir = filepath.Join(dir, slowDir)
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
	}
	db := openStore(b, filepath.Join(dir, store.FileName))
	box := webhook.StoreInbox(inbox.New(db))
	if way == "naive" {
		box = &oneByOne{Inbox: box}
	}
	s, err := webhook.New(webhook.Config{
		Listener: listen(b), Hooks: []webhook.Hook{localHook(b)}, Inbox: box, Logger: quiet(),
		Limits: webhook.Limits{Store: patience},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		closeStore(b, db)
	})
	return s.Addr().String()
}

// oneByOne gives the store one delivery at a time, so that it can't group them.
type oneByOne struct {
	webhook.Inbox
	turn sync.Mutex
}

func (o *oneByOne) Accept(ctx context.Context, d webhook.Delivery) (bool, error) {
	o.turn.Lock()
	defer o.turn.Unlock()
	return o.Inbox.Accept(ctx, d)
}

// nullServer reads a request's bytes and answers always the same: what is left is
// the senders, and the way through the kernel.
func nullServer(b *testing.B) string {
	b.Helper()
	l := listen(b)
	answer := []byte("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // by Close
			}
			all.Go(func() {
				defer conn.Close()
				in := bufio.NewReaderSize(conn, 2*benchBody)
				for {
					head := 0
					for line, err := in.ReadSlice('\n'); len(line) > 2; line, err = in.ReadSlice('\n') {
						if head++; err != nil {
							return
						}
					}
					if head == 0 { // it ended
						return
					}
					if _, err := in.Discard(benchBody); err != nil {
						return
					}
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

// bareServer does what can't be left out.
func bareServer(b *testing.B) string {
	b.Helper()
	signature, err := webhook.NewSignature([]string{secret})
	if err != nil {
		b.Fatal(err)
	}
	e := echo.New()
	e.POST("/hooks/local", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		if err := signature.Verify(c.Request().Header, body); err != nil {
			return c.NoContent(http.StatusUnauthorized)
		}
		return c.JSON(http.StatusAccepted, map[string]string{"outcome": "accepted"})
	})
	l := listen(b)
	srv := &http.Server{Handler: e, ReadHeaderTimeout: patience}
	ended := make(chan struct{})
	go func() {
		_ = srv.Serve(l) // ends by Close
		close(ended)
	}()
	b.Cleanup(func() {
		if err := srv.Close(); err != nil {
			b.Error(err)
		}
		<-ended
	})
	return l.Addr().String()
}

// benchRequest is a whole request, and where its delivery's id stands in it:
// the id is outside of the signature.
func benchRequest(b *testing.B, action string, task int64) (request []byte, id int) {
	b.Helper()
	p := labeled()
	p.Event, p.Action, p.Issue.Number = forge.PayloadIssues, action, task
	p.Issue.Body = ""
	text := strings.Repeat("Adding two negative numbers gives a wrong sum; see the steps below. ", benchBody/60)
	p.Issue.Body = text[:benchBody-len(encode(b, p))]
	body := encode(b, p)
	head := fmt.Sprintf("POST /hooks/local HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n%s: issues\r\n%s: %s\r\nContent-Length: %d\r\n%s: ",
		webhook.HeaderEvent, webhook.HeaderSignature, sign(secret, body), len(body), webhook.HeaderDelivery)
	var out bytes.Buffer
	out.WriteString(head)
	out.WriteString(uuid.Nil.String() + "\r\n\r\n")
	out.Write(body)
	return out.Bytes(), len(head)
}

// measure sends so many deliveries and reports their rate, what a processor has
// to do for each, and the time to the answer at the median and for the slowest
// percent.
func measure(b *testing.B, addr, action string, most int) float64 {
	b.Helper()
	conns := make([]*benchConn, benchConnections)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		c := &benchConn{conn: conn, in: bufio.NewReader(conn)}
		for task := int64(i); task < benchTasks; task += benchConnections {
			request, id := benchRequest(b, action, 1+task)
			c.requests, c.id = append(c.requests, request), id
		}
		conns[i] = c
	}
	var next atomic.Int64
	b.ResetTimer()
	began, cpu := time.Now(), processorTime(b)
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() {
			for n := next.Add(1); n <= int64(most); n = next.Add(1) {
				if err := c.deliver(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	cpu = processorTime(b) - cpu
	b.StopTimer()
	var times []time.Duration
	for _, c := range conns {
		times = append(times, c.times...)
	}
	slices.Sort(times)
	rate := float64(most) / took.Seconds()
	b.ReportMetric(rate, "deliveries/s")
	b.ReportMetric(float64(cpu.Microseconds())/float64(most), "cpu-us/op")
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
	return rate
}

// processorTime is what this process has used, senders included. Unlike the rate
// it says something on a machine that others use as well.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchConn is a sender that costs as little as it can: what it costs is taken
// from the server, on the same processors.
type benchConn struct {
	conn     net.Conn
	in       *bufio.Reader
	requests [][]byte
	id       int
	times    []time.Duration
}

func (c *benchConn) deliver(n int64) error {
	request := c.requests[int(n)%len(c.requests)]
	copy(request[c.id:], fmt.Sprintf("%08x", n))
	began := time.Now()
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.Contains(line, []byte(" 202 ")) {
			return fmt.Errorf("%s", line)
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			break
		}
	}
	_, err := c.in.Discard(length)
	c.times = append(c.times, time.Since(began))
	return err
}
