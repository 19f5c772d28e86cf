package installation

import (
	"cmp"
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

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/filesystem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// What a state directory holds, beside what the ledger and its key keep there.
const (
	lockFile     = "lock"
	Workspaces   = "workspaces"
	Layers       = "layers"
	requestsDir  = "requests"
	ObservedFile = "observations.json"
)

// Dir is an installation's directory: one store, one key. Whoever holds
// its lock is the one process that writes it.
type Dir struct {
	Path string
	lock *os.File // nil if only read
	self *os.File // the directory, locked too: whoever removes the file frees nothing
}

// Use is what the lock's file says of who held it last. It is for people,
// and for commands that are given a state directory and no repository.
type Use struct {
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
	// Names has what people called each of them last.
	Names map[string]string `json:"names,omitempty"`
	// Trusted has the keys that the configuration of the last run or server lists,
	// besides its own; nil in a command that doesn't say.
	Trusted []string `json:"trusted,omitempty"`
}

// TrustedIn are the keys that a configuration lists; none is a word, too.
func TrustedIn(cfg config.Config) []string { return append([]string{}, cfg.TrustedRunners...) }

// Called is what people call a world, or its identity where that isn't known.
func (u Use) Called(world string) string { return cmp.Or(u.Names[world], world) }

// Meant is the world that a person names by its identity or by what it is called.
// A name that no world has, or several, is left as it is.
func (u Use) Meant(name string) string {
	if u.Names[name] != "" || u.Repos[name] != "" {
		return name
	}
	meant := name
	for world, called := range u.Names {
		if !strings.EqualFold(called, name) {
			continue
		}
		if meant != name {
			return name
		}
		meant = world
	}
	return meant
}

// After is a use that comes after another: what is known of worlds adds up, and
// a command that names neither repository nor server leaves word of who did.
func (u Use) After(old Use) Use {
	if u.Repo == "" && !u.Server {
		u.Repo, u.World, u.Refs, u.Server = old.Repo, old.World, old.Refs, old.Server
	}
	if u.Trusted == nil {
		u.Trusted = old.Trusted
	}
	repos := maps.Clone(old.Repos)
	if repos == nil {
		repos = map[string]string{}
	}
	maps.Copy(repos, u.Repos)
	names := maps.Clone(old.Names)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, u.Names)
	u.Names = names
	for _, one := range []Use{old, u} {
		if one.World != "" && one.Repo != "" {
			repos[one.World] = one.Repo
		}
	}
	u.Repos = repos
	return u
}

// BadState is the error of a state directory that can't be used; what is said of it
// follows its path.
func BadState(path, format string, args ...any) *problem.Error {
	p := problem.Coded(kernel.CodeEnvState, "The state directory %s %s.", path, fmt.Sprintf(format, args...))
	p.Subject = path
	return p
}

// FailedState is a state directory in which the system refused something. What
// helps depends on why it did.
func FailedState(path string, err error, format string, args ...any) *problem.Error {
	p := BadState(path, "%s (%s)", fmt.Sprintf(format, args...), problem.Cause(err))
	switch {
	case errors.Is(err, unix.EROFS):
		p.Remedy = "Its file system, mounted at " + filesystem.MountPoint(path) + ", can't be written: mount it for writing (mount -o remount,rw), or give another --state-dir (server.state_dir)."
	case filesystem.Refused(err):
		p.Remedy = "Make room, or give another --state-dir (server.state_dir): " + filesystem.NoRoom(path) + "."
	case errors.Is(err, fs.ErrPermission):
		p.Remedy = "It must belong to the user that runs writ, with mode 700, and the files in it with mode 600; who that user is, says `id -un`."
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrExist):
		p.Remedy = "A file is where a directory should be: give another --state-dir (server.state_dir), or move that file away."
	}
	return p
}

// OpenDir finds a state directory and refuses one that isn't this user's
// alone: who can write it can speak in the installation's name.
func OpenDir(path string, create bool) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if create {
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, FailedState(abs, err, "can't be made")
		}
	}
	info, err := os.Lstat(abs)
	if err != nil {
		p := FailedState(abs, err, "can't be looked at")
		if errors.Is(err, fs.ErrNotExist) {
			p = BadState(abs, "is not there")
			p.Remedy = "Name the one of the server (server.state_dir) or of the run (--state-dir, --repo as there); their first start makes it."
		}
		return nil, p
	}
	var st unix.Stat_t
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		p := BadState(abs, "is a symbolic link")
		p.Remedy = "Name the directory itself."
		return nil, p
	case !info.IsDir():
		return nil, BadState(abs, "is no directory")
	case unix.Stat(abs, &st) != nil || int(st.Uid) != os.Geteuid():
		p := BadState(abs, "belongs to somebody else")
		p.Remedy = "Give another --state-dir, or run as its owner."
		return nil, p
	case info.Mode().Perm()&0o066 != 0: // passing through shows nothing: what is inside is closed
		p := BadState(abs, "can be used by others (mode %04o)", info.Mode().Perm())
		p.Remedy = "If others could write it, don't trust what it holds. Otherwise: chmod 700 " + abs
		return nil, p
	}
	return &Dir{Path: abs}, nil
}

