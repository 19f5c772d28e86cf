package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch is one start: what is needed before, while and after the tree runs.
// Both levels use it.
type launch struct {
	spec    Spec
	log     *slog.Logger
	cmd     *exec.Cmd
	stdin   io.WriteCloser // nil: an empty input
	cgroup  *cgroup
	child   *[]*os.File // the child's descriptors, closed here after the start
	status  *os.File    // nil when the program is executed directly
	info    *os.File
	notify  *os.File // where the filter's listener comes in
	answer  *answerer
	gateway *os.File // where the gateway's listener comes in; nil: there is none
	scratch *scratch // of a level without namespaces
	lower   []string // the layers below a workspace that is an overlay
	dirs    []Dir    // beside the workspace

	release func() // gives back what the start took, once nothing runs

	// The level without namespaces.
	confined bool
	hold     *os.File // the reaper ends its tree when this is closed
	tmp      []string // directories that stand in for tmpfs

	p      *Process
	out    output
	begin  time.Time
	lacked shortage // of the file system then; less than nothing where more than the reserve was free
	report chan statusReport

	mu     sync.Mutex
	reason *killReason
	once   sync.Once
	pid1   int           // pidfd of the namespace's first process, -1 if unknown
	inner  int           // its process id, 0 if unknown
	known  chan struct{} // closed when the two are final
	meter  meter
}

// statusReport is what the inner stage left on the status pipe.
type statusReport struct {
	ready   bool
	failure *initFailure
}

// killKnown bounds how long a kill waits to learn the namespace's first
// process. bwrap tells it within milliseconds of its start.
const killKnown = time.Second

// lastSignal is the highest signal number of Linux.
const lastSignal = 64

// infoBytes bounds bwrap's report, which is a few lines of JSON.
const infoBytes = 64 << 10

// closeAll undoes a launch that didn't come to run.
func (l *launch) closeAll() {
	l.closeChild()
	for _, f := range []*os.File{l.status, l.info, l.hold, l.notify, l.gateway} {
		if f != nil {
			_ = f.Close() // nothing was written through it
		}
	}
	l.cgroup.remove()
	if l.release != nil {
		l.release()
	}
}

func (l *launch) closeChild() {
	if l.child == nil {
		return
	}
	for _, f := range *l.child {
		if f != nil {
			_ = f.Close() // nothing was written through it
		}
	}
}

// start runs the command and gives the handle.
func (l *launch) start(ctx context.Context) (*Process, error) {
	if err := ctx.Err(); err != nil {
		l.closeAll()
		return nil, err
	}
	l.p = &Process{started: make(chan struct{}), done: make(chan struct{}), kill: l.kill}
	l.known, l.pid1 = make(chan struct{}), -1
	l.report = make(chan statusReport, 1)
	l.connect()
	spawned := make(chan error)
	go l.run(ctx, spawned)
	if err := <-spawned; err != nil {
		return nil, err
	}
	return l.p, nil
}

// connect wires the streams.
func (l *launch) connect() {
	if l.spec.Stdin != nil {
		// Always through a pipe: a terminal handed on would be one to read from. It is not
		// the command's to fill, which would wait for a Read that blocks.
		l.stdin, _ = l.cmd.StdinPipe() // nothing was set or started
	}
	l.out = output{limit: l.spec.Limits.OutputBytes, exceeded: func() {
		l.kill(killReason{cause: CauseResource, limit: LimitOutput})
	}}
	l.cmd.Stdout = l.out.stream(l.spec.Stdout, false)
	l.cmd.Stderr = l.out.stream(l.spec.Stderr, true)
	if sameWriter(l.spec.Stdout, l.spec.Stderr) {
		l.cmd.Stdout = l.cmd.Stderr
	}
	l.cmd.WaitDelay = KillGrace
}

