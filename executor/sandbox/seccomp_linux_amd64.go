package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_X86_64

// x32Bit marks calls of the x32 interface, which share the architecture's id
// and would pass a table of plain numbers. They are answered as by a kernel
// without that interface, which is the usual one.
const x32Bit = 0x40000000

var archProlog = []bpf.Instruction{
	bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1},
	errno(unix.ENOSYS),
}

// deniedHere are calls that only this architecture has.
var deniedHere = []uintptr{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS,
	unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}
