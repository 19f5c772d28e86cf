package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// maxHello bounds the first message of a TLS client, in bytes. With keys of the
// newest kinds it has about two thousand.
const maxHello = 64 << 10

// Extensions that hide a server's name.
const (
	encryptedHello = 0xfe0d // ECH; a browser that only pretends to use it looks the same
	encryptedName  = 0xffce // its forerunner
)

// alert is what a TLS client reads as "access denied".
const alert = "\x15\x03\x03\x00\x02\x02\x31"

// readHello reads a tunnel's first message, and gives all bytes that were read for
// it if it names the host that was asked for, and no other.
func readHello(ctx context.Context, r *bufio.Reader, host string) ([]byte, error) {
	info, read, err := parseHello(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(info.Extensions, encryptedHello), slices.Contains(info.Extensions, encryptedName):
		return nil, denied(CodeEncrypted, "the name of the server is encrypted")
	case info.ServerName == "":
		return nil, denied(CodeNoName, "no server is named")
	}
	if name, err := normalise(info.ServerName); err != nil || name != host {
		return nil, denied(CodeMismatch, "TLS names "+clean(info.ServerName))
	}
	return read, nil
}

var errSeen = errors.New("seen")

// parseHello lets a TLS server that never answers read the message.
func parseHello(ctx context.Context, r *bufio.Reader) (info *tls.ClientHelloInfo, read []byte, err error) {
	rec := &recorder{r: io.LimitReader(r, maxHello)}
	server := tls.Server(rec, &tls.Config{
		MinVersion: tls.VersionTLS12, // for a linter: no version is ever agreed on
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			info = h
			return nil, errSeen
		},
	})
	err = server.HandshakeContext(ctx)
	if info == nil {
		return nil, nil, &fault{Denied, CodeNotTLS, "no TLS ClientHello", err}
	}
	return info, rec.read.Bytes(), nil
}

// recorder is a connection that keeps what is read and drops what is written.
type recorder struct {
	net.Conn // none: the server reads and writes, nothing else
	r        io.Reader
	read     bytes.Buffer
}

func (c *recorder) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read.Write(p[:n])
	return n, err
}

func (c *recorder) Write(p []byte) (int, error)      { return len(p), nil }
func (c *recorder) Close() error                     { return nil }
func (c *recorder) SetDeadline(time.Time) error      { return nil }
func (c *recorder) SetWriteDeadline(time.Time) error { return nil }
