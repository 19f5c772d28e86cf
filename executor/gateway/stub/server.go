package stub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/netip"
	"time"
)

// Host is by which name a [Server] shows that it is it. It leads nowhere (RFC 2606), so that
// who asks must be told where it is. A name below localhost wouldn't do: agents ask for
// those on their own machine, and not the gateway.
const Host = "models.example"

// certLife is how long a server's certificate counts: longer than any run.
const certLife = 24 * time.Hour

// Server is a stub that answers over TLS on this machine.
type Server struct {
	Port uint16
	// Authority is the certificate of who vouches for the server, as PEM. Nobody trusts it
	// who isn't told to.
	Authority []byte

	server *http.Server
}

// Serve answers on a free port until Close. It can show that it is Host, or what is named in
// place of that.
func Serve(h http.Handler, names ...string) (*Server, error) {
	if len(names) == 0 {
		names = []string{Host}
	}
	cert, authority, err := certificate(names)
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	s := &Server{Authority: authority, server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}}
	if at, perr := netip.ParseAddrPort(l.Addr().String()); perr == nil {
		s.Port = at.Port()
	}
	go func() { _ = s.server.Serve(l) }() // ends with Close
	return s, nil
}

// Close ends it.
func (s *Server) Close() error { return s.server.Close() }

// certificate is one for some names, and the one of its authority: the same, which signs itself.
func certificate(names []string) (cert tls.Certificate, authority []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife), DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return cert, nil, err
	}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, authority, nil
}
