package supervisor

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Acts are what was said in the repository of the world's keys, and of worlds that
// go on as this one. [worldref.Room] is one.
type Acts interface {
	Ref() string
	Look(ctx context.Context, tip git.OID) error
	Fault() *worldref.Error
	PutBack(ctx context.Context) (bool, error)
	Standing(listed ...ssh.PublicKey) worldref.Standing
	Append(ctx context.Context, a worldref.Act, w worldref.Writer) (git.OID, error)
}

// actsRef is the ref that is read with HEAD; none where there are no acts.
func (s *Supervisor) actsRef() []string {
	if s.deps.Acts == nil {
		return nil
	}
	return []string{s.deps.Acts.Ref()}
}

// lookAtActs takes in where the ref of the acts is, in the same advertisement as
// HEAD. If they can't be read, nothing is decided: a key may have been revoked. What
// is wrong with the ref itself is told, and what was seen there counts.
func (s *Supervisor) lookAtActs(ctx context.Context, refs git.Refs) error {
	if s.deps.Acts == nil {
		return nil
	}
	if err := s.deps.Acts.Look(ctx, refs.OID(s.deps.Acts.Ref())); err != nil {
		return err
	}
	f := s.deps.Acts.Fault()
	if s.fault.Swap(f) != f && f != nil {
		s.deps.Log.Warn("the world's acts were set back or contradicted; what was seen counts", "world", s.cfg.World,
			"code", string(f.Code), "error", f.Detail, "remedy", f.Code.Info().Remedy)
	}
	return nil
}

// keepActs puts the ref of the acts back where it was set back: who reads the repository
// without having seen them would go by keys that count no more. It needs to know whom the
// contract lists, so as not to write over what counts for somebody. refs has HEAD.
func (s *Supervisor) keepActs(ctx context.Context, refs git.Refs) {
	if s.deps.Acts == nil || s.cfg.Observe || s.deps.Acts.Fault() == nil {
		return
	}
	terms, err := s.contracts().read(ctx, refs)
	if err == nil && len(terms.faults) > 0 {
		err = errors.New("whom the contract lists can't be read")
	}
	done := false
	if err == nil {
		s.listRunners(terms.in, terms.contract)
		s.standing(terms.in.runners) // the acts are told who is listed
		done, err = s.deps.Acts.PutBack(ctx)
	}
	switch {
	case err != nil:
		s.deps.Log.Warn("the world's acts are not put back", "world", s.cfg.World, "ref", s.deps.Acts.Ref(), "error", err)
	case done:
		s.deps.Log.Warn("the world's acts were put back as they were seen", "world", s.cfg.World, "ref", s.deps.Acts.Ref())
	}
}

// WatchActs looks at the ref of the world's acts, and puts it back where it was set back.
func (s *Supervisor) WatchActs(ctx context.Context) error {
	if s.deps.Acts == nil {
		return nil
	}
	refs, err := s.deps.Repo.Refs(ctx, append(s.actsRef(), s.baseRefs()...)...)
	if err != nil {
		return err
	}
	if err := s.lookAtActs(ctx, refs); err != nil {
		return err
	}
	s.keepActs(ctx, refs)
	return nil
}

// ActsFault is what is wrong with the ref of the world's acts; nil for nothing.
func (s *Supervisor) ActsFault() *worldref.Error {
	if s.deps.Acts == nil {
		return nil
	}
	return s.deps.Acts.Fault()
}

// standing is who counts, for what the operator and a contract list, and ourselves.
func (s *Supervisor) standing(runners []ssh.PublicKey) worldref.Standing {
	listed := slices.Concat(s.cfg.Trusted, runners, []ssh.PublicKey{s.deps.Signer.PublicKey()})
	if s.deps.Acts == nil {
		return worldref.Fold(s.cfg.World, nil, worldref.Lists(listed))
	}
	return s.deps.Acts.Standing(listed...)
}

// trust says whose commit at the HEAD of a ref it is. Besides our own key those count
// that the operator or the contract lists, as far as they weren't replaced or
// revoked; a key whose place ours took is ours.
func (s *Supervisor) trust(commit git.Commit, ref string, st worldref.Standing) (kernel.Trust, string) {
	signer, err := commit.Verify(nil)
	if err != nil && git.CodeOf(err) != git.CodeUntrusted {
		return kernel.TrustNone, ""
	}
	switch {
	case !st.Signs(signer, ref, string(commit.OID)):
		return kernel.TrustUnlisted, signer
	case st.Successor(signer) == git.Fingerprint(s.deps.Signer.PublicKey()):
		return kernel.TrustOwn, signer
	}
	return kernel.TrustListed, signer
}
