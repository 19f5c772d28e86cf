package gitlab

import (
	"testing"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// levels are GitLab's for the contract's words.
var levels = map[forge.Permission]int{
	forge.None: 0, forge.Read: gitlabtest.Guest, forge.Triage: gitlabtest.Reporter, forge.Write: gitlabtest.Developer,
	forge.Maintain: gitlabtest.Maintainer, forge.Admin: gitlabtest.Owner,
}

func TestExercise_GitLab(t *testing.T) {
	forgetest.Exercise(t, func(t *testing.T) *forgetest.Place {
		w := newWorld(t)
		return &forgetest.Place{
			Repo: w.repo, Bot: w.bot, Owner: w.owner, Reader: w.reader, Trims: true, NoCommas: true,
			Grant: func(_ *testing.T, user int64, p forge.Permission) { w.SetMember(w.repo.ID, user, levels[p]) },
			Branch: func(_ *testing.T, name string) string {
				return w.Branch(w.repo.ID, w.bot.user.ID, name, map[string]string{"new.txt": name + w.Ref(w.repo.ID, "refs/heads/main")})
			},
			Merge: func(t *testing.T, number int64) {
				how := editing("merge")
				_, _, err := w.owner.host.api.MergeRequests.AcceptMergeRequest(int(w.repo.ID), int(number-changeBase), nil, how.in(t.Context()))
				ok(t, err)
			},
			Checks: func(t *testing.T, oid string) []forge.Check { return w.checks(t, oid) },
		}
	})
}

// checks reads the statuses of a commit, in our words.
func (w *world) checks(t *testing.T, oid string) []forge.Check {
	t.Helper()
	how := reading("read statuses").live()
	all, _, err := w.bot.host.api.Commits.GetCommitStatuses(int(w.repo.ID), oid, &gitlab.GetCommitStatusesOptions{}, how.in(t.Context()))
	ok(t, err)
	var out []forge.Check
	for _, st := range all {
		c := forge.Check{Name: st.Name, Summary: st.Description}
		for state, word := range states {
			if string(word) == st.Status {
				c.State = state
			}
		}
		out = append(out, c)
	}
	return out
}
