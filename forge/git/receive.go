package git

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the pack format's own checksum, not a security measure
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Command asks that Ref move from Old to New. Old zero: it must not exist. New
// zero: it is deleted.
type Command struct {
	Ref      string
	Old, New OID
}

// Status is the answer to a compare-and-swap.
type Status string

// The five answers. Only Won says that the refs moved by our hand (seed 000, §4;
// tension T60).
const (
	// Won: every ref moved from Old to New by this request.
	Won Status = "won"
	// Lost: a ref was not at Old, or a rival held its lock. Nothing was applied.
	Lost Status = "lost"
	// Unknown: sent, but without an answer. It may have been applied, or not, or
	// be applied yet. Read the refs again and look for your own object; if it is
	// not there, Reassert the same commands and pack. Never mint another object
	// for the same expectation.
	Unknown Status = "unknown"
	// Refused: by a rule of the server's own. Nothing was applied, and the same
	// will be refused until somebody mends the rule.
	Refused Status = "refused"
	// Unable: the server can't take it now, or can't be reached. Nothing was
	// applied; the same may be pushed again. Whether it is this or a rule is
	// guessed from the server's words, so that whoever pushes may find out better.
	Unable Status = "unable"
)

// RefStatus is the answer about one ref.
type RefStatus struct {
	Ref    string
	Status Status
	Reason string // the server's words, cleaned and redacted; empty if Won
}

// Outcome is the answer to a compare-and-swap.
type Outcome struct {
	Status Status
	PerRef []RefStatus // in the order of the commands; empty if there was no report
	Reason string      // the server's words, cleaned and redacted
	// Space comes with Unable where the words are about space, size or quota: a
	// smaller push may be taken where this one isn't.
	Space bool
	// Account comes with Refused where the words are about what the account may do:
	// every push of it is refused so, however small.
	Account bool
	// AlreadyApplied comes with Won from Reassert only: the refs were at New
	// already, so the earlier push of the same objects had been applied.
	AlreadyApplied bool
	Err            error // an *Error unless Won
}

// CompareAndSwap moves refs, all or none, in one receive-pack request. The
// server compares: whatever was read before is only a hint, and where the
// transport allows it the request goes without reading anything first. Two or
// more commands are sent as atomic; a server that never can is Refused with
// git.unsupported. With one command atomic is not asked for, since it hides the
// reason.
//
// A command whose Old equals its New, and a ref that is at New before we asked,
// are Lost: "up to date" is what two runners with the same bytes would both be
// told (case L2).
func (r *Repo) CompareAndSwap(ctx context.Context, cmds []Command, pack Pack) Outcome {
	return r.swap(ctx, cmds, pack, false)
}

// Reassert repeats a CompareAndSwap whose answer was Unknown, with the same
// commands and pack. Refs that are all at New already are Won here, with
// AlreadyApplied: our own earlier request did it. The objects must be ones that
// nobody else can have made (a run id in the message).
func (r *Repo) Reassert(ctx context.Context, cmds []Command, pack Pack) Outcome {
	return r.swap(ctx, cmds, pack, true)
}

func (r *Repo) swap(ctx context.Context, cmds []Command, pack Pack, again bool) Outcome {
	cmds = slices.Clone(cmds)
	if err := checkCommands(cmds); err != nil {
		return Outcome{Status: Refused, Err: err}
	}
	for _, c := range cmds {
		if c.Old == c.New {
			return r.lost(cmds, "the ref is to be moved to where it is already")
		}
	}
	if again {
		refs, err := r.Refs(ctx, refNames(cmds)...)
		if err != nil {
			return Outcome{Status: Unknown, Err: err}
		}
		if allAt(refs, cmds) {
			return wonAlready(cmds)
		}
	}
	began := time.Now()
	out := r.request(ctx, cmds, pack)
	if again && out.Status == Lost {
		out = r.appliedMeanwhile(ctx, cmds, out)
	}
	r.log.DebugContext(ctx, "compare-and-swap", "status", string(out.Status), "refs", refNames(cmds),
		"bytes", len(pack.Data), "took", time.Since(began), "reason", out.Reason)
	return out
}

// appliedMeanwhile looks once more: the earlier request may have been applied
// between our reading and our repeating it (case L7).
func (r *Repo) appliedMeanwhile(ctx context.Context, cmds []Command, out Outcome) Outcome {
	refs, err := r.Refs(ctx, refNames(cmds)...)
	if err != nil {
		return Outcome{Status: Unknown, Reason: out.Reason, Err: err}
	}
	if allAt(refs, cmds) {
		return wonAlready(cmds)
	}
	return out
}

