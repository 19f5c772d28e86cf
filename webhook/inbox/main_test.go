package inbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/store"
)

// childEnv makes the test binary do one of the children's jobs instead of
// testing: a process that is killed at a point, or meets a full disk.
const childEnv = "WRIT_INBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	jobs := map[string]func(args []string) error{"script": childScript, "full": childFull}
	job := jobs[os.Getenv(childEnv)]
	if job == nil {
		os.Exit(m.Run())
	}
	if err := job(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child prepares the test binary as a process of its own.
func child(t *testing.T, job string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	return cmd
}

// script goes through every operation, with duplicates, marks of taken tasks
// and tasks given back.
func script() []step {
	return []step{
		{op: "accept", id: "d1", keys: []Key{a(1), b(1)}, at: 10},
		{op: "accept", id: "d1", keys: []Key{a(1), c(1)}, at: 8},
		{op: "take", keys: []Key{a(1)}},
		{op: "mark", keys: []Key{a(1), a(2)}, at: 30},
		{op: "accept", id: "d2", keys: []Key{b(1), a(1)}, at: 20},
		{op: "done", keys: []Key{a(1)}, at: 25},
		{op: "take", keys: []Key{b(1)}},
		{op: "done", keys: []Key{b(1)}, at: 0},
		{op: "take", keys: []Key{a(2)}},
		{op: "recover"},
		{op: "take", keys: []Key{a(1)}},
	}
}

// childScript runs the script and kills itself at the point args[1]: before and
// after each transaction, and after each of its statements. It prints how many
// steps it was told are durable.
func childScript(args []string) error {
	at, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	db, err := store.Open(context.Background(), args[0], store.Options{})
	if err != nil {
		return err
	}
	in, tickets := New(&points{Store: db, left: at}), map[Key]Ticket{}
	for i, s := range script() {
		if err := s.run(in, tickets); err != nil {
			return err
		}
		if _, err := fmt.Println(i + 1); err != nil {
			return err
		}
	}
	return nil
}

// points is a store with points at which its process dies.
type points struct {
	store.Store
	left int
}

func (p *points) pass() {
	if p.left--; p.left < 0 {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {} // until it arrives
	}
}

func (p *points) Write(ctx context.Context, f func(store.Tx) error) error {
	p.pass()
	err := p.Store.Write(ctx, func(tx store.Tx) error { return f(pointsTx{tx, p}) })
	p.pass()
	return err
}

type pointsTx struct {
	store.Tx
	p *points
}

func (t pointsTx) Exec(text string, args ...any) (int64, error) {
	n, err := t.Tx.Exec(text, args...)
	t.p.pass()
	return n, err
}

func (t pointsTx) Row(text string, args []any, dest ...any) (bool, error) {
	found, err := t.Tx.Row(text, args, dest...)
	t.p.pass()
	return found, err
}

// childFull accepts deliveries while the file may not grow any more, and says
// whether any of them was taken, and whether the store takes others later.
func childFull(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	db, err := store.Open(context.Background(), args[0], store.Options{})
	if err != nil {
		return err
	}
	in := New(db)
	log, err := os.Stat(args[0] + "-wal")
	if err != nil {
		return err
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(log.Size()), Max: before.Max}); err != nil {
		return err
	}
	errs := make(chan error)
	const callers = 8
	for i := range callers {
		go func() {
			_, err := in.Accept(context.Background(), delivery(fmt.Sprint(i), 5), []Key{a(int64(i + 1))})
			errs <- err
		}()
	}
	failed := 0
	for range callers {
		if err := <-errs; errors.Is(err, store.ErrFailed) {
			failed++
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	_, err = in.Accept(context.Background(), delivery("later", 5), []Key{a(1)})
	woken := false
	select {
	case <-in.Wake():
		woken = true
	default:
	}
	fmt.Println(failed, errors.Is(err, store.ErrFailed), woken)
	return nil
}
