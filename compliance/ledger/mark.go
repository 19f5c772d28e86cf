package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	kindMark    = "ledger_mark"
	markVersion = 1
	markOrigin  = "writ-mark/"
)

// Mark is where a verified ledger stood: enough to verify what follows without reading
// what came before. With it goes what somebody folded of those records. Signed
// ([Mark.Sign]), it is this instance's own word for both.
type Mark struct {
	Kind     string         `json:"kind"`
	V        int64          `json:"v"`
	World    string         `json:"world_id"`
	Instance string         `json:"instance"`
	Head     kernel.Head    `json:"head"`
	Time     int64          `json:"time"` // of the head, Unix milliseconds
	Edge     []tlogHash     `json:"edge"` // complete subtrees from the largest down
	Genesis  kernel.Genesis `json:"genesis"`
	Keys     []markedKey    `json:"keys"`
	Adopted  []markedStart  `json:"adopted"`
}

// tlogHash is a hash in the form of checkpoints, base64.
type tlogHash string

func (h tlogHash) hash() (tlog.Hash, error) { return tlog.ParseHash(string(h)) }

type markedKey struct {
	Seq    int64  `json:"seq"`
	Time   int64  `json:"time"`
	Key    string `json:"key"` // OpenSSH
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

type markedStart struct {
	Seq       int64         `json:"seq"`
	Time      int64         `json:"time"`
	History   int64         `json:"history"`
	Actor     string        `json:"actor"`
	Reason    string        `json:"reason"`
	Abandoned []markedPoint `json:"abandoned"`
	Heads     []string      `json:"heads"`
	Unsigned  bool          `json:"unsigned"`
}

type markedPoint struct {
	World   string   `json:"world_id"`
	History int64    `json:"history"`
	Size    int64    `json:"size"`
	Root    tlogHash `json:"root"`
}

// Mark is where the ledger stands. One of which the records before a mark aren't
// verified yet has none: nobody vouches for more than he looked at.
func (l *Ledger) Mark() (Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == nil || l.state.tree.size == 0:
		return Mark{}, unavailable(l.world, "there is nothing to mark", nil)
	case !l.past.done():
		return Mark{}, unavailable(l.world, "the records before are still being verified", nil)
	}
	return l.state.mark(l.world, l.chain.Instance), nil
}

// mark is where a chain stands.
func (c *checker) mark(world, instance string) Mark {
	m := Mark{
		Kind: kindMark, V: markVersion, World: world, Instance: instance, Head: c.head(), Time: c.time, Genesis: c.genesis,
	}
	for level := maxLevels - 1; level >= 0; level-- {
		if c.tree.size>>level&1 == 1 {
			m.Edge = append(m.Edge, tlogHash(c.tree.edge[level].String()))
		}
	}
	for _, k := range c.keys {
		m.Keys = append(m.Keys, markedKey{k.Seq, k.Time, k.public.PublicOpenSSH(), k.Actor, k.Reason})
	}
	for _, a := range c.adopted {
		s := markedStart{Seq: a.Seq, Time: a.Time, History: a.History, Actor: a.Actor, Reason: a.Reason, Heads: a.Heads, Unsigned: a.Unsigned}
		for _, cp := range a.Abandoned {
			s.Abandoned = append(s.Abandoned, markedPoint{cp.World, cp.History, cp.Size, tlogHash(cp.Root.String())})
		}
		m.Adopted = append(m.Adopted, s)
	}
	return m
}

// Size is the number of the records up to the mark.
func (m Mark) Size() int64 { return m.Head.Seq + 1 }

// checker is the checker that the mark was made of.
func (m Mark) checker() (*checker, error) {
	c, err := newChecker(m.World, m.Instance)
	if err != nil {
		return nil, err
	}
	c.tree.size, c.time, c.genesis = m.Size(), m.Time, m.Genesis
	sum, err := m.Head.Hash.Bytes()
	if err != nil || c.tree.size < 1 {
		return nil, errors.New("ledger: the mark has no head")
	}
	c.hash = [sha256.Size]byte(sum[:])
	c.setPrev()
	edge := m.Edge
	for level := maxLevels - 1; level >= 0; level-- {
		if c.tree.size>>level&1 == 0 {
			continue
		}
		if len(edge) == 0 {
			return nil, errors.New("ledger: the mark has too few hashes")
		}
		if c.tree.edge[level], err = edge[0].hash(); err != nil {
			return nil, err
		}
		edge = edge[1:]
	}
	for _, k := range m.Keys {
		public, err := instancekey.ParsePublic(k.Key)
		if err != nil {
			return nil, err
		}
		c.keys = append(c.keys, Rotated{k.Seq, k.Time, public.Fingerprint(), k.Actor, k.Reason, public})
	}
	if len(c.keys) == 0 {
		return nil, errors.New("ledger: the mark has no key")
	}
	for _, s := range m.Adopted {
		a := Adopted{Seq: s.Seq, Time: s.Time, History: s.History, Actor: s.Actor, Reason: s.Reason, Heads: s.Heads, Unsigned: s.Unsigned}
		for _, p := range s.Abandoned {
			root, err := p.Root.hash()
			if err != nil {
				return nil, err
			}
			a.Abandoned = append(a.Abandoned, Checkpoint{p.World, p.History, p.Size, root})
		}
		c.adopted = append(c.adopted, a)
	}
	return c, nil
}

