package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/writbot/writ/kernel"
)

// readStamp reads where HEAD belongs. It is the signed commit's own word, and that
// of a file counts only if it is the same.
func (v *verifier) readStamp() {
	if v.eventErr != nil {
		v.stampErr = errors.New("it is no state event")
		return
	}
	v.stamp, v.stampErr = kernel.ReadStamp(v.event.Trailers)
	v.rep.World, v.rep.WorldVouched = v.stamp.World, v.opts.World != ""
}

// checkBinding: a signature says who, not where. A commit that was made for another
// world, ref or task is not this task's state, whoever signed it (case L18).
func (v *verifier) checkBinding(f *findings) string {
	s := v.stamp
	switch {
	case v.stampErr != nil:
		f.file("", "HEAD doesn't say where it belongs: %v.", v.stampErr)
		return ""
	case s.Task != v.head.Task || v.head.Ref != "" && s.Ref != v.head.Ref:
		f.add(kernel.CodeStateForeign, "", NoSeq, "HEAD was made for %s, and stands at %s.", s, v.head.Ref)
	case !v.here(s.World):
		f.add(kernel.CodeStateForeign, "", NoSeq, "HEAD was made for %s, and this is %s.", s, v.opts.World)
	}
	if v.seed != nil && v.seed.World != s.World {
		f.file(FileSeedPack, "It is of world %q, HEAD of %q.", v.seed.World, s.World)
	}
	v.checkNumbers(f)
	return fmt.Sprintf("HEAD was made for %s, as its commit %d.", s, s.Seq)
}

// checkNumbers: the run's leases, and its waits above them, are of the same place, and
// are counted up to HEAD.
func (v *verifier) checkNumbers(f *findings) {
	above := v.stamp.Seq
	for i, c := range slices.Concat(v.head.Waits, v.head.Leases) {
		ev, err := eventOf(c)
		if err != nil {
			continue // which is said of the lease
		}
		s, err := kernel.ReadStamp(ev.Trailers)
		switch {
		case err != nil:
			f.file("", "The lease %s doesn't say where it belongs: %v.", c.OID, err)
		case s.Binding(v.stamp) != kernel.BindHere:
			f.add(kernel.CodeStateForeign, "", NoSeq, "The lease %s was made for %s.", c.OID, s)
		case i > 0 && s.Seq != above-1, i == 0 && c.OID != v.head.Commit.OID && s.Seq >= above:
			f.file("", "The lease %s has the number %d, the commit above it %d.", c.OID, s.Seq, above)
		}
		above = s.Seq
	}
}
