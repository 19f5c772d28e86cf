package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// parts are the checks of what comes and goes. The process is ready without them:
// each fails alone, and the webhooks of the others must be taken.
func (s *server) parts() (list []webhook.Check) {
	part := func(name string, run func(context.Context) error) {
		list = append(list, webhook.Check{Name: name, Part: true, Run: func(ctx context.Context) error { return s.inWords(run(ctx)) }})
	}
	for _, name := range slices.Sorted(maps.Keys(s.conf().Builders)) {
		part("builder:"+name, func(ctx context.Context) error { return s.environment(ctx, name, kernel.CodeEnvBuilder) })
	}
	part("disk", func(ctx context.Context) error {
		return s.environment(ctx, installation.DefaultBuilder, kernel.CodeEnvDisk)
	})
	part("pauses", s.notPaused)
	part("configuration", func(context.Context) error { return s.reloads.refused() })
	for _, l := range s.worlds.shown() {
		if w := l.served; w != nil {
			part("git:"+l.first, func(ctx context.Context) error {
				if o, lasts := w.sup.Outage(); lasts {
					return unable(o)
				}
				if err := s.lacking.ruled(w.World); err != nil {
					return err
				}
				return w.git.ask(time.Now(), func() error {
					_, err := w.Repo.Refs(ctx, installation.RefPrefix(s.cfg.Refs))
					return err
				})
			})
		}
		if w := l.served; w != nil {
			part("acts:"+l.first, func(context.Context) error { return actsIn(w.sup) })
		}
		part("forge:"+l.first, func(ctx context.Context) error { return s.forgeOf(ctx, l) })
		if l.forge.Access != nil && l.served != nil {
			part("access:"+l.first, func(context.Context) error { return orNil(l.lacks) })
		}
	}
	return list
}

// notPaused is an error while something is paused. By whom and why is in the log:
// anybody may ask this.
func (s *server) notPaused(ctx context.Context) error {
	list, err := s.pausesNow(ctx)
	if err != nil {
		return errors.New("What is paused can't be read, so everything is.") //nolint:staticcheck // a sentence
	}
	if len(list) == 0 {
		return nil
	}
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = installation.Request{World: s.worlds.called(p.World)}.Paused()
		if p.SinceMs > 0 {
			words[i] += " since " + installation.PauseSince(p)
		} else {
			words[i] += " by a file"
		}
	}
	return errors.New("Paused: " + strings.Join(words, ", ") + ".")
}

// actsIn is what is wrong with the ref of a world's acts.
func actsIn(sup *supervisor.Supervisor) error {
	f := sup.ActsFault()
	if f == nil {
		return nil
	}
	return problem.Coded(f.Code, "%s", f.Detail)
}

// unable is what the server of a world can't do, in its own words.
func unable(o supervisor.Outage) error {
	tried := "after " + numberOf(o.Tries, "try", "tries")
	if o.Tries == 0 { // the server is silent
		tried = "with the first try still unanswered"
	}
	how := fmt.Sprintf("since %s, %s; %s: %s", kernel.Timestamp(o.Since/1000), tried, waiting(o.Tasks), onOneLine(o.Words))
	switch o.Cause {
	case kernel.CodeGitBudget:
		return problem.Coded(o.Code(), "A limit of writ's own, not the server, keeps the repository from being read %s", how)
	case kernel.CodeWorldRollback:
		return &problem.Error{
			Code: o.Code(), Text: "Whose state counts in the repository can't be told " + how,
			Remedy: "Have a server that saw the act put it back. If nobody has it any more, `writ world repair` goes on without it.",
		}
	case kernel.CodeKeyOver:
		return problem.Coded(o.Code(), "Nothing can be done in the repository %s", how)
	case kernel.CodeEnvRepository:
		return &problem.Error{
			Code: o.Code(), Text: "Nothing can be done in the repository " + how,
			Remedy: "What is done is kept, nothing is counted, and all goes on by itself once the branch is there.",
		}
	}
	does := "can't do what writ asks of it"
	if o.Silent {
		does = "doesn't answer what writ asks of it"
	}
	return &problem.Error{
		Code:   kernel.CodeForgeUnable,
		Text:   "The server " + does + " " + how,
		Remedy: "Look at its disk, its state and its log. Judged work is kept, nothing is counted, and all goes on by itself once the server works again.",
	}
}

