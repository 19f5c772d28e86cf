package supervisor

import (
	"errors"
	"testing"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// TestM3_AWorldThatDoesNotLoad: SM5: what a world's kernel needs is loaded while it is
// BOOTING. Where that fails, or panics, it is HALTED, and the entry says why.
func TestM3_AWorldThatDoesNotLoad(t *testing.T) {
	t.Parallel()
	corrupt := &ledger.Error{Code: kernel.CodeLedgerCorrupt, Seq: 3, Detail: "the stored record can't be read"}
	for want, load := range map[string]func() error{
		string(kernel.CodeLedgerCorrupt): func() error { return corrupt },
		machine.CodeBootFailed:           func() error { return errors.New("no such file") },
		machine.CodePanic:                func() error { panic("a bug") },
		"":                               func() error { return nil },
	} {
		e, err := BootWorld("forge/o/n", 7, load)
		if (err == nil) != (want == "") || want == string(kernel.CodeLedgerCorrupt) && !errors.Is(err, corrupt) {
			t.Errorf("%q: %v", want, err)
		}
		if want == "" {
			if e != nil {
				t.Errorf("an entry of a kernel that booted: %+v", e)
			}
			continue
		}
		if e == nil || e.StateFrom != "BOOTING" || e.StateTo != "HALTED" || e.Kernel != "forge/o/n#0" || e.Error == nil || e.Error.Code != want {
			t.Errorf("%s: the entry is %+v", want, e)
		}
	}
}
