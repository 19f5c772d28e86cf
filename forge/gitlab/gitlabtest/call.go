package gitlabtest

import (
	"bytes"
	"crypto/md5" //nolint:gosec // an ETag, as GitLab makes it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the type of a parameter.
type kind int

const (
	text kind = iota
	integer
	boolean
	timestamp
	list   // of words, with commas between
	object // checked by the handler
)

// params are those that an address takes.
type params map[string]kind

// route is one address of the API.
type route struct {
	method, pattern string
	params          params
	paged           bool
	handle          func(*call) (any, error)
	created         bool // 201 for success
	empty           bool // 204 for success
	query           bool // a POST that only reads
}

// failure is an answer other than success.
type failure struct {
	status int
	body   any
}

func (f *failure) Error() string { return fmt.Sprint(f.status, " ", f.body) }

// says is the form of most refusals.
func says(status int, format string, args ...any) error {
	return &failure{status, map[string]any{"message": fmt.Sprintf(format, args...)}}
}

// errs is the form of refusals by the parser of parameters.
func errs(format string, args ...any) error {
	return &failure{http.StatusBadRequest, map[string]any{"error": fmt.Sprintf(format, args...)}}
}

var (
	errForbidden = says(http.StatusForbidden, "403 Forbidden")
	errNotFound  = says(http.StatusNotFound, "404 Not found")
)

// call is one request, with the lock held.
type call struct {
	s      *Server
	d      *data // the state, or a replica's
	r      *http.Request
	user   *User
	token  *token
	params map[string]any
	header http.Header // of the answer
	status int         // of success, if not the route's
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, at route) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	lie := s.due(r)
	status, header, body := s.answer(r, at, raw, lie)
	if status == http.StatusOK && r.Method == http.MethodGet {
		status = conditional(r, header, body)
	}
	s.requests = append(s.requests, Request{
		Method: r.Method, Path: strings.TrimPrefix(r.URL.RequestURI(), s.opts.Path+"/api/v4"), Body: string(raw),
		User: s.asking(r), Status: status,
	})
	s.mu.Unlock()
	s.post.wake()
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	if status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who has gone doesn't want it
}

// due finds the lie for a request. The lock is held.
func (s *Server) due(r *http.Request) *lie {
	for _, l := range s.lies {
		if l.left != 0 && (l.method == "" || l.method == r.Method) && strings.Contains(r.URL.EscapedPath(), l.path) {
			l.left--
			return l
		}
	}
	return nil
}

