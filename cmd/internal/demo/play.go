package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/forge"
)

// The labels that writ sets.
const (
	labelClaimed   = "writ:claimed"
	labelCompleted = "writ:completed"
	labelBlocked   = "writ:blocked"
)

// play is the demo from the first issue to the last word.
func (s *show) play(ctx context.Context) error {
	s.seen = map[int64]string{}
	s.say("The embedded forge serves %s/%s at %s", owner, name, s.url)
	if err := s.start(); err != nil {
		return err
	}
	s.say("writ serve is started; what it logs is in %s", filepath.Join(s.dir, "writ.log"))
	for n, i := range Issues() {
		filed, err := s.reporter.FileIssue(ctx, s.repo, i.Title, i.Body())
		if err != nil {
			return err
		}
		s.numbers = append(s.numbers, filed.Number)
		s.say("#%d is filed: %s (builder %s)", filed.Number, i.Title, i.Builder)
		if n == Edited {
			continue
		}
		if err := s.maintainer.AddLabel(ctx, s.repo, filed.Number, label); err != nil {
			return err
		}
		s.say("#%d is approved by maintainer, with the label %s", filed.Number, label)
	}
	if err := s.crash(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, s.over); err != nil {
		return err
	}
	return s.finish(ctx)
}

// crash kills writ while the slow builder works, changes an approved issue
// meanwhile, and starts writ again.
func (s *show) crash(ctx context.Context) error {
	n := s.numbers[Survived]
	building := func(ctx context.Context) (bool, error) {
		st, err := s.stand(ctx, n)
		return st.has(labelClaimed), err
	}
	if err := s.until(ctx, building); err != nil {
		return err
	}
	// The claim is told before the builder starts; the builder takes its time.
	if err := s.until(ctx, after(time.Second)); err != nil {
		return err
	}
	if err := s.writ.kill(); err != nil {
		return err
	}
	s.say("writ is killed (-9) while the builder of #%d works", n)
	n = s.numbers[Edited]
	if err := s.maintainer.AddLabel(ctx, s.repo, n, label); err != nil {
		return err
	}
	if err := s.reporter.EditIssue(ctx, s.repo, n, Issues()[Edited].Title, strings.Replace(Issues()[Edited].Body(), "tidy", "rewrite", 1)); err != nil {
		return err
	}
	s.say("#%d is approved by maintainer, and then changed by reporter", n)
	if err := s.start(); err != nil {
		return err
	}
	s.say("writ is started again")
	return nil
}

// after is a condition that holds once some time has passed.
func after(d time.Duration) func(context.Context) (bool, error) {
	due := time.Now().Add(d)
	return func(context.Context) (bool, error) { return time.Now().After(due), nil }
}

// until looks at the forge, tells what changed, and returns when the condition
// holds.
func (s *show) until(ctx context.Context, holds func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.tell(ctx); err != nil {
			return err
		}
		if ok, err := holds(ctx); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the issues did not end in time: %w", ctx.Err())
		case err := <-s.writ.ended:
			s.writ = nil
			return fmt.Errorf("writ ended by itself: %w", err)
		case <-tick.C:
		}
	}
}

// tell prints how issues stand when that changes.
func (s *show) tell(ctx context.Context) error {
	for _, n := range s.numbers {
		st, err := s.stand(ctx, n)
		if err != nil {
			return err
		}
		if line := st.line(); line != s.seen[n] {
			s.seen[n] = line
			if line != "" {
				s.say("#%d %s", n, line)
			}
		}
	}
	return nil
}

// standing is an issue as its page shows it.
type standing struct {
	issue  forge.Issue
	status string // writ's comment, "" for none
}

func (s *show) stand(ctx context.Context, n int64) (st standing, err error) {
	if st.issue, err = s.maintainer.Issue(ctx, s.repo, n); err != nil {
		return st, err
	}
	comments, err := s.maintainer.Comments(ctx, s.repo, n)
	for _, c := range comments {
		if c.Author.Kind == forge.Bot && marker.Task(c.Body) == n {
			st.status = c.Body
		}
	}
	return st, err
}

func (st standing) has(label string) bool { return slices.Contains(st.issue.Labels, label) }

// line is the gist: writ's labels, and the first line of its comment.
func (st standing) line() string {
	var words []string
	for _, l := range st.issue.Labels {
		if w, ok := strings.CutPrefix(l, "writ:"); ok {
			words = append(words, w)
		}
	}
	if st.issue.State == forge.Closed {
		words = append(words, "closed")
	}
	for line := range strings.Lines(st.status) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "<!--") {
			words = append(words, "("+strings.Trim(text, "*#` ")+")")
			break
		}
	}
	return strings.Join(words, ", ")
}

// over reports whether all four ended as they should. An issue that ended
// otherwise is an error.
func (s *show) over(ctx context.Context) (bool, error) {
	all := true
	for i, n := range s.numbers {
		st, err := s.stand(ctx, n)
		if err != nil {
			return false, err
		}
		good, bad := st.ended(i)
		if bad {
			return false, fmt.Errorf("#%d ended otherwise than expected (%s): %s", n, Issues()[i].Ends, st.line())
		}
		all = all && good
	}
	return all, nil
}

func (st standing) ended(i int) (good, bad bool) {
	closed, completed, blocked := st.issue.State == forge.Closed, st.has(labelCompleted), st.has(labelBlocked)
	switch i {
	case Renamed, Survived:
		return closed && completed, blocked
	case Strayed:
		return !closed && blocked, completed || closed
	default:
		return !closed && strings.Contains(st.status, "instruction.changed_after_approval"), completed || blocked || closed || st.has(labelClaimed)
	}
}

// finish ends writ, verifies what it left and prints the reports.
func (s *show) finish(ctx context.Context) error {
	if err := s.verified(ctx, Renamed, Strayed, Survived); err != nil {
		return err
	}
	for i, n := range s.numbers {
		if err := s.print(ctx, n, Issues()[i].Ends); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.o.Out, "\nAll four ended as they should, in %.0f s. Next: docs/local-forge.md for a server and repositories of your own", time.Since(s.began).Seconds())
	if !s.o.Keep {
		fmt.Fprint(s.o.Out, ", or writ demo --keep to look around in the page")
	}
	fmt.Fprintln(s.o.Out, ".")
	return nil
}

// verified ends writ, and has it verify what it left of these issues.
func (s *show) verified(ctx context.Context, issues ...int) error {
	if !s.o.Keep {
		if err := s.writ.end(); err != nil {
			return err
		}
		s.writ = nil
		s.say("writ has ended, handing back what it held")
	}
	fmt.Fprint(s.o.Out, "\n== The ledger, and the evidence in the repository, verified\n")
	if err := s.verify(ctx, "--state-dir", filepath.Join(s.dir, "state")); err != nil {
		return err
	}
	for _, i := range issues {
		if err := s.verify(ctx, s.forge.GitDir(s.repo.ID), "--task", strconv.FormatInt(s.numbers[i], 10)); err != nil {
			return err
		}
	}
	return nil
}

// print prints how writ tells of an issue on its page.
func (s *show) print(ctx context.Context, n int64, ends string) error {
	st, err := s.stand(ctx, n)
	if err == nil {
		fmt.Fprintf(s.o.Out, "\n== #%d %s: %s\n%s\n", n, st.issue.Title, ends, strings.TrimSpace(st.status))
	}
	return err
}
