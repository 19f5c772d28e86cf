package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
)

// soakPlace is an embedded forge with many worlds, and one server of them all.
type soakPlace struct {
	*localtest.Place
	t      testing.TB
	plan   soakPlan
	worlds []forge.Repo
	issues []*soakIssue
	post   *poster

	dir, hook, config, started string
	env                        []string
	unsettled                  string // a task that was not at its end
	server                     *exec.Cmd
	log                        *os.File
	memory                     *memorySampler
}

// soakIssue is an issue and what happens to it.
type soakIssue struct {
	world  forge.Repo
	number int64
	turn   turn
}

func (s *soakPlace) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func newSoakPlace(t testing.TB, plan soakPlan) *soakPlace {
	t.Helper()
	s := &soakPlace{Place: localtest.New(t), t: t, plan: plan, dir: t.TempDir(), hook: localtest.FreeAddress(t)}
	s.post = newPoster(t, "http://"+s.hook+"/hooks/local")
	s.must(s.Store.AddHook(t.Context(), local.Hook{URL: s.post.url, Secret: []byte(localtest.Secret), Drop: s.post.take}))
	var names []string
	for i := range plan.worlds {
		s.worlds = append(s.worlds, s.world(fmt.Sprintf("w%02d", i)))
		names = append(names, s.worlds[i].String())
	}
	s.env = append(s.runLog(), "WRIT_LOCAL_TOKEN="+s.Token, "WRIT_LOCAL_HOOK_SECRET="+localtest.Secret)
	s.config = write(t, s.dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: %s, drain: 30s, builds: 4, builds_per_world: 2}
forges: {local: {dir: %s, url: '%s', repositories: [%s]}}
builders:
  default: {argv: [sh, -c, 'echo hello > out.txt']}
  strays: {argv: [sh, -c, 'echo hello > out.txt; echo hello > README']}
  fails: {argv: [sh, -c, 'exit 3']}
`, s.dir, s.hook, plan.sweep, s.Dir, s.URL, strings.Join(names, ", ")))
	var err error
	s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	s.must(err)
	t.Cleanup(s.cleanUp)
	return s
}

// cleanUp leaves no process behind, and shows the end of the log if need be.
func (s *soakPlace) cleanUp() {
	if s.server != nil {
		_ = s.server.Process.Kill() // it may have ended
		_ = s.server.Wait()
	}
	if s.t.Failed() {
		data, err := os.ReadFile(s.log.Name())
		s.t.Logf("not at its end: %s; the end of the log (%v):\n%s", s.unsettled, err, data[max(0, len(data)-8<<10):])
	}
	s.must(s.log.Close())
}

// soakContract lets a builder that fails be tried again soon.
const soakContract = "version: 1\nbudgets: {attempts: 2, retry_backoff: 1s, retry_backoff_max: 2s}\n"

func (s *soakPlace) world(name string) forge.Repo {
	ctx := s.t.Context()
	author, err := s.Store.UserByLogin(ctx, "maintainer")
	s.must(err)
	r, err := s.Store.CreateRepo(ctx, local.RepoSpec{Owner: "o", Name: name, Author: author, Files: map[string][]byte{
		"README": []byte("hi\n"), ".writ/contract.yaml": []byte(soakContract),
	}})
	s.must(err)
	for login, may := range map[string]forge.Permission{"maintainer": forge.Maintain, "reporter": forge.Read, "writ-bot": forge.Write} {
		u, err := s.Store.UserByLogin(ctx, login)
		s.must(err)
		s.must(s.Store.Grant(ctx, r.ID, u.ID, may))
	}
	s.must(s.Maintainer.EnsureLabels(ctx, r.Repo, []forge.Label{{Name: localtest.Label, Color: "ffffff"}}))
	return r.Repo
}

// runLog makes a bwrap that notes the run of every dispatch that it hands to a
// builder, and then is the real one. It returns the environment for it.
func (s *soakPlace) runLog() []string {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		s.t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
	s.started = filepath.Join(s.dir, "started")
	script := `#!/bin/sh
last= fd=
for word in "$@"; do
  case "$word" in */dispatch.json) fd=$last ;; esac
  last=$word
done
if [ -n "$fd" ]; then
  text=
  read -r text < "/proc/$$/fd/$fd" || true
  run=${text#*\"run_id\":\"}
  echo "${run%%\"*}" >> '` + s.started + `'
fi
exec '` + bwrap + `' "$@"
`
	path := write(s.t, s.dir, "bin/bwrap", script)
	s.must(os.Chmod(path, 0o755))
	return []string{"PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")}
}

// runs are the runs whose builder was started, as often as it was.
func (s *soakPlace) runs() []string {
	data, err := os.ReadFile(s.started)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Fields(string(data))
}

func (s *soakPlace) start() {
	s.t.Helper()
	s.must(dependOnSources())
	s.server = exec.Command(program, "serve", "--config", s.config)
	s.server.Env = append(os.Environ(), s.env...)
	s.server.Stdout, s.server.Stderr = s.log, s.log
	s.must(s.server.Start())
	s.memory = sampleMemory(s.server.Process.Pid)
}

// kill ends the server as the kernel does when memory is short.
func (s *soakPlace) kill() {
	s.t.Helper()
	s.must(s.server.Process.Signal(syscall.SIGKILL))
	_ = s.server.Wait() // killed, as wanted
	s.memory.end()
}

// end ends the server as an operator does. It returns what the process needed.
func (s *soakPlace) end() []float64 {
	s.t.Helper()
	series := s.memory.end()
	s.must(s.server.Process.Signal(syscall.SIGTERM))
	if exit := ended(s.t, s.server.Wait()); exit != 0 {
		s.t.Errorf("writ serve ended with %d", exit)
	}
	s.server = nil
	return series
}

// idle reports whether the server looks at nothing and nothing is due.
func (s *soakPlace) idle() bool {
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.hook+"/metrics", nil)
	s.must(err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	s.must(err)
	return strings.Contains(string(text), "\nwrit_schedule_due 0\n") && strings.Contains(string(text), "\nwrit_tasks_running 0\n")
}

// memorySampler reads what a process has in memory.
type memorySampler struct {
	stop chan struct{}
	done chan []float64
}

const sampleEvery = 500 * time.Millisecond

func sampleMemory(pid int) *memorySampler {
	m := &memorySampler{make(chan struct{}), make(chan []float64, 1)}
	go func() {
		var list []float64
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-m.stop:
				m.done <- list
				return
			case <-tick.C:
				if mib, ok := residentMiB(pid); ok {
					list = append(list, mib)
				}
			}
		}
	}()
	return m
}

// end gives what was read, one value each half second.
func (m *memorySampler) end() []float64 {
	close(m.stop)
	return <-m.done
}

func residentMiB(pid int) (float64, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, false // it was killed
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(data) + " 0 0")[1], 64)
	return pages * float64(os.Getpagesize()) / (1 << 20), err == nil && pages > 0
}
