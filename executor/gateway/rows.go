package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// A row is what an operator lets through beside a table, for agents say new things in their
// patch releases. It is one of
//
//	messages.n.hints                       a field; n stands for the number of any element
//	tools.n.type=bash_20260101             a type, where the field type chooses one
//	GET /v1/models                         an endpoint without a body
//	POST /v1/plans as /v1/messages         an endpoint with the body of one of the table
//
// What the table says it can't change: it is for what the table doesn't know. Neither the row
// nor what it lets through may speak of what a provider fetches, looks up or runs, as far as
// names and texts tell; see [row] and [plain].

// With is the table with an operator's rows.
func (a *API) With(rows []string) (*API, error) {
	out := *a
	out.Endpoints, out.Rows = slices.Clone(a.Endpoints), rows
	for _, text := range rows {
		e, err := a.row(text)
		if err != nil {
			return nil, fmt.Errorf("the row %q: %w", clipped(text), err)
		}
		if e != nil {
			out.Endpoints = append(out.Endpoints, *e)
		}
	}
	return &out, nil
}

var (
	rowPlace = compiled(`^[A-Za-z0-9_-]{1,64}(\([A-Za-z0-9_-]{1,64}\))?(\.[A-Za-z0-9_-]{1,64}(\([A-Za-z0-9_-]{1,64}\))?){0,15}(=[A-Za-z0-9_.-]{1,64})?$`)
	rowPath  = compiled(`^(/[A-Za-z0-9_*][A-Za-z0-9_.:*-]{0,63}){1,8}$`)

	errRowForm = errors.New("write a field (messages.n.hints), a type (tools.n.type=bash_20260101), or an endpoint (GET /v1/models, POST /v1/plans as /v1/messages)")
)

