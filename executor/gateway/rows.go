package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// A row is what an operator lets through beside a table, for agents say new things in their
// patch releases. It is one of
//
//	messages.n.hints                       a field; n stands for the number of any element
//	tools.n.type=bash_20260101             a type, where the field type chooses one
//	GET /v1/models                         an endpoint without a body
//	POST /v1/plans as /v1/messages         an endpoint with the body of one of the table
//	POST /v1/messages?trace=on             a name of a query, with its value, at an endpoint
//	anthropic-beta: plans-2026-01-01       a word of a list in the head
//
// What the table says it can't change: it is for what the table doesn't know. Neither the row
// nor what it lets through may speak of what a provider fetches, looks up or runs, as far as
// names and texts tell; see [row] and [plain].

// With is the table with an operator's rows.
func (a *API) With(rows []string) (*API, error) {
	out := *a
	out.Endpoints, out.Tokens, out.Rows = slices.Clone(a.Endpoints), maps.Clone(a.Tokens), rows
	for _, text := range rows {
		if err := out.add(a, text); err != nil {
			return nil, fmt.Errorf("the row %q: %w", clipped(text), err)
		}
	}
	return &out, nil
}

// add takes a row into a copy of the table.
func (a *API) add(table *API, text string) error {
	if m := rowWord().FindStringSubmatch(text); m != nil {
		return a.addWord(m[1], m[2])
	}
	if m := rowQuery().FindStringSubmatch(text); m != nil {
		return a.addQuery(m[1], m[2], m[3], m[4])
	}
	e, err := table.row(text)
	if e != nil {
		a.Endpoints = append(a.Endpoints, *e)
	}
	return err
}

// addWord lets a word of a list in a request's head through.
func (a *API) addWord(field, word string) error {
	if far := farWord(word); far != "" {
		return farRow(far)
	}
	for name, words := range a.Tokens {
		if strings.EqualFold(name, field) {
			if slices.Contains(words, word) {
				return errRowKnown
			}
			a.Tokens[name] = append(slices.Clone(words), word)
			return nil
		}
	}
	return fmt.Errorf("the table has no list of words in a field %s of the head", clipped(field))
}

// addQuery lets a name with one value through in the query of an endpoint.
func (a *API) addQuery(method, path, name, value string) error {
	if far := farWord(name + "=" + value); far != "" {
		return farRow(far)
	}
	for i, e := range a.Endpoints {
		if e.Method != method || e.Path != path {
			continue
		}
		if slices.Contains(e.Query[name], value) {
			return errRowKnown
		}
		query := maps.Clone(e.Query)
		if query == nil {
			query = map[string][]string{}
		}
		query[name] = append(slices.Clone(query[name]), value)
		a.Endpoints[i].Query = query
		return nil
	}
	return fmt.Errorf("neither the table nor a row before this one has the endpoint %s %s", method, clipped(path))
}

// farRow refuses a row for the word in it.
func farRow(word string) error {
	return fmt.Errorf("%q is for what the provider fetches, looks up or runs, which no row lets through: take the row out", word)
}

