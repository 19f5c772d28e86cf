package world

import (
	"cmp"
	"slices"

	"github.com/writbot/writ/kernel/canon"
)

// tasks are the tasks of a world. What a round changes of them lies above the others until
// it is committed: a round copies what it changes, and nothing of what it leaves alone.
type tasks struct {
	live     []*known // by number
	archived []*known // by number
	changed  []*known // by number; each is in the place of the one that lies below
}

// known is a task, which is never written to, only replaced.
type known struct {
	Task
	archived bool
	sealed   canon.Sealed // once the state was hashed with it
}

func find(list []*known, number int64) (int, bool) {
	return slices.BinarySearchFunc(list, number, func(k *known, n int64) int { return cmp.Compare(k.Number, n) })
}

// get is a task, nil if it isn't known.
func (t *tasks) get(number int64) *known {
	for _, list := range [...][]*known{t.changed, t.live, t.archived} {
		if i, ok := find(list, number); ok {
			return list[i]
		}
	}
	return nil
}

// put replaces a task; one that was archived comes back, unless it is.
func (t *tasks) put(k *known) { t.changed = placed(t.changed, k) }

func placed(list []*known, k *known) []*known {
	i, ok := find(list, k.Number)
	if ok {
		list[i] = k
		return list
	}
	return slices.Insert(list, i, k)
}

func without(list []*known, number int64) []*known {
	if i, ok := find(list, number); ok {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// settle brings what was changed to its place.
func (t *tasks) settle() {
	for _, k := range t.changed {
		if k.archived {
			t.live, t.archived = without(t.live, k.Number), placed(t.archived, k)
		} else {
			t.archived, t.live = without(t.archived, k.Number), placed(t.live, k)
		}
	}
	t.changed = nil
}

// each calls f for the tasks that aren't archived, by number.
func (t *tasks) each(f func(*known)) {
	above := t.changed
	next := func(k *known) {
		if !k.archived {
			f(k)
		}
	}
	for _, k := range t.live {
		for len(above) > 0 && above[0].Number < k.Number {
			next(above[0])
			above = above[1:]
		}
		if len(above) > 0 && above[0].Number == k.Number {
			k, above = above[0], above[1:]
		}
		next(k)
	}
	for _, k := range above {
		next(k)
	}
}

// all calls f for each known task, in no order.
func (t *tasks) all(f func(*known)) {
	t.each(f)
	for _, k := range t.archived {
		if _, ok := find(t.changed, k.Number); !ok {
			f(k)
		}
	}
	for _, k := range t.changed {
		if k.archived {
			f(k)
		}
	}
}

// count is of all known tasks.
func (t *tasks) count() int64 {
	n := len(t.live) + len(t.archived)
	for _, k := range t.changed {
		_, live := find(t.live, k.Number)
		if _, archived := find(t.archived, k.Number); !live && !archived {
			n++
		}
	}
	return int64(n)
}
