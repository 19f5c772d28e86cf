package canon_test

import (
	"testing"

	"github.com/writbot/writ/kernel/canon"
)

// record is about as large and as deep as a ledger record, 600 bytes.
type record struct {
	V        int           `json:"v"`
	Kind     string        `json:"kind"`
	WorldID  string        `json:"world_id"`
	Instance string        `json:"instance"`
	Seq      int64         `json:"seq"`
	Prev     canon.Digest  `json:"prev"`
	Time     int64         `json:"time"`
	Task     int64         `json:"task"`
	RunID    string        `json:"run_id"`
	Body     recordBody    `json:"body"`
	Faults   []recordFault `json:"faults"`
}

type recordBody struct {
	Base    string       `json:"base"`
	Digest  canon.Digest `json:"digest"`
	Attempt int          `json:"attempt"`
	Paths   []string     `json:"paths"`
	Error   *string      `json:"error"`
}

type recordFault struct {
	Code    string `json:"code"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

func typical(tb testing.TB) (record, []byte) {
	v := record{
		V: 1, Kind: "decision", WorldID: "git.example.org/owner/repository", Instance: "SHA256:instance-key-fingerprint",
		Seq: 123456, Prev: canon.Sum(nil), Time: 1700000000000, Task: 42, RunID: "01hf8zj5q2x4n6p8r0s2t4v6w8",
		Body: recordBody{Base: "0123456789abcdef0123456789abcdef01234567", Digest: canon.Sum(nil), Attempt: 2,
			Paths: []string{"calc/calc.go", "calc/calc_test.go"}},
		Faults: []recordFault{{"execution.scope.violation", "docs/readme.md", "the path is outside of the allowed files"}},
	}
	b, err := canon.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return v, b
}

func BenchmarkMarshal(b *testing.B) {
	v, out := typical(b)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Marshal(&v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	v, out := typical(b)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Hash(&v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalCanonical(b *testing.B) {
	_, out := typical(b)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		var v record
		if err := canon.UnmarshalCanonical(out, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	_, out := typical(b)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		if err := canon.Check(out, canon.Limits{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSum is what SHA-256 alone takes over the same bytes.
func BenchmarkSum(b *testing.B) {
	_, out := typical(b)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		if !canon.Sum(out).Valid() {
			b.Fatal("no digest")
		}
	}
}
