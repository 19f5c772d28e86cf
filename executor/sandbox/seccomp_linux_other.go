//go:build !amd64 && !arm64

package sandbox

import "golang.org/x/net/bpf"

// auditArch zero means that there is no table: the sandbox is unavailable.
const auditArch = 0

var (
	archProlog []bpf.Instruction
	deniedHere []uintptr
)
