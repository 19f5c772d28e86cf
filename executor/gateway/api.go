package gateway

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// API is what may be said to a provider of models, and heard from it: a table of data in
// apis, which apis/README.md describes.
type API struct {
	Name string `json:"name"`
	// Tested are the agents, with their versions, whose requests the table was held
	// against.
	Tested []string `json:"tested"`
	Host   string   `json:"host"` // the provider's own
	// Header carries the key, behind Prefix.
	Header string `json:"header"`
	Prefix string `json:"prefix,omitempty"`
	// Sent and Heard are the fields of a request's and an answer's head that pass.
	Sent  []string `json:"sent"`
	Heard []string `json:"heard"`
	// Tokens are the words of a field that pass, of lists with commas between them.
	Tokens    map[string][]string `json:"tokens,omitempty"`
	Endpoints []endpoint          `json:"endpoints"`
	// Trial is a request that costs nothing; nil: there is none.
	Trial  *trial            `json:"trial,omitempty"`
	Shapes map[string]*shape `json:"shapes"`
	// Rows are what the operator lets through beside the table; see [API.With].
	Rows []string `json:"-"`
}

type endpoint struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Query are the names in its query that pass, with the values that they may have.
	Query map[string][]string `json:"query,omitempty"`
	Body  *shape              `json:"body,omitempty"` // nil: it has none
	// Usage is the form in which its answer says what it used; empty: it costs nothing.
	Usage string `json:"usage,omitempty"`
}

//go:embed apis/*.json
var apiFiles embed.FS

// APIs are the interfaces that have a table, by their names. Nobody may change them.
var APIs = sync.OnceValue(func() map[string]*API {
	out := map[string]*API{}
	files, err := fs.Glob(apiFiles, "apis/*.json")
	for _, name := range files {
		data, rerr := apiFiles.ReadFile(name)
		a, aerr := readAPI(data)
		if err = errors.Join(err, rerr, aerr); err == nil {
			out[a.Name] = a
		}
	}
	if err != nil {
		panic(err) // a table of this program's own; a test reads each
	}
	return out
})

