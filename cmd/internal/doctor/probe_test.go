package doctor

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestProbe_AGoodServer: the refs are pushed, seen and gone again, hidden ones
// and branches alike.
func TestProbe_AGoodServer(t *testing.T) {
	for _, refs := range []string{config.RefsHidden, config.RefsHeads} {
		t.Run(refs, func(t *testing.T) {
			w := newWard(t)
			all := Repository(t.Context(), w.target(func(t *Target) { t.Refs = refs }))
			if !Good(all) {
				t.Errorf("checks failed: %v", all)
			}
			wants(t, all, NameStateRefs, OK, "refs: "+refs+" is in force", "")
			wants(t, all, NameAtomic, OK, "", "")
			if left := w.probes(t); left != "" {
				t.Errorf("the probe left %s", left)
			}
		})
	}
}

// TestProbe_HiddenRefsRefused: a server that takes branches only is told from one
// that takes nothing, and the remedy names the key.
func TestProbe_HiddenRefsRefused(t *testing.T) {
	w := newWard(t, "receive.hideRefs=refs/writ")
	all := Repository(t.Context(), w.target())
	wants(t, all, NameStateRefs, Failed, "refuses refs/writ/task/probe-", "`refs: heads`")
	wants(t, all, NameAtomic, Skipped, "", "")
	all = Repository(t.Context(), w.target(func(t *Target) { t.Refs = config.RefsHeads }))
	wants(t, all, NameStateRefs, OK, "refs: heads is in force", "")
	if left := w.probes(t); left != "" {
		t.Errorf("the probe left %s", left)
	}
}

// TestProbe_TakesAndDoesNotGive: what was pushed is asked of the server, and one that keeps a
// state commit to itself is found out.
func TestProbe_TakesAndDoesNotGive(t *testing.T) {
	w := newWard(t)
	w.set(gittest.TakesOnly())
	all := Repository(t.Context(), w.target())
	wants(t, all, NameStateRefs, Failed, "The commit of a state ref can't be read back", "")
	if left := w.probes(t); left != "" {
		t.Errorf("the probe left %s", left)
	}
}

// TestProbe_NoAtomicPush: a server that doesn't offer it.
func TestProbe_NoAtomicPush(t *testing.T) {
	w := newWard(t, "receive.advertiseAtomic=false")
	all := Repository(t.Context(), w.target())
	wants(t, all, NameStateRefs, OK, "", "")
	wants(t, all, NameAtomic, Failed, "not taken", "moves several refs at once")
	if left := w.probes(t); left != "" {
		t.Errorf("the probe left %s", left)
	}
}

// TestProbe_HalfAtomicPush: a server that offers it and moves one of two all the
// same is found out, and so is what it moved.
func TestProbe_HalfAtomicPush(t *testing.T) {
	w := newWard(t)
	w.set(gittest.OnPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte("atomic"), []byte("quiet "), 1)))
			next.ServeHTTP(rw, r)
		})
	}))
	all := Repository(t.Context(), w.target())
	wants(t, all, NameAtomic, Failed, "moved one", "moves several refs at once")
	if left := w.probes(t); left != "" {
		t.Errorf("the probe left %s", left)
	}
}

// TestProbe_CleansUpAfterOthers: what an interrupted probe left is deleted by the
// next one, and nobody else's ref is.
func TestProbe_CleansUpAfterOthers(t *testing.T) {
	w := newWard(t)
	oid := gittest.RefOID(w.dir, "refs/heads/main")
	const others = "refs/writ/task/4\nrefs/writ/task/probe-1\nrefs/writ/task/probe-9999-nothex000000"
	for _, ref := range []string{
		"refs/writ/task/4", "refs/writ/task/probe-1", "refs/writ/task/probe-9999-nothex000000",
		"refs/writ/task/probe-1700000000-0123456789ab", "refs/writ/task/probe-1700000000-0123456789ab-b",
	} {
		gittest.Git(t, w.dir, "update-ref", ref, oid)
	}
	wants(t, Repository(t.Context(), w.target()), NameStateRefs, OK, "", "")
	if left := w.probes(t); left != others {
		t.Errorf("left is\n%s\nwant\n%s", left, others)
	}
}

// TestProbe_DeletionRefused: a server that lets nobody delete refs is no failure,
// and the ref that stays is named.
func TestProbe_DeletionRefused(t *testing.T) {
	w := newWard(t)
	gittest.Hook(t, w.dir, "update", `case $3 in *[!0]*) ;; *) echo "deleting is prohibited" >&2; exit 1;; esac`)
	wants(t, Repository(t.Context(), w.target()), NameStateRefs, Warning, "may be left", "git push origin :refs/writ/task/probe-")
}

// TestProbe_Interrupted: who gives up in the middle leaves nothing.
func TestProbe_Interrupted(t *testing.T) {
	w := newWard(t)
	ctx, cancel := contextOf(t)
	w.set(gittest.OnPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(rw, r)
			cancel()
		})
	}))
	for _, c := range Repository(ctx, w.target()) {
		if c.Status == Failed {
			t.Errorf("%s failed of being interrupted: %s", c.Name, c.Detail)
		}
	}
	if left := w.probes(t); left != "" {
		t.Errorf("the probe left %s", left)
	}
}

// TestProbe_NotWanted: with --no-probe nothing is pushed.
func TestProbe_NotWanted(t *testing.T) {
	w := newWard(t)
	w.set(gittest.OnPush(gittest.Before(func() { t.Error("something was pushed") })))
	all := Repository(t.Context(), w.target(func(t *Target) { t.NoProbe = true }))
	wants(t, all, NameStateRefs, Skipped, "--no-probe", "")
	wants(t, all, NameAtomic, Skipped, "--no-probe", "")
}
