//go:build !linux

package sandbox

import (
	"context"
	"os"
)

// NewBubblewrap gives a level that is unavailable on this system.
func NewBubblewrap(Config) Sandbox { return unsupported("bubblewrap") }

// NewLandlocked gives a level that is unavailable on this system.
func NewLandlocked(Config) Sandbox { return unsupported("landlock") }

// NewNone gives a level that is unavailable on this system.
func NewNone(Config) Sandbox { return unsupported("none") }

// KillStrays finds nothing on this system.
func KillStrays(string) int { return 0 }

// RemoveTree removes a directory with all that is in it.
func RemoveTree(dir string) error { return os.RemoveAll(dir) }

// HoldsMemory is false on this system.
func HoldsMemory(Config) bool { return false }

// LandlockLacks says nothing on this system.
func LandlockLacks() (what, remedy string) { return "", "" }

type unsupported string

func (u unsupported) Name() string { return string(u) }

func (u unsupported) Probe(context.Context) error {
	return &Error{Code: CodeUnavailable, Msg: "untrusted programs can be isolated on Linux only", Remedy: "Run writ on Linux or in a Linux virtual machine."}
}

func (u unsupported) Start(ctx context.Context, _ Spec) (*Process, error) { return nil, u.Probe(ctx) }