// take takes the lock, or tells who has it (state.in_use, exit 13).
func (s *Dir) take(use Use) error {
	f, err := os.OpenFile(s.File(lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return FailedState(s.Path, err, "has a lock that can't be opened")
	}
	self, free := s.lockBoth(f)
	if !free {
		defer f.Close() // it isn't locked
		return InUse(s.Path, readUse(f))
	}
	old := readUse(f)
	s.lock, s.self = f, self
	if err := use.Contradicts(old); err != nil {
		s.release()
		return err
	}
	use = use.After(old)
	use.PID, use.Since = os.Getpid(), kernel.Timestamp(time.Now().Unix())
	if err := writeUse(f, use); err != nil {
		s.release()
		return FailedState(s.Path, err, "can't be written")
	}
	return nil
}

// Contradicts refuses a repository on disk that says that it is a world which another
// repository is. What a git directory says of itself can be copied, and is no secret:
// whoever runs a task there would sign state that counts in the other one.
func (u Use) Contradicts(old Use) error {
	known := old.After(Use{}).Repos[u.World]
	if u.Repo == "" || known == "" || known == u.Repo || !filepath.IsAbs(u.Repo) || git.SameRepository(known, u.Repo) {
		return nil
	}
	if there, _ := git.Identity(known); filepath.IsAbs(known) && there != u.World {
		return nil // it was moved from there, or nothing can be read there any more
	}
	p := problem.Coded(kernel.CodeWorldElsewhere, "The repository %s says that it is the world %s, which is the repository %s.", u.Repo, u.World, known)
	p.Remedy = "If it is a copy, remove the file " + git.IdentityFile + " from its git directory: it becomes a world of its own. If the other one is gone for good, remove it, or that file of it. For another installation give another --state-dir."
	return p
}

// Remember notes where a world's repository is, and what it is called. It needs
// the lock.
func (s *Dir) Remember(world, display, url string) error {
	use := Use{Repos: map[string]string{world: url}, Names: map[string]string{world: display}}
	old := readUse(s.lock)
	use.PID, use.Task, use.Since = old.PID, old.Task, old.Since
	if err := writeUse(s.lock, use.After(old)); err != nil {
		return FailedState(s.Path, err, "can't be written")
	}
	return nil
}

// startLimit bounds the wait for a program that a process was starting when it was killed. A
// holder whose process can't be seen from here, in another container, is refused after it.
const startLimit = 2 * time.Second

// lockBoth takes both locks. Those of a process that is gone are waited for: a program
// that it was starting has a copy of them until it runs.
func (s *Dir) lockBoth(f *os.File) (self *os.File, free bool) {
	self, free = s.tryBoth(f)
	for until := time.Now().Add(startLimit); !free && isGone(readUse(f).PID) && time.Now().Before(until); self, free = s.tryBoth(f) {
		time.Sleep(startLimit / 100)
	}
	return self, free
}

// isGone reports whether no process has this id.
func isGone(pid int) bool { return pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// tryBoth takes the lock of the open file and that of the directory, which ends with
// self. A file system that can't lock a directory is left with the file's.
func (s *Dir) tryBoth(f *os.File) (self *os.File, free bool) {
	if !tryLock(f) {
		return nil, false
	}
	self, err := os.Open(s.Path)
	if err != nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		return nil, false
	}
	if err := unix.Flock(int(self.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		_ = self.Close() // nothing is buffered
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		return nil, false
	}
	return self, true
}

// InPlace is an error unless the file of the lock is the one that was locked. Commands
// find a running process by that file.
func (s *Dir) InPlace() error {
	held, err := s.lock.Stat()
	if err != nil {
		return FailedState(s.Path, err, "has a lock that can't be looked at")
	}
	now, err := os.Lstat(s.File(lockFile))
	switch {
	case err == nil && os.SameFile(held, now):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return FailedState(s.Path, err, "has a lock that can't be looked at")
	}
	p := BadState(s.Path, "has lost its file %q: it was removed or replaced while writ runs", lockFile)
	p.Remedy = "Find out who did that, and start writ again. That file is never in the way: a process that is gone holds nothing."
	return p
}

// tryLock takes the exclusive lock of an open file, which ends with the last
// descriptor of it: with the process, however that dies. A file system that
// can't lock counts as locked by somebody.
func tryLock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// InUse is the error of a state directory that a process has, by what its lock says.
func InUse(path string, u Use) *problem.Error {
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
	return &problem.Error{
		Code: kernel.CodeStateInUse, Exit: problem.ExitHeld, Subject: path, Held: &report.Held{Runner: who}, Remedy: remedy,
		Text: fmt.Sprintf("The state directory %s is used by %s.", path, who),
	}
}

func writeUse(f *os.File, u Use) error {
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
func readUse(f io.ReaderAt) (u Use) {
	if json.NewDecoder(io.NewSectionReader(f, 0, maxUseBytes)).Decode(&u) != nil {
		return Use{}
	}
	return u
}

// LastUse is who held the lock last, or holds it.
func (s *Dir) LastUse() Use {
	f, err := os.OpenFile(s.File(lockFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Use{}
	}
	defer f.Close()
	return readUse(f)
}

// release ends the lock. The file stays: its inode is part of the runner's id.
func (s *Dir) release() {
	if s.lock != nil {
		unlock(s.lock)
		unlock(s.self)
		s.lock, s.self = nil, nil
	}
}

// unlock ends the lock of an open file. A program that is being started has a copy of
// the file for a moment, and closing it alone would leave the lock to that one.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = f.Close() // nothing is buffered
}

// Leftovers are the temporary files that processes which were killed leave beside what
// they were to replace.
var Leftovers = []string{".new-*", ".key.new-*", ".checkpoint.new-*", ".writ-sum-*"}

// tidy removes leftovers. It needs the lock: nobody else writes here then. What can't be
// removed is in nobody's way.
func (s *Dir) tidy() {
	for _, pattern := range Leftovers {
		left, _ := filepath.Glob(filepath.Join(globbed.Replace(s.Path), pattern)) // the patterns are good
		for _, name := range left {
			_ = os.Remove(name)
		}
	}
}

// globbed takes a path as it is, in a pattern.
var globbed = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// File is the path of a file in the directory.
func (s *Dir) File(name string) string { return filepath.Join(s.Path, name) }

// RunnerID names this directory on this machine: a copy of it elsewhere, or
// beside it, is another runner and no predecessor of this one. It needs the lock.
func (s *Dir) RunnerID() (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(s.lock.Fd()), &st); err != nil {
		return "", FailedState(s.Path, err, "has a lock that can't be looked at")
	}
	id := shortHash(machineID(), fmt.Sprint(st.Dev), fmt.Sprint(st.Ino))
	return HostName() + "/" + id, nil
}

// machineID is the machine's own id; without one the host name and the path of
// the directory's file system must do.
func machineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if data, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(data))) > 0 {
			return strings.TrimSpace(string(data))
		}
	}
	return HostName()
}

