package ledgers

import (
	"context"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Report is a ledger's report and whether its key is vouched for.
type Report struct {
	ledger.Report
	Vouched bool `json:"vouched"`
	// Repository is what people call the world, "" where that isn't known.
	Repository string `json:"repository"`
}

// Verify checks every ledger of a state directory, beside its writer, for somebody who vouches
// for these keys and kept these checkpoints. Each holds only if the key that signs it is one
// of those, where there are any.
func Verify(ctx context.Context, state, archive string, kept Notes, keys []ssh.PublicKey) ([]Report, error) {
	reps, err := read(ctx, state, archive, kept)
	if err != nil {
		return nil, unverified(err)
	}
	for i := range reps {
		r := &reps[i]
		r.Vouched = slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return git.Fingerprint(k) == r.signer() })
		if r.OK && len(keys) > 0 && !r.Vouched {
			r.OK, r.Code, r.Reason = false, kernel.CodeLeaseUntrusted, "It is signed by none of the keys that you vouch for."
		}
	}
	return reps, nil
}

// signer is the key that signs the ledger now.
func (r Report) signer() string {
	if n := len(r.Rotated); n > 0 {
		return r.Rotated[n-1].Key
	}
	return r.Instance
}

// read checks what the store has, and what a checkpoint says that it
// must have.
func read(ctx context.Context, state, archive string, kept Notes) ([]Report, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return nil, err
	}
	store, err := ledger.OpenReadOnly(ctx, dir.File(ledger.FileName), ledger.Options{Archive: archive})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	worlds, err := store.Worlds(ctx)
	if err != nil {
		return nil, err
	}
	beside, err := dir.Checkpoints()
	if err != nil {
		return nil, err
	}
	for _, signed := range beside {
		if w, ok := ledger.CheckpointWorld(signed); ok {
			worlds = append(worlds, w)
		}
	}
	for _, n := range kept {
		worlds = append(worlds, n.world)
	}
	slices.Sort(worlds)
	worlds = slices.Compact(worlds)
	reps := []Report{}
	for _, w := range worlds {
		l, err := store.World(ctx, w)
		if err != nil {
			return nil, err
		}
		signed, err := ledger.KeptCheckpoint(dir.Path, w)
		if err != nil {
			return nil, err
		}
		r, err := l.Verify(ctx, ledger.VerifyOptions{Checkpoint: signed, Outside: true, Others: kept.of(w), Deep: true, Archived: archive != ""})
		if err != nil {
			return nil, err
		}
		if err := verifyWorld(ctx, l, &r); err != nil {
			return nil, err
		}
		reps = append(reps, Report{Report: r, Repository: dir.LastUse().Names[w]})
	}
	return reps, nil
}

// verifyWorld holds the records of a sound chain against the rules of their world, where
// all of them are at hand.
func verifyWorld(ctx context.Context, l *ledger.Ledger, r *ledger.Report) error {
	if !r.OK || r.Records == 0 || r.ArchiveMissing != "" {
		return nil
	}
	fault, err := replay.VerifyWorld(l.Records(ctx, 0, r.Records))
	if fault != nil {
		r.OK, r.Code, r.Reason, r.FirstBad = false, kernel.CodeLedgerCorrupt, fault.Detail, &fault.Seq
	}
	return err
}