// conditional sets the tag of an answer, and says 304 to who has it already.
func conditional(r *http.Request, header http.Header, body []byte) int {
	sum := md5.Sum(body) //nolint:gosec // an ETag
	tag := `W/"` + hex.EncodeToString(sum[:]) + `"`
	header.Set("ETag", tag)
	header.Set("Cache-Control", "max-age=0, private, must-revalidate")
	if r.Header.Get("If-None-Match") == tag {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// answer does what is asked. Status 0 is a lost answer. The lock is held.
func (s *Server) answer(r *http.Request, at route, raw []byte, l *lie) (int, http.Header, []byte) {
	header := http.Header{}
	if l != nil && !l.Applied {
		return l.answer(header)
	}
	status, out := http.StatusOK, any(nil)
	c := &call{s: s, d: s.data, r: r, header: header}
	body, err := s.do(c, at, raw)
	var f *failure
	switch {
	case err != nil:
		f = err.(*failure) //nolint:errorlint // there are no others
		status, out = f.status, f.body
	case c.status != 0:
		status, out = c.status, body
	case at.created:
		status, out = http.StatusCreated, body
	case at.empty:
		status = http.StatusNoContent
	default:
		out = body
	}
	if l != nil {
		return l.answer(header)
	}
	if status == http.StatusNoContent {
		return status, header, nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return status, header, b
}

func (s *Server) do(c *call, at route, raw []byte) (any, error) {
	if err := c.authenticate(at); err != nil {
		return nil, err
	}
	if err := c.limit(); err != nil {
		return nil, err
	}
	if err := c.parse(at, raw); err != nil {
		return nil, err
	}
	if s.replica != nil && c.r.Method == http.MethodGet && s.lag > 0 {
		s.lag--
		c.d = s.replica
	}
	return at.handle(c)
}

// credential is the token that a request brings, in either header.
func credential(r *http.Request) string {
	if t := r.Header.Get("Private-Token"); t != "" {
		return t
	}
	t, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return t
}

// asking is whose request it is. The lock is held.
func (s *Server) asking(r *http.Request) int64 {
	if t := s.data.Tokens[credential(r)]; t != nil {
		return t.User
	}
	return 0
}

func (c *call) authenticate(at route) error {
	t := c.s.data.Tokens[credential(c.r)]
	if t == nil {
		return says(http.StatusUnauthorized, "401 Unauthorized")
	}
	if t.Revoked || !t.Expires.IsZero() && !c.s.opts.Now().Before(t.Expires) {
		return &failure{http.StatusUnauthorized, map[string]any{
			"error": "invalid_token", "error_description": "Token was revoked. You have to re-authorize from the user.",
		}}
	}
	c.token, c.user = t, c.s.data.Users[t.User]
	if c.user.State != "active" {
		return says(http.StatusForbidden, "403 Forbidden - Your account has been blocked.")
	}
	reads := c.r.Method == http.MethodGet || at.query
	self := strings.HasSuffix(at.pattern, "/self")
	if !slices.Contains(t.Scopes, "api") && (!reads || !slices.Contains(t.Scopes, "read_api")) && !self {
		return &failure{http.StatusForbidden, map[string]any{
			"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api read_api",
		}}
	}
	return nil
}

// manyRequests is a limit that no test reaches.
const manyRequests = 1 << 30

// limit counts a request, and sets the headers that gitlab.com sends.
func (c *call) limit() error {
	most := c.s.opts.RateLimit
	if most == 0 {
		most = manyRequests
	}
	c.s.spent[c.token.Value]++
	used := min(c.s.spent[c.token.Value], most)
	reset := c.s.opts.Now().Add(time.Minute)
	c.header.Set("Date", c.s.opts.Now().UTC().Format(http.TimeFormat))
	for name, value := range map[string]int64{"Limit": int64(most), "Observed": int64(used), "Remaining": int64(most - used), "Reset": reset.Unix()} {
		c.header.Set("Ratelimit-"+name, strconv.FormatInt(value, 10))
	}
	c.header.Set("Ratelimit-Resettime", reset.UTC().Format(http.TimeFormat))
	if c.s.spent[c.token.Value] > most {
		c.header.Set("Retry-After", "60")
		return says(http.StatusTooManyRequests, "Retry later")
	}
	return nil
}

// ResetLimits begins a new minute.
func (s *Server) ResetLimits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.spent)
}

// parse reads the parameters, and holds them to the published ones.
func (c *call) parse(at route, raw []byte) error {
	c.params = map[string]any{}
	if c.r.Method == http.MethodPost || c.r.Method == http.MethodPut {
		if len(raw) > 0 {
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			if err := d.Decode(&c.params); err != nil {
				return c.complain(at, "its body is no JSON object")
			}
		}
		if c.r.URL.RawQuery != "" || len(raw) > 0 && c.r.Header.Get("Content-Type") != "application/json" {
			return c.complain(at, "its parameters are not in a JSON body")
		}
	} else {
		for name, values := range c.r.URL.Query() {
			c.params[name] = values[0]
		}
	}
	for name, value := range c.params {
		want, known := at.params[name]
		if !known && at.paged && (name == "page" || name == "per_page") {
			want, known = integer, true
		}
		if !known {
			return c.complain(at, "the parameter %q is not known", name)
		}
		read, ok := convert(want, value)
		if !ok {
			return c.complain(at, "%s has the wrong type: %v", name, value)
		}
		c.params[name] = read
	}
	return nil
}

func (c *call) complain(at route, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	c.s.complaints = append(c.s.complaints, at.method+" "+at.pattern+": "+what)
	return errs("%s", what)
}

// convert reads a value, from JSON or a query.
func convert(to kind, value any) (any, bool) {
	word, isWord := value.(string)
	switch to {
	case text:
		return word, isWord
	case list:
		if word == "" {
			return []string(nil), isWord
		}
		return strings.Split(word, ","), isWord
	case integer:
		n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
		return n, err == nil
	case boolean:
		b, err := strconv.ParseBool(fmt.Sprint(value))
		return b, err == nil
	case timestamp:
		t, err := time.Parse(time.RFC3339, word)
		return t, err == nil
	}
	return value, true
}

// The parameters by name, and whether they were given.

func (c *call) word(name string) (string, bool) {
	v, ok := c.params[name].(string)
	return v, ok
}

func (c *call) words(name string) []string {
	v, _ := c.params[name].([]string)
	return v
}

func (c *call) number(name string) int64 {
	v, _ := c.params[name].(int64)
	return v
}

func (c *call) flag(name string) bool {
	v, _ := c.params[name].(bool)
	return v
}

// path is a number in the address; 0 for none.
func (c *call) path(name string) int64 {
	n, err := strconv.ParseInt(c.r.PathValue(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
