package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
)

// What a state directory holds, beside what the ledger and its key keep there.
const (
	lockFile     = "lock"
	workspaces   = "workspaces"
	requestsDir  = "requests"
	observedFile = "observations.json"
)

// stateDir is an installation's directory: one store, one key. Whoever holds
// its lock is the one process that writes it.
type stateDir struct {
	path string
	lock *os.File // nil if only read
}

// lastUse is what the lock's file says of who held it last. It is for people,
// and for commands that are given a state directory and no repository.
type lastUse struct {
	PID   int    `json:"pid"`
	Task  int64  `json:"task"`
	Since string `json:"since"` // UTC, ISO 8601
	Repo  string `json:"repo"`
	World string `json:"world"`
	Refs  string `json:"refs"`
	// Server: writ serve, which holds many repositories.
	Server bool `json:"server,omitempty"`
	// Repos has the repository of each world that was ever opened here, without
	// credentials.
	Repos map[string]string `json:"repos,omitempty"`
}

// after is a use that comes after another: what is known of worlds adds up, and
// a command that names neither repository nor server leaves word of who did.
func (u lastUse) after(old lastUse) lastUse {
	if u.Repo == "" && !u.Server {
		u.Repo, u.World, u.Refs, u.Server = old.Repo, old.World, old.Refs, old.Server
	}
	repos := maps.Clone(old.Repos)
	if repos == nil {
		repos = map[string]string{}
	}
	maps.Copy(repos, u.Repos)
	for _, one := range []lastUse{old, u} {
		if one.World != "" && one.Repo != "" {
			repos[one.World] = one.Repo
		}
	}
	u.Repos = repos
	return u
}

func badState(path, format string, args ...any) *problem {
	p := coded(kernel.CodeEnvState, "The state directory %s %s.", path, fmt.Sprintf(format, args...))
	p.subject = path
	return p
}

// openState finds a state directory and refuses one that isn't this user's
// alone: who can write it can speak in the installation's name.
func openState(path string, create bool) (*stateDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if create {
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, badState(abs, "can't be made (%s)", cause(err))
		}
	}
	info, err := os.Lstat(abs)
	if err != nil {
		p := badState(abs, "can't be looked at (%s)", cause(err))
		if errors.Is(err, fs.ErrNotExist) {
			p = badState(abs, "is not there")
			p.remedy = "Name the one of the server (server.state_dir) or of the run (--state-dir, --repo as there); their first start makes it."
		}
		return nil, p
	}
	var st unix.Stat_t
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		p := badState(abs, "is a symbolic link")
		p.remedy = "Name the directory itself."
		return nil, p
	case !info.IsDir():
		return nil, badState(abs, "is no directory")
	case unix.Stat(abs, &st) != nil || int(st.Uid) != os.Geteuid():
		p := badState(abs, "belongs to somebody else")
		p.remedy = "Give another --state-dir, or run as its owner."
		return nil, p
	case info.Mode().Perm()&0o066 != 0: // passing through shows nothing: what is inside is closed
		p := badState(abs, "can be used by others (mode %04o)", info.Mode().Perm())
		p.remedy = "If others could write it, don't trust what it holds. Otherwise: chmod 700 " + abs
		return nil, p
	}
	return &stateDir{path: abs}, nil
}

// cause is the system's word without the path.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// take takes the lock, or tells who has it (state.in_use, exit 13).
func (s *stateDir) take(use lastUse) error {
	f, err := os.OpenFile(s.file(lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return badState(s.path, "has a lock that can't be opened (%s)", cause(err))
	}
	if !tryLock(f) {
		defer f.Close()
		return inUse(s.path, readUse(f))
	}
	s.lock = f
	use = use.after(readUse(f))
	use.PID, use.Since = os.Getpid(), kernel.Timestamp(time.Now().Unix())
	if err := writeUse(f, use); err != nil {
		s.release()
		return badState(s.path, "can't be written (%s)", cause(err))
	}
	return nil
}

// remember notes where a world's repository is. It needs the lock.
func (s *stateDir) remember(world, url string) error {
	use := lastUse{Repos: map[string]string{world: url}}
	old := readUse(s.lock)
	use.PID, use.Task, use.Since = old.PID, old.Task, old.Since
	if err := writeUse(s.lock, use.after(old)); err != nil {
		return badState(s.path, "can't be written (%s)", cause(err))
	}
	return nil
}

// tryLock takes the exclusive lock of an open file, which ends with the last
// descriptor of it: with the process, however that dies. A file system that
// can't lock counts as locked by somebody.
func tryLock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

func inUse(path string, u lastUse) *problem {
	who, what := "another process", "writ"
	remedy := "Find it with `ps -ef`; wait for it, or give another --state-dir. A process that is gone holds nothing."
	if u.PID > 0 {
		who = "process " + strconv.Itoa(u.PID)
	}
	switch {
	case u.Task > 0:
		who += fmt.Sprintf(", which works on task %d", u.Task)
	case u.Server:
		who += ", which serves (writ serve)"
		what = "the server"
	}
	if u.PID > 0 && u.Since != "" {
		remedy = fmt.Sprintf("It has had it since %s; `ps -fp %d` shows it. If it is %s that you mean, leave it; "+
			"to end it: kill %[2]d, and wait. A process that is gone holds nothing. Or give another state directory (--state-dir, server.state_dir).", u.Since, u.PID, what)
	}
	return &problem{
		code: kernel.CodeStateInUse, exit: exitHeld, subject: path, held: &report.Held{Runner: who}, remedy: remedy,
		text: fmt.Sprintf("The state directory %s is used by %s.", path, who),
	}
}

func writeUse(f *os.File, u lastUse) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	// Written over and then cut, so that who reads meanwhile finds a whole one.
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(data)))
}

// maxUseBytes is more than the names and URLs of all worlds need.
const maxUseBytes = 1 << 20

// readUse reads what a lock's file says; nothing depends on its truth.
func readUse(f io.ReaderAt) (u lastUse) {
	if json.NewDecoder(io.NewSectionReader(f, 0, maxUseBytes)).Decode(&u) != nil {
		return lastUse{}
	}
	return u
}

// lastUse is who held the lock last, or holds it.
func (s *stateDir) lastUse() lastUse {
	f, err := os.OpenFile(s.file(lockFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return lastUse{}
	}
	defer f.Close()
	return readUse(f)
}

// release ends the lock. The file stays: its inode is part of the runner's id.
func (s *stateDir) release() {
	if s.lock != nil {
		_ = s.lock.Close() // nothing is buffered, and the lock goes with it
		s.lock = nil
	}
}

func (s *stateDir) file(name string) string { return filepath.Join(s.path, name) }

// runnerID names this directory on this machine: a copy of it elsewhere, or
// beside it, is another runner and no predecessor of this one (REQUIREMENTS
// T56). It needs the lock.
func (s *stateDir) runnerID() (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(s.lock.Fd()), &st); err != nil {
		return "", badState(s.path, "has a lock that can't be looked at (%v)", err)
	}
	id := shortHash(machineID(), fmt.Sprint(st.Dev), fmt.Sprint(st.Ino))
	return hostName() + "/" + id, nil
}

// machineID is the machine's own id; without one the host name and the path of
// the directory's file system must do.
func machineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if data, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(data))) > 0 {
			return strings.TrimSpace(string(data))
		}
	}
	return hostName()
}

// replaceFile makes a file appear whole or not at all.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that matters is the other one
	}
	return err
}
