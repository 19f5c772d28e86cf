package inbox

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/writbot/writ/compliance/store"
)

func drawKey(rt *rapid.T) Key {
	return Key{rapid.SampledFrom([]string{worldA, worldB}).Draw(rt, "world"), rapid.Int64Range(1, 3).Draw(rt, "task")}
}

func drawStep(rt *rapid.T, m *model) step {
	s := step{op: rapid.SampledFrom([]string{"accept", "mark", "mark", "take", "take", "done", "done", "recover"}).Draw(rt, "op")}
	s.at = rapid.Int64Range(1, 20).Draw(rt, "at")
	switch s.op {
	case "accept", "mark":
		s.keys = rapid.SliceOfNDistinct(rapid.Custom(drawKey), 0, 3, rapid.ID[Key]).Draw(rt, "keys")
		s.id = rapid.StringMatching(`[a-e]`).Draw(rt, "id")
	case "take":
		s.keys = []Key{drawKey(rt)}
	case "done": // mostly of what is taken, so that marks in between are common
		s.keys = []Key{drawKey(rt)}
		if taken := m.taken(); len(taken) > 0 {
			s.keys[0] = rapid.SampledFrom(taken).Draw(rt, "taken")
		}
		s.at *= rapid.Int64Range(0, 1).Draw(rt, "next")
	}
	return s
}

// Whatever happens in whatever order, no task that was marked is forgotten:
// after each step what is stored is what the model says.
func TestW6_NoMarkIsEverForgotten(t *testing.T) {
	in, db := openAt(t, filepath.Join(t.TempDir(), store.FileName))
	rapid.Check(t, func(rt *rapid.T) {
		empty(rt, db)
		m := newModel()
		tickets := map[Key]Ticket{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			s := drawStep(rt, m)
			if s.op == "recover" { // a process died, and another one starts
				in = New(db)
			}
			if err := s.run(in, tickets); err != nil {
				rt.Fatalf("%v: %v", s, err)
			}
			m.apply(s)
			got, err := stored(db)
			if diff := cmp.Diff(m.text(), got); diff != "" || err != nil {
				rt.Fatalf("after %v: %v (-want +got):\n%s", s, err, diff)
			}
		}
		agreesOnDue(rt, in, m)
	})
}

// empty makes the store as new.
func empty(rt *rapid.T, db *store.DB) {
	err := db.Write(context.Background(), func(tx store.Tx) error {
		for _, table := range []string{"evidence", "payloads", "deliveries", "schedule"} {
			if _, err := tx.Exec(`DELETE FROM ` + table); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
}

func agreesOnDue(rt *rapid.T, in *Inbox, m *model) {
	now, limit := rapid.Int64Range(0, 21).Draw(rt, "now"), rapid.IntRange(0, 14).Draw(rt, "limit")
	got, err := in.Due(context.Background(), now, limit)
	if want := m.due(now, limit); err != nil || !slices.Equal(got, want) {
		rt.Fatalf("due are %v (%v), want %v", got, err, want)
	}
	var first int64
	for _, t := range m.tasks {
		if t.taken == 0 {
			first = earlier(first, t.due)
		}
	}
	if at, ok, err := in.Next(context.Background()); at != first || ok != (first != 0) || err != nil {
		rt.Fatalf("next is %d %v (%v), want %d", at, ok, err, first)
	}
}
