package smarthttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The defaults of Options.
const (
	// DefaultTimeout is long enough for a large clone over a slow line.
	DefaultTimeout = 15 * time.Minute
	// DefaultMaxRequest is in bytes: one push of a large repository.
	DefaultMaxRequest = 2 << 30
	// DefaultMaxProcesses keeps a small machine usable under a crowd of clones.
	DefaultMaxProcesses = 32
)

// What Authorize may answer with, wrapped or not.
var (
	// ErrUnauthenticated asks for credentials, or for better ones: 401.
	ErrUnauthenticated = errors.New("credentials are needed")
	// ErrForbidden says that this user may not do this: 403.
	ErrForbidden = errors.New("not permitted")
	// ErrNotFound says that there is no such repository, for this user: 404.
	ErrNotFound = errors.New("no such repository")
)

// RefUpdate is a ref that a push has moved, or that a client asks to move. Old
// and New are object ids of 40 hexadecimal digits; all zeros: there was none, or
// there is none any more.
type RefUpdate struct {
	Ref      string
	Old, New string
}

// Options are the settings of a Handler.
type Options struct {
	// Root is the directory below which the repositories are.
	Root string

	// Authorize says who asks, and whether they may read (or write to) the
	// repository of that name. It is called for each request, before it is known
	// whether the repository exists; credentials are in r. An error that is none
	// of the three above is answered with 500 and logged. It must be safe for
	// concurrent use. Required.
	Authorize func(r *http.Request, repo string, write bool) (user string, err error)

	// PostReceive is told which refs a push has moved, in the order of its
	// commands, after git has ended and before the answer to the client ends. It
	// is not called for a push that moved none. Its context outlives the client by
	// a minute. Pushes at the same time call it at the same time. Optional.
	PostReceive func(ctx context.Context, repo, user string, updates []RefUpdate)

	Timeout      time.Duration // of one request; 0: DefaultTimeout
	MaxRequest   int64         // bytes of one push, as sent and inflated; 0: DefaultMaxRequest
	MaxProcesses int           // git processes at one time, others wait; 0: DefaultMaxProcesses
	Config       []string      // further settings of git, "key=value"
	Env          []string      // added to the environment of git, "KEY=value"
	GitBinary    string        // the git program; empty: "git"
	Logger       *slog.Logger  // nil: nothing is logged
}

// Handler serves repositories. It is safe for concurrent use.
type Handler struct {
	opts  Options
	slots chan struct{} // one for each process
	log   *slog.Logger
}

// New returns a Handler. It is an error if Authorize is missing or Root is no
// directory.
func New(opts Options) (*Handler, error) {
	if opts.Authorize == nil {
		return nil, errors.New("smarthttp: Options.Authorize is missing; who may read must be decided")
	}
	root, err := filepath.Abs(opts.Root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, fmt.Errorf("smarthttp: the root of the repositories: %w", err)
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("smarthttp: the root of the repositories, %s, is no directory", root)
	}
	opts.Root = root
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.MaxRequest <= 0 {
		opts.MaxRequest = DefaultMaxRequest
	}
	if opts.MaxProcesses <= 0 {
		opts.MaxProcesses = DefaultMaxProcesses
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Handler{opts: opts, slots: make(chan struct{}, opts.MaxProcesses), log: log}, nil
}

// request is one request, as far as its URL tells.
type request struct {
	service   string // upload-pack or receive-pack
	advertise bool   // only what the server offers is asked for
	repo      string // its name
	user      string
	dir       string // the repository
	version   string // of the protocol, "" if none was asked for
}

const (
	uploadPack  = "upload-pack"
	receivePack = "receive-pack"
)

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	q, err := route(r)
	if err == nil {
		q.user, err = h.opts.Authorize(r, q.repo, q.service == receivePack)
	}
	if err == nil {
		q.dir, err = h.find(q.repo)
	}
	if err == nil {
		w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
		w.Header().Set("Expires", "Fri, 01 Jan 1980 00:00:00 GMT")
		w.Header().Set("Pragma", "no-cache")
		err = h.serve(w, r, q)
	}
	if err != nil {
		h.refuse(w, r, err)
	}
	h.log.Debug("git over http", "repo", q.repo, "service", q.service, "advertise", q.advertise,
		"user", q.user, "took", time.Since(began), "err", err)
}

// find returns the directory of a repository. Nothing on the way to it may be a
// symbolic link, which would give a repository a second name, or a repository:
// whoever may push refs named x/HEAD, x/objects/y and x/refs/y could make a
// directory of refs look like one.
func (h *Handler) find(name string) (string, error) {
	dir := h.opts.Root
	for segment := range strings.SplitSeq(name, "/") {
		if isRepository(dir) {
			return "", ErrNotFound
		}
		dir = filepath.Join(dir, segment)
		if !isKind(dir, os.ModeDir) {
			return "", ErrNotFound
		}
	}
	// git would go on to a .git within.
	if _, err := os.Lstat(filepath.Join(dir, ".git")); !os.IsNotExist(err) || !isRepository(dir) {
		return "", ErrNotFound
	}
	return dir, nil
}

