package gitlabtest

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// noteQuery is Query.note, once or under several names, with the fields of Note that
// are published, and no others: id, url, system, body, project { id }, and when and by
// whom it was edited and touched.
var (
	noteQuery = regexp.MustCompile(`^query *\(\$id: NoteID!\) *\{ *note\(id: \$id\) *\{([a-zA-Z{} ]*)\} *\}$`)
	manyQuery = regexp.MustCompile(`^query *\{((?: *[a-z0-9]+: *note\(id: *"[^"]*"\) *\{[a-zA-Z ]*(?:\{[a-zA-Z ]*\}[a-zA-Z ]*)?\})+) *\}$`)
	oneOfMany = regexp.MustCompile(`([a-z0-9]+): *note\(id: *"([^"]*)"\) *\{([a-zA-Z ]*(?:\{[a-zA-Z ]*\}[a-zA-Z ]*)?)\}`)
	noteWords = regexp.MustCompile(`^( *(id|url|system|body|lastEditedAt|updatedAt|(project|lastEditedBy) *\{ *id *\}))* *$`)
)

// mostNotes is of how many notes one query may ask, by the complexity that GitLab allows.
const mostNotes = 25

// askGraph answers the queries.
func askGraph(c *call) (any, error) {
	query, _ := c.word("query")
	query = strings.Join(strings.Fields(query), " ")
	unknown := func() (any, error) {
		return map[string]any{"errors": []any{map[string]any{"message": "Parse error or unknown field"}}}, c.complain(route{method: "POST", pattern: "/graphql"}, "the query %q isn't known", query)
	}
	data := map[string]any{}
	if m := manyQuery.FindStringSubmatch(query); m != nil {
		list := oneOfMany.FindAllStringSubmatch(m[1], -1)
		for _, one := range list {
			if !noteWords.MatchString(one[3]) || len(list) > mostNotes {
				return unknown()
			}
			data[one[1]] = c.graphNote(one[2])
		}
		return map[string]any{"data": data}, nil
	}
	m := noteQuery.FindStringSubmatch(query)
	if m == nil || !noteWords.MatchString(m[1]) {
		return unknown()
	}
	variables, _ := c.params["variables"].(map[string]any)
	gid, _ := variables["id"].(string)
	if n, isNote := strings.CutPrefix(gid, "gid://gitlab/Note/"); !isNote || strings.Trim(n, "0123456789") != "" {
		return map[string]any{"errors": []any{map[string]any{"message": "\"" + gid + "\" does not represent an instance of Note"}}}, nil
	}
	data["note"] = c.graphNote(gid)
	return map[string]any{"data": data}, nil
}

// graphNote is a note, nil where there is none to be seen.
func (c *call) graphNote(gid string) any {
	id, err := strconv.ParseInt(strings.TrimPrefix(gid, "gid://gitlab/Note/"), 10, 64)
	if err != nil {
		return nil
	}
	for _, p := range c.d.Projects {
		if p.Visibility == Private && c.level(p, c.user.ID) < Guest {
			continue
		}
		for _, i := range p.Items {
			for _, n := range i.Notes {
				if n.ID == id && c.sees(p, i) && (!n.Internal || c.level(p, c.user.ID) >= Planner) {
					edited, by := n.Updated, any(nil) // of a note that was never edited GitLab says the last activity
					if n.EditedBy != 0 {
						edited, by = n.Edited, map[string]any{"id": "gid://gitlab/User/" + itoa(n.EditedBy)}
					}
					return map[string]any{
						"id": gid, "url": c.url(p, i) + "#note_" + itoa(id), "system": n.System, "body": n.Body,
						"project":      map[string]any{"id": "gid://gitlab/Project/" + itoa(p.ID)},
						"lastEditedAt": edited.UTC().Format(time.RFC3339), "lastEditedBy": by, "updatedAt": n.Updated.UTC().Format(time.RFC3339),
					}
				}
			}
		}
	}
	return nil
}