// readAPI reads a table, and refuses one with a mistake in it.
func readAPI(data []byte) (*API, error) {
	a := &API{}
	if err := json.Unmarshal(data, a, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Shapes)) {
		if err := a.Shapes[name].check(name, a.Shapes); err != nil {
			return nil, err
		}
	}
	for _, e := range a.Endpoints {
		if _, known := usageForms[e.Usage]; e.Usage != "" && (!known || e.Body == nil) {
			return nil, fmt.Errorf("%s: the usage %q isn't known, or there is no body to go by", e.Path, e.Usage)
		}
		if e.Body == nil {
			continue
		}
		if err := e.Body.check(e.Path, a.Shapes); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Bounds of a request to a provider, whose body is read before anything is sent.
const (
	// maxBody is the most that providers take, in bytes.
	maxBody = 32 << 20
	// maxBodies are how many bodies are in memory at once: until their answers begin.
	maxBodies = 4
	// bodyTime is how long one may take to arrive: it comes from the same machine.
	bodyTime = 30 * time.Second
)

// allowedOf is what is sent of a request to a host with a credential. What is left out is
// recorded.
func (x *exchange) allowedOf(ctx context.Context, req *http.Request, c *Credential) (*http.Request, error) {
	if c.API == nil {
		return req, nil
	}
	x.record.API = c.API.Name
	select {
	case x.server.bodies <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	x.holdsBody = true
	out, left, err := x.admit(req, c.API)
	if len(left) > 0 {
		text := "left out: " + strings.Join(left, ", ")
		x.record.Detail = text[:min(len(text), maxText)]
	}
	if err != nil {
		return out, err
	}
	return out, x.reserve(ctx)
}

// giveBack gives the place back that a body has in memory: it was sent, or never will be.
func (x *exchange) giveBack() {
	if x.holdsBody {
		x.holdsBody = false
		<-x.server.bodies
	}
}

// admit reads a request to a provider whole, and gives what is sent instead of it. left
// are the things that were left out.
func (x *exchange) admit(req *http.Request, a *API) (out *http.Request, left []string, err error) {
	e, err := a.endpoint(req)
	if err != nil {
		return nil, nil, err
	}
	out, s := req.Clone(req.Context()), &sieve{shapes: a.Shapes, rows: a.Rows}
	if err := e.query(out.URL, s); err != nil {
		return nil, nil, err
	}
	a.head(out.Header, s)
	if e.Body == nil {
		if req.ContentLength != 0 {
			return nil, nil, refused("body", "this endpoint has none")
		}
		return out, s.left, nil
	}
	data, err := x.body(req)
	if err != nil {
		return nil, nil, err
	}
	tree, err := readTree(data)
	if err != nil {
		return nil, nil, &fault{Denied, CodeBody, "body: " + errTree.Error(), err}
	}
	tree, _, err = s.take(e.Body, "", tree)
	if err != nil {
		return nil, nil, a.remedied(err, s.lacks)
	}
	if err := e.bounded(tree); err != nil {
		return nil, s.left, err
	}
	tree = e.askUsage(tree)
	if data, err = writeTree(tree); err != nil {
		return nil, nil, &fault{Denied, CodeBody, "body: " + errTree.Error(), err}
	}
	x.meter = e.meterOf(tree, len(data), req.URL.EscapedPath())
	out.Header.Set("Content-Type", "application/json")
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	return out, s.left, nil
}

// endpoint is that of a request. Its path is compared as it was sent.
func (a *API) endpoint(req *http.Request) (endpoint, error) {
	for _, e := range a.Endpoints {
		_, named := e.model(req.URL.EscapedPath())
		if req.Method == e.Method && (named || req.URL.EscapedPath() == e.Path) {
			return e, nil
		}
	}
	row := req.Method + " " + clipped(req.URL.EscapedPath())
	err := denied(CodeEndpoint, row+" isn't allowed there")
	for _, e := range a.Endpoints {
		if req.Method == http.MethodPost && e.Usage != "" {
			row += " as " + e.Path
			break
		}
	}
	return endpoint{}, a.remedied(err, row)
}

// remedied says in a refusal which row of the operator's would let the request through, if
// there is one.
func (a *API) remedied(err error, row string) error {
	f, isFault := errors.AsType[*fault](err)
	if _, werr := a.With([]string{row}); row == "" || werr != nil || !isFault {
		return err
	}
	if text := f.msg + "; the row for credential.allow: " + row; len(text) <= maxText {
		f.msg = text
	}
	return err
}

// model is the one that a path names where the endpoint has a star: in one segment, spelled
// as every reader reads it.
func (e endpoint) model(path string) (string, bool) {
	before, after, star := strings.Cut(e.Path, "*")
	name, begins := strings.CutPrefix(path, before)
	name, ends := strings.CutSuffix(name, after)
	return name, star && begins && ends && isModel(name)
}

// isModel reports whether a text is a model's name and can be nothing else in a path.
func isModel(name string) bool {
	return name != "" && len(name) <= maxPlace && !strings.HasPrefix(name, ".") && name == modelName(name) && !strings.ContainsAny(name, ":/?")
}

func (e endpoint) query(u *url.URL, s *sieve) error {
	asked, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return denied(CodeRequest, "a query that two readers may read differently")
	}
	kept := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if values := asked[name]; len(values) == 1 && slices.Contains(e.Query[name], values[0]) {
			kept.Set(name, values[0])
			continue
		}
		s.leave("query." + name)
	}
	u.RawQuery = kept.Encode()
	return nil
}

