package world

import (
	"maps"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// beside is what the records say that no rule of the world asks for, but who drives its
// tasks does. It is folded with the world and is no part of its state, for audit entries
// may be more or fewer. All of it is by task.
type beside struct {
	audit    map[int64]machine.Entry   // last entry of the task's kernel
	approved map[int64]kernel.Approval // that it was last claimed on
	commits  map[string]int64          // its work at a change: delivered, and merged
	changes  map[int64]int64           // by number
	pushed   map[int64][]string        // last state commits that were pushed, or tried to, oldest first
	adopted  bool                      // a person said to go on with an older ledger
	met      map[int64]bool            // a HEAD of the ledger's own key was taken in since
	spent    *spending
}

// keptPushes is how many of a task's last pushes are known by their ids. One whose
// answer was lost is settled before the next, so that the last one would do.
const keptPushes = 8

func newBeside() *beside {
	return &beside{
		audit: map[int64]machine.Entry{}, approved: map[int64]kernel.Approval{}, commits: map[string]int64{}, changes: map[int64]int64{},
		pushed: map[int64][]string{}, met: map[int64]bool{}, spent: newSpending(),
	}
}

// note takes in what a record says.
func (b *beside) note(r kernel.Record, said any) {
	task := r.Task
	b.spent.note(task, r.Run, r.Time, said)
	switch v := said.(type) {
	case machine.Entry:
		if v.Kernel == kernel.MachineOf(r.World, task) { // and not that of the ledger's key
			b.audit[task] = v
		}
	case kernel.Facts:
		b.see(v)
	case kernel.SeedPack:
		b.approved[v.Task] = v.Approval
	case kernel.Intent:
		if v.Seq > 0 {
			list := with(b.pushed[task], v.New)
			b.pushed[task] = list[max(0, len(list)-keptPushes):]
		}
	case kernel.Adoption:
		b.adopted = true
		clear(b.met)
	}
}

// see takes in what a look says of a change, and that HEAD is this key's.
func (b *beside) see(f kernel.Facts) {
	if f.Head.Trust == kernel.TrustOwn && f.HeadCounts() {
		b.met[f.Task] = true
	}
	if f.Issue == nil || f.Issue.Change == nil || f.Issue.Change.Number == 0 || f.Issue.Change.Old {
		return
	}
	c := f.Issue.Change
	b.changes[c.Number] = f.Task
	for _, oid := range []string{c.Head, c.Merged} {
		if oid != "" {
			b.commits[oid] = f.Task
		}
	}
}

// LastEntry is the last audit entry of a task's kernel in an epoch, nil for none.
func (k *Kernel) LastEntry(task, epoch int64) *machine.Entry {
	e, ok := k.beside.audit[task]
	if !ok || e.Epoch != epoch {
		return nil
	}
	return &e
}

// Epoch is that of the world's own kernel: the history in which its last entry was made, 1
// where there is none.
func (k *Kernel) Epoch() int64 { return max(1, k.beside.audit[0].Epoch) }

// ClaimedOn is the approval that a task was last claimed on.
func (k *Kernel) ClaimedOn(task int64) kernel.Approval { return k.beside.approved[task] }

// TaskOfCommit is whose work a commit is: delivered by a change, or merged.
func (k *Kernel) TaskOfCommit(oid string) (task int64, ok bool) {
	task, ok = k.beside.commits[oid]
	return task, ok
}

// TaskOfChange is whose work a change delivers.
func (k *Kernel) TaskOfChange(number int64) (task int64, ok bool) {
	task, ok = k.beside.changes[number]
	return task, ok
}

// Delivered reports whether any work was delivered by a change, which might be reverted.
func (k *Kernel) Delivered() bool { return len(k.beside.changes) > 0 }

// Disowns reports whether HEAD is a commit of the ledger's key that the ledger should know
// and doesn't: it was made by another copy of the state directory, or before an older one
// was put back (case R10). Binding is judged before: a commit that was copied here from
// another task proves nothing about the ledger. Nor does an earlier one, to which the ref
// was set back.
func (k *Kernel) Disowns(task int64, h kernel.HeadFacts, v kernel.TaskView) bool {
	b := k.beside
	return h.Trust == kernel.TrustOwn && h.Trusted() && h.Seq > v.SeenSeq && !slices.Contains(b.pushed[task], h.OID) &&
		(!b.adopted || b.met[task])
}

// SavedBeside is what a [Saved] has beside the state. Lists are sorted by their first field.
type SavedBeside struct {
	Audit    []SavedEntry    `json:"audit"`
	Approved []SavedApproval `json:"approved"`
	Commits  []SavedCommit   `json:"commits"`
	Changes  []SavedChange   `json:"changes"`
	Pushed   []SavedPushes   `json:"pushed"`
	Adopted  *[]int64        `json:"adopted"` // tasks met since an adoption, null without one
	Spent    SavedSpending   `json:"spent"`
}

// SavedEntry is the last audit entry of a task's kernel.
type SavedEntry struct {
	Task  int64         `json:"task_id"` // number of the task
	Entry machine.Entry `json:"entry"`   // as recorded
}

// SavedApproval is what a task was last claimed on.
type SavedApproval struct {
	Task     int64           `json:"task_id"`  // number of the task
	Approval kernel.Approval `json:"approval"` // of its last seed pack
}

// SavedCommit is the work of a task.
type SavedCommit struct {
	OID  string `json:"oid"`     // commit
	Task int64  `json:"task_id"` // number of the task
}

// SavedChange is what delivers the work of a task.
type SavedChange struct {
	Number int64 `json:"number"`  // of the change
	Task   int64 `json:"task_id"` // number of the task
}

// SavedPushes are the last state commits of a task.
type SavedPushes struct {
	Task int64    `json:"task_id"` // number of the task
	IDs  []string `json:"ids"`     // oldest first
}

func (b *beside) save() SavedBeside {
	s := SavedBeside{
		Audit:    sorted(b.audit, func(n int64, e machine.Entry) SavedEntry { return SavedEntry{n, e} }),
		Approved: sorted(b.approved, func(n int64, a kernel.Approval) SavedApproval { return SavedApproval{n, a} }),
		Commits:  sorted(b.commits, func(oid string, n int64) SavedCommit { return SavedCommit{oid, n} }),
		Changes:  sorted(b.changes, func(c, n int64) SavedChange { return SavedChange{c, n} }),
		Pushed:   sorted(b.pushed, func(n int64, ids []string) SavedPushes { return SavedPushes{n, ids} }),
		Spent:    b.spent.save(),
	}
	if b.adopted {
		met := sorted(b.met, func(n int64, _ bool) int64 { return n })
		s.Adopted = &met
	}
	return s
}

func sorted[K int64 | string, V, T any](m map[K]V, made func(K, V) T) []T {
	out := make([]T, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, made(key, m[key]))
	}
	return out
}

func (s SavedBeside) restore() *beside {
	b := newBeside()
	for _, x := range s.Audit {
		b.audit[x.Task] = x.Entry
	}
	for _, x := range s.Approved {
		b.approved[x.Task] = x.Approval
	}
	for _, x := range s.Commits {
		b.commits[x.OID] = x.Task
	}
	for _, x := range s.Changes {
		b.changes[x.Number] = x.Task
	}
	for _, x := range s.Pushed {
		b.pushed[x.Task] = x.IDs
	}
	b.spent = s.Spent.restore()
	if s.Adopted != nil {
		b.adopted = true
		for _, task := range *s.Adopted {
			b.met[task] = true
		}
	}
	return b
}