func checkCommands(cmds []Command) error {
	if len(cmds) == 0 {
		return fail(CodeProtocol, "a compare-and-swap needs a command", "", nil)
	}
	seen := map[string]bool{}
	for i := range cmds {
		c := &cmds[i]
		c.Old, c.New = c.Old.orZero(), c.New.orZero()
		if err := ValidateRef(c.Ref); err != nil {
			return err
		}
		if !c.Old.Valid() || !c.New.Valid() {
			return fail(CodeOIDInvalid, "the command for "+c.Ref+" holds a malformed object id", "", nil)
		}
		if seen[c.Ref] {
			return fail(CodeRefInvalid, "the ref "+c.Ref+" is in two commands", "", nil)
		}
		seen[c.Ref] = true
	}
	return nil
}

func refNames(cmds []Command) []string {
	out := make([]string, len(cmds))
	for i, c := range cmds {
		out[i] = c.Ref
	}
	return out
}

func allAt(refs Refs, cmds []Command) bool {
	for _, c := range cmds {
		if refs.OID(c.Ref) != c.New {
			return false
		}
	}
	return true
}

func wonAlready(cmds []Command) Outcome {
	out := Outcome{Status: Won, AlreadyApplied: true}
	for _, c := range cmds {
		out.PerRef = append(out.PerRef, RefStatus{Ref: c.Ref, Status: Won})
	}
	return out
}

func (r *Repo) lost(cmds []Command, why string) Outcome {
	out := Outcome{Status: Lost, Reason: why, Err: lostError(why)}
	for _, c := range cmds {
		out.PerRef = append(out.PerRef, RefStatus{c.Ref, Lost, why})
	}
	return out
}

// request sends the commands and reads the report.
func (r *Repo) request(ctx context.Context, cmds []Command, pack Pack) Outcome {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	c, err := r.tr.dial(ctx, receivePack)
	if err != nil {
		return r.sendFailed(err, "")
	}
	wait := true
	defer func() { c.finish(wait) }()
	if out, stop := r.guardDeletion(ctx, cmds); stop {
		return out
	}
	if !r.tr.stateless() || len(cmds) > 1 && r.local == nil {
		ad, err := r.receiveAdvert(ctx, c, refNames(cmds))
		if err != nil {
			return r.sendFailed(unsent(err), c.words())
		}
		if out, stop := r.judgeAdvert(ad, cmds); stop {
			return out
		}
	}
	body, err := encodeRequest(cmds, pack, r.local == nil)
	if err != nil {
		return Outcome{Status: Refused, Err: err}
	}
	answer, err := c.send(ctx, body, false)
	if err != nil {
		return r.sendFailed(err, c.words())
	}
	report, said, err := readReport(answer, r.local == nil)
	if err == nil && report.Error() == nil && len(report.CommandStatuses) == len(cmds) {
		wait = false // the refs have moved; what hooks still do is not the answer
	} else if r.local != nil {
		c.finish(true) // for all of its words
	}
	return r.judgeReport(ctx, cmds, report, said+c.words(), err)
}

// guardDeletion reads the refs before one is deleted. git drops the comparison
// for a deletion whose old object it does not have ("allowing deletion of
// corrupt ref"). Once the ref was seen at Old, git has the object, and compares.
func (r *Repo) guardDeletion(ctx context.Context, cmds []Command) (Outcome, bool) {
	for _, c := range cmds {
		if !c.New.IsZero() {
			continue
		}
		refs, err := r.Refs(ctx, c.Ref)
		if err != nil {
			return Outcome{Status: Unable, Err: err}, true
		}
		if at := refs.OID(c.Ref); at != c.Old {
			return r.lost(cmds, fmt.Sprintf("%s is at %s, not at %s", c.Ref, at, c.Old)), true
		}
	}
	return Outcome{}, false
}

// receiveAdvert reads receive-pack's advertisement. On a stateless transport it
// is read once, for its capabilities, and refs is then empty.
func (r *Repo) receiveAdvert(ctx context.Context, c conn, names []string) (*advert, error) {
	if r.tr.stateless() {
		if ad := r.receive.Load(); ad != nil {
			return ad, nil
		}
	}
	stream, err := c.advert(ctx)
	if err != nil {
		return nil, err
	}
	ad, err := readAdvert(r.list(ctx, stream), names)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(ad); err != nil {
		return nil, err
	}
	keep := *ad
	keep.refs = Refs{} // refs are never kept
	r.receive.Store(&keep)
	return ad, nil
}