// head leaves in a request's head what the table has. The provider is asked not to
// compress its answer.
func (a *API) head(h http.Header, s *sieve) {
	for name := range h {
		if !slices.Contains(a.Sent, name) {
			delete(h, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Tokens)) {
		var kept []string
		for _, field := range h.Values(name) {
			for token := range strings.SplitSeq(field, ",") {
				switch token = strings.TrimSpace(token); {
				case slices.Contains(a.Tokens[name], token):
					kept = append(kept, token)
				case token != "":
					s.leave(strings.ToLower(name) + "." + token)
				}
			}
		}
		if h.Del(name); len(kept) > 0 {
			h.Set(name, strings.Join(kept, ","))
		}
	}
	h.Set("Accept-Encoding", "identity")
}

// body reads that of a request.
func (x *exchange) body(req *http.Request) ([]byte, error) {
	if coding := coded(req.Header); coding != "" {
		return nil, refused("body", "it is compressed ("+clipped(coding)+"): have the agent send it as it is")
	}
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, refused("body", "it isn't of the type application/json")
	}
	if req.Header.Get("Expect") != "" {
		if _, err := io.WriteString(x.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
		req.Header.Del("Expect")
	}
	if err := x.client.SetReadDeadline(time.Now().Add(x.server.bodyTime)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return nil, &fault{Denied, CodeRequest, "no whole body", err}
	}
	if len(data) > maxBody {
		return nil, refused("body", fmt.Sprintf("it has more than %d bytes", maxBody))
	}
	return data, x.client.SetReadDeadline(time.Time{})
}

// shouldRetry is the field by which the providers' own clients go. Without it some ask ten
// times again, for minutes, whatever the status.
const shouldRetry = "X-Should-Retry"

// hear makes a provider's answer fit for the inside. Of one that speaks of the operator's
// account nothing passes but its status, and how long to wait; what no second try mends is
// said to be so. Another error comes inside without the ids of the account, read whole within
// a time; failure is the word for what it says went wrong, as far as that is known.
func (a *API) hear(answer *http.Response, within time.Duration) (failure string) {
	for name := range answer.Header {
		if !slices.Contains(a.Heard, name) {
			delete(answer.Header, name)
		}
	}
	if code := answer.StatusCode; code >= 400 && code < 500 && !slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests}, code) {
		answer.Header.Set(shouldRetry, "false")
	}
	var kind, why string
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired:
		kind, why = "authentication_error", "the provider doesn't take the key that the operator has for it"
	case http.StatusTooManyRequests:
		kind, why = "rate_limit_error", "the provider takes no more requests for now"
	default:
		if answer.StatusCode < http.StatusBadRequest {
			return ""
		}
		body := complaint(answer.Body, within)
		if contextFull().Match(body) && (answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusRequestEntityTooLarge) {
			failure = FailureContext
		}
		replaceBody(answer, body)
		return failure
	}
	_ = answer.Body.Close()
	answer.Header.Set("Content-Type", "application/json")
	replaceBody(answer, providersError(kind, CodeProvider, why))
	return ""
}

// maxComplaint is how much of an error's body comes inside, in bytes: providers write a few
// hundred.
const maxComplaint = 64 << 10

var (
	// accountID is an id of an account, as providers name their customers' companies,
	// projects, workspaces and users in the texts of errors: a word with a digit behind the
	// name of one, or a UUID.
	accountID = lazyregexp.New(`(?i)\b((?:org|organization|proj|project|user|acct|account|wrkspc|workspace)s?[-_ "'/:=]+(?:(?:number|id)[ "'/:=]+)?)[a-z0-9-]*[0-9][a-z0-9-]*|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`) //nolint:misspell // the providers spell it so

	// contextFull is what providers say of a request that is longer than the model's context.
	contextFull = lazyregexp.New(`(?i)context_length_exceeded|prompt is too long|maximum context length|exceeds? (the )?context|input token count[^"]{0,80} exceeds|request_too_large`)
)

// complaint is the text of an error with 0 for the ids of the account, which leaves JSON what
// it is. What breaks off, or doesn't come in time, is cut.
func complaint(body io.ReadCloser, within time.Duration) []byte {
	late := time.AfterFunc(within, func() { _ = body.Close() })
	defer late.Stop()
	data, _ := io.ReadAll(io.LimitReader(body, maxComplaint))
	_ = body.Close()
	return accountID().ReplaceAll(data, []byte("${1}0"))
}

func replaceBody(answer *http.Response, body []byte) {
	answer.Header.Del("Content-Length")
	answer.Body, answer.ContentLength, answer.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
}

// providersError is an error in the form in which clients of all tables read one.
func providersError(kind, code, why string) []byte {
	data, _ := writeTree(object{{"type", "error"}, {"error", object{{"type", kind}, {"code", code}, {"message", code + ": " + why}}}})
	return data
}
