package wire

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/writbot/writ/forge/git"
)

// GitOptions let git take the same way to a forge as its API: with an authority
// of the operator's, and through his proxy.
func GitOptions(caFile, proxy string) (git.Options, error) {
	if caFile == "" && proxy == "" {
		return git.Options{}, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone() // it is one, unless somebody replaced it
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	switch proxy {
	case "":
	case "none":
		t.Proxy = nil
	default:
		u, err := url.Parse(proxy)
		if err != nil {
			return git.Options{}, err
		}
		t.Proxy = http.ProxyURL(u)
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return git.Options{}, err
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return git.Options{}, fmt.Errorf("%s holds no certificate in PEM form", caFile)
		}
		t.TLSClientConfig.RootCAs = roots
	}
	return git.Options{HTTPClient: &http.Client{Transport: t}}, nil
}
