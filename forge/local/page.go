package local

import (
	"bytes"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/writbot/writ/forge"
)

//go:embed page
var pageFiles embed.FS

const (
	cookieName = "writ_forge"
	// maxForm is in bytes: the largest text, percent-encoded, and a little.
	maxForm = 3*maxBody + 64<<10
	// policy lets the page load its own style sheet and script, and nothing else
	// from anywhere: neither what a comment names nor what slips through it.
	policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// pages draws and acts for browsers.
type pages struct {
	s         *Store
	templates map[string]*template.Template
}

// visit is one request to the page.
type visit struct {
	*pages
	w      http.ResponseWriter
	r      *http.Request
	login  login
	logged bool
	client *Client
}

// frame is what every template gets.
type frame struct {
	Title  string
	User   forge.User
	Logged bool
	CSRF   string
	Repo   *forge.Repository
	May    forge.Permission // in Repo
	Tab    string
	Main   any
}

// page makes the handler of everything that isn't git.
func (s *Store) page() (http.Handler, error) {
	p := &pages{s: s, templates: map[string]*template.Template{}}
	for _, name := range []string{"repos", "issues", "issue", "changes", "change", "new", "login", "error"} {
		t, err := template.New("layout.html").Funcs(functions()).ParseFS(pageFiles, "page/layout.html", "page/parts.html", "page/"+name+".html")
		if err != nil {
			return nil, err
		}
		p.templates[name] = t
	}
	mux := http.NewServeMux()
	mux.Handle("GET /-/style.css", file("page/style.css", "text/css; charset=utf-8"))
	mux.Handle("GET /-/live.js", file("page/live.js", "text/javascript; charset=utf-8"))
	for pattern, view := range map[string]func(*visit) error{
		"GET /{$}":                         (*visit).repos,
		"GET /-/login":                     (*visit).loginForm,
		"GET /{owner}/{name}":              (*visit).issues,
		"GET /{owner}/{name}/issues":       (*visit).issues,
		"GET /{owner}/{name}/issues/new":   (*visit).newIssue,
		"GET /{owner}/{name}/issues/{n}":   (*visit).issue,
		"GET /{owner}/{name}/changes":      (*visit).changes,
		"GET /{owner}/{name}/changes/{n}":  (*visit).change,
		"GET /":                            func(*visit) error { return refuse(forge.NotFound, "this page is not there") },
		"POST /-/login":                    (*visit).logIn,
		"POST /-/logout":                   (*visit).logOut,
		"POST /{owner}/{name}/issues":      (*visit).file,
		"POST /{owner}/{name}/issues/{n}":  (*visit).act,
		"POST /{owner}/{name}/changes/{n}": (*visit).act,
		"POST /":                           func(*visit) error { return refuse(forge.NotFound, "this page is not there") },
	} {
		mux.Handle(pattern, p.handle(view))
	}
	return http.NewCrossOriginProtection().Handler(mux), nil
}

func (v *visit) repos() error {
	all, err := v.client.Repositories(v.r.Context())
	if err != nil {
		return err
	}
	var lines []repoLine
	err = v.s.view(v.r.Context(), "count issues", func(x *session) error {
		for _, r := range all {
			line := repoLine{Repository: r}
			err := x.one(to(&line.Issues, &line.Changes), `SELECT count(*) FILTER (WHERE NOT change), count(*) FILTER (WHERE change)
				FROM items WHERE repo = ? AND state = 'open'`, r.ID)
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "repos", frame{Title: "Repositories", Main: lines})
}

func (v *visit) newIssue() error {
	f, err := v.repo()
	if err != nil {
		return err
	}
	if !v.logged {
		return refuse(forge.Unauthorized, "log in first")
	}
	f.Tab = "issues"
	return v.show(http.StatusOK, "new", f)
}

func (v *visit) issue() error {
	f, view, err := v.item()
	if err != nil {
		return err
	}
	if view.Issue.IsChange {
		return refuse(forge.NotFound, "#%d is a change", view.Issue.Number)
	}
	f.Tab, f.Main = "issues", view
	return v.show(http.StatusOK, "issue", f)
}

func file(name, kind string) http.Handler {
	data, err := pageFiles.ReadFile(name)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err != nil { // only if the name above is wrong
			http.Error(w, "not there", http.StatusNotFound)
			return
		}
		head(w, kind)
		_, _ = w.Write(data) // the browser may be gone
	})
}

func head(w http.ResponseWriter, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// handle makes a visit of a request: who is it, may the form be believed.
func (p *pages) handle(view func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{pages: p, w: w, r: r}
		if c, err := r.Cookie(cookieName); err == nil {
			v.login, v.logged = p.s.sessions.find(c.Value)
		}
		v.client = p.s.As(v.login.user)
		err := v.believe()
		if err == nil {
			err = view(v)
		}
		if err != nil {
			v.fail(err)
		}
	})
}

