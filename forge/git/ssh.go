package git

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/writbot/writ/forge/git/internal/process"
)

// sshTransport speaks git over SSH. One connection is kept; each exchange is a
// session on it.
type sshTransport struct {
	addr   string
	path   string
	config *ssh.ClientConfig
	agent  net.Conn

	mu     sync.Mutex
	client *ssh.Client
}

func newSSHTransport(loc location, ep Endpoint) (*sshTransport, error) {
	user := loc.user
	if user == "" {
		user = ep.Auth.Username
	}
	if user == "" {
		user = "git"
	}
	addr := loc.host
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), "22")
	}
	t := &sshTransport{addr: addr, path: loc.path}
	db, err := hostKeys(ep.Auth.KnownHosts)
	if err != nil {
		return nil, err
	}
	methods, err := t.authMethods(ep.Auth)
	if err != nil {
		return nil, err
	}
	t.config = &ssh.ClientConfig{
		User: user, Auth: methods,
		HostKeyCallback:   db.HostKeyCallback(),
		HostKeyAlgorithms: db.HostKeyAlgorithms(addr),
	}
	return t, nil
}

// hostKeys reads the known_hosts files. An unknown host is refused: there is
// nobody to ask.
func hostKeys(files []string) (*knownhosts.HostKeyDB, error) {
	if len(files) == 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fail(CodeHostKey, "there is no known_hosts file", "set HOME, or name the file", err)
		}
		files = []string{filepath.Join(home, ".ssh", "known_hosts")}
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, fail(CodeHostKey, "the known_hosts file can't be read",
			"add the server's key to it with ssh-keyscan, and check the key", err)
	}
	return db, nil
}

func (t *sshTransport) authMethods(a Auth) ([]ssh.AuthMethod, error) {
	if len(a.SSHKeys) > 0 {
		return []ssh.AuthMethod{ssh.PublicKeys(a.SSHKeys...)}, nil
	}
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, fail(CodeAuthInvalid, "there is no SSH key and no agent", "name a key, or start ssh-agent", nil)
	}
	c, err := net.Dial("unix", socket) //nolint:noctx // a local socket answers or refuses at once
	if err != nil {
		return nil, fail(CodeAuthInvalid, "the SSH agent can't be reached", "start ssh-agent, or name a key", err)
	}
	t.agent = c
	return []ssh.AuthMethod{ssh.PublicKeysCallback(agent.NewClient(c).Signers)}, nil
}

func (t *sshTransport) stateless() bool { return false }

func (t *sshTransport) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != nil {
		_ = t.client.Close() // nothing is under way
		t.client = nil
	}
	if t.agent != nil {
		_ = t.agent.Close() // likewise
	}
	return nil
}

// session opens a session on the kept connection, or on a new one if that has gone.
func (t *sshTransport) session(ctx context.Context) (*ssh.Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != nil {
		kept := t.client
		stop := context.AfterFunc(ctx, func() { _ = kept.Close() }) // a dead peer never answers
		s, err := kept.NewSession()
		stop()
		if err == nil {
			return s, nil
		}
		_ = kept.Close() // it is broken
		t.client = nil
	}
	c, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	t.client = c
	return c.NewSession()
}

func (t *sshTransport) connect(ctx context.Context) (*ssh.Client, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // ends the handshake
	defer stop()
	cc, chans, reqs, err := ssh.NewClientConn(c, t.addr, t.config)
	if err != nil {
		_ = c.Close() // the handshake failed
		return nil, err
	}
	return ssh.NewClient(cc, chans, reqs), nil
}

func (t *sshTransport) dial(ctx context.Context, service string) (conn, error) {
	s, err := t.session(ctx)
	if err != nil {
		return nil, unsent(sshError(err))
	}
	c := &sshConn{s: s}
	c.in, err = s.StdinPipe()
	if err == nil {
		c.out, err = s.StdoutPipe()
	}
	if err != nil {
		return nil, unsent(sshError(err))
	}
	s.Stderr = &c.stderr
	if service == uploadPack {
		_ = s.Setenv("GIT_PROTOCOL", "version=2") // many servers do not allow it, and then speak version 0
	}
	if err := s.Start(service + " " + shellQuote(t.path)); err != nil {
		_ = s.Close() // it did not start
		return nil, unsent(sshError(err))
	}
	c.disarm = context.AfterFunc(ctx, func() { _ = s.Close() })
	return c, nil
}

func sshError(err error) *Error {
	switch {
	case knownhosts.IsHostKeyChanged(err), knownhosts.IsHostUnknown(err):
		return fail(CodeHostKey, "the server's host key is not the one in known_hosts",
			"check the key with the server's owner, then correct known_hosts", err)
	case isAuthError(err):
		return fail(CodeUnauthorized, "the server accepts none of the SSH keys", "add the key to the account", err)
	}
	return unreachable("the server can't be reached over SSH", err)
}

// isAuthError reads the message, because the library has no type for it.
func isAuthError(err error) bool { return strings.Contains(err.Error(), "unable to authenticate") }

// shellQuote quotes for the remote shell, as git does.
func shellQuote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}

type sshConn struct {
	s      *ssh.Session
	in     io.WriteCloser
	out    io.Reader
	stderr process.Words
	disarm func() bool
}

func (c *sshConn) advert(ctx context.Context) (io.Reader, error) {
	return progressing(ctx, c.out), nil
}

func (c *sshConn) send(ctx context.Context, request []byte, _ bool) (io.Reader, error) {
	if _, err := io.Copy(c.in, progressing(ctx, bytes.NewReader(request))); err != nil {
		return nil, unreachable("the connection broke while the request was sent", err)
	}
	_ = c.in.Close() // the answer will tell
	return progressing(ctx, c.out), nil
}

// words waits for the program's end, since what it says comes on a stream of
// its own. Without input it ends soon; a dead connection is not waited for.
func (c *sshConn) words() string {
	_ = c.in.Close() // it may be closed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.s.Wait() // its answer was read
	}()
	select {
	case <-ended:
	case <-time.After(process.KillGrace):
		_ = c.s.Close() // lets Wait return
	}
	return c.stderr.String()
}

func (c *sshConn) finish(bool) {
	c.disarm()
	_ = c.in.Close() // it may be closed
	_ = c.s.Close()  // ended, or of no more use
}
