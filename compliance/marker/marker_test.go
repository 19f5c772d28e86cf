package marker_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writbot/writ/compliance/marker"
)

// TestF5_MarkerBytes: the lines are those by which texts of before are found again.
func TestF5_MarkerBytes(t *testing.T) {
	m := marker.Marker{World: "127.0.0.1:8080/o/n", Task: 7}
	for got, want := range map[string]string{
		m.Line(marker.Status, "r1"): "<!-- writ:task:127.0.0.1:8080/o/n:7 run=r1 -->\n",
		m.Line(marker.Alert, ""):    "<!-- writ:alert:127.0.0.1:8080/o/n:7 run=none -->\n",
		m.Line(marker.Answer, "3"):  "<!-- writ:answer:127.0.0.1:8080/o/n:7 run=3 -->\n",
		m.Line(marker.Explain, "3"): "<!-- writ:explain:127.0.0.1:8080/o/n:7 run=3 -->\n",
		m.SeqLine(12):               "<!-- writ:at:127.0.0.1:8080/o/n:7 seq=12 -->\n",
		m.DoubtLine():               "<!-- writ:doubt:127.0.0.1:8080/o/n:7 -->\n",
		m.WaitLine("label:881"):     "<!-- writ:waits:127.0.0.1:8080/o/n:7 act=label:881 -->\n",
		m.SeqLine(0):                "",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// TestF5_MarkerRoundTrip: what was written is read again, for its own task and kind alone,
// also where a forge changed the line breaks.
func TestF5_MarkerRoundTrip(t *testing.T) {
	kinds := []string{marker.Status, marker.Alert, marker.Answer, marker.Explain}
	rapid.Check(t, func(t *rapid.T) {
		m := marker.Marker{World: rapid.StringMatching(`[a-z0-9.:/-]{1,60}`).Draw(t, "world"), Task: rapid.Int64Range(1, 1<<53-1).Draw(t, "task")}
		kind, run := rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.StringMatching(`([a-z0-9-]{1,40})?`).Draw(t, "run")
		if run == "none" {
			return // it stands for no run
		}
		seq, act := rapid.Int64Range(0, 1<<37).Draw(t, "seq"), rapid.StringMatching(`[a-z]{1,9}:[0-9]{1,12}`).Draw(t, "act")
		text := m.Line(kind, run) + m.SeqLine(seq) + m.DoubtLine() + m.WaitLine(act) + "It is done.\n"
		if rapid.Bool().Draw(t, "rewritten") {
			text = "\r\n" + strings.ReplaceAll(text, "\n", "\r\n")
		}
		if got, ok := m.Run(kind, text); !ok || got != run {
			t.Fatalf("run %q, %t", got, ok)
		}
		if m.Seq(text) != seq || !m.Doubts(text) || m.Waits(text) != act {
			t.Fatalf("seq %d, doubts %t, waits %q", m.Seq(text), m.Doubts(text), m.Waits(text))
		}
		if want := map[bool]int64{true: m.Task}[kind == marker.Status]; marker.Task(text) != want {
			t.Fatalf("of task %d", marker.Task(text))
		}
		for _, other := range []marker.Marker{{m.World + "/", m.Task}, {m.World, m.Task%(1<<53-1) + 1}} {
			_, is := other.Run(kind, text)
			if is || other.Seq(text) != 0 || other.Doubts(text) || other.Waits(text) != "" {
				t.Fatalf("it is also of %+v", other)
			}
		}
	})
}

// TestI17_NoMarker: what isn't exactly a text's first line is of no task; so is a number
// that no record holds.
func TestI17_NoMarker(t *testing.T) {
	const line = "<!-- writ:task:local/1:7 run=r -->"
	for text, want := range map[string]int64{
		line: 7, line + "\nIt is done.": 7, "\n " + line + " \n": 7,
		strings.Replace(line, "7", "9007199254740991", 1):    9007199254740991,
		strings.Replace(line, "7", "9007199254740992", 1):    0,
		strings.Replace(line, "7", "9223372036854775808", 1): 0,
		strings.Replace(line, ":7", ":07", 1):                0,
		strings.Replace(line, ":7", ":+7", 1):                0,
		strings.Replace(line, ":7", ":0", 1):                 0,
		strings.Replace(line, ":7", ":-7", 1):                0,
		strings.Replace(line, "=r", "=", 1):                  0,
		strings.Replace(line, "task", "answer", 1):           0,
		"It copies\n" + line:                                 0,
		"> " + line:                                          0,
		line + " and more":                                   0,
		strings.TrimSuffix(line, " -->"):                     0,
		"<!-- writ:task:7 run=r -->":                         0,
		"<!-- writ:task -->":                                 0,
		"":                                                   0,
	} {
		if got := marker.Task(text); got != want {
			t.Errorf("%q: task %d", text, got)
		}
	}
}

// FuzzF5_Marker: what is read of any text, written again, are the same bytes.
func FuzzF5_Marker(f *testing.F) {
	f.Add("<!-- writ:task:local/1:7 run=r -->\nIt is done.")
	f.Add("<!-- writ:task:a:b:7 run=none -->")
	f.Fuzz(func(t *testing.T, text string) {
		task := marker.Task(text)
		if task == 0 {
			return
		}
		first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		first = strings.TrimSpace(first)
		head, _, _ := strings.Cut(strings.TrimPrefix(first, "<!-- writ:task:"), " run=")
		m := marker.Marker{World: head[:strings.LastIndexByte(head, ':')], Task: task}
		run, ok := m.Run(marker.Status, text)
		if !ok || m.Line(marker.Status, run) != first+"\n" {
			t.Errorf("%q is read as %+v, run %q", text, m, run)
		}
	})
}

// TestF5_SeqAsWritten: a number is one only as it would be written.
func TestF5_SeqAsWritten(t *testing.T) {
	m := marker.Marker{World: "github:github.com:1", Task: 7}
	for digits, want := range map[string]int64{"12": 12, "+12": 0, "012": 0, "0": 0, "-1": 0, "253402300800": 0} {
		text := "x\n" + strings.Replace(m.SeqLine(12), "seq=12", "seq="+digits, 1)
		if got := m.Seq(text); got != want {
			t.Errorf("%s is read as %d, want %d", digits, got, want)
		}
	}
}
