package git

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

// want is what a fetch asks for.
type want struct {
	oids   []OID
	have   []OID  // what they reach is not sent
	depth  int    // generations of history, 1 for none; 0 for all
	filter string // such as tree:0; left out where the server can't
}

// fetch gets objects from the server and calls f for each one.
func (r *Repo) fetch(ctx context.Context, w want, f func(rawObject) error) error {
	_, err := r.fetchCut(ctx, w, f)
	return err
}

// fetchCut is fetch that also returns the commits whose parents lie beyond the
// depth.
func (r *Repo) fetchCut(ctx context.Context, w want, f func(rawObject) error) (cut []OID, err error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	c, err := r.tr.dial(ctx, uploadPack)
	if err != nil {
		return nil, r.readError(err, "")
	}
	defer c.finish(false)
	cut, err = r.fetchOn(ctx, c, w, f)
	return cut, r.readError(err, c.words())
}

func (r *Repo) fetchOn(ctx context.Context, c conn, w want, f func(rawObject) error) (cut []OID, err error) {
	ad, err := r.uploadAdvert(ctx, c)
	if err != nil {
		return nil, err
	}
	if !ad.fetches("filter") {
		w.filter = ""
	}
	request := fetchRequest(ad, w)
	answer, err := c.send(ctx, request, ad.v2)
	if err != nil {
		return nil, err
	}
	pack, cut, err := packStream(newPktReader(answer), ad.v2, w.depth > 0)
	if err != nil {
		return nil, err
	}
	s := r.newSpool()
	defer s.close()
	if _, err := io.Copy(s, &limitReader{r: pack, n: r.limits.Pack, what: "the pack", budget: BudgetOf(ctx)}); err != nil {
		return nil, err
	}
	made := progressOf(ctx)
	u := newUnpacker(s.readerAt(), s.size, r.limits, r.outside, func(o rawObject) error { made(); return f(o) })
	u.memory.of = &r.pool.memory
	defer u.memory.close()
	u.budget = BudgetOf(ctx)
	return cut, u.run(ctx)
}

// fetches says whether a version 2 server's fetch has a feature.
func (a *advert) fetches(feature string) bool {
	if !a.v2 {
		return a.has(feature)
	}
	for _, f := range strings.Fields(a.caps["fetch"]) {
		if f == feature {
			return true
		}
	}
	return false
}

// outside finds a delta's base that the server left out of a pack. It should
// not, since thin packs are not asked for.
func (r *Repo) outside(oid OID) (objType, []byte, error) {
	if o, ok := r.cache.get(oid); ok {
		return o.kind, o.data, nil
	}
	return 0, nil, badObject("its delta base is missing", nil)
}

// uploadAdvert returns the server's capabilities: read once on a stateless
// transport, read in each exchange on the other.
func (r *Repo) uploadAdvert(ctx context.Context, c conn) (*advert, error) {
	if r.tr.stateless() {
		if ad := r.upload.Load(); ad != nil {
			return ad, nil
		}
	}
	stream, err := c.advert(ctx)
	if err != nil {
		return nil, err
	}
	ad, err := readAdvert(r.list(ctx, stream), []string{OnlyHead})
	if err != nil {
		return nil, err
	}
	if err := checkFormat(ad); err != nil {
		return nil, err
	}
	keep := *ad
	keep.refs = Refs{} // refs are never kept
	r.upload.Store(&keep)
	return ad, nil
}

func checkFormat(ad *advert) error {
	if f := ad.caps["object-format"]; f != "" && f != "sha1" {
		return fail(CodeUnsupported, "the repository names objects by another hash", "writ works with SHA-1 repositories", nil)
	}
	return nil
}

func fetchRequest(ad *advert, w want) []byte {
	if ad.v2 {
		return fetchV2(w)
	}
	return fetchV0(ad, w)
}

func fetchV2(w want) []byte {
	b := pkt.Append(nil, "command=fetch\n")
	b = pkt.Append(b, "agent=writ\n")
	b = append(b, "0001"...)
	b = pkt.Append(b, "ofs-delta\n")
	b = pkt.Append(b, "no-progress\n")
	if w.depth > 0 {
		b = pkt.Append(b, "deepen %d\n", w.depth)
	}
	if w.filter != "" {
		b = pkt.Append(b, "filter %s\n", w.filter)
	}
	for _, o := range w.oids {
		b = pkt.Append(b, "want %s\n", o)
	}
	for _, o := range w.have {
		b = pkt.Append(b, "have %s\n", o)
	}
	b = pkt.Append(b, "done\n")
	return append(b, "0000"...)
}

func fetchV0(ad *advert, w want) []byte {
	caps := []string{"agent=writ"}
	for _, c := range []string{"side-band-64k", "ofs-delta", "no-progress"} {
		if ad.has(c) {
			caps = append(caps, c)
		}
	}
	if w.filter != "" {
		caps = append(caps, "filter")
	}
	var b []byte
	for i, o := range w.oids {
		if i == 0 {
			b = pkt.Append(b, "want %s %s\n", o, strings.Join(caps, " "))
		} else {
			b = pkt.Append(b, "want %s\n", o)
		}
	}
	if w.depth > 0 {
		b = pkt.Append(b, "deepen %d\n", w.depth)
	}
	if w.filter != "" {
		b = pkt.Append(b, "filter %s\n", w.filter)
	}
	b = append(b, "0000"...)
	for _, o := range w.have {
		b = pkt.Append(b, "have %s\n", o)
	}
	return pkt.Append(b, "done\n")
}

// packStream reads up to the pack and returns its bytes' stream, and the commits
// whose parents lie beyond the depth.
func packStream(p *pktReader, v2, deepened bool) (pack io.Reader, cut []OID, err error) {
	shallow := !v2 && deepened // a section of its own, ended by a flush
	for {
		kind, line, err := p.next()
		if err != nil {
			return nil, nil, pkt.NoEOF(err)
		}
		text := strings.TrimSuffix(string(line), "\n")
		if oid, ok := strings.CutPrefix(text, "shallow "); ok && kind == pkt.Data && OID(oid).Valid() {
			cut = append(cut, OID(oid))
		}
		switch {
		case v2 && kind == pkt.Data && text == "packfile",
			!v2 && !shallow && kind == pkt.Data && (text == "NAK" || strings.HasPrefix(text, "ACK ")):
			return &demux{pkt: p, words: &words{}}, cut, nil
		case !v2 && shallow && kind == pkt.Flush:
			shallow = false
		case kind == pkt.Data, v2 && kind == pkt.Delim:
		default:
			return nil, nil, fail(CodeObjectMissing, "the server sent no pack", "the object may be gone from the server", nil)
		}
	}
}

// readError gives an error of reading its code. what the server said beside it
// goes along.
func (r *Repo) readError(err error, said string) error {
	if err == nil {
		return nil
	}
	var server *errServer
	var coded *Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &server):
		words := r.clean.clean(server.words)
		if strings.Contains(words, "not our ref") || strings.Contains(words, "unadvertised object") {
			return fail(CodeObjectMissing, "the server does not give out an object: "+words, "it may be gone from the server", nil)
		}
		return fail(CodeProtocol, "the server refuses to be read: "+words, "check the URL and the permissions", nil)
	case errors.Is(err, io.EOF) && said != "":
		return fail(CodeNotFound, "the server gives nothing: "+r.clean.clean(said), "check the URL and the permissions", err)
	}
	return unreachable("the server's answer broke off", err)
}