// run starts the command, waits for it and settles the result. It keeps its
// thread: the kernel sends the parent-death signal when the thread that forked
// ends, not when the process does, so that thread has to live as long.
func (l *launch) run(ctx context.Context, spawned chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l.begin, l.lacked = time.Now(), shortOf(l.spec.Workspace, l.spec.Limits.DiskReserveBytes)
	l.joinCgroup()
	err := l.cmd.Start()
	l.closeChild()
	if err != nil {
		l.closeAll()
		spawned <- l.startError(err)
		return
	}
	spawned <- nil
	if l.stdin != nil {
		go l.feed()
	}
	go l.readStatus()
	go l.readInfo()
	stopWatching := context.AfterFunc(ctx, func() { l.kill(killReason{cause: CauseKilled}) })
	stopMeter, stopAnswers := l.startMeter(), l.startAnswers()
	waitErr := l.cmd.Wait()
	l.awaitDeath()
	stopMeter()
	stopAnswers()
	stopWatching()
	l.settle(waitErr)
	close(l.p.done)
}

// feed gives the program its input. The pipe is closed when the program has ended.
func (l *launch) feed() {
	_, _ = io.Copy(l.stdin, l.spec.Stdin) // a program needn't read it
	_ = l.stdin.Close()
}

// joinCgroup makes the kernel put the child into its group at birth.
func (l *launch) joinCgroup() {
	if l.cgroup == nil {
		return
	}
	l.cmd.SysProcAttr.UseCgroupFD = true
	l.cmd.SysProcAttr.CgroupFD = int(l.cgroup.dir.Fd())
}

// startError explains a command that could not even be forked.
func (l *launch) startError(err error) error {
	if l.status != nil {
		return unavailable(l.cmd.Path+" can't be executed", err)
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return &Error{Code: CodeNotFound, Msg: "the program to run does not exist", Err: err}
	}
	return &Error{Code: CodeNotExecutable, Msg: "the program can't be executed", Err: err}
}

// readStatus waits for the exec. The pipe's end after readyByte is the kernel
// closing it in the exec; anything else is a failure.
func (l *launch) readStatus() {
	if l.status == nil {
		close(l.p.started)
		l.report <- statusReport{ready: true}
		return
	}
	defer l.status.Close()
	data, err := io.ReadAll(io.LimitReader(l.status, infoBytes))
	var r statusReport
	rest, ready := bytes.CutPrefix(data, []byte{readyByte})
	switch {
	case len(rest) > 0:
		r.failure = &initFailure{}
		if json.Unmarshal(rest, r.failure) != nil {
			r.failure = &initFailure{Stage: "status", Text: "the report can't be read"}
		}
	case ready && err == nil && !l.startGateway():
		r.failure = &initFailure{Stage: "gateway", Text: "its listener didn't come out"}
		l.kill(killReason{cause: CauseKilled}) // the program runs, and without it
	case ready && err == nil:
		r.ready = true
		l.out.begun()
		close(l.p.started)
	}
	l.report <- r
}

// startGateway hands the listener to who asked for it. It was sent before the inner
// stage said that it is ready.
func (l *launch) startGateway() bool {
	if l.gateway == nil {
		return true
	}
	defer l.gateway.Close()
	fd, ok := receiveFD(int(l.gateway.Fd()))
	if !ok {
		return false
	}
	f := os.NewFile(uintptr(fd), "gateway")
	defer f.Close() // the listener has a copy
	listener, err := net.FileListener(f)
	if err != nil {
		return false
	}
	l.spec.Gateway(listener)
	return true
}

// readInfo learns the first process of the namespace and holds on to it.
func (l *launch) readInfo() {
	defer close(l.known)
	if l.confined {
		l.holdFirst(l.cmd.Process.Pid)
		return
	}
	if l.info == nil {
		return
	}
	defer l.info.Close()
	var info struct {
		Pid int `json:"child-pid"`
	}
	if json.NewDecoder(io.LimitReader(l.info, infoBytes)).Decode(&info) != nil || info.Pid <= 0 {
		return
	}
	l.holdFirst(info.Pid)
}

// holdFirst takes a handle of the tree's first process.
func (l *launch) holdFirst(pid int) {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		l.pid1, l.inner = fd, pid
	}
}

// kill starts to take the tree down, once, and remembers why.
func (l *launch) kill(reason killReason) {
	l.mu.Lock()
	if l.reason == nil {
		l.reason = &reason
	}
	l.mu.Unlock()
	l.once.Do(func() { go l.takeDown() })
}