// Sign puts a mark and what was folded of its records, both canonical JSON, into one
// document under the key: two lines, then a signed note with their digests.
func (m Mark) Sign(key *instancekey.Key, folded []byte) ([]byte, error) {
	line, err := canon.Marshal(m)
	if err != nil {
		return nil, err
	}
	signer, err := key.NoteSigner()
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: markText(m.World, line, folded)}, signer)
	if err != nil {
		return nil, err
	}
	return slices.Concat(line, []byte("\n"), folded, []byte("\n"), signed), nil
}

func markText(world string, mark, folded []byte) string {
	return fmt.Sprintf("%s%s\n%s\n%s\n", markOrigin, world, canon.Sum(mark), canon.Sum(folded))
}

// OpenMark reads what [Mark.Sign] wrote with the same key, and nothing else.
func OpenMark(data []byte, key instancekey.Public) (m Mark, folded []byte, err error) {
	line, rest, found := bytes.Cut(data, []byte("\n"))
	folded, signed, foundToo := bytes.Cut(rest, []byte("\n"))
	if !found || !foundToo || len(signed) > maxCheckpointBytes {
		return m, nil, errors.New("ledger: it is no mark")
	}
	verifier, err := key.NoteVerifier()
	if err != nil {
		return m, nil, err
	}
	n, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		return m, nil, fmt.Errorf("ledger: the mark is not signed by %s: %w", key.Fingerprint(), err)
	}
	if err := canon.UnmarshalCanonical(line, &m); err != nil {
		return m, nil, fmt.Errorf("ledger: the mark: %w", err)
	}
	if n.Text != markText(m.World, line, folded) || m.Kind != kindMark || m.V != markVersion {
		return m, nil, errors.New("ledger: the mark is not what was signed")
	}
	return m, folded, nil
}

// past is what of a ledger was written before its mark, until that is verified.
type past struct {
	size  int64         // records before the mark's end; 0: all is verified
	edge  tree          // of the mark
	ended chan struct{} // closed once err counts
	err   error
}

func (p *past) done() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.ended:
		return p.err == nil
	default:
		return false
	}
}

// vouched reports whether a record may be handed out: it comes after the mark, or all
// before is verified.
func (p *past) vouched(seq int64) bool { return p == nil || seq >= p.size || p.done() }

