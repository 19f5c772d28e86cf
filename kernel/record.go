package kernel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/writbot/writ/kernel/canon"
)

// Kind names what a record's body is.
type Kind string

// Record kinds. Each belongs to exactly one [Class].
const (
	KindGenesis        Kind = "genesis"        // first record of a chain
	KindObservation    Kind = "observation"    // facts read for one decision
	KindInterpretation Kind = "interpretation" // what somebody understood the issue to ask
	KindPlanProposal   Kind = "plan_proposal"  // a plan before its verification
	KindBuilderResult  Kind = "builder_result" // what the builder answered
	KindDiff           Kind = "diff"           // what the builder changed, from raw bytes
	KindRunResult      Kind = "run_result"     // what the runner's checks gave
	KindOutcome        Kind = "outcome"        // what an effect came to
	KindOperatorAct    Kind = "operator_act"   // what a person does to a task or to the world
	KindAdoption       Kind = "adoption"       // a person goes on with an older store
	KindKeyRotation    Kind = "key_rotation"   // another key signs from here on

	KindSeedPack Kind = "seed_pack" // the approved input of a task
	KindSpec     Kind = "spec"      // the committed interpretation
	KindPlan     Kind = "plan"      // the committed plan
	KindDispatch Kind = "dispatch"  // the instruction handed out
	KindDecision Kind = "decision"  // what the kernel made of the facts
	KindRefusal  Kind = "refusal"   // why the kernel would not go on
	KindIntent   Kind = "intent"    // an effect that is about to be tried
	KindReceipt  Kind = "receipt"   // a settled round
	KindAudit    Kind = "audit"     // a transition of the kernel
	KindReport   Kind = "report"    // the compliance report of a cycle
)

// Class separates what anybody may say from what the kernel alone writes
// (seed 003 §2).
type Class string

// The two classes of output; there is no third.
const (
	ClassProposal Class = "proposal"
	ClassCommit   Class = "commit"
)

var kindClasses = map[Kind]Class{
	KindObservation: ClassProposal, KindInterpretation: ClassProposal, KindPlanProposal: ClassProposal,
	KindBuilderResult: ClassProposal, KindDiff: ClassProposal, KindRunResult: ClassProposal,
	KindOutcome: ClassProposal, KindOperatorAct: ClassProposal, KindAdoption: ClassProposal,
	KindKeyRotation: ClassProposal,

	KindGenesis: ClassCommit, KindSeedPack: ClassCommit, KindSpec: ClassCommit, KindPlan: ClassCommit,
	KindDispatch: ClassCommit, KindDecision: ClassCommit, KindRefusal: ClassCommit, KindIntent: ClassCommit,
	KindReceipt: ClassCommit, KindAudit: ClassCommit, KindReport: ClassCommit,
}

// Class returns the kind's class; ok is false for an unknown kind.
func (k Kind) Class() (Class, bool) {
	c, ok := kindClasses[k]
	return c, ok
}

// RecordVersion is the version of the record envelope.
const RecordVersion = 1

// Record is one entry of an instance's ledger of a world. Its hash is SHA-256
// of its canonical JSON, body included, and the next record's Prev.
type Record struct {
	V        int64           `json:"v"`
	Kind     Kind            `json:"kind"`
	World    string          `json:"world_id"`
	Instance string          `json:"instance"` // fingerprint of the instance's key
	Seq      int64           `json:"seq"`      // 0 is the genesis
	Prev     canon.Digest    `json:"prev"`     // empty in the genesis only
	Time     int64           `json:"time"`     // virtual clock, Unix milliseconds
	Task     int64           `json:"task"`     // 0 where no task is concerned
	Run      string          `json:"run_id"`   // "" where no run is concerned
	Body     json.RawMessage `json:"body"`     // canonical JSON
}

// Hash returns the record's hash.
func (r Record) Hash() (canon.Digest, error) { return canon.Hash(r) }

// Draft is a record before its place in the chain is known.
type Draft struct {
	Kind Kind
	Task int64
	Run  string
	Body any // a [canon.Sealed], or what is sealed where it is first needed
}

// SealedRecord is a record with its bytes and its hash, as they are stored, folded and
// followed by the next. Each is encoded once, when it gets its place ([Chain.Seal]).
type SealedRecord struct {
	record Record
	sealed canon.Sealed
	said   any
}

// Record is the record itself.
func (s SealedRecord) Record() Record { return s.record }

// Bytes is its canonical JSON. Nobody writes to it.
func (s SealedRecord) Bytes() []byte { return s.sealed.Bytes() }

// Hash is the record's hash, which the next one has as Prev.
func (s SealedRecord) Hash() canon.Digest { return s.sealed.Hash() }

// Said is what the body says, nil where it was made of its bytes.
func (s SealedRecord) Said() any { return s.said }

// Sealed encodes a record that was read, or made by hand.
func (r Record) Sealed() (SealedRecord, error) {
	s, err := canon.Seal(r)
	return SealedRecord{record: r, sealed: s}, err
}

