package gitlabtest

import (
	"regexp"
	"strconv"
	"strings"
)

// noteQuery is Query.note with the fields of Note that are published, and no
// others: id, url, system, body, project { id }.
var (
	noteQuery = regexp.MustCompile(`^query *\(\$id: NoteID!\) *\{ *note\(id: \$id\) *\{([a-zA-Z{} ]*)\} *\}$`)
	noteWords = regexp.MustCompile(`^( *(id|url|system|body|project *\{ *id *\}))* *$`)
)

// askGraph answers the one query.
func askGraph(c *call) (any, error) {
	query, _ := c.word("query")
	m := noteQuery.FindStringSubmatch(strings.Join(strings.Fields(query), " "))
	if m == nil || !noteWords.MatchString(m[1]) {
		return map[string]any{"errors": []any{map[string]any{"message": "Parse error or unknown field"}}}, c.complain(route{method: "POST", pattern: "/graphql"}, "the query %q isn't known", query)
	}
	variables, _ := c.params["variables"].(map[string]any)
	gid, _ := variables["id"].(string)
	n, isNote := strings.CutPrefix(gid, "gid://gitlab/Note/")
	id, err := strconv.ParseInt(n, 10, 64)
	if !isNote || err != nil {
		return map[string]any{"errors": []any{map[string]any{"message": "\"" + gid + "\" does not represent an instance of Note"}}}, nil //nolint:nilerr // GraphQL answers so
	}
	for _, p := range c.d.Projects {
		if p.Visibility == Private && c.level(p, c.user.ID) < Guest {
			continue
		}
		for _, i := range p.Items {
			for _, n := range i.Notes {
				if n.ID == id && c.sees(p, i) && (!n.Internal || c.level(p, c.user.ID) >= Planner) {
					return map[string]any{"data": map[string]any{"note": map[string]any{
						"id": gid, "url": c.url(p, i) + "#note_" + itoa(id), "system": n.System, "body": n.Body,
						"project": map[string]any{"id": "gid://gitlab/Project/" + itoa(p.ID)},
					}}}, nil
				}
			}
		}
	}
	return map[string]any{"data": map[string]any{"note": nil}}, nil
}
