package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// None runs programs without isolation, for development on a machine that
// can't do better. The program can read and change everything its user can and
// use the network. It still has no inherited environment, and its process
// group is killed, but a program that leaves its group survives.
type None struct{ cfg Config }

// NewNone gives the level without isolation. It says so in the log at each
// start: an operator must never come upon it by surprise.
func NewNone(cfg Config) *None { return &None{cfg: cfg} }

// Name implements Sandbox.
func (n *None) Name() string { return "none" }

// Probe implements Sandbox: there is nothing to find out.
func (n *None) Probe(context.Context) error { return nil }

// Start implements Sandbox. The places of the sandbox don't exist, so they are
// replaced in Argv and Env: a word, or the value of a variable, that is such a
// path or lies below it becomes the path on the host. The host's own /tmp stays.
func (n *None) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if spec.Layers != nil {
		return nil, Overlays(ctx, n, "")
	}
	if err := spec.withoutNamespaces(n.Name()); err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.withDefaults()
	n.cfg.logger().Warn("sandbox: NONE. An untrusted program runs without isolation", "program", spec.Argv[0])
	place, err := newScratch()
	if err != nil {
		return nil, unavailable("there is no place for a temporary directory", err)
	}
	l := &launch{spec: spec, log: n.cfg.logger()}
	if err := n.build(l, place.dir); err != nil {
		_ = place.remove()
		return nil, err
	}
	l.cgroup = newCgroup(n.cfg.Cgroup, spec.Limits, l.log)
	p, err := l.start(ctx)
	if err != nil {
		_ = place.remove()
		return nil, err
	}
	go func() { <-p.Done(); _ = place.remove() }()
	return p, nil
}

// build lays the places out below dir and translates the words.
func (n *None) build(l *launch, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		return err
	}
	places, err := layOut(dir, l.spec)
	if err != nil {
		return err
	}
	argv := make([]string, len(l.spec.Argv))
	for i, word := range l.spec.Argv {
		argv[i] = onHost(word, places)
	}
	l.cmd = &exec.Cmd{Args: argv, Dir: l.spec.Workspace, Env: []string{}}
	for _, entry := range once(l.spec.Env) {
		key, value, _ := strings.Cut(entry, "=")
		l.cmd.Env = append(l.cmd.Env, key+"="+onHost(value, places))
	}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return l.findProgram(argv[0])
}

// layOut says where the places of the sandbox are on the host, and writes the
// files among them below dir.
func layOut(dir string, s Spec) ([]Mount, error) {
	places := []Mount{{WorkspaceDir, s.Workspace}, {OutDir, s.OutDir}, {HomeDir, filepath.Join(dir, "home")}}
	for _, m := range s.ReadOnly {
		places = append(places, Mount{m.target(), m.Source})
	}
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o755); err != nil { //nolint:gosec // the program reads it, under another user
		return nil, err
	}
	for _, f := range s.Files {
		path := filepath.Join(files, f.Target)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Content, 0o444)) //nolint:gosec // as above
		if err != nil {
			return nil, err
		}
		places = append([]Mount{{f.Target, path}}, places...)
	}
	return places, nil
}

// findProgram looks the program up in the PATH it will have.
func (l *launch) findProgram(name string) error {
	path, err := lookPath(name, l.cmd.Env)
	if err != nil {
		return &Error{Code: CodeNotFound, Msg: "the program to run does not exist", Err: err}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.cmd.Dir, path)
	}
	l.cmd.Path = path
	return nil
}

// onHost translates one word. Places come as inside, outside.
func onHost(word string, places []Mount) string {
	for _, m := range places {
		if m.Target == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(word, m.Source); ok && (rest == "" || rest[0] == '/') {
			return m.Target + rest
		}
	}
	return word
}
