package kerneltest

import "testing"

const ref = "refs/writ/task/1"

// TestServer_Swap: compare-and-swap with each fault; what is where it is to go
// already is no move.
func TestServer_Swap(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at     string
		move   Move
		fault  Fault
		answer Answer
		then   string // at the ref
		late   string // once late pushes arrived
	}{
		{"create", "", Move{ref, "", "b"}, NoFault, Won, "b", "b"},
		{"move", "a", Move{ref, "a", "b"}, NoFault, Won, "b", "b"},
		{"delete", "a", Move{ref, "a", ""}, NoFault, Won, "", ""},
		{"must not exist", "a", Move{ref, "", "b"}, NoFault, Lost, "a", "a"},
		{"moved meanwhile", "c", Move{ref, "a", "b"}, NoFault, Lost, "c", "c"},
		{"deleted meanwhile", "", Move{ref, "a", "b"}, NoFault, Lost, "", ""},
		{"up to date", "b", Move{ref, "a", "b"}, NoFault, Lost, "b", "b"},
		{"to itself", "a", Move{ref, "a", "a"}, NoFault, Lost, "a", "a"},
		{"answer lost", "a", Move{ref, "a", "b"}, LostAnswer, Unknown, "b", "b"},
		{"dropped", "a", Move{ref, "a", "b"}, Dropped, Unknown, "a", "a"},
		{"delayed", "a", Move{ref, "a", "b"}, Delayed, Unknown, "a", "b"},
		{"delayed and lost", "c", Move{ref, "a", "b"}, Delayed, Unknown, "c", "c"},
		{"refused", "a", Move{ref, "a", "b"}, Refuse, Refused, "a", "a"},
		{"down", "a", Move{ref, "a", "b"}, Down, Unable, "a", "a"},
	} {
		s := NewServer()
		s.Force(ref, tt.at)
		if got := s.Swap("A", []Move{tt.move}, nil, tt.fault); got != tt.answer || s.Ref(ref) != tt.then {
			t.Errorf("%s: %s, the ref at %q; want %s, %q", tt.name, got, s.Ref(ref), tt.answer, tt.then)
		}
		if s.Deliver(); s.Ref(ref) != tt.late || s.Late() != 0 {
			t.Errorf("%s: later at %q, want %q", tt.name, s.Ref(ref), tt.late)
		}
	}
}

// TestServer_AllOrNone: two refs move together or not at all.
func TestServer_AllOrNone(t *testing.T) {
	s := NewServer()
	s.Force(ref, "a")
	moves := []Move{{ref, "a", "b"}, {"refs/heads/x", "taken", "c"}}
	if s.Swap("A", moves, nil, NoFault) != Lost || s.Ref(ref) != "a" {
		t.Error("one ref of two moved")
	}
	moves[1].Old = ""
	if s.Swap("A", moves, nil, NoFault) != Won || s.Ref(ref) != "b" || s.Ref("refs/heads/x") != "c" {
		t.Error("two refs didn't move")
	}
}

// TestObject_ID: objects have git's names.
func TestObject_ID(t *testing.T) {
	for want, o := range map[string]Object{
		"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391": {"blob", nil},
		"ce013625030ba8dba906f756967f9e9ca394464a": {"blob", []byte("hello\n")},
		"4b825dc642cb6eb9a060e54bf8d69288fbee4904": {"tree", nil},
	} {
		if got := o.ID(); got != want {
			t.Errorf("%s %q: %s, want %s", o.Kind, o.Data, got, want)
		}
	}
}

// TestClock: skew, jumps, boots, and two clocks that move on their own.
func TestClock(t *testing.T) {
	now := NewTime()
	c := NewClock(now, 3_600_000)
	first := c.Now()
	now.Advance(10_000)
	c.Jump(-50_000)
	second := c.Now()
	if first.WallMs != Start+3_600_000 || second.WallMs != first.WallMs-40_000 || second.BootMs != first.BootMs+10_000 || second.BootID != first.BootID {
		t.Errorf("%+v then %+v", first, second)
	}
	if c.Advance(5_000); c.Now().BootMs != second.BootMs+5_000 || c.Now().WallMs != second.WallMs+5_000 {
		t.Errorf("ahead: %+v", c.Now())
	}
	if c.Reboot(); c.Now().BootID == first.BootID || c.Now().BootMs > first.BootMs {
		t.Errorf("booted: %+v", c.Now())
	}
}

// TestChoice: a seed decides everything, another seed decides otherwise.
func TestChoice(t *testing.T) {
	draw := func(seed int64) [4]any {
		c := NewChoice(seed)
		return [4]any{c.UUID(), c.Intn(1000), c.Between(-5, 5), Pick(c, []string{"a", "b", "c"})}
	}
	if draw(1) != draw(1) || draw(1) == draw(2) {
		t.Errorf("%v %v %v", draw(1), draw(1), draw(2))
	}
}