// compiled is an expression that is compiled when it is needed first.
func compiled(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// row reads one, and is its endpoint if it is for one.
func (a *API) row(text string) (*endpoint, error) {
	if word := farWord(text); word != "" {
		return nil, fmt.Errorf("%q is for what the provider fetches, looks up or runs, which no row lets through: take the row out", word)
	}
	if strings.Contains(text, " ") {
		return a.rowEndpoint(strings.Fields(text))
	}
	place, value, isType := strings.Cut(text, "=")
	parts := strings.Split(place, ".")
	if !rowPlace().MatchString(text) {
		return nil, errRowForm
	}
	name, objects := parts[len(parts)-1], []*shape{}
	for _, e := range a.Endpoints {
		if e.Body != nil {
			objects = append(objects, a.at(e.Body, parts[:len(parts)-1])...)
		}
	}
	objects = slices.DeleteFunc(objects, func(sh *shape) bool { return sh.Fields == nil && sh.By == "" || isType && sh.By != name })
	if len(objects) == 0 {
		return nil, fmt.Errorf("the table has no such place: %w", errRowForm)
	}
	for _, sh := range objects {
		if isType && sh.Of[value] != nil || !isType && (sh.By == name || sh.Fields[name] != nil) {
			return nil, errors.New("the table has that already, and no row changes what it says: take the row out")
		}
	}
	return nil, nil //nolint:nilnil // a row for no endpoint
}

// rowEndpoint is that of a row.
func (a *API) rowEndpoint(words []string) (*endpoint, error) {
	if len(words) < 2 || !rowPath().MatchString(words[1]) {
		return nil, errRowForm
	}
	e := endpoint{Method: words[0], Path: words[1]}
	if slices.ContainsFunc(a.Endpoints, func(o endpoint) bool { return o.Method == e.Method && o.Path == e.Path }) {
		return nil, errors.New("the table has that already: take the row out")
	}
	switch {
	case e.Method == "GET" && len(words) == 2 && !strings.Contains(e.Path, "*"):
		return &e, nil
	case e.Method != "POST" || len(words) != 4 || words[2] != "as":
		return nil, errRowForm
	}
	for _, o := range a.Endpoints {
		if o.Method == e.Method && o.Path == words[3] && strings.Count(o.Path, "*") == strings.Count(e.Path, "*") {
			o.Path = e.Path
			return &o, nil
		}
	}
	return nil, fmt.Errorf("the table has no POST %s with as many stars: name one of its endpoints behind as", clipped(words[3]))
}

// at are the shapes of a place below a shape, without names and choices between them.
func (a *API) at(sh *shape, place []string) []*shape {
	switch {
	case sh.Named != "":
		return a.at(a.Shapes[sh.Named], place)
	case len(sh.One) > 0:
		var out []*shape
		for _, one := range sh.One {
			out = append(out, a.at(one, place)...)
		}
		return out
	case len(place) == 0:
		return append([]*shape{sh}, a.chosen(sh)...)
	}
	part, kind, isKind := strings.Cut(strings.TrimSuffix(place[0], ")"), "(")
	below := []*shape{sh.Fields[part]}
	if part == "n" && sh.List != nil {
		below = []*shape{sh.List}
	}
	for _, one := range a.chosen(sh) {
		below = append(below, one.Fields[part])
	}
	var out []*shape
	for _, b := range below {
		if b != nil && isKind {
			for _, u := range a.at(b, nil) {
				if one := u.Of[kind]; one != nil && one.Fields == nil {
					out = append(out, a.at(one, place[1:])...)
				}
			}
		} else if b != nil {
			out = append(out, a.at(b, place[1:])...)
		}
	}
	return out
}

// chosen are the objects that a shape chooses from, whose fields are in its own place.
func (a *API) chosen(sh *shape) (out []*shape) {
	for _, kind := range slices.Sorted(maps.Keys(sh.Of)) {
		if one := sh.Of[kind]; one.Fields != nil {
			out = append(out, one)
		}
	}
	return out
}

// pattern is a place as rows name it: with n for the numbers of elements.
func pattern(at string) string {
	parts := strings.Split(at, ".")
	for i, p := range parts {
		n := strings.TrimLeft(p, "0123456789")
		if i > 0 && n != p && (n == "" || n[0] == '(') {
			parts[i] = "n" + n
		}
	}
	return strings.Join(parts, ".")
}

// byRow takes what the table doesn't know if the operator's rows have it.
func (s *sieve) byRow(row, at string, v any) (known bool, err error) {
	if !slices.Contains(s.rows, row) {
		return false, nil
	}
	return true, cmp.Or(remoteSchema(at, v), plain(at, v))
}

// plain refuses what speaks of something elsewhere in what a row lets through: a text that
// begins as an address does, and a member whose name says that the provider fetches, looks up
// or runs it; the properties of a schema are the agent's own names. Nobody can tell all that a
// provider makes of a text, so that this is no promise.
func plain(at string, v any) error {
	switch v := v.(type) {
	case string:
		if address().MatchString(strings.TrimSpace(strings.Map(dense, v))) {
			return refused(at, "an address, which no row lets through")
		}
	case object:
		for _, m := range v {
			place := clipped(at + "." + m.name)
			if word := farWord(m.name); word != "" && !strings.HasSuffix(at, ".properties") {
				return refused(place, "it is for what the provider fetches, looks up or runs, which no row lets through")
			}
			if err := plain(place, m.value); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := plain(at, e); err != nil {
				return err
			}
		}
	}
	return nil
}

var address = compiled(`(?i)^([a-z][a-z0-9+.-]*:)?[/\\]{2}|^(https?|ftp|file|gs|s3|wss?):`)

// dense leaves out what readers of addresses pass over.
func dense(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// farWords are in the names of what a provider fetches, looks up among what it stores, or runs.
var farWords = []string{
	"assistant", "batch", "browse", "browser", "callback", "code_interpreter", "connector", "container", "domain", "execution", "fetch", "file", "host", "href", "interpreter",
	"key", "mcp", "organization", "plugin", "previous", "remote", "search", "server", "skill", "uri", "url", "vector", "web", "webhook", //nolint:misspell // the providers spell it so
}

// farWord is the first of them in a name; "" for none. They are compared as whole words:
// profile isn't about a file.
func farWord(name string) string {
	var words []string
	begin := 0
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsLetter(r) {
			words, begin = append(words, string(runes[begin:i])), i+1
		} else if i > begin && unicode.IsUpper(r) && unicode.IsLower(runes[i-1]) {
			words, begin = append(words, string(runes[begin:i])), i
		}
	}
	for _, w := range append(words, string(runes[begin:])) {
		w = strings.ToLower(w)
		for _, form := range []string{w, strings.TrimSuffix(w, "s"), strings.TrimSuffix(w, "es")} {
			if slices.Contains(farWords, form) {
				return form
			}
		}
	}
	return ""
}
