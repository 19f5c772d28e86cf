package sandbox

import "time"

// Defaults. They are generous for a build and small for a machine: a builder
// that needs more is configured, not trusted.
const (
	// DefaultCPU is the processor time of a tree. The build timeout, which is
	// wall time and shorter, is what usually ends a build.
	DefaultCPU = 2 * time.Hour
	// DefaultMemoryBytes is enough for a large link step.
	DefaultMemoryBytes = 4 << 30
	// DefaultProcesses is enough for a parallel build, threads included.
	DefaultProcesses = 1024
	// DefaultOpenFiles is the usual hard limit of a login shell.
	DefaultOpenFiles = 4096
	// DefaultFileSizeBytes is larger than any file a change should hold and
	// smaller than a disk.
	DefaultFileSizeBytes = 1 << 30
	// DefaultTmpBytes holds a Go build cache of a middling project.
	DefaultTmpBytes = 1 << 30
	// DefaultTmpFiles costs about 200 MiB of kernel memory at most.
	DefaultTmpFiles = 200_000
	// DefaultDiskReserveBytes is room for the ledger and the operating system to
	// go on.
	DefaultDiskReserveBytes = 256 << 20
	// DefaultOutputBytes is far above any log that a person reads.
	DefaultOutputBytes = 4 << 30
	// DefaultUmask is the usual umask.
	DefaultUmask = 0o022
	// DefaultRootUID is "nobody" on the systems writ runs on.
	DefaultRootUID = 65534
	// MaxFileBytes bounds each of Spec.Files, which live in memory.
	MaxFileBytes = 16 << 20
	// KillGrace bounds how long Kill and the end of a process wait for the
	// kernel to take a tree down. SIGKILL needs milliseconds; only a process
	// stuck in a device driver takes longer.
	KillGrace = 5 * time.Second
)

// DefaultLimits are the limits that zero fields of Limits stand for.
func DefaultLimits() Limits {
	return Limits{
		CPU:              DefaultCPU,
		MemoryBytes:      DefaultMemoryBytes,
		Processes:        DefaultProcesses,
		OpenFiles:        DefaultOpenFiles,
		FileSizeBytes:    DefaultFileSizeBytes,
		TmpBytes:         DefaultTmpBytes,
		TmpFiles:         DefaultTmpFiles,
		OutputBytes:      DefaultOutputBytes,
		DiskReserveBytes: DefaultDiskReserveBytes,
	}
}

// withDefaults fills in the zero fields.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.CPU == 0 {
		l.CPU = d.CPU
	}
	for _, f := range []struct{ have, def *int64 }{
		{&l.MemoryBytes, &d.MemoryBytes},
		{&l.Processes, &d.Processes},
		{&l.OpenFiles, &d.OpenFiles},
		{&l.FileSizeBytes, &d.FileSizeBytes},
		{&l.TmpBytes, &d.TmpBytes},
		{&l.TmpFiles, &d.TmpFiles},
		{&l.OutputBytes, &d.OutputBytes},
		{&l.DiskReserveBytes, &d.DiskReserveBytes},
	} {
		if *f.have == 0 {
			*f.have = *f.def
		}
	}
	return l
}
