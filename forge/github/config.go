package github

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/writbot/writ/forge/internal/transport"
)

// The addresses of github.com.
const (
	DefaultURL = "https://github.com"
	defaultAPI = "https://api.github.com/"
)

// DefaultUserAgent is how requests name themselves.
const DefaultUserAgent = "writ"

// cloudSuffix ends the hosts of Enterprise Cloud, whose API has a host of its own.
const cloudSuffix = ".ghe.com"

// Config are the settings of a Host. An App or a Token is required.
type Config struct {
	URL string // of its pages and git; "": DefaultURL
	API string // of its REST API; "": what belongs to URL, such as https://ghe.example/api/v3

	App   App
	Token string // a personal token, in place of an App

	CAFile         string // PEM; added to the system's authorities
	Proxy          string // a URL; "": the environment's; "none"
	UserAgent      string // "": DefaultUserAgent
	AllowPlaintext bool   // http to another machine
	Timeout        time.Duration
	Limits         Limits
	Now            func() time.Time // nil: time.Now
	Logger         *slog.Logger     // nil: nothing is logged

	// Wrap goes between the adapter and the network. For tests.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// App is a GitHub App.
type App struct {
	ID  int64
	Key []byte // its private key, PEM
	// Installation is the one installation to be used; 0: each repository's.
	Installation int64
}

// Limits are what is asked of GitHub at most. A zero is the default, below what
// GitHub publishes.
type Limits struct {
	WriteInterval time.Duration // from one write to the next; negative: none
	MaxWait       time.Duration // how long a write waits for its turn
	Creates       int           // comments, changes, checks an hour; negative: no end
	Edits         int           // other writes an hour; negative: no end
	Reserve       int           // percent of the allowance that a sweep leaves to others
}

// addresses are the places of one GitHub.
type addresses struct {
	web, rest *url.URL // with a slash at the end
	graphql   *url.URL
}

func (c Config) addresses() (a addresses, err error) {
	web, rest := c.URL, c.API
	if web == "" {
		web = DefaultURL
	}
	if a.web, err = transport.BaseURL(web, c.AllowPlaintext); err != nil {
		return a, err
	}
	if rest == "" {
		switch host := strings.ToLower(a.web.Host); {
		case host == "github.com" || host == "www.github.com":
			rest = defaultAPI
		case strings.HasSuffix(host, cloudSuffix):
			rest = a.web.Scheme + "://api." + host + "/"
		default:
			rest = a.web.JoinPath("api/v3").String()
		}
	}
	if a.rest, err = transport.BaseURL(rest, c.AllowPlaintext); err != nil {
		return a, err
	}
	if root, found := strings.CutSuffix(a.rest.Path, "/api/v3/"); found {
		a.graphql = a.rest.ResolveReference(&url.URL{Path: root + "/api/graphql"})
	} else {
		a.graphql = a.rest.JoinPath("graphql")
	}
	return a, nil
}

// minKeyBits is what GitHub makes.
const minKeyBits = 2048

// key reads the App's private key. Its errors hold nothing of it.
func (a App) key() (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(a.Key)
	if block == nil {
		return nil, errors.New("the App's private key is no PEM file: take the .pem that GitHub made for it")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if key, _ = other.(*rsa.PrivateKey); err != nil || key == nil {
			return nil, errors.New("the App's private key can't be read: take the .pem that GitHub made for it")
		}
	}
	if key.N.BitLen() < minKeyBits {
		return nil, fmt.Errorf("the App's private key has %d bits, and needs %d", key.N.BitLen(), minKeyBits)
	}
	return key, nil
}

// Check says what is wrong with the App's private key, without its text.
func (a App) Check() error {
	_, err := a.key()
	return err
}

func (c Config) check() error {
	hasApp := c.App.ID != 0 || len(c.App.Key) > 0
	switch {
	case hasApp && c.Token != "":
		return errors.New("both an App and a token are given: keep one")
	case !hasApp && c.Token == "":
		return errors.New("neither an App nor a token is given")
	case hasApp && c.App.ID <= 0:
		return errors.New("the App's id is missing: it is on the App's page")
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token holds a character that none has: it may have been cut or pasted badly")
	}
	return nil
}
