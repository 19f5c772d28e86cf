package builder

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestX7_GigabyteOfLog is a gigabyte through a capped capture with a hash of
// all of it.
func TestX7_GigabyteOfLog(t *testing.T) {
	b := newBed(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	job := b.job(script(`echo '// changed' >> calc/add.go; yes abcdefg | head -c 1000000000; echo; echo end`))
	job.OnLine = nil
	o := b.build(job)
	runtime.ReadMemStats(&after)
	if codes(o) != "" || o.Result.Stdout.Bytes != 1_000_000_005 || !strings.HasSuffix(o.Result.Stdout.Tail, "\nend\n") {
		t.Errorf("codes %q, %d bytes, end %q", codes(o), o.Result.Stdout.Bytes, o.Result.Stdout.Tail[max(0, len(o.Result.Stdout.Tail)-10):])
	}
	if n := len(o.Result.Stdout.Tail); n > tailBytes+len(cutMark) {
		t.Errorf("%d bytes are kept", n)
	}
	const most = 64 << 20
	if used := after.TotalAlloc - before.TotalAlloc; used > most {
		t.Errorf("%d bytes were allocated for it", used)
	}
}

func TestX7_InvalidText(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`echo '// changed' >> calc/add.go; printf 'a\377\033[31mb\000c\n'; printf 'x\202y' >&2`)
	if codes(o) != "" || o.Result.Stdout.Tail != "a\ufffd[31mbc\n" || o.Result.Stderr.Tail != "x\ufffdy" {
		t.Errorf("codes %q, out %q, err %q", codes(o), o.Result.Stdout.Tail, o.Result.Stderr.Tail)
	}
	if want := canon.Sum([]byte("a\377\033[31mb\000c\n")); o.Result.Stdout.Digest != want || o.Result.Stdout.Bytes != 11 {
		t.Errorf("digest %s, want %s; %d bytes", o.Result.Stdout.Digest, want, o.Result.Stdout.Bytes)
	}
	if _, err := canon.Marshal(o.Result); err != nil {
		t.Errorf("the record can't be written: %v", err)
	}
}

