package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local"
)

// TestL18_RotationBesideAServer: while a server runs nothing is said in its name; a key
// that is replaced between two lives of a task takes neither its state nor its work.
func TestL18_RotationBesideAServer(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	done, running := p.File("default"), p.File("waits")
	p.Approve(done)
	p.finished(done)
	p.Approve(running)
	p.Until("the builder runs", func() bool { return p.Head(running) == "working" })
	bare := p.Store.GitDir(p.Repo.ID)
	flags := []string{"--state-dir", p.State(), "--config", p.Config(), "--reason", "why"}
	_, old := p.cli("key", "--state-dir", p.State())
	for _, args := range [][]string{
		{"key", "rotate"}, {"key", "revoke", strings.TrimSpace(old)}, {"world", "repair", "local/o/n"}, {"world", "rebind", "path#00000000000000000000000000000000", p.World()},
	} {
		p.want(problem.ExitHeld, "state.in_use", append(args, flags...)...)
	}
	if refs := gittest.Git(t, bare, "for-each-ref", "refs/writ/world"); refs != "" {
		t.Errorf("beside a server it was said: %s", refs)
	}
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	p.want(problem.ExitDone, fmt.Sprintf("counts for tasks %d, %d, as this installation saw them", done, running), append([]string{"key", "rotate"}, flags...)...)
	_, next := p.cli("key", "--state-dir", p.State())
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	p.Serve()
	p.finished(running)
	if n := p.claims(done); n != 1 {
		t.Errorf("what was finished was claimed %d times", n)
	}
	for _, n := range []int64{done, running} {
		p.want(problem.ExitDone, "verified", "verify", bare, "--task", fmt.Sprint(n), "--key", strings.TrimSpace(next))
	}
}

// TestL18_RebindAfterAMigration: the repository is made anew on a forge, with the same
// issues, but one has another text. What was done goes on, that one doesn't unless
// somebody names it, and what OLD's records don't know isn't taken for theirs.
func TestL18_RebindAfterAMigration(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	var all [3]int64
	for i := range all {
		all[i] = p.File("default") // before the first change, which has a number too
	}
	for _, n := range all {
		p.Approve(n)
		p.finished(n)
	}
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	from, old := p.Store.GitDir(p.Repo.ID), p.World()
	made, err := p.Store.CreateRepo(t.Context(), local.RepoSpec{Owner: "o", Name: "made-anew"})
	must(t, err)
	moved := made.Repo
	people, err := p.Store.UserByLogin(t.Context(), "reporter")
	must(t, err)
	must(t, p.Store.Grant(t.Context(), moved.ID, people.ID, forge.Write))
	must(t, p.Store.Grant(t.Context(), moved.ID, p.Bot.ID, forge.Admin))
	for i, n := range all {
		text := p.Issue(n)
		if i == 2 {
			text.Body = strings.Replace(text.Body, "Please", "Don't", 1)
		}
		_, err := p.Reporter.FileIssue(t.Context(), moved, text.Title, text.Body)
		must(t, err)
	}
	to := p.Store.GitDir(moved.ID)
	gittest.Git(t, from, "push", "-q", to, "+refs/writ/*:refs/writ/*", "+refs/heads/*:refs/heads/*")
	next, err := p.Store.World(t.Context(), moved.ID)
	must(t, err)
	url := p.URL + "/o/made-anew.git"
	args := []string{"world", "rebind", old, next, "--repo", url, "--state-dir", p.State(), "--config", p.Config()}
	p.want(problem.ExitUsage, fmt.Sprintf("go on: tasks %d, %d\n", all[0], all[1]), args...)
	p.want(problem.ExitUsage, fmt.Sprintf("left out: refs/writ/task/%d: the issue has another text than was approved", all[2]), args...)
	p.want(problem.ExitUsage, fmt.Sprintf("go on: tasks %d, %d, %d\n", all[0], all[1], all[2]), append(args, "--task", fmt.Sprint(all[2]))...)
	p.want(problem.ExitDone, "rebound: ", append(args, "--reason", "moved")...)
	_, key := p.cli("key", "--state-dir", p.State())
	for i, n := range all {
		want, says := problem.ExitDone, "verified"
		if i == 2 {
			want, says = problem.ExitOther, "NOT VERIFIED"
		}
		p.want(want, says, "verify", url, "--config", p.Config(), "--task", fmt.Sprint(n), "--key", strings.TrimSpace(key))
	}
	p.want(problem.ExitDone, "rebind "+old+" to "+next+": moved", "world", "log", url, "--config", p.Config(), "--state-dir", p.State())
}

// TestL18_UnknownIdentityOfAURL: of a repository behind a URL that no forge of the
// configuration has only the name is known. It can be verified, and its first line
// says so; no task is run there over the state of a world.
func TestL18_UnknownIdentityOfAURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := filepath.Join(dir, "r.git")
	gittest.Git(t, dir, "init", "-q", "--bare", "-b", "main", repo)
	gittest.Commit(t, repo, "refs/heads/main", "", map[string]string{"README": "x\n"})
	issue := filepath.Join(dir, "1.md")
	must(t, os.WriteFile(issue, []byte("# Say hello\n\n"+asks), 0o600))
	p := forgePlace{&servertest.Place{T: t}}
	run := func(where, number, state string) []string {
		return []string{"task", "run", "--repo", where, "--issue", issue, "--number", number, "--state-dir", filepath.Join(dir, state), "--builder", "sh -c 'echo hello > out.txt'"}
	}
	p.want(problem.ExitDone, "completed", run(repo, "1", "s")...)
	server := gittest.ServeHTTP(t, repo)
	_, key := p.cli("key", "--state-dir", filepath.Join(dir, "s"))
	key = strings.TrimSpace(key)

	exit, said := p.cli("verify", server.URL, "--task", "1", "--key", key)
	if first, _, _ := strings.Cut(said, "\n"); exit != problem.ExitDone || !strings.Contains(first, "nobody vouched") {
		t.Errorf("verify: %d\n%s", exit, said)
	}
	for _, number := range []string{"1", "2"} { // also where the task is another one
		for _, state := range []string{"s", "t"} {
			p.want(problem.ExitRefused, "world.elsewhere", run(server.URL, number, state)...)
		}
	}
	p.want(problem.ExitRefused, "by the path of the repository", run(server.URL, "1", "t")...)
	if refs := gittest.Git(t, repo, "for-each-ref", "refs/writ/task/2"); refs != "" {
		t.Errorf("a task was run: %s", refs)
	}

	// Where its name is the world of the state there, it goes on under it.
	gittest.Git(t, repo, "update-ref", "-d", "refs/writ/task/1")
	gittest.Git(t, repo, "update-ref", "-d", "refs/heads/writ/change/1")
	p.want(problem.ExitDone, "completed", run(server.URL, "1", "u")...)
	p.want(problem.ExitDone, "completed", run(server.URL, "2", "u")...)
}

const asks = "Please do it.\n\n```writ\nallowed_files: [out.txt]\nexpected_outcome: out.txt says hello\n```\n"
