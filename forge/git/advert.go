package git

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

// advert is what a server says first.
type advert struct {
	v2   bool
	caps map[string]string // version 2: fetch=shallow filter and such
	refs Refs
}

func (a *advert) has(capability string) bool { _, ok := a.caps[capability]; return ok }

// readAdvert reads an advertisement of version 0, 1 or 2 up to its flush, and
// keeps the refs that are asked for.
func readAdvert(r io.Reader, names []string) (*advert, error) {
	a := &advert{caps: map[string]string{}, refs: Refs{byName: map[string]OID{}}}
	p := newPktReader(r)
	first := true // the line that may say the version, and holds the capabilities
	for {
		kind, line, err := p.next()
		if err != nil {
			return nil, err
		}
		if kind != pkt.Data {
			return a, nil
		}
		text := string(bytes.TrimSuffix(line, []byte("\n")))
		switch {
		case first && strings.HasPrefix(text, "# service="): // smart HTTP; a flush follows
			if kind, _, err := p.next(); err != nil || kind != pkt.Flush {
				return nil, fail(CodeProtocol, "the server does not speak git", "check the URL", err)
			}
		case first && text == "version 1":
		case first && text == "version 2":
			a.v2, first = true, false
		case a.v2:
			a.capability(text)
		default:
			a.ref(text, first, names)
			first = false
			if err := tooMany(a.refs); err != nil {
				return nil, err
			}
		}
	}
}

func (a *advert) capability(s string) {
	key, value, _ := strings.Cut(s, "=")
	a.caps[key] = value
}

// ref takes "<oid> <name>"; the first line has the capabilities behind a NUL.
func (a *advert) ref(line string, first bool, names []string) {
	if first {
		var caps string
		line, caps, _ = strings.Cut(line, "\x00")
		for _, c := range strings.Fields(caps) {
			if target, ok := strings.CutPrefix(c, "symref=HEAD:"); ok {
				a.refs.Head = target
				continue
			}
			a.capability(c)
		}
	}
	oid, name, ok := strings.Cut(line, " ")
	if name == OnlyHead && OID(oid).Valid() {
		a.refs.head = OID(oid)
	}
	if !ok || !OID(oid).Valid() || OID(oid).IsZero() || !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, "^{}") {
		return // HEAD, .have, shallow, capabilities^{}
	}
	if wanted(name, names) {
		a.refs.byName[name] = OID(oid)
	}
}

// tooMany ends a list of refs in which more are wanted than maxRefs.
func tooMany(refs Refs) error {
	if len(refs.byName) <= maxRefs {
		return nil
	}
	return fail(CodeTooLarge, "the server lists more than "+strconv.Itoa(maxRefs)+" branches or state refs", "delete what nobody needs: each costs every look", nil)
}
