package setup

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // page.html
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// The paths of the page.
const (
	pathStart = "/start" // with the token: gives the cookie
	pathMade  = "/made"  // where GitHub sends the browser back to
	pathRetry = "/retry"
)

// cookieName is of this program alone: every port of a host shares its cookies.
const cookieName = "writ_setup"

// page is the local page of one set-up: it sends a browser to GitHub with the
// App's description, and takes the code that it comes back with.
type page struct {
	host  string // the one Host that is answered, with its port
	token secret // of the printed link
	// cookie is what a browser has that came by the link.
	cookie secret
	action *url.URL // GitHub's, where the description is posted
	ask    asking
	// accept trades the code for the App and keeps it. After an error it may be
	// called again; an error that says used makes that a new beginning.
	accept func(ctx context.Context, code string) (madeApp, *refusal)
	done   chan struct{} // closed once the App is kept

	taking sync.Mutex // one code at a time
	mu     sync.Mutex
	state  secret // "" while a code is worked on
	code   string // of the last try that may be repeated
	locked bool
}

// asking is what the page shows of the App that GitHub is to make.
type asking struct {
	Owner, As, Writes, Reads, Events, Hook, Dir, Host string
	Manifest                                          string // JSON
	Action                                            string
}

// madeApp is what the page shows of one that was made.
type madeApp struct {
	Slug, KeyFile, Install string
	Repositories           []string
}

// refusal is why an App isn't there yet.
type refusal struct {
	Text, Remedy string
	used         bool // the code is of no more use: from the beginning
}

// secret is compared in constant time.
type secret string

func newSecret() secret { return secret(rand.Text() + rand.Text()) }

func (s secret) is(given string) bool {
	a, b := sha256.Sum256([]byte(s)), sha256.Sum256([]byte(given))
	return s != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// view is one answer of the page.
type view struct {
	Title, Step, Nonce string
	Fault              *refusal
	Ask                *asking
	Retry              bool
	Made               *madeApp
}

// ServeHTTP implements http.Handler. Nobody gets further than this without the
// right Host, and past the link without the cookie.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host != p.host:
		p.refuse(w, http.StatusForbidden, refusal{Text: "This page isn't served here.", Remedy: "Open the link that the terminal shows, as it is."})
	case p.isLocked():
		p.closed(w)
	case r.URL.Path == pathStart && r.Method == http.MethodGet:
		p.start(w, r)
	case !p.known(r):
		p.refuse(w, http.StatusForbidden, refusal{Text: "This browser didn't come by the link.", Remedy: "Open the link that the terminal shows in this very browser. If GitHub has just sent you here, come back with the browser's Back button then and load the page again."})
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		p.show(w, http.StatusOK, p.begin(nil))
	case r.URL.Path == pathMade && r.Method == http.MethodGet:
		p.back(w, r)
	case r.URL.Path == pathRetry && r.Method == http.MethodPost && r.Header.Get("Origin") == "http://"+p.host:
		p.again(w, r)
	default:
		p.refuse(w, http.StatusNotFound, refusal{Text: "There is nothing here.", Remedy: "Open the link that the terminal shows."})
	}
}

// link is what the operator opens.
func (p *page) link() string {
	return "http://" + p.host + pathStart + "?" + url.Values{"token": {string(p.token)}}.Encode()
}

func (p *page) isLocked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locked
}

func (p *page) known(r *http.Request) bool {
	c, err := r.Cookie(cookieName)
	return err == nil && p.cookie.is(c.Value)
}

// start gives the cookie to who has the token, and takes the token out of the
// address. GitHub's redirect is followed by a GET from another site: Lax.
func (p *page) start(w http.ResponseWriter, r *http.Request) {
	if !p.token.is(r.URL.Query().Get("token")) {
		p.refuse(w, http.StatusForbidden, refusal{Text: "The link is not whole, or of another run.", Remedy: "Open the one that the terminal shows now, up to its last letter."})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: string(p.cookie), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	p.headers(w, "")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// begin is the page from which GitHub is gone to.
func (p *page) begin(fault *refusal) view {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == "" {
		p.state = newSecret()
	}
	ask, to := p.ask, *p.action
	to.RawQuery = url.Values{"state": {string(p.state)}}.Encode()
	ask.Action = to.String()
	return view{Title: "Make writ's GitHub App", Step: "Step 1 of 2", Ask: &ask, Fault: fault}
}

// back takes the code. The state that came with it counts once.
func (p *page) back(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	ours := p.state.is(q.Get("state"))
	if ours {
		p.state = ""
	}
	p.mu.Unlock()
	if !ours {
		p.show(w, http.StatusBadRequest, p.begin(&refusal{
			Text:   "This answer doesn't belong to what was asked here.",
			Remedy: "It may be of an older tab, or was used already. Begin again below; an App that you made on the way can be deleted in GitHub's settings.",
		}))
		return
	}
	p.take(w, r, q.Get("code"))
}

// again repeats a try that failed for a reason which may have passed.
func (p *page) again(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	code := p.code
	p.code = ""
	p.mu.Unlock()
	if code == "" {
		p.show(w, http.StatusConflict, p.begin(&refusal{Text: "There is nothing to try again.", Remedy: "Begin below."}))
		return
	}
	p.take(w, r, code)
}

// take has the code accepted, which goes on when the browser has left: a code
// counts once.
func (p *page) take(w http.ResponseWriter, r *http.Request, code string) {
	p.taking.Lock()
	defer p.taking.Unlock()
	if p.isLocked() {
		p.closed(w)
		return
	}
	app, no := p.accept(context.WithoutCancel(r.Context()), code)
	switch {
	case no == nil:
		p.mu.Lock()
		p.locked = true
		p.mu.Unlock()
		p.show(w, http.StatusOK, view{Title: "The App is made", Step: "Step 2 of 2", Made: &app})
		_ = http.NewResponseController(w).Flush() // the server is about to close
		close(p.done)
	case no.used:
		p.show(w, http.StatusBadGateway, p.begin(no))
	default:
		p.mu.Lock()
		p.code = code
		p.mu.Unlock()
		p.show(w, http.StatusBadGateway, view{Title: "Not yet", Step: "Step 1 of 2", Fault: no, Retry: true})
	}
}

func (p *page) closed(w http.ResponseWriter) {
	p.refuse(w, http.StatusGone, refusal{Text: "The App has been made, and this page is closed.", Remedy: "Go back to the terminal. If you made a second App in another tab, delete it in GitHub's settings: writ doesn't know it."})
}

func (p *page) refuse(w http.ResponseWriter, status int, why refusal) {
	p.show(w, status, view{Title: "Not here", Step: "writ setup", Fault: &why})
}

// show writes one answer. Nothing of it is kept, framed, or loaded from elsewhere,
// and its one form leads to GitHub.
func (p *page) show(w http.ResponseWriter, status int, v view) {
	v.Nonce = rand.Text()
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, v); err != nil {
		http.Error(w, "writ can't write this page", http.StatusInternalServerError)
		return
	}
	p.headers(w, v.Nonce)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // the browser may have left
}

func (p *page) headers(w http.ResponseWriter, nonce string) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+"'; base-uri 'none'; frame-ancestors 'none'; "+
		"form-action 'self' "+p.action.Scheme+"://"+p.action.Host)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "strict-origin") // GitHub is told where from, never the address with a token
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
