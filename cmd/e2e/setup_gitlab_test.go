package e2e

import (
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestSetup_GitLabTypedToken: a token that is typed as standard input isn't shown
// by the terminal either, and the first Ctrl-C ends the asking.
func TestSetup_GitLabTypedToken(t *testing.T) {
	t.Parallel()
	lab := gitlabtest.New(t, gitlabtest.Options{})
	_, token := lab.ProjectToken(lab.AddProject("acme", "shop"), gitlabtest.Developer)
	for _, leaves := range []bool{false, true} {
		tty, shown := openTerminal(t), make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(tty.person) // it ends with an error when the program's side is closed
			shown <- string(text)
		}()
		cmd, a := command(t, nil, "setup", "gitlab", "--url", lab.URL, "--repo", "acme/shop", "--proxy", "none", "--no-onboard",
			"--token-file", "-", "--dir", filepath.Join(t.TempDir(), "server"))
		said := &output{}
		cmd.Stdin, cmd.Stdout = tty.program, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
		localtest.Until(t, time.Minute, "the question", func() bool { return strings.Contains(said.String(), "The token (") })
		want, says := 0, "Start writ:"
		if leaves {
			want, says = 1, "Interrupted"
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		} else {
			tty.types(t, token)
		}
		a.exit = ended(t, cmd.Wait())
		if err := tty.program.Close(); err != nil {
			t.Fatal(err)
		}
		if text := said.String() + a.stderr; a.exit != want || !strings.Contains(text, says) || strings.Contains(text+<-shown, token) {
			t.Errorf("exit %d: %s", a.exit, text)
		}
	}
}
