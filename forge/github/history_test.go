package github

import (
	"fmt"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

var began = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func labeled(id int64, seconds int) entry {
	return entry{Event: forge.Event{ID: id * eventGap, Kind: forge.EventLabeled, Label: "writ", At: at(seconds)}}
}

func renamed(id int64, seconds int, from string) entry {
	return entry{Event: forge.Event{ID: id * eventGap, Kind: forge.EventEdited, At: at(seconds)}, renamedFrom: &from}
}

func edited(seconds int, body string) version { return version{at: at(seconds), body: body} }

func original(body string) version { return version{at: at(0), body: body, original: true} }

func textDigest(t *testing.T, title, body string) string {
	t.Helper()
	d, err := kernel.ApprovalDigest(title, body)
	if err != nil {
		t.Fatal(err)
	}
	return string(d)
}

// TestI3_DigestsOfVersions: an event has the digest of the text that it found,
// where that is certain, and none elsewhere.
func TestI3_DigestsOfVersions(t *testing.T) {
	for name, c := range map[string]struct {
		texts  texts
		events []entry
		want   [][2]string // title and body that each event shows; "?" for none
	}{
		"never edited":         {texts{title: "T", body: "B"}, []entry{labeled(1, 5)}, [][2]string{{"T", "B"}}},
		"edited after":         {texts{title: "T", body: "B2", versions: []version{original("B1"), edited(9, "B2")}}, []entry{labeled(1, 5)}, [][2]string{{"T", "B1"}, {"T", "B2"}}},
		"edited before":        {texts{title: "T", body: "B2", versions: []version{original("B1"), edited(3, "B2")}}, []entry{labeled(1, 5)}, [][2]string{{"T", "B2"}, {"T", "B2"}}},
		"in the same second":   {texts{title: "T", body: "B2", versions: []version{original("B1"), edited(5, "B2")}}, []entry{labeled(1, 5)}, [][2]string{{"?", ""}, {"T", "B2"}}},
		"renamed after":        {texts{title: "T2", body: "B"}, []entry{labeled(1, 5), renamed(2, 9, "T1")}, [][2]string{{"T1", "B"}, {"T2", "B"}}},
		"renamed at once":      {texts{title: "T2", body: "B"}, []entry{labeled(1, 5), renamed(2, 5, "T1"), labeled(3, 5)}, [][2]string{{"T1", "B"}, {"T2", "B"}, {"T2", "B"}}},
		"a version is gone":    {texts{title: "T", body: "B3", versions: []version{original("B1"), {at: at(3), unknown: true}, edited(9, "B3")}}, []entry{labeled(1, 5)}, [][2]string{{"?", ""}, {"?", ""}, {"T", "B3"}}},
		"versions aren't text": {texts{title: "T", body: "B2", versions: []version{original("B1"), edited(3, "+2 -1")}}, []entry{labeled(1, 5)}, [][2]string{{"?", ""}, {"?", ""}}},
		"the original is gone": {texts{title: "T", body: "B2", versions: []version{edited(9, "B2")}}, []entry{labeled(1, 5)}, [][2]string{{"?", ""}, {"T", "B2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.texts.tell(c.events)
			if len(got) != len(c.want) {
				t.Fatalf("%d events: %+v, want %d", len(got), got, len(c.want))
			}
			for n, w := range c.want {
				want := ""
				if w[0] != "?" {
					want = textDigest(t, w[0], w[1])
				}
				if got[n].Digest != want {
					t.Errorf("event %d, %s at %s, has the digest %q, want that of %q", n, got[n].Kind, got[n].At, got[n].Digest, w)
				}
				if n > 0 && got[n].ID <= got[n-1].ID {
					t.Errorf("event %d has the id %d after %d", n, got[n].ID, got[n-1].ID)
				}
			}
		})
	}
}

// TestI2_EditsAreTold: every edit of the body is an event at or after its second,
// so that nobody takes a text for unedited; ids stay apart and stay the same.
func TestI2_EditsAreTold(t *testing.T) {
	body := texts{title: "T", versions: []version{original("B0")}}
	for n := range 40 {
		body.versions = append(body.versions, edited(10, fmt.Sprint("B", n+1)))
	}
	body.body = "B40"
	events := []entry{labeled(1, 5), labeled(2, 10), labeled(3, 11)}
	got := body.tell(events)
	var last forge.Event
	for n, e := range got {
		if n > 0 && e.ID <= last.ID {
			t.Errorf("event %d has the id %d after %d", n, e.ID, last.ID)
		}
		last = e
	}
	if got[0].ID != eventGap || got[1].ID != 2*eventGap || last.ID != 3*eventGap || got[2].Kind != forge.EventEdited {
		t.Errorf("told: %+v", got)
	}
	if newest := got[len(got)-2]; newest.Digest != textDigest(t, "T", "B40") || newest.Kind != forge.EventEdited {
		t.Errorf("the last edit is %+v", newest)
	}
	if got[0].Digest != textDigest(t, "T", "B0") || got[1].Digest != "" || last.Digest != textDigest(t, "T", "B40") {
		t.Errorf("labels have %q, %q and %q", got[0].Digest, got[1].Digest, last.Digest)
	}
}
