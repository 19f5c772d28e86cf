package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestForge_Unreached: why a forge can't be reached is told apart, with the key
// to change, and what stands on it is skipped.
func TestForge_Unreached(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	plainly := httptest.NewServer(http.NotFoundHandler())
	defer plainly.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	for name, c := range map[string]struct{ url, detail, remedy string }{
		"unknown authority": {secure.URL, "an authority that this machine doesn't know", "forges.github.ca_file"},
		"no TLS":            {strings.Replace(plainly.URL, "http:", "https:", 1), "no TLS", "forges.github.url"},
		"nobody listens":    {"http://" + localtest.FreeAddress(t), "nobody listens", "forges.github.url"},
		"no answer":         {hangs.URL, "no answer in time", "firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := patience
			if name == "no answer" {
				limit = 50 * time.Millisecond // it never answers: however late it is noticed, the end is the same
			}
			checks, answers := Forge(t.Context(), Site{Forge: "github", Host: &fakeHost{}, URL: c.url, Time: limit})
			wants(t, checks, NameReach, Failed, c.detail, c.remedy)
			wants(t, checks, NameAccount, Skipped, "can't be reached", "")
			if answers {
				t.Error("the forge is said to answer")
			}
		})
	}
}

// TestTrouble: what can't be had without a network.
func TestTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		why, remedy string
	}{
		"name":    {&net.DNSError{Name: "ghe.example", IsNotFound: true}, "nobody knows the name ghe.example", "forges.x.proxy"},
		"host":    {x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"other.example"}}}, "other.example", "forges.x.url"},
		"expired": {x509.CertificateInvalidError{Reason: x509.Expired}, "has ended", "date"},
		"invalid": {x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, "isn't valid", "forges.x.ca_file"},
		"proxy":   {&net.OpError{Op: "proxyconnect", Err: errors.New("refused")}, "the proxy", "forges.x.proxy"},
		"other":   {errors.New("something else"), "something else", "curl"},
	} {
		why, remedy := trouble(&url.Error{Op: "Get", URL: "https://ghe.example", Err: c.err}, "forges.x")
		if !strings.Contains(why, c.why) || !strings.Contains(remedy, c.remedy) {
			t.Errorf("%s: %s (%s)", name, why, remedy)
		}
	}
}

// TestForge_ServerTrouble: a forge that answers with a 5xx is there, and not well.
func TestForge_ServerTrouble(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer srv.Close()
	checks, _ := Forge(t.Context(), Site{Forge: "local", Host: &fakeHost{}, URL: srv.URL})
	wants(t, checks, NameReach, Warning, "502", "status page")
}

// TestSite_Address: what is at writ's public address.
func TestSite_Address(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	got := (Site{Forge: "github"}).address(t.Context(), other.URL+"/hooks/github")
	if got.status != Warning || !strings.Contains(got.detail, "404") || !strings.Contains(got.remedy, "/hooks/") {
		t.Errorf("another server is %s: %s", got.status, got.detail)
	}
	if got := (Site{Forge: "github"}).address(t.Context(), receiver(t).URL); got.status != OK {
		t.Errorf("writ's receiver is %s: %s", got.status, got.detail)
	}
}

// TestRepository_Refusals: each reason of a forge has its own remedy, on each
// forge.
func TestRepository_Refusals(t *testing.T) {
	for _, name := range []string{"github", "gitlab", "local"} {
		for _, reason := range []forge.Reason{forge.NotFound, forge.Unauthorized, forge.Forbidden, forge.Limited, forge.Unavailable} {
			host := &fakeHost{find: &forge.Error{Reason: reason, Op: "find acme/shop", Err: errors.New("the forge's words")}}
			all := Repository(t.Context(), Target{Forge: name, Host: host, Name: "acme/shop"})
			wants(t, all, NameRepository, Failed, "the forge's words", "")
			wants(t, all, NameBranches, Skipped, "", "")
			if c := find(t, all, NameRepository); strings.Contains(c.Remedy, "%!") || strings.Contains(c.Remedy, "%[") {
				t.Errorf("%s, %s: the remedy is %q", name, reason, c.Remedy)
			}
		}
	}
}

// TestRepository_EachFault: against a real git server, and a forge that answers as
// it is told.
func TestRepository_EachFault(t *testing.T) {
	for name, c := range map[string]struct {
		spoil          func(w *ward)
		check          string
		status         Status
		detail, remedy string
	}{
		"empty":         {func(w *ward) { w.host.about.DefaultBranch = "" }, NameRepository, Failed, "it is empty", "first commit"},
		"may not write": {func(w *ward) { w.host.may = forge.Read }, NamePermissions, Failed, "may not write", "writ forge grant"},
		"no issues":     {func(w *ward) { w.host.refuses = &forge.Error{Reason: forge.NotFound} }, NameIssues, Failed, "switched off", "writ forge grant"},
		"no label":      {func(w *ward) { w.host.labels = []string{"bug"} }, NameLabel, Failed, "no label writ", "trigger.label"},
		"git is down":   {func(w *ward) { w.host.url += "x" }, NameContract, Failed, "can't be read", ""},
		"no base":       {func(w *ward) { w.host.about.DefaultBranch = "gone" }, NameContract, Failed, "The branch gone isn't there", "base"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t)
			c.spoil(w)
			wants(t, Repository(t.Context(), w.target(func(t *Target) { t.NoProbe = true })), c.check, c.status, c.detail, c.remedy)
		})
	}
	w := newWard(t)
	wants(t, Repository(t.Context(), w.target(func(t *Target) { t.Base = "gone" })), NameContract, Failed, "gone", "base")
	if all := Repository(context.Background(), Target{Forge: "local", Host: w.host, Name: "noslash"}); find(t, all, NameRepository).Status != Failed {
		t.Error("a name without an owner is taken")
	}
}

// busyApp is an App that is told of more than can be looked at.
type busyApp struct {
	app
	failed []github.Delivery
	err    error
}

func (a busyApp) FailedDeliveries(context.Context, time.Time) ([]github.Delivery, error) {
	return a.failed, a.err
}

// TestDeliveries_OfABusyApp: many deliveries are no fault; what was seen of them
// counts.
func TestDeliveries_OfABusyApp(t *testing.T) {
	v := &visit{Site: Site{Forge: "github", Now: time.Now}}
	many := &forge.Error{Reason: forge.Invalid, Err: github.ErrMoreDeliveries}
	if r := v.appDeliveries(t.Context(), busyApp{err: many}); r.status != OK || !strings.Contains(r.detail, "two thousand") {
		t.Errorf("many that were taken: %+v", r)
	}
	if r := v.appDeliveries(t.Context(), busyApp{err: many, failed: make([]github.Delivery, 3)}); r.status != Warning || !strings.Contains(r.detail, "3 of the latest two thousand") {
		t.Errorf("many of which some failed: %+v", r)
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if r := v.appDeliveries(late, busyApp{err: context.DeadlineExceeded}); r.status != Skipped {
		t.Errorf("more than can be listed in time: %+v", r)
	}
	if r := v.appDeliveries(t.Context(), busyApp{err: &forge.Error{Reason: forge.Invalid}}); r.status != Failed {
		t.Errorf("a refusal: %+v", r)
	}
}
