package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestSetupGitLab_Token: it comes from a file, standard input or the environment,
// and never from an argument; without one nothing is done.
func TestSetupGitLab_Token(t *testing.T) {
	t.Parallel()
	lab := gitlabtest.New(t, gitlabtest.Options{})
	_, token := lab.ProjectToken(lab.AddProject("acme", "shop"), gitlabtest.Developer)
	dir := t.TempDir()
	own, open := filepath.Join(dir, "own.token"), filepath.Join(dir, "open.token")
	must(t, os.WriteFile(own, []byte(token+"\n"), 0o600))
	must(t, os.WriteFile(open, []byte(token+"\n"), 0o644))
	base := []string{"setup", "gitlab", "--url", lab.URL, "--repo", "acme/shop", "--proxy", "none"}
	for name, row := range map[string]struct {
		args  []string
		stdin io.Reader
		env   []string
		want  int
		says  string
		kept  bool // the token lies in the directory
	}{
		"a file":                    {[]string{"--token-file", own}, nil, nil, problem.ExitDone, "Start writ:", false},
		"standard input":            {[]string{"--token-file", "-"}, strings.NewReader(token + "\nmore\n"), nil, problem.ExitDone, "Start writ:", true},
		"the environment":           {nil, nil, []string{"WRIT_GITLAB_TOKEN=" + token}, problem.ExitDone, "Start writ:", true},
		"a file named in it":        {nil, nil, []string{"WRIT_GITLAB_TOKEN_FILE=" + own}, problem.ExitDone, "Start writ:", false},
		"none":                      {nil, strings.NewReader(""), nil, problem.ExitUsage, "No token is given", false},
		"a file for all":            {[]string{"--token-file", open}, nil, nil, problem.ExitOther, "Others may read", false},
		"no such file":              {[]string{"--token-file", filepath.Join(dir, "none")}, nil, nil, problem.ExitUsage, "can't be read", false},
		"as an argument":            {[]string{token}, nil, nil, problem.ExitUsage, "not expected", false},
		"a secret of no known form": {[]string{"correct-horse"}, nil, nil, problem.ExitUsage, "not expected", false},
		"state refs elsewhere":      {[]string{"--refs", "tags"}, nil, nil, problem.ExitUsage, "hidden or heads", false},
		"refs of one's own file":    {[]string{"--refs", "heads", "--config", "own.yaml"}, nil, nil, problem.ExitUsage, "refs: heads into", false},
		"both answers":              {[]string{"--onboard", "--no-onboard"}, nil, nil, problem.ExitUsage, "onboard", false},
		"a dash":                    {[]string{"--dir", "-x"}, nil, nil, problem.ExitUsage, "begins with a dash", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			into := filepath.Join(t.TempDir(), "server")
			args := append([]string{}, base...)
			if name != "a dash" {
				args = append(args, "--dir", into)
			}
			if row.stdin == nil {
				row.stdin = strings.NewReader("")
			}
			var out bytes.Buffer
			env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, row.env...)
			exit := Main(append(args, row.args...), row.stdin, &out, &out, env)
			shown := out.String()
			if exit != row.want || !strings.Contains(shown, row.says) || strings.Contains(shown, token) || strings.Contains(shown, "correct-horse") {
				t.Errorf("exit %d: %s", exit, &out)
			}
			if _, err := os.Stat(filepath.Join(into, "gitlab.token")); (err == nil) != row.kept {
				t.Errorf("is the token kept: %v", err)
			}
		})
	}
}
