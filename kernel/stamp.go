package kernel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/writbot/writ/kernel/lease"
)

// StateFormat is the format of the state commits that this version writes, and
// the only one that it reads.
const StateFormat = 1

const (
	// MaxStateSeq bounds a commit's number. A repair adds [RepairSeqStep], and the
	// sum must be an integer that canonical JSON keeps exact.
	MaxStateSeq = 1 << 52
	// RepairSeqStep is by how much the number goes on after a person said that a
	// state which was set back or removed may be moved on from. Whoever meets both
	// histories then knows which is the later one.
	RepairSeqStep = 1_000_000
)

// Binding says whether a state commit belongs to the task at whose ref it stands.
type Binding string

// What a commit's stamp says of where it belongs.
const (
	BindHere      Binding = "here"
	BindElsewhere Binding = "elsewhere" // it names another world, ref, task or issue
	BindNone      Binding = "none"      // it names none, or not in the one form
)

// Stamp says of a state commit where it belongs, and which one of its task's
// commits it is. It stands in the trailers, under the signature: a signature says
// who, and only the stamp says where. Without it a signed commit could be copied to
// another repository or task that the same key governs, and be believed there.
type Stamp struct {
	Seq   int64  // its number: the last trusted commit's plus one
	World string // identity of the world
	Ref   string // full name of the state ref
	Task  int64
	Issue string // see [IssueName], "" where the task's text isn't on a forge
}

// IssueName is how a stamp names an issue: the forge's own number of it across
// repositories, a space, and its creation time in Unix seconds. A forge that was
// restored from a back-up gives numbers out again, but not at the same time.
func IssueName(id, createdSeconds int64) string {
	return strconv.FormatInt(id, 10) + " " + strconv.FormatInt(createdSeconds, 10)
}

// At is the same place with another number.
func (s Stamp) At(seq int64) Stamp {
	s.Seq = seq
	return s
}

// Trailers writes the stamp.
func (s Stamp) Trailers() []lease.Trailer {
	out := []lease.Trailer{
		{Key: TrailerFormat, Value: strconv.Itoa(StateFormat)},
		{Key: TrailerSeq, Value: strconv.FormatInt(s.Seq, 10)},
		{Key: TrailerWorld, Value: s.World},
		{Key: TrailerRef, Value: s.Ref},
		{Key: TrailerTask, Value: strconv.FormatInt(s.Task, 10)},
	}
	if s.Issue != "" {
		out = append(out, lease.Trailer{Key: TrailerIssue, Value: s.Issue})
	}
	return out
}

// Check says what keeps a stamp from being written: it must read back as itself.
func (s Stamp) Check() error {
	again, err := ReadStamp(s.Trailers())
	if err == nil && again != s {
		err = errors.New("it doesn't read back as itself")
	}
	if err != nil {
		return fmt.Errorf("kernel: a state commit can't be stamped: %w", err)
	}
	return nil
}

// ReadStamp reads the stamp among the trailers of a state commit. Each part must
// stand there exactly once, whatever the case of its name, and in the form in which
// it is written: what can be read in two ways binds nothing.
func ReadStamp(trailers []lease.Trailer) (Stamp, error) {
	r := stampReader{trailers: trailers}
	if format := r.number(TrailerFormat, StateFormat); r.err == nil && format != StateFormat {
		r.err = fmt.Errorf("%s is %d", TrailerFormat, format)
	}
	s := Stamp{
		Seq: r.number(TrailerSeq, MaxStateSeq), World: r.word(TrailerWorld), Ref: r.word(TrailerRef),
		Task: r.number(TrailerTask, lastTime), Issue: r.issue(),
	}
	if r.err == nil && !strings.HasPrefix(s.Ref, "refs/") {
		r.err = fmt.Errorf("%s is no full name of a ref", TrailerRef)
	}
	if r.err != nil {
		return Stamp{}, r.err
	}
	return s, nil
}

// Binding holds a commit's stamp against that of the place where it was found.
func (s Stamp) Binding(here Stamp) Binding {
	if s.At(0) == here.At(0) {
		return BindHere
	}
	return BindElsewhere
}