// judgeAdvert ends what can't be won, before anything is sent.
func (r *Repo) judgeAdvert(ad *advert, cmds []Command) (Outcome, bool) {
	if len(cmds) > 1 && !ad.has("atomic") {
		return Outcome{Status: Refused, Err: fail(CodeUnsupported,
			"the server can't move several refs at once", "use a server with atomic pushes", nil)}, true
	}
	if !ad.has("report-status") {
		return Outcome{Status: Refused, Err: fail(CodeUnsupported,
			"the server does not report what became of a push", "use a server with report-status", nil)}, true
	}
	if ad.refs.byName == nil { // capabilities only
		return Outcome{}, false
	}
	for _, c := range cmds {
		if at := ad.refs.OID(c.Ref); at != c.Old {
			return r.lost(cmds, fmt.Sprintf("%s is at %s, not at %s", c.Ref, at, c.Old)), true
		}
	}
	return Outcome{}, false
}

// encodeRequest writes commands and pack as receive-pack wants them.
func encodeRequest(cmds []Command, pack Pack, sideband bool) ([]byte, error) {
	req := packp.NewReferenceUpdateRequest()
	caps := []capability.Capability{capability.ReportStatus}
	if sideband {
		caps = append(caps, capability.Sideband64k)
	}
	if len(cmds) > 1 {
		caps = append(caps, capability.Atomic)
	}
	for _, c := range caps {
		if err := req.Capabilities.Set(c); err != nil {
			return nil, fail(CodeProtocol, "a capability can't be set", "", err)
		}
	}
	deletes := true
	for _, c := range cmds {
		deletes = deletes && c.New.IsZero()
		req.Commands = append(req.Commands, &packp.Command{
			Name: plumbing.ReferenceName(c.Ref),
			Old:  plumbing.NewHash(string(c.Old)), New: plumbing.NewHash(string(c.New)),
		})
	}
	if !deletes {
		data := pack.Data
		if len(data) == 0 {
			data = emptyPack()
		}
		req.Packfile = io.NopCloser(bytes.NewReader(data))
	}
	var b bytes.Buffer
	if err := req.Encode(&b); err != nil {
		return nil, fail(CodeProtocol, "the request can't be written", "", err)
	}
	return b.Bytes(), nil
}

// emptyPack is what a request carries that creates or moves a ref but brings no object.
func emptyPack() []byte {
	b := packHeader(0)
	sum := sha1.Sum(b) //nolint:gosec // see the import
	return append(b, sum[:]...)
}

// readReport reads the server's report and what it said on the way. A report
// that was read whole counts, whatever happens to the connection afterwards.
func readReport(answer io.Reader, sideband bool) (*packp.ReportStatus, string, error) {
	limited := &limitReader{r: answer, n: maxReport, what: "the server's report"}
	var said words
	var stream io.Reader = limited
	if sideband {
		stream = &demux{pkt: newPktReader(limited), words: &said}
	}
	report := packp.NewReportStatus()
	err := report.Decode(stream)
	if sideband {
		_, _ = io.Copy(io.Discard, stream) // the rest of its words
	}
	return report, string(said.b), err
}

// sendFailed is the outcome where no report came.
func (r *Repo) sendFailed(err error, said string) Outcome {
	var status *httpError
	coded := r.readError(err, said)
	out := Outcome{Status: Unknown, Err: coded, Reason: r.clean.clean(said)}
	switch {
	case errors.As(err, &status):
		g := statusGuess(status, errors.Is(err, errUnsent))
		out.Status, out.Space, out.Account, out.Reason = g.status, g.space, g.account, status.err.Msg
	case CodeOf(coded) == CodeRedirectRefused, errors.Is(err, errUnsent):
		out.Status = Unable
	}
	return out
}

// statusGuess judges an HTTP status. A 4xx is an answer: nothing was applied. It
// is a rule where it names one, or the account's permission; most others are
// those of a server in maintenance, or of what stands before it. After a 5xx a
// proxy may have given up on a server that went on.
func statusGuess(e *httpError, discovery bool) guess {
	switch {
	case e.status == http.StatusRequestEntityTooLarge, e.status == http.StatusInsufficientStorage:
		return guess{status: Unable, space: true}
	case e.status == http.StatusUnprocessableEntity:
		return guess{status: Refused}
	case e.status == http.StatusForbidden:
		if g := read(e.text); g.status == Refused || g.space {
			return g
		}
		return guess{status: Unable}
	case e.status >= 400 && e.status < 500, discovery:
		return guess{status: Unable}
	}
	return guess{status: Unknown}
}
