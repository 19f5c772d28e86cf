package local

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/utils/diff"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// repoLine is a line of the list of repositories.
type repoLine struct {
	forge.Repository
	Issues, Changes int64 // open
}

// issueList is the list of a repository's issues.
type issueList struct {
	Issues []forge.Issue
	Hues   map[string]string
	Closed bool // shows the closed ones
	Open   int
	Done   int
}

func (v *visit) issues() error {
	f, err := v.repo()
	if err != nil {
		return err
	}
	list := issueList{Closed: v.r.URL.Query().Get("state") == "closed"}
	err = v.client.ListIssues(v.r.Context(), f.Repo.Repo, time.Time{}, func(i forge.Issue) error {
		closed := i.State == forge.Closed
		switch {
		case i.IsChange:
			return nil
		case closed:
			list.Done++
		default:
			list.Open++
		}
		if closed == list.Closed {
			list.Issues = append(list.Issues, i)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(list.Issues)
	if list.Hues, err = v.hues(f.Repo.Repo); err != nil {
		return err
	}
	f.Tab, f.Main = "issues", list
	return v.show(http.StatusOK, "issues", f)
}

// hues are the classes of a repository's labels.
func (v *visit) hues(r forge.Repo) (map[string]string, error) {
	labels, err := v.client.Labels(v.r.Context(), r)
	out := map[string]string{}
	for _, l := range labels {
		out[l.Name] = hueClass(l.Color)
	}
	return out, err
}

// itemView is the page of an issue or a change.
type itemView struct {
	Issue    forge.Issue
	Digest   string // of title and text as they are now
	Version  int64
	Versions int
	Hues     map[string]string
	Offered  []forge.Label    // that it hasn't, and that say something when a person adds them
	Answered []forge.Reaction // to the issue itself
	Timeline []moment
	Approve  string // the label that approves, if it isn't there
	Stale    bool   // the text was edited after the approval
	MayEdit  bool
	MayClose bool
	May      forge.Permission
	Logged   bool
	Change   *forge.Change
	Checks   []forge.Check
	Files    []FileDiff
}

// moment is an entry of an issue's page: a comment, an event, or an edit.
type moment struct {
	At        time.Time
	ID        string
	Who       forge.User
	Kind      string // comment, or the event's
	Label     string
	Body      string // of a comment, Markdown
	Place     string // that it is about
	Edited    bool
	Reactions []forge.Reaction
	Digest    string     // of title and text, where it says what was approved or edited
	Lines     []DiffLine // of an edit
}

func (v *visit) change() error {
	f, view, err := v.item()
	if err != nil {
		return err
	}
	c, err := v.client.Change(v.r.Context(), f.Repo.Repo, view.Issue.Number)
	if err != nil {
		return err
	}
	view.Change = &c
	if view.Checks, err = v.client.Checks(v.r.Context(), f.Repo.Repo, c.HeadOID); err != nil {
		return err
	}
	if view.Files, err = v.client.Diff(v.r.Context(), f.Repo.Repo, c.Number); err != nil {
		return err
	}
	f.Tab, f.Main = "changes", view
	return v.show(http.StatusOK, "change", f)
}

// approvalLabel is the label that a contract's trigger has unless it says otherwise.
const approvalLabel = "writ"

// item reads all of an issue or change from one state of the database.
func (v *visit) item() (f frame, view itemView, err error) {
	if f, err = v.repo(); err != nil {
		return f, view, err
	}
	n, err := v.number()
	if err != nil {
		return f, view, err
	}
	err = v.client.inItem(v.r.Context(), f.Repo.Repo, n, reads("show"), func(x *session, in scope, it itemRow) error {
		view.Issue, view.May, view.Logged = it.Issue, in.may, v.logged
		return x.fill(&view, in, it)
	})
	if err != nil {
		return f, view, err
	}
	i := view.Issue
	f.Title = i.Title + " · " + f.Title
	view.MayEdit = v.logged && !i.IsChange && (i.Author.ID == v.login.user.ID || view.May >= forge.Write)
	view.MayClose = v.logged && (i.Author.ID == v.login.user.ID || view.May >= forge.Triage)
	return f, view, nil
}

func (x *session) fill(view *itemView, in scope, it itemRow) error {
	labels, err := x.labels(in.ID)
	if err != nil {
		return err
	}
	view.Hues = map[string]string{}
	for _, l := range labels {
		view.Hues[l.Name] = hueClass(l.Color)
		if !slices.Contains(it.Labels, l.Name) && l.Name != approvalLabel && !slices.Contains(kernel.StateLabels(), l.Name) {
			view.Offered = append(view.Offered, l)
		}
	}
	if !it.IsChange && !slices.Contains(it.Labels, approvalLabel) {
		view.Approve = approvalLabel
	}
	versions, err := x.versions(it.ID)
	if err != nil {
		return err
	}
	last := versions[len(versions)-1]
	view.Digest, view.Version, view.Versions = last.Digest, last.N, len(versions)
	events, err := x.events(it.ID)
	if err != nil {
		return err
	}
	view.Stale = view.Approve == "" && !it.IsChange && approvedDigest(events) != view.Digest
	comments, err := x.comments(it)
	if err != nil {
		return err
	}
	reactions, err := x.reactions(it.ID)
	if err != nil {
		return err
	}
	places, err := x.places(it.ID)
	if err != nil {
		return err
	}
	view.Answered, view.Timeline = reactions[0], timeline(versions, events, comments, places, reactions)
	return nil
}

// approvedDigest is what the text was when the approving label was last added.
func approvedDigest(events []forge.Event) (digest string) {
	for _, e := range events {
		if e.Kind == forge.EventLabeled && e.Label == approvalLabel {
			digest = e.Digest
		}
	}
	return digest
}

// timeline puts comments and events into the order in which they happened.
func timeline(versions []Version, events []forge.Event, comments []forge.Comment, places map[int64]placeRow, reactions map[int64][]forge.Reaction) []moment {
	var out []moment
	edit := 0
	for _, e := range events {
		m := moment{At: e.At, ID: "event-" + digits(e.ID), Who: e.Actor, Kind: string(e.Kind), Label: e.Label}
		if e.Kind == forge.EventEdited || e.Kind == forge.EventLabeled && e.Label == approvalLabel {
			m.Digest = e.Digest
		}
		if e.Kind == forge.EventEdited && edit+1 < len(versions) {
			m.Lines = textDiff(versions[edit], versions[edit+1])
			edit++
		}
		out = append(out, m)
	}
	for _, c := range comments {
		m := moment{
			At: c.CreatedAt, ID: "comment-" + digits(c.ID), Who: c.Author, Kind: "comment", Body: c.Body,
			Edited: !c.UpdatedAt.Equal(c.CreatedAt), Reactions: reactions[c.ID],
		}
		if p, at := places[c.ID]; at {
			m.Place = p.words()
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	return out
}

// textDiff compares two versions of a text, their titles as a first line.
func textDiff(a, b Version) []DiffLine {
	var parts []part
	for _, d := range diff.DoWithTimeout(a.Title+"\n"+a.Body+"\n", b.Title+"\n"+b.Body+"\n", maxDiffTime) {
		parts = append(parts, part{int(d.Type), strings.SplitAfter(strings.TrimSuffix(d.Text, "\n"), "\n")})
	}
	return hunks(parts)
}