// TestX7_ResultTable is the table of conformance D34: one row per field and
// fault.
func TestX7_ResultTable(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"status": `"success"`, "changed_files": `["calc/add.go"]`, "commit_hash": `null`,
		"tests_passed": `true`, "logs": `"fine"`, "timestamp": `"2026-01-31T08:00:00Z"`,
	}
	doc := func(field, value string) string {
		var parts []string
		for _, k := range []string{"status", "changed_files", "commit_hash", "tests_passed", "logs", "timestamp"} {
			v := good[k]
			if k == field {
				v = value
			}
			if v != "" {
				parts = append(parts, `"`+k+`":`+v)
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	whole := doc("", "")
	valid := map[string]string{
		"whole": whole, "without the optional field": doc("commit_hash", ""), "with a hash": doc("commit_hash", `"`+strings.Repeat("a", 40)+`"`),
		"failure": doc("status", `"failure"`), "no tests": doc("tests_passed", "false"), "empty list": doc("changed_files", "[]"),
		"fraction of a second": doc("timestamp", `"2026-01-31T08:00:00.123Z"`), "white space": " \n" + whole + "\n",
	}
	for name, text := range valid {
		if r, faults := readText(t, text); r == nil || len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
	}
	invalid := map[string]string{
		"key in another case": `{"status":"failure","STATUS":"success"` + whole[len(`{"status":"success"`):],
		"doubled field":       `{"status":"failure",` + whole[1:],
		"unknown field":       `{"extra":1,` + whole[1:],
		"two documents":       whole + whole,
		"trailing text":       whole + "x",
		"nothing":             "", "null": "null", "an array": "[" + whole + "]", "not JSON": "status: success",
		"byte order mark": "\ufeff" + whole, "invalid UTF-8": strings.Replace(whole, "fine", "fi\xffne", 1),
		"lone surrogate":  strings.Replace(whole, "fine", `\ud800`, 1),
		"deep":            strings.Replace(whole, `"fine"`, strings.Repeat("[", 1000)+strings.Repeat("]", 1000), 1),
		"cut off":         whole[:len(whole)-1],
		"over a mebibyte": doc("logs", `"`+strings.Repeat("x", maxResultBytes)+`"`),
		"other status":    doc("status", `"SUCCESS"`), "status of no string": doc("status", "true"), "null status": doc("status", "null"),
		"files of no list": doc("changed_files", `"calc/add.go"`), "file of no string": doc("changed_files", "[1]"), "null files": doc("changed_files", "null"),
		"hash of no string": doc("commit_hash", "1"), "long hash": doc("commit_hash", `"`+strings.Repeat("a", 65)+`"`),
		"tests of a string": doc("tests_passed", `"true"`), "tests of a number": doc("tests_passed", "1"), "tests not a number": doc("tests_passed", "NaN"),
		"a float": doc("logs", "1.5"), "not a number": doc("logs", "NaN"), "infinity": doc("logs", "1e999"), "logs null": doc("logs", "null"),
		"time with an offset": doc("timestamp", `"2026-01-31T08:00:00+00:00"`), "time without a zone": doc("timestamp", `"2026-01-31T08:00:00"`),
		"time of a day": doc("timestamp", `"2026-01-31"`), "no such day": doc("timestamp", `"2026-02-30T08:00:00Z"`), "one digit": doc("timestamp", `"2026-01-31T8:00:00Z"`),
		"comma": doc("timestamp", `"2026-01-31T08:00:00,5Z"`), "time in seconds": doc("timestamp", "1769846400"), "empty time": doc("timestamp", `""`),
	}
	for _, k := range []string{"status", "changed_files", "tests_passed", "logs", "timestamp"} {
		invalid["without "+k] = doc(k, "")
	}
	for name, text := range invalid {
		if r, faults := readText(t, text); r != nil || words(faults) != "execution.result.invalid" {
			t.Errorf("%s: was read as %+v, %v", name, r, faults)
		}
	}
}

func readText(t *testing.T, text string) (*kernel.Result, []kernel.Violation) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, resultName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readResult(dir)
}

func TestX7_ResultOfAnotherKind(t *testing.T) {
	t.Parallel()
	run(t, "X7", func(t *testing.T, _ *bed, o executor.BuildOutcome) {
		if o.Result.Result != nil || o.Result.Composed || words(o.Result.Faults) != "execution.result.invalid" {
			t.Errorf("record = %+v", o.Result)
		}
	})
}

// TestX7_DoubleMeaning goes the whole way with the table's best known row.
func TestX7_DoubleMeaning(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`echo '// changed' >> calc/add.go
printf '{"status":"failure","STATUS":"success","changed_files":["calc/add.go"],"tests_passed":true,"logs":"","timestamp":"2026-01-31T08:00:00Z"}' > "$WRIT_RESULT"`)
	if codes(o) != "execution.result.invalid" || o.Result.Result != nil {
		t.Errorf("codes %q, %+v", codes(o), o.Result.Result)
	}
}

// TestBuild_TellsHowLongItRan: each builder's time is told once, as its result has it, whether
// it ends well, fails or can't be started.
func TestBuild_TellsHowLongItRan(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Builder{"well": script("echo x > calc/new"), "failed": script("exit 1"), "not started": {Argv: []string{"/nowhere"}}} {
		var now atomic.Int64
		var told []string
		b := newBed(t, func(c *Config) {
			c.Now = func() int64 { return now.Add(750) }
			c.Ran = func(world, builder string, took time.Duration) {
				told = append(told, fmt.Sprint(world, " ", builder, " ", took.Milliseconds()))
			}
		})
		job := b.job(cfg)
		o := b.build(job)
		if want := fmt.Sprint(job.World, " ", job.Builder, " ", o.Result.Ended-o.Result.Started); len(told) != 1 || told[0] != want || o.Result.Ended <= o.Result.Started {
			t.Errorf("%s: %v, %s: told %q, want %q", name, o.Violations, codes(o), told, want)
		}
	}
}