// ReplaceFile makes a file appear whole or not at all.
func ReplaceFile(path string, data []byte) error {
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

// Probe takes the lock and gives it back; the error is that of a taken one.
func (s *Dir) Probe() error {
	f, err := os.OpenFile(s.File(lockFile), os.O_RDWR, 0)
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
		f, err = os.Open(s.File(lockFile)) // whoever may only read sees who works there, too
	}
	if err != nil {
		return nil // without the file nobody ever ran here
	}
	defer unlock(f)
	self, free := s.lockBoth(f)
	if !free {
		return InUse(s.Path, readUse(f))
	}
	unlock(self)
	return nil
}

// checkpointPrefix is what the names of checkpoints in a state directory begin
// with (ledger.CheckpointFile).
const checkpointPrefix = "checkpoint-"

// MaxCheckpointBytes bounds a checkpoint file; one is some hundred bytes.
const MaxCheckpointBytes = 64 << 10

// Checkpoints reads the signed checkpoints by their names.
func (s *Dir) Checkpoints() (map[string][]byte, error) {
	entries, err := os.ReadDir(s.Path)
	if err != nil {
		return nil, FailedState(s.Path, err, "can't be read")
	}
	found := map[string][]byte{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), checkpointPrefix) {
			continue
		}
		if found[e.Name()], err = ReadLimited(s.File(e.Name()), MaxCheckpointBytes); err != nil {
			return nil, FailedState(s.Path, err, "has a checkpoint that can't be read")
		}
	}
	return found, nil
}
