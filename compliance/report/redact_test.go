package report

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

const canary = "s3cr3t/Canary+Token=42 \"q\""

func encodings(secret string) []string {
	quoted, _ := json.Marshal(secret)
	out := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted), hex.EncodeToString([]byte(secret))}
	for _, prefix := range []string{"", "u", "us", "use", "user:"} {
		out = append(out, base64.StdEncoding.EncodeToString([]byte(prefix+secret)), base64.URLEncoding.EncodeToString([]byte(prefix+secret+"tail")))
	}
	return out
}

// leaks reports whether some piece of the secret's encodings is still there.
func leaks(text, secret string) bool {
	for _, e := range encodings(secret) {
		e = strings.Trim(e, `"=`)
		// The ends of a base64 text depend on its neighbours; its middle is the secret's.
		if len(e) > 12 && strings.Contains(text, e[6:len(e)-6]) {
			return true
		}
	}
	return false
}

func TestF3_KnownSecrets(t *testing.T) {
	r := NewRedactor([]string{canary, "short", ""})
	for _, e := range encodings(canary) {
		if got := r.String("before " + e + " after"); leaks(got, canary) || !strings.Contains(got, Redacted) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%q became %q", e, got)
		}
	}
	if got := r.String("a short word"); got != "a short word" {
		t.Errorf("%q", got)
	}
}

var shaped = map[string]string{
	"ghp_" + strings.Repeat("aB3", 12):                   "x § y",
	"github_pat_" + strings.Repeat("a1_", 12):            "§",
	"glpat-" + strings.Repeat("xY-", 8):                  "§",
	"sk-ant-" + strings.Repeat("k1_", 12):                "key=§",
	"xoxb-1234567890-abc":                                "§",
	"AKIA" + strings.Repeat("Q", 16):                     "§",
	"eyJhbGciOiJ.eyJzdWIiOiI.c2lnbmF0":                   "§",
	"Bearer abc.def":                                     "Authorization: §",
	"Basic dTpw":                                         "> authorization: §",
	"hunter2hunter2":                                     "PRIVATE-TOKEN: §",
	"user:pa55":                                          "clone https://§@host/x failed",
	"tok3n":                                              "https://§@host",
	"MIIEowIBAAKC\nAQEA7\n-----END RSA PRIVATE KEY-----": "-----BEGIN RSA PRIVATE KEY-----\n§",
}

func TestF3_Shapes(t *testing.T) {
	for token, frame := range shaped {
		text := strings.Replace(frame, "§", token, 1)
		for name, r := range map[string]*Redactor{"empty": NewRedactor(nil), "nil": nil} {
			if got := r.String(text); strings.Contains(got, token) || !strings.Contains(got, Redacted) {
				t.Errorf("%s redactor: %q became %q", name, text, got)
			}
		}
	}
	for _, good := range []string{"sk-short", "https://host/a@b", "git@host:o/r", "ghp_x", "an authorization scheme", "eyJ", "task-abcdefghijklmnopqrst"} {
		if got := NewRedactor(nil).String(good); got != good {
			t.Errorf("%q became %q", good, got)
		}
	}
}

// TestF3_StreamsAnyCut feeds streams in pieces of every size: no secret comes
// through in parts.
func TestF3_StreamsAnyCut(t *testing.T) {
	multi := "line one of it\nline two of it\nline three"
	r := NewRedactor([]string{canary, multi})
	var text strings.Builder
	for token, frame := range shaped {
		text.WriteString("log " + canary + " and " + strings.Replace(frame, "§", token, 1) + "\n" + strings.Repeat("filler ", 9) + multi + " x\r")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var out bytes.Buffer
		w := r.Writer(&out)
		for rest := text.String(); rest != ""; {
			n := min(len(rest), 1+rng.IntN(40))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for token := range shaped {
			if strings.Contains(out.String(), token) {
				t.Fatalf("%q leaks", token)
			}
		}
		if leaks(out.String(), canary) || strings.Contains(out.String(), "line two of it") {
			t.Fatalf("leaks: %q", out.String())
		}
		if strings.Count(out.String(), "filler") != strings.Count(text.String(), "filler") {
			t.Fatalf("text is lost: %q", out.String())
		}
	}
}

// A line without an end may not fill the memory, nor hide a secret.
func TestF3_EndlessLine(t *testing.T) {
	r := NewRedactor([]string{canary})
	var out bytes.Buffer
	w := r.Writer(&out)
	for range 2000 {
		if _, err := w.Write([]byte(strings.Repeat("x", 97) + canary)); err != nil {
			t.Fatal(err)
		}
		if len(w.pending) > maxPending+200 {
			t.Fatalf("%d bytes are held back", len(w.pending))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if leaks(out.String(), canary) || strings.Count(out.String(), Redacted) != 2000 {
		t.Errorf("%d redactions", strings.Count(out.String(), Redacted))
	}
}

// Whole lines come through at once: a person watches them.
func TestWriterDoesNotWait(t *testing.T) {
	var out bytes.Buffer
	w := NewRedactor([]string{canary}).Writer(&out)
	if _, err := w.Write([]byte("building\nhalf")); err != nil || out.String() != "building\n" {
		t.Errorf("%q %v", out.String(), err)
	}
}