// wait returns once everything before the mark is verified. Nobody waits inside a read:
// the verification needs one, too.
func (p *past) wait(ctx context.Context) error {
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errNotYet: a hash of before the mark was asked for, and nobody vouches for it yet.
var errNotYet = errors.New("the records before the mark aren't verified yet")

// fault is what was found before the mark, nil where nothing was, or not yet.
func (p *past) fault() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// node is a hash that the mark itself vouches for: a complete subtree of its edge.
func (p *past) node(level int, last int64) (tlog.Hash, bool) {
	if p == nil || p.size>>level&1 == 0 || (p.size>>level)<<level-1 != last {
		return tlog.Hash{}, false
	}
	return p.edge.edge[level], true
}

// WorldFrom opens the ledger of a world as [Store.World] does, but verifies only what
// follows the mark before it returns. What came before is verified behind: until that
// is done, nobody is given a record or a hash of it, and whoever asks waits. A fault
// there ends the ledger: nothing is read or appended any more. ended is called once
// with the outcome, nil for a sound one; a store that is closed meanwhile calls nobody.
// kept is the checkpoint that lies outside the store.
//
// A mark that doesn't fit, or is older than that checkpoint lets it be, is an error
// with the code ledger.unavailable: the ledger is to be opened whole.
func (s *Store) WorldFrom(ctx context.Context, m Mark, kept []byte, ended func(error)) (*Ledger, error) {
	if err := checkWorld(m.World); err != nil {
		return nil, err
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if err := s.refuse(m.World); err != nil {
		return nil, err
	}
	if s.key == nil || s.opened(m.World) != nil {
		return nil, unavailable(m.World, "only a ledger that isn't open is gone on with from a mark", nil)
	}
	l := &Ledger{store: s, world: m.World}
	if err := l.loadFrom(ctx, m, kept); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.ledgers[m.World] = l
	s.mu.Unlock()
	s.behind.Go(func() {
		err := l.verifyPast(s.living, kept)
		if s.living.Err() == nil {
			ended(err)
		}
	})
	return l, nil
}

// loadFrom verifies what follows a mark.
func (l *Ledger) loadFrom(ctx context.Context, m Mark, kept []byte) error {
	unfit := func(why string, err error) error {
		return unavailable(l.world, "the mark can't be gone on from: "+why, err)
	}
	c, err := m.checker()
	if err != nil {
		return unfit("it contradicts itself", err)
	}
	if err := l.mine(c, l.store.key.Fingerprint()); err != nil {
		return unfit("it is another key's", err)
	}
	if len(kept) == 0 {
		return unfit("no checkpoint lies beside the store", nil)
	}
	v := newVerification(Expect{World: m.World, Instance: m.Instance, Checkpoint: kept})
	v.c = c
	edge := c.tree
	cp, err := c.open(kept)
	if err == nil && cp.Size < m.Size() {
		return unfit("the checkpoint beside the store is older", nil)
	}
	err = l.store.storage.view(ctx, func(s snapshot) error {
		w, ok, err := s.world(ctx, l.world)
		if err != nil || !ok {
			return errors.Join(err, unfit("the store has no such ledger", nil))
		}
		v.want.Head, v.stored = &w.head, w.checkpoint
		v.goOn(m)
		found := false
		err = s.rows(ctx, rowQuery{world: w.id, from: m.Head.Seq, limit: 1}, func(r row) error {
			found = r.seq == m.Head.Seq && canon.Sum(r.raw) == m.Head.Hash
			return nil
		})
		if err != nil || !found {
			return errors.Join(err, unfit("its last record isn't there", nil))
		}
		if err := v.read(ctx, s, rowQuery{world: w.id, from: m.Size()}); err != nil {
			return err
		}
		if v.report.OK {
			v.worldRow(w)
		}
		return nil
	})
	if err != nil {
		return readError(l.world, err)
	}
	if err := v.finish().Err(); err != nil {
		return err
	}
	l.state, l.past = v.c, &past{size: m.Size(), edge: edge, ended: make(chan struct{})}
	l.chain = kernel.Chain{World: l.world, Instance: m.Instance, Head: v.c.head(), Time: v.c.time}
	return nil
}

// goOn has a verification, of which the checker is the mark's, hold the checkpoints of no
// older size than the mark against what follows.
func (v *verification) goOn(m Mark) {
	v.report.World, v.report.Instance, v.report.Records = m.World, m.Keys[0].fingerprint(), m.Size()
	v.closed = v.given()
	v.openCheckpoints()
	v.signed = slices.DeleteFunc(v.signed, func(cp Checkpoint) bool { return cp.Size < m.Size() })
	v.standAt()
}

func (k markedKey) fingerprint() string {
	public, err := instancekey.ParsePublic(k.Key)
	if err != nil {
		return "" // checker has refused it
	}
	return public.Fingerprint()
}

// pastPage is how many rows are verified at once, so that no read holds back what the
// database clears away.
const pastPage = 4096

// verifyPast verifies what came before the mark, from the first record, and settles
// what waits for that.
func (l *Ledger) verifyPast(ctx context.Context, kept []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // nobody else would, and nobody may go on without
			err = unavailable(l.world, fmt.Sprintf("verifying it met a fault of writ's own: %v", p), nil)
		}
		l.past.err = err
		close(l.past.ended)
	}()
	return l.readPast(ctx, kept)
}

func (l *Ledger) readPast(ctx context.Context, kept []byte) error {
	p := l.past
	v := newVerification(Expect{World: l.world, Instance: l.chain.Instance, Checkpoint: kept})
	begun := false
	for v.report.OK && v.c.tree.size < p.size {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.store.storage.view(ctx, func(s snapshot) error {
			w, ok, err := s.world(ctx, l.world)
			if err != nil || !ok {
				return errors.Join(err, corrupt(l.world, NoSeq, "the store has no such ledger any more"))
			}
			v.stored = w.checkpoint
			if !begun {
				if err := v.begin(ctx, s, w, false); err != nil || !v.report.OK || v.c.tree.size >= p.size {
					return err
				}
				begun = true
			}
			q := rowQuery{world: w.id, from: v.from(), limit: min(pastPage, p.size-v.c.tree.size)}
			before := v.c.tree.size
			if err := v.read(ctx, s, q); err != nil {
				return err
			}
			if v.report.OK && v.c.tree.size == before {
				v.fail(kernel.CodeLedgerCorrupt, before, "it is missing from the store")
			}
			return nil
		})
		if err != nil {
			return readError(l.world, err)
		}
	}
	if v.report.OK && v.suspect != nil {
		v.blame(v.c.tree.size-1, true) // the mark names the last
	}
	if v.report.OK && (v.c.tree.size != p.size || v.c.tree.root() != p.edge.root()) {
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, "the records before the mark are not those that it was made of: they were replaced")
	}
	v.signed = slices.DeleteFunc(v.signed, func(cp Checkpoint) bool { return cp.Size > p.size })
	v.matchCheckpoints()
	return v.report.Err()
}