// believe refuses a form that this forge did not give to this login.
func (v *visit) believe() error {
	if v.r.Method != http.MethodPost {
		return nil
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return refuse(forge.Invalid, "the form can't be read, or is too large")
	}
	if !v.logged {
		if v.r.URL.Path == "/-/login" {
			return nil // it carries the token itself
		}
		return refuse(forge.Unauthorized, "log in first")
	}
	if subtle.ConstantTimeCompare([]byte(v.r.PostForm.Get("csrf")), []byte(v.login.csrf)) != 1 {
		return refuse(forge.Forbidden, "the form is not from this login: load the page again")
	}
	return nil
}

// show draws a page. A template that fails must not leave half a page behind.
func (v *visit) show(status int, name string, f frame) error {
	f.User, f.Logged, f.CSRF = v.login.user, v.logged, v.login.csrf
	var b bytes.Buffer
	if err := v.templates[name].Execute(&b, f); err != nil {
		return fmt.Errorf("draw the page %s: %w", name, err)
	}
	head(v.w, "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = b.WriteTo(v.w) // the browser may be gone
	return nil
}

// statusOf maps reasons to answers, here and nowhere else.
func statusOf(r forge.Reason) int {
	switch r {
	case forge.NotFound:
		return http.StatusNotFound
	case forge.Unauthorized:
		return http.StatusUnauthorized
	case forge.Forbidden:
		return http.StatusForbidden
	case forge.Invalid:
		return http.StatusUnprocessableEntity
	case forge.Conflict:
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// fail shows a refusal in its own words, and a failure without details.
func (v *visit) fail(err error) {
	status, words := http.StatusInternalServerError, "The forge failed; its log says why."
	var e *forge.Error
	if errors.As(err, &e) && statusOf(e.Reason) != status {
		status, words = statusOf(e.Reason), e.Error()
	} else {
		v.s.log.Error("a page failed", "path", v.r.URL.Path, "error", err)
	}
	if err := v.show(status, "error", frame{Title: http.StatusText(status), Main: words}); err != nil {
		v.s.log.Error("the page of an error failed", "error", err)
		http.Error(v.w, words, status)
	}
}

// back ends an act: the browser asks for a page again, so that loading it again
// doesn't act again.
func (v *visit) back(path string) error {
	head(v.w, "text/plain; charset=utf-8")
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// repo finds the repository of the path, for those who may read it.
func (v *visit) repo() (frame, error) {
	var id int64
	owner, name := v.r.PathValue("owner"), v.r.PathValue("name")
	err := v.s.view(v.r.Context(), "find "+owner+"/"+name, func(x *session) error {
		row, err := x.repoNamed(owner, name)
		id = row.ID
		return err
	})
	if err != nil {
		return frame{}, err
	}
	about, err := v.client.Repository(v.r.Context(), id)
	if err != nil {
		return frame{}, err
	}
	f := frame{Title: about.String(), Repo: &about}
	if v.logged {
		f.May, err = v.client.Permission(v.r.Context(), about.Repo, v.login.user.ID)
	}
	return f, err
}

func (v *visit) number() (int64, error) {
	n, err := strconv.ParseInt(v.r.PathValue("n"), 10, 64)
	if err != nil {
		return 0, refuse(forge.NotFound, "%q is no number", v.r.PathValue("n"))
	}
	return n, nil
}

func (v *visit) loginForm() error {
	return v.show(http.StatusOK, "login", frame{Title: "Log in"})
}

// logIn takes a token, and gives the browser a cookie for it.
func (v *visit) logIn() error {
	u, err := v.s.Authenticate(v.r.Context(), v.r.PostForm.Get("token"))
	if forge.IsReason(err, forge.Unauthorized) {
		return v.show(http.StatusUnauthorized, "login", frame{Title: "Log in", Main: "This token is nobody's."})
	}
	if err != nil {
		return err
	}
	v.cookie(v.s.sessions.begin(u), sessionAge)
	return v.back("/")
}

// sessionAge is how long a browser keeps its login, at most.
const sessionAge = 12 * time.Hour

func (v *visit) cookie(value string, age time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: v.r.TLS != nil,
	})
}

func (v *visit) logOut() error {
	if c, err := v.r.Cookie(cookieName); err == nil {
		v.s.sessions.drop(c.Value)
	}
	v.cookie("", -time.Second)
	return v.back("/")
}