// takeDown kills the namespace's first process, with which the kernel kills the
// whole namespace, sessions and signal handlers notwithstanding. bwrap outside
// comes last: without it the first process might not be known yet.
func (l *launch) takeDown() {
	l.cgroup.kill()
	if l.confined {
		_ = l.hold.Close() // the reaper does the rest, and ends
		return
	}
	timer := time.NewTimer(killKnown)
	defer timer.Stop()
	select {
	case <-l.known:
		l.killFirst()
	case <-timer.C:
	}
	if l.status == nil {
		_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
	}
	_ = l.cmd.Process.Kill() // knows whether the process was waited for
}

// killFirst kills the namespace's first process. The lock keeps settle from
// closing the handle, whose number could then be something else.
func (l *launch) killFirst() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pid1 >= 0 {
		_ = unix.PidfdSendSignal(l.pid1, unix.SIGKILL, nil, 0)
	}
}

// awaitDeath waits until the first process is gone, which the kernel lets
// happen only after the rest of its namespace. bwrap outside may end earlier.
func (l *launch) awaitDeath() {
	<-l.known // bwrap is dead, so its pipe has ended
	if l.status == nil {
		_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
	}
	if l.confined {
		return // the reaper is gone, and it goes last
	}
	if l.pid1 < 0 {
		return
	}
	l.killFirst() // what the program left behind is dying with bwrap anyway
	fds := []unix.PollFd{{Fd: int32(l.pid1), Events: unix.POLLIN}}
	deadline := time.Now().Add(KillGrace)
	for left := KillGrace; left > 0; left = time.Until(deadline) {
		if n, err := unix.Poll(fds, int(left.Milliseconds())+1); err != unix.EINTR && (n > 0 || err != nil) {
			return
		}
	}
	l.log.Error("sandbox: a process tree is still not dead", "pid", l.inner, "after", KillGrace)
}

// settle computes the exit.
func (l *launch) settle(waitErr error) {
	if l.status != nil {
		// All writers are dead; a deadline in case one is not.
		_ = l.status.SetReadDeadline(time.Now().Add(KillGrace))
	}
	status := <-l.report
	if l.gateway != nil {
		_ = l.gateway.Close() // where nothing came through it
	}
	if status.ready {
		l.meter.lookTmpfs(l.spec.Limits) // it may be full since the meter's last look
		l.lastLook()
	}
	e := &l.p.exit
	e.Wall = time.Since(l.begin)
	state := l.cmd.ProcessState
	e.CPU = max(l.meter.cpu, l.cgroup.cpu(), state.UserTime()+state.SystemTime())
	e.PeakMemoryBytes = max(l.meter.peak, l.cgroup.peak())
	e.Hints, e.Denied = l.hints(), l.answer.refused()
	e.Watched = l.status != nil && !l.cgroup.holdsMemory()
	l.cause(e, status, state.ExitCode())
	l.closeFirst()
	if l.confined {
		_ = l.hold.Close() // nothing is written through it
	}
	if l.release != nil {
		l.release()
	}
	l.meter.close()
	l.cgroup.remove()
	l.log.Debug("sandbox: ended", "cause", e.Cause, "code", e.Code, "limit", e.Limit, "wall", e.Wall, "cpu", e.CPU, "wait", waitErr)
}

// lastLook looks at the disk when nothing runs any more: what was written since
// the meter's last look is there, too. Another reason to end it stands.
func (l *launch) lastLook() {
	lacks := shortOf(l.spec.Workspace, l.spec.Limits.DiskReserveBytes)
	if l.p.exit.DiskLow = lacks.any(); !l.p.exit.DiskLow || !l.spent(lacks) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil {
		l.reason = &killReason{cause: CauseResource, limit: LimitDisk}
	}
}

func (l *launch) closeFirst() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pid1 >= 0 {
		unix.Close(l.pid1)
		l.pid1 = -1
	}
}

// cause says why it is over, in the order of the constants.
func (l *launch) cause(e *Exit, status statusReport, code int) {
	l.mu.Lock()
	reason := l.reason
	l.mu.Unlock()
	e.Code = -1
	switch limit := l.limitOf(code); {
	case reason != nil:
		e.Cause, e.Limit = reason.cause, reason.limit
	case !status.ready:
		e.Cause = CauseStartFailed
		e.Err = l.startFailure(status.failure, l.out.firstWords(), l.spec.Argv[0])
	case limit != "":
		e.Cause, e.Limit, e.Code = CauseResource, limit, code
	case code < 0: // somebody outside killed bwrap
		e.Cause = CauseKilled
	default:
		e.Cause, e.Code = CauseExited, code
	}
	if e.Code > 128 && e.Code <= 128+lastSignal {
		e.Signal = e.Code - 128
	}
}

