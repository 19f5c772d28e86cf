package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/filesystem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/store"
)

// state looks at the state directory, and at what lies in it and can be read, whatever else
// is wrong with the directory.
func (h *house) state(ctx context.Context) {
	dir := h.Config.Server.StateDir
	readable := false
	h.subject = dir
	h.check(ctx, NameStateDir, func(context.Context) (r result) {
		if r, readable = h.usable(dir); r.status == "" {
			r = h.directory(dir)
		}
		return r
	})
	h.subject = ""
	if !readable {
		h.skip("The state directory can't be used.", NameStore, NameLedger, NameKey)
		return
	}
	file := filepath.Join(dir, ledger.FileName)
	if !ledger.Recorded(dir) {
		h.skip("There is no store yet: the first `writ serve` makes it.", NameStore, NameLedger)
		h.check(ctx, NameKey, func(context.Context) result { return h.newKey(dir) })
		return
	}
	var db *store.DB
	if !h.check(ctx, NameStore, func(ctx context.Context) (r result) {
		db, r = openStore(ctx, file)
		return r
	}) {
		h.skip("The store can't be read.", NameLedger)
		h.check(ctx, NameKey, func(context.Context) result { return keyAlone(dir) })
		return
	}
	defer func() { _ = db.Close() }() // nothing was written
	var instances []string
	h.check(ctx, NameLedger, func(ctx context.Context) (r result) {
		instances, r = ledgers(ctx, ledger.New(db, nil, ledger.Options{}), dir)
		return r
	})
	h.check(ctx, NameKey, func(context.Context) result { return key(dir, instances) })
}

// usable has a result where the directory isn't there, or isn't ours alone; then nothing in
// it is to be read either, but for a directory that is still to be made.
func (h *house) usable(dir string) (r result, readable bool) {
	if dir == "" {
		return bad("Set server.state_dir to an absolute path, such as /var/lib/writ/state.", "The configuration names none."), false
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return warn("The first `writ serve` makes it, with mode 0700, if its account may write "+filepath.Dir(dir)+".", "It isn't there yet."), true
	}
	if fault, remedy := h.State(dir); fault != "" {
		return bad(remedy, "%s", fault), false
	}
	return result{}, unix.Access(dir, unix.R_OK|unix.X_OK) == nil
}

// directory is what else counts of one that is there and ours.
func (h *house) directory(dir string) result {
	if key := ShownBy(MountsOf(h.Config), dir); key != "" {
		return bad("Mount only what the program needs.", "A sandbox has it, with the signing key: %s shows it.", key)
	}
	if filesystem.ReadOnly(dir) {
		return bad("Mount that file system for writing (mount -o remount,rw), or give another state directory. Commands that only read work as it is.",
			"Nothing can be written there: the file system mounted at %s is read-only.", filesystem.MountPoint(dir))
	}
	if unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		return bad("chmod 700 "+dir+". Commands that only read work as it is.", "Nothing can be written there: its mode forbids it.")
	}
	at, err := placeOf(dir)
	if err != nil {
		return bad("Check path and permissions.", "Its file system can't be asked.")
	}
	if name := ahead(dir, h.Now()); name != "" {
		return warn(setClock, "The clock went back, or the disk's is another: %s.", name)
	}
	return at.judge()
}

// openStore opens the store beside its writer, and has it checked.
func openStore(ctx context.Context, file string) (*store.DB, result) {
	db, err := store.OpenReadOnly(ctx, file, store.Options{})
	if err != nil {
		remedy := "Run `writ doctor` as writ's account, with the same program as the server. If the file is damaged, restore a copy: docs/operations.md."
		var known *store.Error
		if errors.As(err, &known) {
			remedy = cmp.Or(known.Remedy(), remedy)
		}
		return nil, bad(remedy, "It can't be opened: %s.", causes(err))
	}
	fault, err := db.Check(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return db, ok("It opens, in the form that this writ knows. It is too large to be checked to its end here.")
	case err != nil:
		_ = db.Close() // nothing was written
		return nil, bad("Restore a copy: docs/operations.md.", "It can't be read: %s.", causes(err))
	case fault != "":
		_ = db.Close() // nothing was written
		return nil, bad("Stop writ, keep the file aside, and restore a copy: docs/operations.md.", "SQLite finds it damaged: %s.", fault)
	}
	return db, ok("It opens, in the form that this writ knows, and SQLite finds it sound.")
}

// causes are an error with what is behind it.
func causes(err error) string { return strings.TrimSuffix(oneLine(err.Error()), ".") }

// ledgers verifies each, also against the signed checkpoint that lies beside it.
func ledgers(ctx context.Context, all *ledger.Store, dir string) (instances []string, r result) {
	worlds, err := all.Worlds(ctx)
	if err != nil {
		return nil, bad("Restore a copy: docs/operations.md.", "The ledgers can't be listed: %s.", causes(err))
	}
	unread := 0
	for _, world := range worlds {
		report, err := verify(ctx, all, dir, world)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			unread++
			continue
		case err != nil:
			return instances, bad("Run `writ doctor` as writ's account; `writ verify` says more.", "The ledger of %s can't be verified: %s.", world, causes(err))
		case !report.OK:
			return instances, bad("If an older store was restored on purpose, or its checkpoint is lost, `writ ledger adopt` declares it; otherwise somebody changed it: docs/operations.md.",
				"The ledger of %s: %s: %s.", world, report.Code, strings.TrimSuffix(oneLine(report.Reason), "."))
		}
		instances = append(instances, report.Instance)
	}
	text := fmt.Sprintf("%d verified", len(worlds)-unread)
	if unread > 0 {
		text += fmt.Sprintf("; %d are too long to be verified here, `writ verify` does", unread)
	}
	return instances, ok("%s.", text)
}

func verify(ctx context.Context, all *ledger.Store, dir, world string) (r ledger.Report, err error) {
	checkpoint, err := ledger.KeptCheckpoint(dir, world)
	if err != nil {
		return r, err
	}
	one, err := all.World(ctx, world)
	if err != nil {
		return r, err
	}
	return one.Verify(ctx, ledger.VerifyOptions{Checkpoint: checkpoint, Outside: true})
}

const keyRemedy = "Restore the files key and key.pub from the back-up of the state directory. A ledger goes on with its own key only."

// key looks whether it is there and the one that the ledgers are signed with.
func key(dir string, instances []string) result {
	k, err := instancekey.Load(dir)
	if err != nil {
		return bad(keyRemedy, "The instance's key can't be used: %s.", causes(err))
	}
	for _, name := range instances {
		if name != "" && name != k.Fingerprint() {
			return bad(keyRemedy, "The key is %s, and a ledger is of %s.", k.Fingerprint(), name)
		}
	}
	return ok("It is %s.", k.Fingerprint())
}

// keyAlone is for a store that can't be read.
func keyAlone(dir string) result {
	r := key(dir, nil)
	if r.status == OK {
		r.detail += " Whether the ledgers are signed with it can't be seen."
	}
	return r
}

// newKey is for a directory without a store.
func (h *house) newKey(dir string) result {
	if _, err := instancekey.Load(dir); errors.Is(err, fs.ErrNotExist) {
		return skipped("There is none yet: the first `writ serve` makes it.")
	}
	return key(dir, nil)
}
