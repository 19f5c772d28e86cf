package supervisor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// Stand is how a state ref stands to what this installation saw of its task. What
// says how far a key or a world counts goes by it, and not by whatever somebody put
// at HEAD: see [Stand.Until].
type Stand struct {
	Task   int64
	Ref    string
	Head   git.OID // as the server has it, "" for none
	Signer string  // fingerprint of the key of HEAD's good signature, "" for none
	World  string  // that HEAD names
	// Approval is the digest of the text that HEAD, or without a legitimate one the
	// commit seen last, was approved for; "" where that can't be read.
	Approval string
	// Seen is the legitimate HEAD that was seen last, "" where none was, and SeenSigner
	// who signed it, "" where the repository doesn't have it any more.
	Seen       git.OID
	SeenSigner string
	// Result is the commit that HEAD completes, where that waited for the merge of its
	// change, and ResultSigner who signed it; "" for none.
	Result       git.OID
	ResultSigner string
	// Known: HEAD is what this installation saw last, or made itself.
	Known bool
	// Code is why HEAD isn't legitimate, "" if it is: it is what was seen last, or a
	// trusted commit of this task that came after that. Why is a sentence.
	Code kernel.Code
	Why  string
}

// Legitimate reports whether a task may be gone on with from HEAD.
func (s Stand) Legitimate() bool { return s.Code == "" && s.Head != "" }

// Until is the commit of the ref up to which a signer counts: HEAD if that is
// legitimate and his, or else the commit seen last, as long as that can be his; ""
// where there is none. Without unseen, HEAD has to be [Stand.Known] for that: the key
// that signed it is no witness for itself.
func (s Stand) Until(signer string, unseen bool) git.OID {
	switch {
	case s.Legitimate() && s.Signer == signer && (s.Known || unseen):
		return s.Head
	case s.Legitimate() && s.Result != "" && s.ResultSigner == signer && (s.Known || unseen):
		return s.Result
	case s.SeenSigner == signer, s.SeenSigner == "" && !s.Legitimate():
		return s.Seen
	}
	return ""
}

// standsAtOnce bounds how many refs are looked at at the same time.
const standsAtOnce = 8

// Stands looks at tasks of the world; without numbers at each that has a state ref or of
// which a state was seen. refs has the state refs, the ref of the acts and HEAD.
// A supervisor without a history answers for an installation that has seen nothing.
func (s *Supervisor) Stands(ctx context.Context, refs git.Refs, numbers ...int64) ([]Stand, error) {
	if err := s.lookAtActs(ctx, refs); err != nil {
		return nil, err
	}
	in, err := s.lists(ctx, refs)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		numbers = s.numbers(refs)
	}
	stands, errs := make([]Stand, len(numbers)), make([]error, len(numbers))
	var all sync.WaitGroup
	next := make(chan int)
	for range standsAtOnce {
		all.Go(func() {
			for i := range next {
				t := s.task(numbers[i], nil) // which issue it is, is another question
				stands[i], errs[i] = t.observer.stand(ctx, in, refs.OID(t.StateRef()))
			}
		})
	}
	for i := range numbers {
		next <- i
	}
	close(next)
	all.Wait()
	return slices.DeleteFunc(stands, func(st Stand) bool { return st.Head == "" && st.Seen == "" }), errors.Join(errs...)
}

// lists reads the contract in force, and whose results it lets count.
func (s *Supervisor) lists(ctx context.Context, refs git.Refs) (*Intake, error) {
	terms, err := s.contracts().read(ctx, refs)
	if err != nil {
		return nil, err
	}
	s.listRunners(terms.in, terms.contract)
	s.standing(terms.in.runners) // the acts are told who is listed
	return terms.in, nil
}

// Standing is who counts in the world now. Without a base branch no contract lists
// anybody. refs has the ref of the acts and HEAD.
func (s *Supervisor) Standing(ctx context.Context, refs git.Refs) (worldref.Standing, error) {
	in, err := s.listsIfAny(ctx, refs)
	if err != nil {
		return worldref.Standing{}, err
	}
	return s.standing(in.runners), nil
}

// listsIfAny takes in the acts, and reads the contract in force, if there is a base.
func (s *Supervisor) listsIfAny(ctx context.Context, refs git.Refs) (*Intake, error) {
	if err := s.lookAtActs(ctx, refs); err != nil {
		return nil, err
	}
	in, err := s.lists(ctx, refs)
	if _, lacks := errors.AsType[*noBaseError](err); lacks {
		return &Intake{}, nil
	}
	return in, err
}

// HeadOf reads HEAD of a task as a look does that asks no forge, with why only a person
// moves on from it, by what a view says was seen. Which issue the task is, the commit says
// that was seen last. Without a base branch no contract lists anybody. refs has the state
// ref, the ref of the acts and HEAD.
func (s *Supervisor) HeadOf(ctx context.Context, refs git.Refs, v kernel.TaskView) (kernel.HeadFacts, []kernel.Violation, error) {
	in, err := s.listsIfAny(ctx, refs)
	if err != nil {
		return kernel.HeadFacts{}, nil, err
	}
	t := s.task(v.Task, nil)
	if v.Seen != "" {
		seen, err := t.observer.seenCommit(ctx, git.OID(v.Seen))
		if err != nil {
			return kernel.HeadFacts{}, nil, err
		}
		if was, err := kernel.ReadStamp(lease.Parse(seen.Message).Trailers); err == nil && was.World == s.cfg.World {
			t.issueName = was.Issue
		}
	}
	c := &observation{clock: s.now(), task: t.subject, intake: in, facts: kernel.Facts{View: v, Told: v.Told > 0}}
	h, err := t.observer.readHead(ctx, c, refs.OID(t.StateRef()))
	if err != nil {
		return h, nil, err
	}
	if v.Told > h.Seq {
		h.Told = v.Told
	}
	c.facts.Head = h
	return h, kernel.HeadFaults(c.facts), nil
}

// numbers are the tasks that have a state ref, or that the records know.
func (s *Supervisor) numbers(refs git.Refs) []int64 {
	numbers := TasksAt(refs.Names(), s.cfg.RefPrefix)
	if s.world != nil {
		numbers = append(numbers, s.Tasks()...)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// TasksAt are the tasks that have a state ref among the names, in order. A number that isn't written
// as writ writes it, such as 01, names none.
func TasksAt(names []string, prefix string) (numbers []int64) {
	for _, name := range names {
		word, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseInt(word, 10, 64); ok && err == nil && n > 0 && strconv.FormatInt(n, 10) == word {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}