// startFailure explains a sandbox that ended before the program ran.
func (l *launch) startFailure(f *initFailure, stderr string, argv0 string) error {
	unavailable := unavailable
	if l.confined {
		unavailable = lacking
	}
	if f == nil {
		first, _, _ := strings.Cut(strings.TrimSpace(printable([]byte(stderr))), "\n")
		if first == "" {
			first = "no message"
		}
		return unavailable("the sandbox ended before the program ran: "+first, nil)
	}
	no := syscall.Errno(f.Errno)
	switch {
	case f.Stage == "exec" && (no == syscall.ENOENT || no == syscall.ENOTDIR):
		return &Error{Code: CodeNotFound, Msg: fmt.Sprintf("the program %q does not exist inside the sandbox", argv0), Err: no,
			Remedy: "Name a program below /usr, in the workspace, or in a directory that the configuration mounts read-only."}
	case f.Stage == "exec":
		return &Error{Code: CodeNotExecutable, Msg: fmt.Sprintf("the program %q can't be executed: %s", argv0, f.Text), Err: no,
			Remedy: "Check its permissions, its format and its interpreter line."}
	}
	if f.Stage == layersStep {
		return &Error{Code: CodeLayers, Msg: "this kernel mounts no overlay here: " + f.Text, Err: no}
	}
	return unavailable(fmt.Sprintf("the step %q failed inside the sandbox: %s", f.Stage, f.Text), nil)
}

// limitOf recognises a program that a limit of the kernel ended. bwrap and
// shells report a signal as 128 plus its number; a program that lies with its
// exit code only fails in another way.
func (l *launch) limitOf(code int) Limit {
	switch {
	case l.cgroup.counter("memory.events", "oom_kill") > 0 && code != 0:
		return LimitMemory
	case code == 128+int(unix.SIGXCPU), code == 128+int(unix.SIGKILL) && l.spec.Limits.CPU > 0 && l.meter.cpu >= l.spec.Limits.CPU:
		return LimitCPU
	case code == 128+int(unix.SIGXFSZ):
		return LimitFileSize
	}
	return ""
}

// hints are limits that were reached.
func (l *launch) hints() []Limit {
	hints := l.meter.hints()
	if l.cgroup.counter("pids.events", "max") > 0 && !l.meter.crowded {
		hints = append(hints, LimitProcesses)
	}
	return hints
}

// firstWordsBytes bounds what is kept of standard error until the program runs:
// enough for bwrap's own complaint.
const firstWordsBytes = 4 << 10

// output counts both streams against one limit.
type output struct {
	limit    int64 // negative: none
	exceeded func()

	mu    sync.Mutex
	total int64
	over  bool
	early []byte // standard error before the program ran
	ran   bool
}

// stream counts and passes on to w, which may be nil. A writer that fails is
// not used again, and the stream is drained, so that the program never sees it.
func (o *output) stream(w io.Writer, stderr bool) io.Writer {
	return &stream{o: o, w: w, stderr: stderr}
}

type stream struct {
	o      *output
	w      io.Writer
	stderr bool
}

// Write implements io.Writer and never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.o.count(p, s.stderr)
	if s.w != nil {
		if _, err := s.w.Write(p); err != nil {
			s.w = nil
		}
	}
	return len(p), nil
}

func (o *output) count(p []byte, stderr bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if stderr && !o.ran {
		room := max(0, firstWordsBytes-len(o.early))
		o.early = append(o.early, p[:min(room, len(p))]...)
	}
	if o.limit >= 0 && o.total > o.limit && !o.over {
		o.over = true
		o.exceeded()
	}
}

// begun says that the program runs: standard error is its own from here.
func (o *output) begun() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ran, o.early = true, nil
}

func (o *output) firstWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.early)
}

// sameWriter reports whether both streams go to one writer, which then sees one
// Write at a time.
func sameWriter(a, b io.Writer) bool {
	if a == nil || b == nil || !reflect.TypeOf(a).Comparable() {
		return false
	}
	return a == b
}