// waiting says how many tasks wait.
func waiting(n int) string { return numberOf(n, "task waits", "tasks wait") }

// numberOf is a number with the words for one or for many.
func numberOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// onOneLine are a server's words, which may be none, inside a sentence.
func onOneLine(words string) string {
	lines := slices.DeleteFunc(strings.Split(words, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return cmp.Or(strings.TrimSuffix(strings.Join(lines, "; "), "."), supervisor.NoWords)
}

// outage reports whether the server of a world can't serve its tasks now, and another
// task's try comes first.
func (ws *worlds) outage(world string) bool {
	ws.mu.Lock()
	w := ws.find(world)
	ws.mu.Unlock()
	return w != nil && w.sup != nil && w.sup.Rest() > 0
}

// healedTime bounds the marking: each task is due within a minute by itself.
const healedTime = 5 * time.Second

// forgeOf is what is wrong with a listed repository at its forge.
func (s *server) forgeOf(ctx context.Context, l listing) error {
	if l.served == nil {
		if l.why == nil {
			return errors.New("It is being opened.") //nolint:staticcheck // a sentence
		}
		return l.why
	}
	return l.served.seen.ask(time.Now(), func() error {
		found, err := l.served.client.Repository(ctx, l.served.at.ID)
		if err == nil && !strings.EqualFold(found.String(), l.name) {
			err = fmt.Errorf("%s is called %s now: put that name in its place under repositories", l.name, found.Repo)
		}
		return err
	})
}

// orNil is an error that is nil where there is no problem.
func orNil(p *problem.Error) error {
	if p == nil {
		return nil
	}
	return p
}

// inWords is an error as anybody may read it, with what to do.
func (s *server) inWords(err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p := problem.Explain(err)
	text := strings.TrimSuffix(p.Error(), ".") + "."
	if p.Remedy != "" {
		text += " " + p.Remedy
	}
	return errors.New(report.Clean(s.process.Redactor.String(text)))
}

// sayWhatLacks warns, once for each thing, of what no builder of the configuration in
// force could be started without, and of what a preflight notes: nothing else would say so
// before the first task.
func (s *server) sayWhatLacks(ctx context.Context) {
	g := s.now()
	names := slices.Sorted(maps.Keys(g.cfg.Builders))
	if len(names) == 0 {
		names = []string{installation.DefaultBuilder}
	}
	said := map[kernel.Violation]bool{}
	for _, name := range names {
		lacking := g.executor.Environment(ctx, name)
		for _, v := range lacking {
			if said[v] || ctx.Err() != nil {
				continue
			}
			said[v] = true
			s.log.Warn("what a builder needs is missing: its tasks are not claimed", "builder", name,
				"code", string(v.Code), "subject", v.Subject, "error", v.Detail, "remedy", v.Code.Info().Remedy)
		}
		if len(lacking) > 0 {
			continue
		}
		if note := g.executor.Preflight(ctx, name).Note; note != "" { // the one that Environment has just made
			s.log.Warn("a builder's tasks are claimed, but its preflight didn't find out all", "builder", name, "note", note)
		}
	}
}

// environment is what is wrong with a builder's surroundings, of these codes.
func (s *server) environment(ctx context.Context, builder string, codes ...kernel.Code) error {
	for _, v := range s.now().executor.Surroundings(ctx, builder) {
		if slices.Contains(codes, v.Code) {
			return &problem.Error{Code: v.Code, Text: v.Subject + ": " + v.Detail, Remedy: v.Code.Info().Remedy}
		}
	}
	return nil
}
