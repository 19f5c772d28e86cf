package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childEnv makes the test binary do one of the children's jobs instead of
// testing: real processes that are killed or meet a failing disk.
const childEnv = "WRIT_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	jobs := map[string]func(args []string) error{"forever": childForever, "errno": childErrno, "blame": childBlame}
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

// childForever writes from several goroutines, two rows at a time, and prints
// each name that it was told is durable.
func childForever(args []string) error {
	db, err := Open(context.Background(), args[0], Options{})
	if err != nil {
		return err
	}
	const callers = 4
	durable, failed := make(chan string), make(chan error)
	for c := range callers {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%s-%d-%d", args[1], c, i)
				err := db.Write(context.Background(), func(tx Tx) error {
					return errors.Join(insert(name)(tx), insert(name+"+")(tx))
				})
				if err != nil {
					failed <- err
				}
				durable <- name
			}
		}()
	}
	out := bufio.NewWriter(os.Stdout)
	for {
		select {
		case name := <-durable:
			fmt.Fprintln(out, name)
			if err := out.Flush(); err != nil {
				return err
			}
		case err := <-failed:
			return err
		}
	}
}

// childErrno makes one system call fail from now on, while three callers wait
// for each other, and prints what each was told.
func childErrno(args []string) error {
	db, err := Open(context.Background(), args[0], Options{})
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
	begun, end := make(chan struct{}), make(chan struct{})
	errs := make(chan error)
	go func() {
		errs <- db.Write(context.Background(), func(tx Tx) error {
			close(begun)
			<-end
			return insert("lost-1")(tx)
		})
	}()
	<-begun
	for i := range 2 {
		go func() { errs <- db.Write(context.Background(), insert(fmt.Sprintf("lost-%d", i+2))) }()
		waitFor(db, i+1)
	}
	if err := failCall(uint32(number), uint32(errno)); err != nil {
		return fmt.Errorf("no seccomp filter can be set (needed by this test): %w", err)
	}
	close(end)
	failures := 0
	for range 3 {
		if err := <-errs; errors.Is(err, ErrFailed) {
			failures++
		}
	}
	later := db.Write(context.Background(), insert("later"))
	told := false
	select {
	case <-db.Failed():
		told = true
	default:
	}
	fmt.Println(failures, errors.Is(later, ErrFailed), told, errors.Is(db.Err(), ErrFailed))
	var words *Error
	if errors.As(db.Err(), &words) {
		fmt.Println(strings.ReplaceAll(words.Error(), "\n", " | "), "|", words.Remedy())
	}
	return nil
}

// childBlame has SQLite make an error, and prints what it is blamed on: on a file system that
// is neither full nor read-only, full, read-only, both.
func childBlame(args []string) error {
	ctx := context.Background()
	db, err := Open(ctx, args[0], Options{})
	if err == nil {
		err = db.Write(ctx, run(table))
	}
	if err != nil {
		return err
	}
	mode, text, fails := "rw", `INSERT INTO things (name, part, body) VALUES ('x', 1, x'00')`, unix.EIO
	var calls []uint32
	switch args[1] {
	case "read":
		calls, text = []uint32{unix.SYS_PREAD64}, `DELETE FROM things`
	case "write":
		calls = []uint32{unix.SYS_PWRITE64}
	case "full":
		calls, fails = []uint32{unix.SYS_PWRITE64}, unix.ENOSPC
	case "sync":
		calls = []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC}
	case "closed":
		mode = "ro"
	case "syntax":
		text = "nonsense"
	}
	c, err := db.connect(ctx, mode)
	if err != nil {
		return err
	}
	for _, number := range calls {
		if err := failCall(number, uint32(fails)); err != nil {
			return err
		}
	}
	_, err = c.exec(ctx, text, nil)
	is := func(so bool) func() bool { return func() bool { return so } }
	fmt.Println([4]error{blame(err, is(false), is(false)), blame(err, is(true), is(false)), blame(err, is(false), is(true)), blame(err, is(true), is(true))})
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
