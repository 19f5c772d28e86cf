package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Bounds on the parts of a request; Config.Timeout bounds the whole.
const (
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	idleTimeout = 90 * time.Second
	// maxIdle is how many connections to one forge are kept, no fewer than are
	// used at once.
	maxIdle = DefaultConcurrent
	// maxHeader is in bytes; the forges of the field send less than ten thousand.
	maxHeader = 256 << 10
)

// BaseURL reads the address of an API: https, or http on loopback, or anywhere
// if plaintext is allowed. A credential, query or fragment in it is an error.
// The path ends with a slash.
func BaseURL(raw string, plaintext bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil: // its text repeats the URL, which may hold a credential
		return nil, errors.New("the forge's URL can't be read: write it as https://host/path")
	case u.User != nil:
		return nil, errors.New("the forge's URL holds a credential: take it out, credentials are given apart")
	case u.Host == "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the forge's URL %q isn't one: write it as https://host/path", raw)
	case u.Scheme == "https":
	case u.Scheme == "http" && (plaintext || loopback(u.Hostname())):
	default:
		return nil, fmt.Errorf("the forge's URL %q isn't https: a credential would be readable on its way", raw)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// RootCAs are the system's authorities and those of a PEM file; nil, which means
// the system's, for no file.
func RootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the certificate authority: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the certificate authority: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// network is the part below everything else.
func network(c Config) (http.RoundTripper, error) {
	roots, err := RootCAs(c.CAFile)
	if err != nil {
		return nil, err
	}
	proxy := http.ProxyFromEnvironment
	switch c.Proxy {
	case "":
	case NoProxy:
		proxy = nil
	default:
		u, err := url.Parse(c.Proxy)
		if err != nil || u.Host == "" {
			return nil, errors.New("the proxy's URL can't be read: write it as http://host:port")
		}
		proxy = http.ProxyURL(u)
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdle,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}, nil
}
