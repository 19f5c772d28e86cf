package sandbox

import (
	"context"
	"path/filepath"
)

// Layers are the read-only directories that show through a workspace which is an
// overlay; see Spec.Layers.
//
// The files of a layer must belong to the user that the program has on the host,
// and that is known when it starts: the function is called once, by Start, with that
// user's id (writ's own, or of a writ that runs as root Config.RootUID or one below).
// It gives the directories, the topmost first. They must not change as long as the
// process runs, and may be those of several processes at once: each sees them
// read-only. ctx is Start's.
type Layers func(ctx context.Context, owner int) (dirs []string, err error)

// Upper is the directory of what a program wrote into a workspace that is an overlay:
// what it made and changed, and a mark for each thing that it removed from a layer. It
// lies below the Spec.Workspace of that program, and Start makes it unless it is there.
func Upper(workspace string) string { return filepath.Join(workspace, upperName) }

// layersDir is where the directories of an overlay are until it is mounted. Then they
// are covered: who could write to the upper directory itself could make the marks by
// which the kernel, and whoever reads that directory later, knows what was removed.
const layersDir = RunDir + "/layers"

const (
	upperName = "upper"
	workName  = "work" // the kernel's own, in which it prepares what it moves to upper
)

// Overlays says whether this host's kernel lets a sandbox mount an overlay whose
// directories lie in dir: nil, or an *Error with what stands against it. Many kernels
// forbid it in containers, and some file systems can't hold the upper directory. It
// runs a program once, about 25 ms.
func Overlays(ctx context.Context, s Sandbox, dir string) error {
	if o, ok := s.(interface {
		overlays(ctx context.Context, dir string) error
	}); ok {
		return o.overlays(ctx, dir)
	}
	return &Error{Code: CodeLayers, Msg: "the level " + s.Name() + " has no mounts of its own, so that it can't show layers"}
}
