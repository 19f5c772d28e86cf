package replay

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// Broken is a lease, and the commit by which somebody broke it.
type Broken struct{ Lease, By git.Commit }

// Gap is what no evidence tells of: the holder of a lease died, and what it recorded since
// its last commit stands in its own ledger alone. Its code is evidence.gap.
type Gap struct {
	Run    string `json:"run_id"`
	From   string `json:"from"` // the holder's last commit
	To     string `json:"to"`   // the commit by which its lease was broken
	Holder string `json:"holder"`
	By     string `json:"by"` // fingerprint, as the holder's
}

// broken finds the leases that were broken, among the commits from HEAD down.
func broken(all []git.Commit) (list []Broken) {
	of := map[git.OID]git.Commit{}
	for _, c := range all {
		of[c.OID] = c
	}
	for _, c := range all {
		if ev, err := eventOf(c); err != nil || ev.State != kernel.HeadStalled || len(c.Parents) != 1 {
			continue
		}
		below, ok := of[c.Parents[0]]
		if ev, err := eventOf(below); ok && err == nil && ev.State == lease.StateWorking {
			list = append(list, Broken{below, c})
		}
	}
	return list
}

// gaps are those of leases that another instance broke. Who gave its own lease back, or
// broke the lease of a process of its own that died, has the records of that.
func (v *verifier) gaps() []Gap {
	list := []Gap{}
	for _, b := range v.head.Broken {
		holder, err := signer(b.Lease)
		by, err2 := signer(b.By)
		ev, err3 := eventOf(b.Lease)
		if err != nil || err2 != nil || err3 != nil || v.acts.Successor(git.Fingerprint(holder)) == v.acts.Successor(git.Fingerprint(by)) {
			continue
		}
		list = append(list, Gap{ev.RunID, string(b.Lease.OID), string(b.By.OID), git.Fingerprint(holder), git.Fingerprint(by)})
	}
	return list
}

// checkGaps: what is lost with a holder that died doesn't concern the run whose work was
// accepted. That one has all its records.
func (v *verifier) checkGaps(f *findings) string {
	var runs []string
	for _, g := range v.rep.Gaps {
		if v.claim != nil && v.accepted() && g.Run == v.claim.RunID {
			f.add(kernel.CodeEvidenceGap, "", NoSeq, "The lease %s of run %s, whose work was accepted, was broken by another instance (%s): what its holder recorded between the two is lost.", g.From, g.Run, g.To)
		}
		runs = append(runs, g.Run)
	}
	return fmt.Sprintf("evidence.gap: what the holder recorded between its last commit and the takeover is not here, of the run %s. The result doesn't rest on it.", strings.Join(runs, ", "))
}
