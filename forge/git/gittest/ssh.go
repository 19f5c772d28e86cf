package gittest

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSH is an SSH server of one repository.
type SSH struct {
	URL        string
	Key        ssh.Signer // the key it accepts
	KnownHosts string     // a known_hosts file with the server's key
}

// NewKey makes an ed25519 key.
func NewKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ServeSSH serves the bare repository at dir until the test ends. v2 says
// whether the server lets a client ask for protocol version 2.
func ServeSSH(t testing.TB, dir string, v2 bool) *SSH {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, client := NewKey(t), NewKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	known := filepath.Join(t.TempDir(), "known_hosts")
	line := knownhosts.Line([]string{knownhosts.Normalize(l.Addr().String())}, host.PublicKey())
	if err := os.WriteFile(known, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	go serve(l, config, v2)
	t.Cleanup(func() { _ = l.Close() })
	return &SSH{URL: "ssh://git@" + l.Addr().String() + dir, Key: client, KnownHosts: known}
}

func serve(l net.Listener, config *ssh.ServerConfig, v2 bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, chans, reqs, err := ssh.NewServerConn(c, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(reqs)
			for ch := range chans {
				if s, r, err := ch.Accept(); err == nil {
					go session(s, r, v2)
				}
			}
		}()
	}
}

// session runs one git command.
func session(s ssh.Channel, reqs <-chan *ssh.Request, v2 bool) {
	defer s.Close()
	env := Env()
	for r := range reqs {
		switch r.Type {
		case "env":
			var kv struct{ Key, Value string }
			ok := v2 && ssh.Unmarshal(r.Payload, &kv) == nil && kv.Key == "GIT_PROTOCOL"
			if ok {
				env = append(env, kv.Key+"="+kv.Value)
			}
			_ = r.Reply(ok, nil)
		case "exec":
			var line struct{ Command string }
			ok := ssh.Unmarshal(r.Payload, &line) == nil
			_ = r.Reply(ok, nil)
			status := run(s, line.Command, env)
			_, _ = s.SendRequest("exit-status", false, ssh.Marshal(struct{ N uint32 }{status}))
			return
		default:
			_ = r.Reply(false, nil)
		}
	}
}

func run(s ssh.Channel, line string, env []string) uint32 {
	name, path, _ := strings.Cut(line, " ")
	if name != "git-upload-pack" && name != "git-receive-pack" {
		return 127
	}
	cmd := exec.Command("git", strings.TrimPrefix(name, "git-"), strings.Trim(path, "'"))
	cmd.Env, cmd.Stdout, cmd.Stderr = env, s, s.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(in, s)
		_ = in.Close()
	}()
	if cmd.Wait() != nil {
		return 128
	}
	return 0
}