// Records are the records themselves.
func Records(list []SealedRecord) []Record {
	out := make([]Record, len(list))
	for i, s := range list {
		out[i] = s.record
	}
	return out
}

// sealedWith encodes a record around its body, which is encoded already: as [Record], field
// by field.
func (r Record) sealedWith(body canon.Sealed) (SealedRecord, error) {
	r.Body = body.Bytes()
	s, err := canon.Seal(struct {
		V        int64        `json:"v"`
		Kind     Kind         `json:"kind"`
		World    string       `json:"world_id"`
		Instance string       `json:"instance"`
		Seq      int64        `json:"seq"`
		Prev     canon.Digest `json:"prev"`
		Time     int64        `json:"time"`
		Task     int64        `json:"task"`
		Run      string       `json:"run_id"`
		Body     canon.Sealed `json:"body"`
	}{r.V, r.Kind, r.World, r.Instance, r.Seq, r.Prev, r.Time, r.Task, r.Run, body})
	return SealedRecord{r, s, body.Value()}, err
}

// Head is the last record of a chain. The zero Head has Seq -1: see [NoHead].
type Head struct {
	Seq  int64        `json:"seq"`
	Hash canon.Digest `json:"hash"`
}

// NoHead is the head of an empty chain.
func NoHead() Head { return Head{Seq: -1} }

// Chain is where a ledger stands: whose it is and its last record.
type Chain struct {
	World    string
	Instance string
	Head     Head
	Time     int64 // virtual time of the last record
}

// Seal gives drafts their place: sequence, previous hash, and a time that never
// goes back. It encodes each once, and returns the finished records and the chain after them; storing
// them is the ledger's part. An unknown kind is an error, and so is a body that
// has no canonical form; the chain then stands where it stood.
func (c Chain) Seal(now int64, drafts []Draft) ([]SealedRecord, Chain, error) {
	before := c
	if now < c.Time {
		now = c.Time
	}
	out := make([]SealedRecord, 0, len(drafts))
	for _, d := range drafts {
		if _, ok := d.Kind.Class(); !ok {
			return nil, before, fmt.Errorf("kernel: unknown record kind %q", d.Kind)
		}
		body, err := canon.Seal(d.Body)
		if err != nil {
			return nil, before, fmt.Errorf("kernel: body of %s record: %w", d.Kind, err)
		}
		r, err := Record{
			V: RecordVersion, Kind: d.Kind, World: c.World, Instance: c.Instance,
			Seq: c.Head.Seq + 1, Prev: c.Head.Hash, Time: now, Task: d.Task, Run: d.Run,
		}.sealedWith(body)
		if err != nil {
			return nil, before, fmt.Errorf("kernel: %s record: %w", d.Kind, err)
		}
		c.Head, c.Time = Head{Seq: r.record.Seq, Hash: r.Hash()}, now
		out = append(out, r)
	}
	return out, c, nil
}

// Genesis is the body of a chain's first record. It binds the chain to one
// world, one key and the first contract, so that a record of another chain
// never fits (case R6).
type Genesis struct {
	Kind         string       `json:"kind"` // "genesis"
	World        string       `json:"world_id"`
	RepositoryID string       `json:"repository_id"` // forge's numeric id; "" where there is none
	InstanceKey  string       `json:"instance_key"`  // OpenSSH public key
	Contract     canon.Digest `json:"contract_hash"`
	Kernel       string       `json:"kernel_version"`
	Builders     []string     `json:"builders"`    // configured names, sorted
	Seed         int64        `json:"random_seed"` // any integer but 0; see [Genesis.Seeded]
	MaxPaths     int64        `json:"max_paths"`   // bound of the path space: reserved paths
	MaxDepth     int64        `json:"max_depth"`   // bound of the path space: path segments
}

// seedBits are those of an integer that every reader of JSON keeps.
const seedBits = 53

// Seeded is the genesis with a seed in any case: one that has none gets it from its own
// bytes, so that the same world, instance and contract begin with the same.
func (g Genesis) Seeded() (Genesis, error) {
	if g.Seed != 0 {
		return g, nil
	}
	hash, err := canon.Hash(g)
	if err != nil {
		return g, err
	}
	sum, err := hash.Bytes()
	if err != nil {
		return g, err
	}
	g.Seed = max(int64(binary.BigEndian.Uint64(sum[:8])>>(64-seedBits)), 1)
	return g, nil
}

// Intent is the body of an intent record: an effect under a key, written before
// the effect is tried.
type Intent struct {
	Kind   string       `json:"kind"` // "intent"
	Key    string       `json:"key"`  // of the effect, the same where that is tried again; the outcome bears it, too
	Effect Action       `json:"effect"`
	Digest canon.Digest `json:"digest"` // of what is pushed or handed out
	Ref    string       `json:"ref"`
	Old    string       `json:"old"` // commit id expected at Ref; "" for none
	New    string       `json:"new"`
	Seq    int64        `json:"seq"` // the new commit's number, 0 where no state ref is moved
}

