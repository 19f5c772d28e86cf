// Package sandbox isolates one tree of untrusted processes: a builder, or the
// runner of a contract's checks (seed 001). It knows nothing of
// tasks. It is one of the few packages that may start processes.
//
// # What a program finds
//
// Linux namespaces of its own: user, mount, pid, ipc, uts, network and, where
// the kernel has them, cgroup. Bubblewrap makes them.
//
//   - Files. /usr with the links to it, a few files of /etc without secrets and
//     a synthetic user table, new /proc and minimal /dev, the read-only mounts
//     that the operator configured, the caller's read-only files, all of it
//     read-only. Writable are the workspace, /tmp, /dev/shm and the home
//     directory (three size-limited tmpfs), and the result directory if there
//     is one. Of the host there is no home, /run, /var, /root, /opt, /sys, no
//     socket of a daemon or agent, no git or ssh configuration.
//   - Processes. Only its own. It is user 1000 without capabilities and can't
//     get any. On the host it is the caller's user; if that is root it is
//     Config.RootUID or one below that no other program has, never root.
//   - Network. None. With Spec.Loopback, an interface that leads nowhere else, for
//     TCP and UDP. With Spec.Gateway, one port on it leads to whoever decides outside:
//     the inner stage opens the listener there and passes it out, so that nothing of
//     it runs inside.
//   - Input. Its arguments, the environment of Spec.Env, three descriptors. No
//     terminal.
//
// Then the inner stage, which is this same executable, sets what
// the program and all its children keep: no_new_privs; Landlock, so that the
// same paths and no others are writable whatever happens to the mounts, and
// signals and abstract sockets stay inside; a seccomp filter without ptrace,
// mounts, namespaces, keys, bpf, io_uring, other socket families and much more
// of the kernel; resource limits.
//
// # What holds the limits
//
//   - Processes: RLIMIT_NPROC, which the kernel counts per user namespace since
//     5.14 (before, all processes of that user count), or pids.max. A tree that
//     stays at the limit is killed.
//   - Memory: memory.max where a cgroup with that controller is delegated.
//     Otherwise a meter outside reads the use of the tree four times a second
//     and kills it, and RLIMIT_DATA stops a faster process. It counts page
//     tables, mappings, and files in memory that somebody has open. Memory that no
//     process is seen to use is refused: huge pages, System V segments above 4 KiB,
//     semaphores, message queues, shared mappings of /dev/zero, shared anonymous
//     mappings above 16 MiB, descriptors of a thread alone, and a process in the
//     memory of another but by vfork. Of smaller ones a tree may have no more than the limit
//     has room for at 16 MiB each, so that what is seen and what is hidden in them
//     is at most twice the limit. Not held without a cgroup, see Exit.Watched: buffers
//     of sockets and pipes, and files in memory that are on their way from one
//     process to another or mapped in part; the number of processes and
//     descriptors bounds them. The three tmpfs come on top.
//   - Processor time: RLIMIT_CPU for each process, the meter for the tree. A
//     parent that ignores its children's ends hides their time from the meter.
//   - Files: RLIMIT_FSIZE for each file, the size of the tmpfs, the meter for
//     the number of files in them and for the free space and free inodes of the
//     workspace's file system, with a last look when nothing runs any more
//     (Exit.DiskLow). Nothing can allocate blocks without writing them. What
//     is written in a quarter of a second may still go below the reserve. The
//     size of the workspace as a whole is the caller's to check afterwards; give
//     it a file system or a quota of its own where that matters.
//   - Output: counted, and the tree is killed above the limit.
//
// Exit tells which limit ended a program, or which it reached, and which system
// calls were refused: the filter hands those over to writ, which refuses them and
// remembers their names.
//
// # Layers
//
// With Spec.Layers the workspace is an overlay: read-only directories of the host, which
// several programs may see at once, and above them what this one writes. Debian 12's
// bwrap can't mount it, so the inner stage does, before it gives up what it needs for
// that: in a mount namespace of its own, with the program's user as whom overlayfs acts,
// and with userxattr, so that the kernel marks what was removed in a way that is open to
// ordinary users. Then an empty directory covers the places from which it was mounted.
// bwrap's own process still has them at its root; Landlock keeps the program from there,
// and without Landlock there are no layers. Overlays says whether a host can; CodeLayers
// is the answer where it can't, and a program runs in a plain directory all the same.
//
// A directory of a layer can't be renamed in one step (EXDEV): an overlay that an
// ordinary user may mount has no way to note it.
//
// # Ends
//
// Kill, the end of Start's context, the end of the program and the death of
// writ, kill -9 included, all take the whole tree: the first process of the pid
// namespace is killed, and the kernel kills the rest, whatever session or signal
// handlers it has. Done comes after the last process is dead.
//
// # Without namespaces
//
// Containers often forbid what bubblewrap needs. The level landlock (see
// NewLandlocked) needs no namespace and is weaker; it is chosen, never fallen
// back to, and named in every report.
//
//   - Files. The places are directories of the host under other names: words of
//     Argv and Env that are a place, or lie below one, are translated. Landlock
//     lets the program read the operating system, /proc, its read-only mounts
//     and files, and write its workspace, its result directory and two
//     directories that stand in for /tmp and the home directory. They are
//     counted by the meter, without what was removed and is still open.
//   - Calls. Only those of a table (docs/security.md shows it), by name and by
//     argument; any other is answered as by a kernel that doesn't have it.
//   - Users. A writ that runs as root gives each program a user of its own, from
//     Config.RootUID downwards. Otherwise the program has writ's user; Landlock
//     keeps its signals inside, the filter refuses limits, priority and affinity
//     of other processes, and writ changes modes in its place, of what it may
//     write. Times it changes in its place for either.
//   - Terminals. None: those of the host are its users', and none can be made.
//   - Network. No socket can be made, not even a local one; a connected pair
//     can, but for datagrams, which could be sent to a path. So there is neither
//     Spec.Loopback nor Spec.Gateway.
//   - Processes. A reaper inherits every process that loses its parent. It kills
//     all of them when the program ends, when writ says so and when writ dies, in
//     one step: on Linux 6.12 it and they are in a domain that no signal leaves,
//     before they are all that the program's user runs. If somebody outside kills
//     the reaper itself, what it kept survives it.
//   - What remains visible: which files exist (not what is in them), the names
//     and arguments of other processes, and which mounts there are.
//
// It needs Linux 6.12 (Landlock's sixth version), or 6.2 and root.
//
// # What it is not
//
// It is not a virtual machine: a flaw of the kernel in what remains reachable is
// a way out. The program sees which kernel, processors, programs below /usr and
// free space there are, the time, and the host names of mounted directories (in
// /proc/1/cmdline and /proc/self/mountinfo). A socket in a directory that the
// operator mounts can be connected to. Timing is not hidden.
//
// # No sandbox
//
// If any part is missing nothing runs: the error has the code
// sandbox.unavailable and a remedy:
//
//	Install it: apt-get install bubblewrap
//	Allow user namespaces: sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (leave out names this kernel doesn't know)
//	In a container: docs/containers.md has a seccomp profile and the options with which this works; or set sandbox: landlock, which needs less
//
// It needs Linux 5.13 or later (Landlock) on amd64 or arm64 and bubblewrap 0.8
// or later; NewLandlocked says what it needs itself. NewNone is the explicit level without isolation, for development;
// it warns at each start.
package sandbox