// serve runs git for a request that is allowed.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, q request) error {
	until := time.Now().Add(h.opts.Timeout)
	a := &answer{w: w, control: http.NewResponseController(w), until: until}
	// The deadline belongs to the connection, which may serve others after us.
	defer func() { _ = a.control.SetWriteDeadline(time.Time{}) }()
	var err error
	switch {
	case q.advertise:
		err = h.advertise(r, a, q)
	case q.service == receivePack:
		err = h.receive(r, a, q)
	default:
		err = h.upload(r, a, q)
	}
	if err != nil && a.begun {
		return fmt.Errorf("%w: %w", errAnswered, err)
	}
	if err == nil && !a.begun {
		a.begin()
	}
	return err
}

// upload answers a fetch.
func (h *Handler) upload(r *http.Request, a *answer, q request) error {
	ctx, cancel := context.WithDeadline(r.Context(), a.until)
	defer cancel()
	defer r.Body.Close()
	b, err := openBody(a.w, r, q.service, min(maxNegotiation, h.opts.MaxRequest), a.until)
	if err != nil {
		return err
	}
	a.kind = "application/x-git-" + uploadPack + "-result"
	return h.run(ctx, q, b, func(stdout io.Reader, _ *feed) error { return pass(a, nil, stdout) })
}

// statusError is an answer other than 200. Its text is for the client.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// route reads method, path and query.
func route(r *http.Request) (request, error) {
	var q request
	var method, suffix string
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/info/refs"):
		method, suffix, q.advertise = http.MethodGet, "/info/refs", true
		if s, ok := strings.CutPrefix(r.URL.Query().Get("service"), "git-"); ok {
			q.service = s
		}
	case strings.HasSuffix(path, "/git-"+uploadPack):
		method, suffix, q.service = http.MethodPost, "/git-"+uploadPack, uploadPack
	case strings.HasSuffix(path, "/git-"+receivePack):
		method, suffix, q.service = http.MethodPost, "/git-"+receivePack, receivePack
	default:
		return q, ErrNotFound
	}
	if r.Method != method {
		return q, &statusError{http.StatusMethodNotAllowed, "this is asked for by " + method}
	}
	if q.service != uploadPack && q.service != receivePack {
		return q, &statusError{http.StatusForbidden, "only git's smart protocol is spoken here"}
	}
	q.repo = strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, suffix), "/")
	if !validName(q.repo) {
		return q, ErrNotFound
	}
	if q.service == uploadPack { // there is no newer way to push
		q.version = protocolVersion(r.Header.Get("Git-Protocol"))
	}
	return q, nil
}

// Limits on names. Longer ones serve nobody but an attacker.
const (
	maxName     = 1024 // bytes
	maxSegment  = 255  // bytes, as in file systems
	maxSegments = 8
)

// validName says whether a name may be looked for at all (case G1): segments
// with a slash between them, none empty, none that begins with a dot or dash. So
// a name is a relative path that stays below the root, and no option.
func validName(name string) bool {
	if len(name) > maxName || !utf8.ValidString(name) || strings.Contains(name, `\`) ||
		strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	segments := strings.Split(name, "/")
	for _, s := range segments {
		if s == "" || s[0] == '.' || s[0] == '-' || len(s) > maxSegment {
			return false
		}
	}
	return len(segments) <= maxSegments
}

// protocolVersion picks the version out of a Git-Protocol header. Nothing else
// of it reaches a process.
func protocolVersion(header string) string {
	for field := range strings.SplitSeq(header, ":") {
		if field == "version=1" || field == "version=2" {
			return field
		}
	}
	return ""
}

// refuse answers with an error, unless an answer has begun.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var status *statusError
	var broken *errBroken
	switch {
	case errors.Is(err, errAnswered):
		return
	case errors.As(err, &broken):
		http.Error(w, "the request broke off", http.StatusBadRequest)
	case errors.As(err, &status):
		if status.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		http.Error(w, status.text, status.status)
	case errors.Is(err, ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", `Basic realm="git", charset="UTF-8"`)
		http.Error(w, ErrUnauthenticated.Error(), http.StatusUnauthorized)
	case errors.Is(err, ErrForbidden):
		http.Error(w, ErrForbidden.Error(), http.StatusForbidden)
	case errors.Is(err, ErrNotFound):
		http.Error(w, ErrNotFound.Error(), http.StatusNotFound)
	default:
		h.log.Error("a git request failed", "path", r.URL.Path, "err", err)
		http.Error(w, "the server failed; its log says why", http.StatusInternalServerError)
	}
}

// isRepository says whether a directory looks like a bare repository.
func isRepository(dir string) bool {
	return isKind(filepath.Join(dir, "HEAD"), 0) && isKind(filepath.Join(dir, "objects"), os.ModeDir) &&
		isKind(filepath.Join(dir, "refs"), os.ModeDir)
}

// isKind says whether path is of that type, and no symbolic link to one.
func isKind(path string, kind os.FileMode) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == kind
}
