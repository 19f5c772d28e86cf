package local

import (
	"bytes"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
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

func (v *visit) changes() error {
	f, err := v.repo()
	if err != nil {
		return err
	}
	list, err := v.client.ListChanges(v.r.Context(), f.Repo.Repo)
	if err != nil {
		return err
	}
	slices.Reverse(list)
	f.Tab, f.Main = "changes", list
	return v.show(http.StatusOK, "changes", f)
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

// functions are what templates may call.
func functions() template.FuncMap {
	md := newMarkdown()
	return template.FuncMap{
		"markdown": func(text string) template.HTML { return markdown(md, text) },
		"when":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"shown":    shown,
		"short":    func(oid string) string { return shorten(oid, shortOID) },
		"digest":   func(d string) string { return shorten(strings.TrimPrefix(d, "sha256:"), shortDigest) },
		"op":       opClass,
		"sign":     func(op byte) string { return string(rune(op)) },
		"face":     face,
		"initial":  func(u forge.User) string { return strings.ToUpper(u.Login[:min(1, len(u.Login))]) },
		"may":      atLeast,
		"verb":     verb,
		"mark":     checkMark,
		"label":    func(name, class string) labelView { return labelView{name, class} },
	}
}

// markdown renders a text. What it returns is the only text on the page that
// isn't escaped by the template.
func markdown(md goldmark.Markdown, said string) template.HTML {
	var b bytes.Buffer
	if err := md.Convert([]byte(said), &b); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(said) + "</pre>")
	}
	return template.HTML(b.String())
}

// shown is a line of somebody's text in which controls, and what turns the reading
// direction or can't be seen, stand as escapes: a title must not pass for another one.
// Parts of emoji stay.
func shown(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || strings.ContainsRune("\u200b\u2060\ufeff\u00ad", r) || r >= 0xe0000 && r <= 0xe007f {
			fmt.Fprintf(&b, "\\u{%x}", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

const (
	shortOID    = 10
	shortDigest = 12
)

// labelView is a label as the parts draw it.
type labelView struct{ Name, Class string }

func shorten(s string, n int) string { return s[:min(n, len(s))] }

func digits(n int64) string { return strconv.FormatInt(n, 10) }

func atLeast(have forge.Permission, need string) (bool, error) {
	p, err := forge.ParsePermission(need)
	return have >= p, err
}

func opClass(op byte) string {
	switch op {
	case '+':
		return "added"
	case '-':
		return "deleted"
	case '@':
		return "part"
	}
	return "same"
}

// face is a reaction as a character.
func face(r forge.Reaction) string {
	switch r {
	case forge.ReactionSeen:
		return "👀"
	case forge.ReactionDone:
		return "🚀"
	case forge.ReactionRefused:
		return "👎"
	case forge.ReactionConfused:
		return "😕"
	}
	return string(r)
}

// verb says what an event was.
func verb(kind string) string {
	switch forge.EventKind(kind) {
	case forge.EventLabeled:
		return "added the label"
	case forge.EventUnlabeled:
		return "removed the label"
	case forge.EventClosed:
		return "closed this"
	case forge.EventReopened:
		return "reopened this"
	case forge.EventEdited:
		return "edited the text"
	case forge.EventTransferred:
		return "transferred this"
	case eventMerged:
		return "merged this"
	}
	return kind
}

func checkMark(s forge.CheckState) string {
	switch s {
	case forge.CheckPassed:
		return "✓"
	case forge.CheckFailed:
		return "✗"
	}
	return "…"
}

// hueClass is the style sheet's class nearest to a colour. Colours come as
// classes because the page's policy allows no inline style.
func hueClass(color string) string {
	n, err := strconv.ParseUint(color, 16, 32)
	if err != nil {
		return "hue-grey"
	}
	const sectors, degrees = 12, 360
	r, g, b := float64(n>>16&0xff), float64(n>>8&0xff), float64(n&0xff)
	top, low := max(r, g, b), min(r, g, b)
	spread := top - low
	const grey = 24 // of 255: less colour than that is none
	if spread < grey {
		return "hue-grey"
	}
	var hue float64
	switch top {
	case r:
		hue = 60 * (g - b) / spread
	case g:
		hue = 60*(b-r)/spread + 120
	default:
		hue = 60*(r-g)/spread + 240
	}
	sector := (int(hue+degrees+degrees/sectors/2) % degrees) / (degrees / sectors)
	return fmt.Sprintf("hue-%d", sector)
}

// newMarkdown renders what anybody may have written: raw HTML and addresses that
// could run something are left out, because html.WithUnsafe isn't given. What is to be
// folded is, as on the hosted forges.
func newMarkdown() goldmark.Markdown {
	const first = 1 // before goldmark's own renderers
	return goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(folds{}, first))),
		goldmark.WithRendererOptions(html.WithHardWraps(),
			renderer.WithNodeRenderers(util.Prioritized(noImages{}, first), util.Prioritized(folds{}, first))),
	)
}

// noImages shows an image's words instead of loading it: to load it would tell
// its server who reads the page, and when.
type noImages struct{}

// RegisterFuncs is renderer.NodeRenderer.
func (noImages) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(`<span class="tag">image</span> `) // into memory
		}
		return ast.WalkContinue, nil
	})
}

// fold is a part of a text that its reader unfolds: what stands between two blocks of raw
// HTML that say so, and nothing else.
type fold struct {
	ast.BaseBlock
	summary string
}

var (
	foldKind  = ast.NewNodeKind("Fold")
	foldBegin = lazyregexp.New(`^<details>\s*<summary>([^<>]*)</summary>\s*$`)
	foldEnd   = lazyregexp.New(`^</details>\s*$`)
)

func (f *fold) Kind() ast.NodeKind            { return foldKind }
func (f *fold) Dump(source []byte, level int) { ast.DumpHelper(f, source, level, nil, nil) }

// folds finds and renders them. They don't stand in one another, and one without an end is
// left out as other HTML is, so that no tag is left open.
type folds struct{}

// Transform is parser.ASTTransformer.
func (folds) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var begin ast.Node
	for n := doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		switch said := rawHTML(n, reader.Source()); {
		case foldBegin().MatchString(said):
			begin = n
		case begin != nil && foldEnd().MatchString(said):
			f := &fold{summary: foldBegin().FindStringSubmatch(rawHTML(begin, reader.Source()))[1]}
			for in := begin.NextSibling(); in != n; in = begin.NextSibling() {
				f.AppendChild(f, in)
			}
			doc.ReplaceChild(doc, begin, f)
			doc.RemoveChild(doc, n)
			begin = nil
		}
		n = next
	}
}

// rawHTML is a block of raw HTML, "" for another node.
func rawHTML(n ast.Node, source []byte) string {
	block, ok := n.(*ast.HTMLBlock)
	if !ok {
		return ""
	}
	return string(block.Lines().Value(source))
}

// RegisterFuncs is renderer.NodeRenderer.
func (folds) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(foldKind, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		said := "</details>\n"
		if f, ok := n.(*fold); ok && entering {
			said = "<details><summary>" + template.HTMLEscapeString(f.summary) + "</summary>\n"
		}
		_, _ = w.WriteString(said) // into memory
		return ast.WalkContinue, nil
	})
}
