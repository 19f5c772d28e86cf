package inbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/store"
)

// Killed at any point: what was acknowledged is there, what wasn't is there as
// a whole or not at all, and no task is forgotten by whoever goes on.
func TestW6_KilledAtEachPoint(t *testing.T) {
	steps := script()
	after := []*model{newModel()} // the model after so many steps
	for _, s := range steps {
		m := after[len(after)-1].clone()
		m.apply(s)
		after = append(after, m)
	}
	killed := 0
	for point := 0; ; point++ {
		path := filepath.Join(t.TempDir(), store.FileName)
		cmd := child(t, "script", path, fmt.Sprint(point))
		out, err := cmd.Output()
		durable := strings.Count(string(out), "\n")
		in, db := openAt(t, path)
		got, readErr := stored(db)
		if readErr != nil {
			t.Fatal(readErr)
		}
		found := durable
		if durable < len(steps) && got == after[durable+1].text() {
			found++ // done, and not acknowledged
		}
		if got != after[found].text() {
			t.Fatalf("point %d, in step %d: found\n%s\nwant\n%s\nor the step done", point, durable, got, after[durable].text())
		}
		recovered := after[found].clone()
		recovered.apply(step{op: "recover"})
		if _, err := in.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := stored(db); err != nil || got != recovered.text() {
			t.Fatalf("point %d: after recovery (%v)\n%s\nwant\n%s", point, err, got, recovered.text())
		}
		if err == nil {
			break // it came to its end
		}
		if cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("point %d: the process was not killed: %v", point, err)
		}
		killed++
	}
	if least := 3 * len(steps); killed < least {
		t.Errorf("the script has %d points, fewer than %d: the faults don't reach it", killed, least)
	}
}

func TestR4_AFullDiskStoresNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), store.FileName)
	in, db := openAt(t, path)
	tried{t, in}.accept(delivery("before", 1), a(9))
	before, err := stored(db)
	if err != nil {
		t.Fatal(err)
	}
	out, err := child(t, "full", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), "8 true false\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	_, again := openAt(t, path)
	if got, err := stored(again); err != nil || got != before {
		t.Errorf("a delivery that was refused is stored (%v):\n%s", err, got)
	}
}
