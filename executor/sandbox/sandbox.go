package sandbox

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"
)

// Places inside the sandbox. They never vary, so that what a builder sees does
// not depend on the host it ran on.
const (
	// WorkspaceDir is where Spec.Workspace is mounted, and the working directory.
	WorkspaceDir = "/workspace"
	// HomeDir is the home directory: a tmpfs that is empty at every start.
	HomeDir = "/home/writ"
	// TmpDir is the directory for temporary files: a tmpfs that is empty at
	// every start.
	TmpDir = "/tmp"
	// RunDir holds writ's own files, read-only: the place for Spec.Files.
	RunDir = "/run/writ"
	// OutDir is where Spec.OutDir is mounted, read-write.
	OutDir = RunDir + "/out"
)

// ProxyAddress is where programs find the gateway, on the sandbox's own loopback
// interface. Its port is the usual one of such a proxy.
const ProxyAddress = "127.0.0.1:3128"

// userName is the one user that exists inside.
const userName = "writ"

// initPath is where the inner stage is mounted.
const initPath = RunDir + "/init"

// Sandbox starts untrusted programs.
type Sandbox interface {
	// Name is the word for this level in configuration, log and report:
	// "bubblewrap", "landlock" or "none".
	Name() string
	// Probe runs a program that does nothing and says whether this host can
	// isolate one. A host that can't is reported as an *Error with the code
	// CodeUnavailable and the remedy.
	Probe(ctx context.Context) error
	// Start runs spec and returns at once; Process.Started tells when the
	// program itself runs. When ctx is done the whole tree is killed, so ctx
	// must live as long as the process may. An error means that nothing runs.
	Start(ctx context.Context, spec Spec) (*Process, error)
}

// Config is what an operator decides for all sandboxes of a host. The zero
// value is usable.
type Config struct {
	// Bubblewrap is the path of the bwrap program. Empty: "bwrap" on PATH.
	Bubblewrap string
	// Init is the path of the program that is run inside first, one that imports
	// this package: writ itself. Empty: the running executable.
	Init string
	// WithoutLandlock allows kernels that lack Landlock. Without this consent
	// such a kernel is sandbox.unavailable.
	WithoutLandlock bool
	// RootUID is the host user id that untrusted programs get when writ itself
	// runs as root: kernel limits on processes don't bind user id 0. Programs that
	// run at once have this and the ids below, 512 in all that nothing else should
	// have. Zero: DefaultRootUID. Start gives
	// Spec.Workspace and Spec.OutDir to that id.
	RootUID int
	// Cgroup is a delegated cgroup v2 directory, writable by this user, in
	// which a child is created per sandbox. Empty: writ's own cgroup is tried,
	// and if it can't be used the limits are held without cgroups.
	Cgroup string
	// Log receives one line per decision an operator may ask about. Nil: none.
	Log *slog.Logger
}

// Spec describes one program to run. The caller owns everything it names;
// nothing is inherited from writ's own process.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is
	// looked up in the PATH of Env, inside the sandbox.
	Argv []string
	// Env is the complete environment. See BaseEnv.
	Env []string
	// Umask of the program. Zero means DefaultUmask (022).
	Umask int
	// Workspace is the host directory mounted at WorkspaceDir, which is the
	// working directory. No file in it may be a hard link of one outside, since
	// the program writes to it. See Config.RootUID for who owns it afterwards.
	Workspace string
	// Layers are shown below what the program writes: then the workspace is an overlay,
	// Workspace holds its upper directory (see Upper), and Start makes it. Nil: the
	// workspace is Workspace itself. See Overlays for who can.
	Layers Layers
	// Dirs are asked, as Layers is, for directories that the program finds beside the
	// workspace. Nil: none. A level without mounts of its own refuses them.
	Dirs func(ctx context.Context, owner int) ([]Dir, error)
	// ReadOnlyWorkspace mounts Workspace read-only.
	ReadOnlyWorkspace bool
	// OutDir is an optional host directory, mounted read-write at OutDir, where
	// a builder leaves its result. The caller reads it as untrusted data:
	// without following links, with a limit.
	OutDir string
	// ReadOnly lists caches and toolchains that the operator configured.
	ReadOnly []Mount
	// Files are read-only files that exist inside only, such as the dispatch.
	Files []File
	// Loopback allows internet sockets on a loopback interface that belongs to
	// this sandbox alone, as test suites with a local server need. Nothing
	// outside is reachable either way. Without it such sockets don't exist.
	Loopback bool
	// Gateway is given a listener on ProxyAddress inside, before the program runs: it is
	// the only way out, for whatever is decided outside. It must return at once, and
	// the caller closes the listener when the process is done. Nil: there is none. It
	// brings Loopback with it.
	Gateway func(net.Listener)
	// Stdin is read to the end, or until a byte of it comes too late for the program;
	// nil is an empty input. A Read that blocks when the program has ended delays
	// nothing: who gave it ends it.
	Stdin io.Reader
	// Stdout and Stderr receive the streams; nil discards. Writers must not
	// block for long and need not be safe for concurrent use unless both are
	// the same value. A Capture is the usual choice.
	Stdout, Stderr io.Writer
	// Limits bound what the tree may use.
	Limits Limits
}

