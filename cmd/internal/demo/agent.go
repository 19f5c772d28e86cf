package demo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/forge"
)

// Agent is one that people use, as its makers publish it.
type Agent struct {
	Kind string // of [builder.Kinds]
	// Program is where it is, and Mount the directory that it needs of its own.
	Program, Mount string
}

// Installed is where docs/builders.md has agents installed.
const Installed = "/opt/agents"

// Find finds the agent of a kind: the program at a path, or the one that was installed in
// the directory there; "" is where docs/builders.md has it installed.
func Find(kind, at string) (*Agent, error) {
	pack := builder.KindPackage(kind)
	if at == "" {
		at = Installed
	}
	at, err := filepath.Abs(at) // what is mounted is named by its whole path
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(at)
	if err == nil && !info.IsDir() {
		if err := runnable(at, info); err != nil {
			return nil, err
		}
		mount := filepath.Dir(at)
		for range pack.Above {
			mount = filepath.Dir(mount)
		}
		return &Agent{kind, at, mount}, nil
	}
	program, mount, err := pack.In(at)
	if err != nil {
		return nil, err
	}
	if info, err = os.Stat(program); err == nil {
		err = runnable(program, info)
	}
	if err != nil {
		return nil, err
	}
	return &Agent{kind, program, mount}, nil
}

// runnable is an error where a file is no program that could be started: it would be found
// out in the sandbox only, as what an operator mends while the task waits.
func runnable(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is no program: it is no file that may be executed (%s)", path, info.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head) // a shorter file has a shorter head
	if head = head[:n]; !bytes.HasPrefix(head, []byte("#!")) && !bytes.Equal(head, []byte("\x7fELF")) {
		return fmt.Errorf("%s is no program: it begins neither as one of this system nor as a script (#!)", path)
	}
	return nil
}

// provider plays the provider of the agent's model.
type provider struct {
	model     *stub.Model
	server    *stub.Server
	authority string // file with the certificate by which it is trusted
}

// secretName is the variable that has the provider's key.
const secretName = "WRIT_DEMO_MODEL_KEY"

// conversation is what the model says: it has the agent read, edit, run the tests, and end.
func conversation() []stub.Turn {
	return []stub.Turn{
		{Run: "cat total.awk receipt.awk test.sh"},
		{Run: `sed -i 's/\btotal(/amount(/g' ./*.awk`},
		{Run: "sh test.sh"},
		{Say: "The function is called amount in both programs, and the shop counts right."},
	}
}

// agent starts the provider, and is the builder as the operator's file has it.
func (s *show) agent(a Agent) (string, error) {
	m := &stub.Model{Key: rand.Text(), Turns: conversation(), Aside: builder.KindAPI(a.Kind) == ""}
	server, err := stub.Serve(m)
	if err != nil {
		return "", err
	}
	s.stub = &provider{model: m, server: server, authority: filepath.Join(s.dir, "authority.pem")}
	var argv []string
	for _, arg := range a.argv() {
		argv = append(argv, strconv.Quote(arg))
	}
	text := fmt.Sprintf(`  agent:
    kind: %s
    argv: [%s]
    ro: [%q]
    model: %s
    egress:
      - host: %s
        ports: [%d]
        addresses: [127.0.0.0/8]
        credential: {secret: %s, api: %s}
prices:
  currency: USD
  models:
    %[4]s: {input: 3000000, cache_read: 300000, cache_write: 3750000, output: 15000000}
`, a.Kind, strings.Join(argv, ", "), a.Mount+":"+Installed, modelName, stub.Host, server.Port, secretName, a.api())
	return text, os.WriteFile(s.stub.authority, server.Authority, 0o600)
}

// argv starts the agent, where its directory is shown in the sandbox.
func (a Agent) argv() []string {
	return append([]string{filepath.Join(Installed, strings.TrimPrefix(a.Program, a.Mount))}, builder.KindPackage(a.Kind).Args...)
}

