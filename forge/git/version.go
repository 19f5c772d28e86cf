package git

import (
	"context"
	"io"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge/git/internal/process"
)

var versionForm = lazyregexp.New(`^git version ([0-9]+\.[0-9]+(?:\.[0-9]+)*)`)

// maxVersion bounds what is read of git's answer, in bytes.
const maxVersion = 256

// Version asks a git program, "" for the one on the PATH, which version it is:
// 2.39.5. Repositories at a forge need no such program.
func Version(ctx context.Context, binary string) (string, error) {
	p, err := process.Start(ctx, process.Command{Git: binary, Args: []string{"--version"}})
	if err != nil {
		return "", fail(CodeLocal, "git can't be started", "install git and put it on the PATH", err)
	}
	said, err := io.ReadAll(io.LimitReader(p.Stdout, maxVersion))
	if waitErr := p.Wait(); err == nil {
		err = waitErr
	}
	m := versionForm().FindSubmatch(said)
	if err != nil || m == nil {
		return "", fail(CodeLocal, "git doesn't say its version", "see what `git --version` prints", err)
	}
	return string(m[1]), nil
}
