package server

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/cmd/internal/wire"
)

// TestServe_ReloadsWhileTasksRun: configurations are taken over while tasks run,
// one after the other, and no task is lost or done twice.
func TestServe_ReloadsWhileTasksRun(t *testing.T) {
	p := newServerPlace(t)
	log := &servertest.Buffer{}
	proc := wire.NewProcess(log, append(os.Environ(), p.Env...))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	hups, ended := make(chan os.Signal), make(chan error, 1)
	file := p.Config()
	go func() { ended <- Serve(ctx, proc, file, hups) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil || t.Failed() {
			t.Errorf("serve ended with %v:\n%s", err, log)
		}
	}()
	// The file is watched besides, and may be read once more for each.
	reload := func(more, outcome string) {
		p.More = more
		before := strings.Count(log.String(), outcome)
		p.Config()
		hups <- syscall.SIGHUP
		p.Until("the reading has its outcome", func() bool { return strings.Count(log.String(), outcome) > before })
	}
	const applied, refused = "is in force", "is refused"
	var numbers []int64
	for i, step := range [][2]string{
		{"", applied}, {", keep: 2h", applied}, {", log_level: debug", applied}, {", sweep_: 1s", refused}, {", poll: 2s", applied}, {", drain: 11s", refused},
	} {
		n := p.File([]string{"default", "strays"}[i%2])
		p.Approve(n)
		numbers = append(numbers, n)
		reload(step[0], step[1])
	}
	reload("", applied)
	for i, n := range numbers {
		want := []string{"completed", "retry_pending"}[i%2]
		p.Until("each task ends", func() bool { return p.Head(n) == want || i%2 == 1 && p.Head(n) == "blocked" })
	}
	for series, least := range map[string]float64{`writ_config_reload_total{result="applied"}`: 5, `writ_config_reload_total{result="refused"}`: 2} {
		if got, err := strconv.ParseFloat(p.Series(series), 64); err != nil || got < least {
			t.Errorf("%s is %v, %v", series, got, err)
		}
	}
}

// TestServe_ReloadWarnsOfWhatIsNotHeld: what prices and budgets don't hold is said where a
// reload brings it, once, and not again by a reload that changes something else.
func TestServe_ReloadWarnsOfWhatIsNotHeld(t *testing.T) {
	p := newServerPlace(t)
	p.Env = append(p.Env, "MODEL=the-key-of-a-provider")
	s, log := p.server(), &servertest.Buffer{}
	s.log = slog.New(slog.NewTextHandler(log, nil))
	for i, want := range []int{0, 1, 1} {
		p.More = []string{"", ", keep: 2h", ", keep: 3h"}[i]
		if i > 0 {
			p.Builders = "  models: {kind: codex, argv: [sh], model: unheard, egress: [{host: api.openai.com, credential: {secret: MODEL, api: openai}}]}\nprices: {currency: USD, models: {known: {input: 1, cache_read: 1, cache_write: 1, output: 1}}}\n"
		}
		s.reloads.file = p.Config()
		s.reload(t.Context(), "a test")
		if got := strings.Count(log.String(), "no price for unheard"); got != want || strings.Contains(log.String(), "is refused") {
			t.Errorf("after reload %d it was said %d times:\n%s", i, got, log)
		}
	}
}