// String names the place.
func (s Stamp) String() string {
	out := fmt.Sprintf("task %d at %s of %s", s.Task, s.Ref, s.World)
	if s.Issue != "" {
		out += ", issue " + s.Issue
	}
	return out
}

// stampReader keeps the first fault.
type stampReader struct {
	trailers []lease.Trailer
	err      error
}

func (r *stampReader) values(key string) (out []string) {
	for _, t := range r.trailers {
		if strings.EqualFold(t.Key, key) {
			out = append(out, t.Value)
		}
	}
	return out
}

// word is a value without white space, of at most maxStampWord bytes.
func (r *stampReader) word(key string) string {
	vs := r.values(key)
	switch {
	case r.err != nil:
	case len(vs) != 1:
		r.err = fmt.Errorf("%s stands there %d times", key, len(vs))
	case !isStampWord(vs[0]):
		r.err = fmt.Errorf("%s isn't one word", key)
	default:
		return vs[0]
	}
	return ""
}

// maxStampWord bounds the names in a stamp: a world's identity and a ref's name.
const maxStampWord = 1024

func isStampWord(s string) bool {
	odd := func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsGraphic(r) }
	return s != "" && len(s) <= maxStampWord && !strings.ContainsFunc(s, odd)
}

// number is one from 1 to most, in its one form.
func (r *stampReader) number(key string, most int64) int64 {
	s := r.word(key)
	if r.err != nil {
		return 0
	}
	n, ok := plainNumber(s)
	if !ok || n < 1 || n > most {
		r.err = fmt.Errorf("%s isn't a number from 1 to %d", key, most)
		return 0
	}
	return n
}

func plainNumber(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// issue is the issue's name, "" where there is none.
func (r *stampReader) issue() string {
	vs := r.values(TrailerIssue)
	if r.err != nil || len(vs) == 0 {
		return ""
	}
	first, second, _ := strings.Cut(vs[0], " ")
	id, okID := plainNumber(first)
	at, okAt := plainNumber(second)
	if len(vs) > 1 || !okID || !okAt || id < 1 || IssueName(id, at) != vs[0] {
		r.err = fmt.Errorf("%s names no issue", TrailerIssue)
		return ""
	}
	return vs[0]
}

// Trusted reports whether the commit at HEAD is this task's state, by a listed key.
// A commit that a listed key signed for another place is none.
func (h HeadFacts) Trusted() bool { return h.Trust.Trusted() && h.Binding == BindHere }

// Foreign reports whether HEAD is another task's commit, or another world's. It is a
// parent at most: nothing is read from it.
func (h HeadFacts) Foreign() bool { return h.Binding == BindElsewhere }

// Follows reports whether HEAD is the commit that was seen last, or one that came
// after it, without scanning the history: a trusted one with a higher number. The
// very next number belongs to a commit that was put on the one seen last; another
// one of that number shows that the history split. Nothing follows from a commit
// that isn't trusted, nor from a ref that is gone. Where nothing was seen yet, what
// the issue tells of was (see [HeadFacts.Behind]), or what an act names; and a number that the issue tells of
// was reached, whatever was seen here.
func (v TaskView) Follows(h HeadFacts) bool {
	switch {
	case h.Trusted() && h.Told > 0:
		return false
	case h.OID == v.Seen:
		return true
	case h.OID == "" || !h.Trusted() || (h.Behind || h.Witnessed != nil) && v.Seen == "":
		return false
	case v.Seen != "" && h.Seq == v.SeenSeq+1:
		return h.Parent == v.Seen
	}
	return h.Seq > v.SeenSeq
}

// HeadCounts reports whether what HEAD says is acted on: it is trusted, bound to
// this task, and nobody has set the ref back to it.
func (f Facts) HeadCounts() bool { return f.Head.Trusted() && f.View.Follows(f.Head) }

// NextSeq is the number of the next state commit.
func (f Facts) NextSeq() int64 {
	last := max(f.View.SeenSeq, f.Head.Told)
	if w := f.Head.Witnessed; w != nil {
		last = max(last, w.Seq)
	}
	if f.Head.Trusted() {
		last = max(last, f.Head.Seq)
	}
	if f.Repairs() {
		return last + RepairSeqStep
	}
	return last + 1
}
