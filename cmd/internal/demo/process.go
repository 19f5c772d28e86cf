package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/writbot/writ/executor/gateway/stub"
)

// process is a running `writ serve`.
type process struct {
	cmd   *exec.Cmd
	ended chan error // one value, when it has ended
}

// start starts writ. What it logs goes to a file beside its state.
func (s *show) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "writ.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"serve", "--config", s.config()}
	if s.stub != nil {
		args = append(args, "--resolve", stub.Host+"=127.0.0.1")
	}
	cmd := exec.Command(s.o.Writ, args...) //nolint:noctx // it is to outlive what is asked of it here; end and kill end it
	cmd.Env = append(surroundings(os.Environ()), "WRIT_LOCAL_TOKEN="+s.token, "WRIT_LOCAL_HOOK_SECRET="+s.secret)
	if s.stub != nil {
		cmd.Env = append(cmd.Env, secretName+"="+s.stub.model.Key, "SSL_CERT_FILE="+s.stub.authority)
	}
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: a Ctrl-C is for the demo, which ends writ in turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("writ can't be started: %w", err)
	}
	p := &process{cmd: cmd, ended: make(chan error, 1)}
	go func() { p.ended <- cmd.Wait() }()
	s.writ = p
	return nil
}

// surroundings is the caller's environment without what is meant for a writ of his own: a
// secret beside its file is refused, and so is one whose file is missing.
func surroundings(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "WRIT_") })
}

// kill ends writ as a crash would.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.ended //nolint:errcheck // that it was killed is no news
	return nil
}

// end asks writ to end and waits for it.
func (p *process) end() error {
	const limit = 30 * time.Second
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(limit):
		return errors.Join(errors.New("writ did not end in time"), p.kill())
	}
}

// verify has writ verify what it left, as anybody can.
func (s *show) verify(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.o.Writ, append([]string{"verify"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("writ verify: %w\n%s", err, out)
	}
	good := 0
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ok ") {
			good++ // one of many proofs; writ verify prints them all
			continue
		}
		fmt.Fprint(s.o.Out, line)
	}
	if good > 0 {
		fmt.Fprintf(s.o.Out, "%d things hold\n", good)
	}
	return nil
}