// OutcomeStatus is what an effect came to. Unknown is an answer: it is looked
// up by the effect's key before anything is tried again.
type OutcomeStatus string

// The outcomes of an effect.
const (
	OutcomeDone    OutcomeStatus = "done"
	OutcomeLost    OutcomeStatus = "lost"
	OutcomeUnknown OutcomeStatus = "unknown"
	OutcomeRefused OutcomeStatus = "refused"
	OutcomeFailed  OutcomeStatus = "failed"
	// OutcomeUnable is a push that the server couldn't take: nothing happened, and
	// nobody is to blame.
	OutcomeUnable OutcomeStatus = "unable"
)

// Outcome is the body of an outcome record.
type Outcome struct {
	Kind   string        `json:"kind"` // "outcome"
	Key    string        `json:"key"`
	Effect Action        `json:"effect"`
	Status OutcomeStatus `json:"status"`
	Code   Code          `json:"code"`   // "" when done
	Detail string        `json:"detail"` // server's or system's words, redacted
}

// OperatorAct is the body of a person's recorded act on a task, or on the whole world: a
// pause and its end concern no task.
type OperatorAct struct {
	Kind   string `json:"kind"` // "operator_act"
	Act    string `json:"act"`  // ActHalt, ActResume, ActStop, ActPutBack, ActPause or ActUnpause
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	Epoch  int64  `json:"epoch"` // the epoch that a resume opens
	Head   string `json:"head"`  // commit at HEAD when a person resumed, or that is put back; "" for none
	// Key makes it the same act however often it is said: of one actor and key one counts.
	Key string `json:"key"`
	// Round is the number of the round that it is made for, as the world then stands.
	Round int64 `json:"round_id"`
	// ActID is the act on the forge that asked for it, "" for none.
	ActID string `json:"act_id,omitempty"`
	// Unshown is the commit of the push that a resume goes on with: the server had
	// acknowledged it, and no look has shown it since. "" for none.
	Unshown string `json:"unshown,omitempty"`
	// Pause is what a pause was said of, PauseAll, PauseWorld or PauseFile, and Since when, in
	// Unix milliseconds. Both together name the pause, also where it ends.
	Pause string `json:"pause,omitempty"`
	Since int64  `json:"since,omitempty"`
}

// A person's acts.
const (
	ActHalt   = "halt"
	ActResume = "resume"
	ActStop   = "stop"
	// ActPutBack puts the commit that was seen last back, after a forge lost it.
	ActPutBack = "put_back"
	// ActPause has nothing new started in the world, ActUnpause ends one such pause.
	ActPause   = "pause"
	ActUnpause = "unpause"
)

// What a pause is said of: everything that a server governs, one repository, or whatever a
// file names.
const (
	PauseAll   = "all"
	PauseWorld = "repository"
	PauseFile  = "file"
)

// Global reports whether an act concerns the world, and no task.
func (a OperatorAct) Global() bool { return a.Act == ActPause || a.Act == ActUnpause }

// MachineOfKey is the name of the kernel that handles the rotations of a ledger's key. Each
// is the first request of the epoch that begins with it, and epochs are counted from 1.
func MachineOfKey(world string) string { return world + "#key" }

// MachineOf is the name of a task's kernel in its audit entries. The world itself has one,
// too, with the number 0; its epochs are the histories of the ledger.
func MachineOf(world string, task int64) string { return world + "#" + strconv.FormatInt(task, 10) }

// KeyRotation is the body of the record after which another key signs: the next
// checkpoint, and what is pushed from then on. The instance keeps its name, which is
// the first key's fingerprint (case R2). It concerns no task.
type KeyRotation struct {
	Kind   string `json:"kind"` // "key_rotation"
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	Key    string `json:"key"` // the new one, as the genesis names the first
	// Last is the last checkpoint of the key that is replaced, a whole note: of all
	// records before this one. That is how far it signs.
	Last string `json:"last"`
}

// Adoption is the body of a person's declaration that a ledger goes on from a
// store that is older than what its key has signed, or another than that. With
// this record begins another history under the same key, and it names what it
// contradicts (case R2). It concerns no task.
type Adoption struct {
	Kind   string `json:"kind"` // "adoption"
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// History is the number of the history that begins here; a ledger's first is
	// 1 and has no such record.
	History int64 `json:"history"`
	// Abandoned are the signed checkpoints, whole notes, that no record of this
	// ledger fulfils any more.
	Abandoned []string `json:"abandoned"`
	// Heads are state commits of this key that no record of this ledger tells of:
	// what shows that it is older where no checkpoint does.
	Heads []string `json:"heads,omitempty"`
	// Unsigned: the checkpoint that lies beside the store from the first record on was
	// missing, so that what this key has signed besides isn't known.
	Unsigned bool `json:"unsigned,omitempty"`
}
