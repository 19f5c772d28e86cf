package github_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestI17_ReviewComments: a comment of a review can be read from its submission on, stands
// where it was made, and was edited if GitHub says so of a text that was touched later, or
// says nothing; GitHub's own rendering counts for nothing, and what people put into a place
// is passed on as it is, to be judged.
func TestI17_ReviewComments(t *testing.T) {
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	w := &wire{}
	c := host(t, p.TokenConfig(p.Owner), func(c *github.Config) { c.Wrap = w.wrap }).Client(p.Repo)
	by := `"user":{"id":5,"login":"ana","type":"User"},`
	at := func(minute string) string { return `"2026-05-04T09:` + minute + `:00Z"` }
	line := func(id, review, created, updated, more string) string {
		return `{"id":` + id + `,"node_id":"L` + id + `","pull_request_review_id":` + review + `,` + by + `"body":"b` + id + `","created_at":` + at(created) + `,"updated_at":` + at(updated) +
			`,"diff_hunk":"@@ -1 +1 @@ of nobody's file","commit_id":"later","original_commit_id":"then",` + more + `}`
	}
	reviews := `[{"id":1,` + by + `"body":"","state":"COMMENTED","submitted_at":` + at("10") + `},` +
		`{"id":2,"node_id":"R2",` + by + `"body":"of the whole","state":"APPROVED","submitted_at":` + at("12") + `},{"id":3,` + by + `"body":"a draft","state":"PENDING"},` +
		`{"id":4,"node_id":"R4",` + by + `"body":"said again","state":"APPROVED","submitted_at":` + at("13") + `}]`
	lines := "[" + strings.Join([]string{
		line("11", "1", "02", "10", `"path":"a.go","line":9,"original_line":3,"side":"RIGHT"`),
		line("12", "1", "02", "11", `"path":"a.go","original_line":3,"original_start_line":-7,"side":"LEFT"`),
		line("15", "1", "02", "12", `"path":"a.go","original_line":3,"side":"RIGHT"`),
		line("16", "1", "02", "12", `"path":"a.go","original_line":3,"side":"RIGHT"`),
		line("13", "null", "20", "20", `"path":"../../etc\u0007","original_line":4,"original_start_line":2,"start_side":"LEFT","side":"RIGHT"`),
		line("14", "null", "21", "21", `"path":"a.go","original_line":1,"subject_type":"file"`),
	}, ",") + "]"
	edited := `{"data":{"nodes":[{"id":"L12","lastEditedAt":null},{"id":"L15","lastEditedAt":` + at("11") + `},{"id":"R2","lastEditedAt":` + at("11") +
		`},{"id":"R4","lastEditedAt":` + at("14") + `},null,{"id":"L14","lastEditedAt":` + at("59") + `}]}}`
	w.set(func(req *http.Request, do func() (*http.Response, error)) (*http.Response, error) {
		switch {
		case strings.HasSuffix(req.URL.Path, "/graphql"):
			return answered(200, edited)
		case strings.HasSuffix(req.URL.Path, "/reviews"):
			return answered(200, reviews)
		case strings.HasSuffix(req.URL.Path, "/pulls/7/comments"):
			return answered(200, lines)
		case strings.HasSuffix(req.URL.Path, "/issues/7/comments"):
			return answered(200, `[{"id":11,`+by+`"body":"talk","created_at":`+at("30")+`,"updated_at":`+at("30")+`}]`)
		}
		return do()
	})
	got := must[[]forge.ReviewComment](t)(c.ReviewComments(t.Context(), p.Repo, 7))
	type seen struct {
		kind    forge.ReviewKind
		created int
		edited  bool
		place   forge.ReviewPlace
	}
	want := map[string]seen{
		"b11":          {forge.ReviewLine, 10, false, forge.ReviewPlace{Path: "a.go", Start: 3, End: 3, Commit: "then"}},
		"b12":          {forge.ReviewLine, 10, false, forge.ReviewPlace{Path: "a.go", Start: -7, End: 3, Old: true, Commit: "then"}},
		"b15":          {forge.ReviewLine, 10, true, forge.ReviewPlace{Path: "a.go", Start: 3, End: 3, Commit: "then"}},
		"b16":          {forge.ReviewLine, 10, true, forge.ReviewPlace{Path: "a.go", Start: 3, End: 3, Commit: "then"}},
		"b13":          {forge.ReviewLine, 20, false, forge.ReviewPlace{Path: "../../etc\a", Commit: "then"}},
		"b14":          {forge.ReviewLine, 21, false, forge.ReviewPlace{Path: "a.go", Commit: "then"}},
		"of the whole": {forge.ReviewSummary, 12, false, forge.ReviewPlace{}}, // edited before it was submitted
		"said again":   {forge.ReviewSummary, 13, true, forge.ReviewPlace{}},
		"talk":         {forge.ReviewTalk, 30, false, forge.ReviewPlace{}},
	}
	for n, c := range got {
		is := seen{c.Kind, c.CreatedAt.Minute(), !c.UpdatedAt.Equal(c.CreatedAt), forge.ReviewPlace{}}
		if c.Place != nil {
			is.place = *c.Place
		}
		if want[c.Body] != is || n > 0 && c.CreatedAt.Before(got[n-1].CreatedAt) {
			t.Errorf("%q is %+v, want %+v", c.Body, is, want[c.Body])
		}
		delete(want, c.Body)
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
	for answer, want := range map[[2]string]forge.Reason{
		{"FORBIDDEN", "null"}: "", {"NOT_FOUND", "[null]"}: "", {"RATE_LIMITED", "null"}: forge.Limited, {"", "null"}: forge.Unavailable,
		{"FORBIDDEN", `[{"id":"L12","lastEditedAt":null}]`}: "",
	} {
		edited = `{"data":{"nodes":` + answer[1] + `},"errors":[{"type":"` + answer[0] + `","message":"no"}]}`
		got, err := c.ReviewComments(t.Context(), p.Repo, 7)
		if want == "" && (err != nil || slices.ContainsFunc(got, func(c forge.ReviewComment) bool { return c.Body == "b12" && c.UpdatedAt.Equal(c.CreatedAt) })) || want != "" && !forge.IsReason(err, want) {
			t.Errorf("where it says %q: %v, %+v", answer, err, got)
		}
	}
	for what, lie := range map[string]string{"null": "[null]", "no id": "[{" + by + `"body":"x"}]`, "a bad author": `[{"id":3,"user":{"id":-1,"login":"x"}}]`} {
		reviews = lie
		if _, err := c.ReviewComments(t.Context(), p.Repo, 7); !forge.IsReason(err, forge.Unavailable) {
			t.Errorf("a review with %s: %v", what, err)
		}
		reviews = "[]"
		lines = lie
		if _, err := c.ReviewComments(t.Context(), p.Repo, 7); !forge.IsReason(err, forge.Unavailable) {
			t.Errorf("a comment with %s: %v", what, err)
		}
	}
}