var (
	rowPlace = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}(\([A-Za-z0-9_-]{1,64}\))?(\.[A-Za-z0-9_-]{1,64}(\([A-Za-z0-9_-]{1,64}\))?){0,15}(=[A-Za-z0-9_.-]{1,64})?$`)
	rowPath  = lazyregexp.New(`^(/[A-Za-z0-9_*][A-Za-z0-9_.:*-]{0,63}){1,8}$`)

	rowWord  = lazyregexp.New(`^([A-Za-z0-9-]{1,64}): ([A-Za-z0-9][A-Za-z0-9_.-]{0,63})$`)
	rowQuery = lazyregexp.New(`^(GET|POST) (/[A-Za-z0-9_.:*/-]{1,512})\?([A-Za-z0-9_-]{1,64})=([A-Za-z0-9_.-]{1,64})$`)

	errRowForm  = errors.New("write a field (messages.n.hints), a type (tools.n.type=bash_20260101), an endpoint (GET /v1/models, POST /v1/plans as /v1/messages), a name of a query (POST /v1/messages?trace=on), or a word of a list in the head (anthropic-beta: plans-2026-01-01)")
	errRowKnown = errors.New("the table has that already: take the row out")
)

// row reads one, and is its endpoint if it is for one.
func (a *API) row(text string) (*endpoint, error) {
	words, added := strings.Fields(text), text
	if len(words) == 4 {
		added = strings.TrimPrefix(words[1], words[3]) // the endpoint behind as is the table's own
	}
	if word := farWord(added); word != "" {
		return nil, farRow(word)
	}
	if strings.Contains(text, " ") {
		return a.rowEndpoint(words)
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
		return nil, errRowKnown
	}
	switch {
	case e.Method == "GET" && len(words) == 2 && !strings.Contains(e.Path, "*"):
		return &e, nil
	case e.Method != "POST" || len(words) != 4 || words[2] != "as":
		return nil, errRowForm
	}
	for _, o := range a.Endpoints {
		if o.Method == e.Method && o.Path == words[3] && strings.Count(o.Path, "*") == strings.Count(e.Path, "*") {
			if o.Usage == "" {
				return nil, fmt.Errorf("what %s uses isn't counted, and a row's endpoint may cost something: name one behind as that answers with what it used", o.Path)
			}
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
	return true, cmp.Or(remoteSchema(at, v), plain(at, "", v))
}

// plain refuses what speaks of something elsewhere in what a row lets through, of which in is
// the member's name: a text or a name that begins as an address does, and a member whose name,
// or whose text for its type, says that the provider fetches, looks up or runs it. The
// properties of a schema have names of the agent's own, and each is a schema in its turn.
// Nobody can tell all that a provider makes of a text, so that this is no promise.
func plain(at, in string, v any) error {
	switch v := v.(type) {
	case string:
		if isAddress(v) {
			return refused(at, "an address, which no row lets through")
		}
		if in == "type" && farWord(v) != "" {
			return refused(at, strconv.Quote(clipped(v))+farWhy)
		}
	case object:
		for _, m := range v {
			place := clipped(at + "." + m.name)
			if isAddress(m.name) {
				return refused(place, "an address, which no row lets through")
			}
			if _, isSchema := m.value.(object); farWord(m.name) != "" && (in != "properties" || !isSchema) {
				return refused(place, "it"+farWhy)
			}
			if err := plain(place, m.name, m.value); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := plain(at, "", e); err != nil {
				return err
			}
		}
	}
	return nil
}

const farWhy = " is for what the provider fetches, looks up or runs, which no row lets through"

var address = lazyregexp.New(`(?i)^([a-z][a-z0-9+.-]*:)?[/\\]{2}|^(https?|ftp|file|gs|s3|wss?):`)

// isAddress tells a text that begins as an address does, without what readers of addresses
// pass over: spaces around it, and what can't be seen.
func isAddress(text string) bool {
	return address().MatchString(strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || unicode.IsMark(r) {
			return -1
		}
		return r
	}, text)))
}

// farWords are in the names of what a provider fetches, looks up among what it stores, or runs.
var farWords = []string{
	"web", "assistant", "batch", "browse", "browsing", "cache", "callback", "completion", "connector", "container", "conversation", "corpora", "domain", "endpoint",
	"execution", "fetch", "file", "grounding", "host", "href", "interpreter", "key", "link", "maps", "mcp", "organization", "plugin", "previous", "prompt", "remote", //nolint:misspell // the providers spell it so
	"response", "retrieval", "retrieve", "search", "server", "session", "skill", "thread", "upload", "uri", "url", "vector",
}

// nearWords have one of them in them, and are about none of that.
var nearWords = strings.NewReplacer("profile", "_", "cache_control", "_", "functionresponse", "_", "function_response", "_")

// farWord is the first of them in a name; "" for none. They are found within other words, too,
// for providers write imageurl and URLSource. So a name such as security is refused with uri,
// which costs less than a way out.
func farWord(name string) string {
	name = nearWords.Replace(strings.ToLower(name))
	for _, word := range farWords {
		if strings.Contains(name, word) {
			return word
		}
	}
	return ""
}