// Mount is a host path shown read-only inside.
type Mount struct {
	// Source is an absolute path on the host that exists.
	Source string
	// Target is an absolute path inside. Empty: the same as Source.
	Target string
}

// Dir is a directory of the host that a program may write to at a place of its own. Start
// gives it to the program's user.
type Dir struct {
	// Target is HomeDir, or a path below it or below WorkspaceDir. In the workspace it
	// must be there.
	Target string
	// Source is what the program sees and writes to. With Lower it holds what the program
	// writes, as Spec.Workspace does with Spec.Layers, and belongs to this program alone.
	Source string
	// Lower is shown read-only below what the program writes. Empty: nothing is.
	Lower string
}

// File is a read-only file that exists only inside the sandbox.
type File struct {
	// Target is an absolute path inside, normally below RunDir.
	Target string
	// Content is at most MaxFileBytes long.
	Content []byte
}

// Limits bound one tree of processes. Zero means the default of DefaultLimits;
// a negative number means no limit, where that is possible.
type Limits struct {
	// CPU is processor time of the whole tree, user and system.
	CPU time.Duration
	// MemoryBytes bounds memory of the whole tree.
	MemoryBytes int64
	// Processes bounds processes and threads of the whole tree, together.
	Processes int64
	// OpenFiles bounds descriptors of each process.
	OpenFiles int64
	// FileSizeBytes bounds each file written.
	FileSizeBytes int64
	// TmpBytes bounds /tmp, /dev/shm and the home directory, each.
	TmpBytes int64
	// TmpFiles bounds the files in /tmp, /dev/shm and home, each.
	TmpFiles int64
	// DiskReserveBytes is what must stay free on the file system of the
	// workspace, together with a matching number of files: a tree that uses
	// disk up is killed while there is room for everybody else.
	DiskReserveBytes int64
	// OutputBytes bounds standard output and standard error together.
	OutputBytes int64
}

// ProxyEnv tells ordinary clients of the gateway, in the spellings that they read.
// What is on the program's own loopback is reached without it.
func ProxyEnv() []string {
	const proxy, direct = "http://" + ProxyAddress, "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + proxy, "http_proxy=" + proxy, "HTTPS_PROXY=" + proxy, "https_proxy=" + proxy,
		"NODE_USE_ENV_PROXY=1", // Node reads none of them otherwise
		"ALL_PROXY=" + proxy, "all_proxy=" + proxy, "NO_PROXY=" + direct, "no_proxy=" + direct,
	}
}

// BaseEnv is the environment of a program that needs nothing special. It is
// the same on each host. Append to it: of two entries of a name the later one counts.
func BaseEnv() []string {
	return []string{
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + HomeDir,
		"USER=" + userName,
		"LOGNAME=" + userName,
		"SHELL=/bin/sh",
		"LANG=C.UTF-8",
		"TZ=UTC",
		"TMPDIR=" + TmpDir,
	}
}
