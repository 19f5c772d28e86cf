package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// childEnv makes the test binary do one of the children's jobs instead of
// testing: real processes that race, are killed, or meet a failing disk.
const childEnv = "WRIT_LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	job := os.Getenv(childEnv)
	if job == "" {
		os.Exit(gittest.InMemory(m).Run())
	}
	jobs := map[string]func(args []string) error{"race": childRace, "forever": childForever, "fsize": childFileSize, "errno": childErrno}
	flagless := os.Args[1:]
	if err := jobs[job](flagless); err != nil {
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

func childOpen(path string) (*Store, *Ledger, error) {
	key, _, err := loadChildKey(path)
	if err != nil {
		return nil, nil, err
	}
	s, err := Open(context.Background(), path, key, Options{})
	if err != nil {
		return nil, nil, err
	}
	l, err := s.World(context.Background(), worldA)
	return s, l, err
}

// childRace appends until the ledger has args[1] records and prints how many
// were its own. Losing a head is no error; anything else is.
func childRace(args []string) error {
	total, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	wins, forks := 0, 0
	for {
		s, l, err := childOpen(args[0])
		if err != nil {
			return err
		}
		for err == nil && l.Chain().Head.Seq < total {
			if _, err = l.Write(context.Background(), 0, audit(wins)); err == nil {
				wins++
			}
		}
		if closeErr := s.Close(); closeErr != nil {
			return closeErr
		}
		if err == nil {
			fmt.Println(wins, forks)
			return nil
		}
		if CodeOf(err) != kernel.CodeLedgerFork {
			return err
		}
		forks++
	}
}

// childForever appends, three records at a time, and prints each head that it
// was told is durable.
func childForever(args []string) error {
	_, l, err := childOpen(args[0])
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for {
		if _, err := l.Write(context.Background(), 0, audit(1), audit(2), audit(3)); err != nil {
			return err
		}
		fmt.Fprintln(out, l.Chain().Head.Seq)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// childFileSize lets the file grow to each of many sizes: the write that passes
// the limit is cut short in its middle and then fails.
func childFileSize(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	const (
		stride = 509 // bytes, a prime: the cuts fall into headers and pages alike
		cuts   = 90
	)
	failures := 0
	for i := range cuts {
		failed, err := cutAt(filepath.Join(args[0], strconv.Itoa(i), FileName), uint64(i*stride))
		if err != nil {
			return fmt.Errorf("cut %d: %w", i, err)
		}
		if failed {
			failures++
		}
	}
	fmt.Println(failures)
	return nil
}

func cutAt(path string, more uint64) (failed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	s, l, err := childOpen(path)
	if err != nil {
		return false, err
	}
	defer s.Close()
	if err := l.Start(context.Background(), genesis(), 1); err != nil {
		return false, err
	}
	log, err := os.Stat(path + "-wal")
	if err != nil {
		return false, err
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		return false, err
	}
	limit := unix.Rlimit{Cur: uint64(log.Size()) + more, Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return false, err
	}
	var writeErr error
	for i := 0; i < 4 && writeErr == nil; i++ {
		_, writeErr = l.Write(context.Background(), 0, audit(i))
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		return false, err
	}
	return writeErr != nil, afterFailure(path, l, writeErr)
}

// afterFailure checks what must hold after an append failed or not.
func afterFailure(path string, l *Ledger, writeErr error) error {
	acknowledged := l.Chain().Head
	if writeErr != nil {
		if CodeOf(writeErr) != kernel.CodeLedgerUnavailable {
			return fmt.Errorf("another error: %w", writeErr)
		}
		if _, err := l.Write(context.Background(), 0, audit(0)); CodeOf(err) != kernel.CodeLedgerUnavailable {
			return fmt.Errorf("the store took a record after a failure: %w", err)
		}
	}
	s, again, err := childOpen(path)
	if err != nil {
		return fmt.Errorf("opened anew: %w", err)
	}
	defer s.Close()
	got := again.Chain().Head
	if got == acknowledged || writeErr != nil && got.Seq == acknowledged.Seq+1 {
		return nil
	}
	return fmt.Errorf("acknowledged %d, found %d", acknowledged.Seq, got.Seq)
}

// childErrno makes one system call fail from now on and appends.
func childErrno(args []string) error {
	s, l, err := childOpen(args[0])
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	errno, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if err := failCall(uint32(number), uint32(errno)); err != nil {
		return fmt.Errorf("no seccomp filter can be set (needed by this test): %w", err)
	}
	_, err = l.Write(context.Background(), 0, audit(1))
	_, again := l.Write(context.Background(), 0, audit(2))
	_, reopened := s.World(context.Background(), worldB)
	fmt.Println(string(CodeOf(err)), string(CodeOf(again)), string(CodeOf(reopened)), l.Chain().Head.Seq)
	return nil
}

// failCall installs a filter that answers the system call with the error.
func failCall(number, errno uint32) error {
	const nrOffset = 0 // of struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nrOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return errors.New(e.Error())
	}
	return nil
}
