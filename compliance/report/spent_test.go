package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// spentRecords are those of a world with four runs: one that used two models, one whose
// program never started, one that asked no provider, and one whose end nobody saw.
func spentRecords(t *testing.T) []kernel.Record {
	t.Helper()
	var out []kernel.Record
	add := func(kind kernel.Kind, task int64, run string, at int64, body any) {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, kernel.Record{Kind: kind, Task: task, Run: run, Time: at, Body: data})
	}
	began := func(task int64, run string, attempt, at int64) {
		add(kernel.KindDispatch, task, run, at, kernel.Dispatch{Attempt: attempt})
		add(kernel.KindOutcome, task, run, at, kernel.Outcome{Effect: kernel.ActionDispatch, Status: kernel.OutcomeDone})
	}
	usd := &kernel.Price{Currency: "USD", Input: 1_000_000}
	ended := kernel.BuilderResult{Run: "r1", Builder: "b", Started: 1000, Ended: 3500, Egress: &kernel.Egress{Usage: []kernel.Usage{
		{Model: "large", Requests: 2, Input: 1_500_000, Output: 4, Price: usd, Cost: 1_500_000}, {Model: "small", Requests: 1, CacheRead: 2, CacheWrite: 3},
	}}}
	began(12, "r1", 1, 1000)
	add(kernel.KindBuilderResult, 12, "r1", 4000, ended)
	add(kernel.KindBuilderResult, 12, "r5", 5000, ended) // of a run that went on with it
	add(kernel.KindDispatch, 12, "r2", 6000, kernel.Dispatch{Attempt: 2})
	add(kernel.KindOutcome, 12, "r2", 6000, kernel.Outcome{Effect: kernel.ActionDispatch, Status: kernel.OutcomeFailed})
	began(7, "r3", 1, 90_000_000)
	add(kernel.KindBuilderResult, 7, "r3", 90_001_000, kernel.BuilderResult{Run: "r3", Builder: "b", Started: 90_000_000, Ended: 90_000_100})
	began(7, "r4", 2, 90_002_000)
	return out
}

func spentFold(t *testing.T) *SpentFold {
	t.Helper()
	f := NewSpentFold()
	for _, r := range spentRecords(t) {
		if err := f.Take(r); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestSpent: each run once, with what it used of each model, in sums of task, world and all;
// a model without a price by name, and a run without an end as such.
func TestSpent(t *testing.T) {
	s := NewSpent(0)
	s.Add("w1", "acme/shop", spentFold(t), 0)
	s.Add("w2", "", NewSpentFold(), 0)
	got, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"kind": "usage",
 "v": 1,
 "since": "",
 "total": {
  "runs": 3,
  "not_ended": 1,
  "wall_ms": 2600,
  "requests": 3,
  "input": 1500000,
  "cache_read": 2,
  "cache_write": 3,
  "output": 4,
  "costs": [
   {
    "currency": "USD",
    "cost_micro": 1500000
   }
  ],
  "unpriced": [
   "small"
  ]
 },`,
		`"run_id": "r1",
       "attempt": 1,
       "builder": "b",
       "started": "1970-01-01T00:00:01Z",
       "ended": true,
       "wall_ms": 2500,`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if len(s.Worlds) != 1 || len(s.Worlds[0].Tasks) != 2 || s.Worlds[0].Tasks[0].Task != 7 || len(s.Worlds[0].Tasks[1].Runs) != 1 {
		t.Errorf("%s", got)
	}
	const want = `task               attempt  run  began                 wall  model      requests  input    cache read  cache write  output  cost
acme/shop#7        1        r3   1970-01-02T01:00:00Z  0.1s  -          0         0        0           0            0       
acme/shop#7        2        r4   1970-01-02T01:00:02Z  0.0s  not ended                                                      
acme/shop#12       1        r1   1970-01-01T00:00:01Z  2.5s  large      2         1500000  0           0            4       1.50 USD
acme/shop#12       1        r1   1970-01-01T00:00:01Z  2.5s  small      1         0        2           3            0       no price
acme/shop: 3 runs                                      2.6s             3         1500000  2           3            4       1.50 USD; no price for small

Of 1 run the end isn't recorded, and what they used isn't known: they run still, or were interrupted.
`
	if text := s.Plain(); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestSpent_Since: by when a run began, and a world of which nothing is left isn't listed.
func TestSpent_Since(t *testing.T) {
	for since, want := range map[int64]int64{1000: 3, 1001: 2, 90_000_001: 1, 90_002_001: 0} {
		s := NewSpent(since)
		s.Add("w1", "", spentFold(t), since)
		if s.Total.Runs != want || (len(s.Worlds) > 0) != (want > 0) || s.Since == "" {
			t.Errorf("since %d: %d runs in %d worlds", since, s.Total.Runs, len(s.Worlds))
		}
	}
	if text := NewSpent(1).Plain(); text != "no run is recorded\n" {
		t.Errorf("%q", text)
	}
}
