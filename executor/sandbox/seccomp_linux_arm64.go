package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_AARCH64

// archProlog is empty: 32-bit programs have an architecture id of their own.
var archProlog []bpf.Instruction

// deniedHere are calls that only this architecture has: none.
var deniedHere []uintptr