// api is the interface that the stub speaks with the agent. One that may speak any speaks this.
func (a Agent) api() string { return cmp.Or(builder.KindAPI(a.Kind), "openai") }

// Builder is the agent as it is tried before the demo begins, without a provider that answers.
func (a Agent) Builder() config.Builder {
	return config.Builder{
		Kind: a.Kind, Model: modelName, Argv: a.argv(), RO: []config.Mount{{Source: a.Mount, Target: Installed}},
		Egress: []config.Egress{{Host: stub.Host, Credential: config.Credential{Secret: secretName, API: a.api()}}},
	}
}

// modelName is the model that the agent is told to ask for.
const modelName = "demo-model"

// agentsIssue is the first of the four, for another builder.
func agentsIssue() Issue {
	i := Issues()[Renamed]
	i.Builder = "agent"
	return i
}

// playAgent has the agent do the work of one issue, from the issue to the last word.
func (s *show) playAgent(ctx context.Context) error {
	s.seen = map[int64]string{}
	s.say("The embedded forge serves %s/%s at %s", owner, name, s.url)
	s.say("A stub plays the provider of %s's model, over TLS, at %s:%d", s.o.Agent.Kind, stub.Host, s.stub.server.Port)
	if err := s.start(); err != nil {
		return err
	}
	s.say("writ serve is started; what it logs is in %s", filepath.Join(s.dir, "writ.log"))
	i := agentsIssue()
	filed, err := s.reporter.FileIssue(ctx, s.repo, i.Title, i.Body())
	if err != nil {
		return err
	}
	s.numbers = []int64{filed.Number}
	s.say("#%d is filed: %s (builder %s: %s)", filed.Number, i.Title, i.Builder, s.o.Agent.Kind)
	if err := s.maintainer.AddLabel(ctx, s.repo, filed.Number, label); err != nil {
		return err
	}
	s.say("#%d is approved by maintainer, with the label %s", filed.Number, label)
	if err := s.until(ctx, s.agentEnded); err != nil {
		return err
	}
	return s.finishAgent(ctx, filed.Number)
}

// agentEnded reports whether the agent's issue is completed. One that ended otherwise is an
// error.
func (s *show) agentEnded(ctx context.Context) (bool, error) {
	st, err := s.stand(ctx, s.numbers[0])
	if err != nil {
		return false, err
	}
	if st.has(labelBlocked) {
		return false, fmt.Errorf("#%d ended otherwise than expected (%s): %s\n%s", s.numbers[0], agentsIssue().Ends, st.line(), st.status)
	}
	return st.issue.State == forge.Closed && st.has(labelCompleted), nil
}

// finishAgent ends writ, verifies what it left, and shows what the provider saw.
func (s *show) finishAgent(ctx context.Context, n int64) error {
	if err := s.verified(ctx, 0); err != nil {
		return err
	}
	if err := s.print(ctx, n, agentsIssue().Ends); err != nil {
		return err
	}
	asked := s.stub.model.Asked()
	if wrong := s.stub.model.Wrong(); len(wrong) > 0 || len(asked) == 0 {
		return fmt.Errorf("the provider was asked %d times, without its key for %q", len(asked), wrong)
	}
	for _, body := range asked {
		if strings.Contains(body, s.stub.model.Key) {
			return errors.New("the agent knew the provider's key")
		}
	}
	if err := s.report(ctx, n); err != nil {
		return err
	}
	fmt.Fprintf(s.o.Out, "\nThe agent did the work of the issue in %.0f s. Its provider was asked %d times, each time with the key, which the agent never had. Next: docs/builders.md.\n",
		time.Since(s.began).Seconds(), len(asked))
	return nil
}

// report gives the compliance report to who wants it.
func (s *show) report(ctx context.Context, n int64) error {
	if s.o.Report == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "git", "-C", s.forge.GitDir(s.repo.ID), "show", "refs/writ/task/"+strconv.FormatInt(n, 10)+":report.json")
	cmd.Stdout = s.o.Report
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the report can't be read: %w", err)
	}
	return nil
}
