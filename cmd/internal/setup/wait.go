package setup

import (
	"context"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
)

// How often an installation is looked for: soon at first, since a person is
// clicking, and less and less while nothing comes.
const (
	firstPause   = 2 * time.Second
	longestPause = 15 * time.Second
)

// Finder finds a repository if writ may see it.
type Finder interface {
	Find(ctx context.Context, owner, name string) (forge.Repository, error)
}

// Await looks for the repositories until all are there or the time is over; a
// time of 0 looks once. It returns those that are missing. Told is called with
// each that is found. A forge that can't be reached for a moment is asked again;
// one that doesn't take the credential is an error.
func Await(ctx context.Context, f Finder, repositories []string, most time.Duration, told func(string)) (missing []string, err error) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	missing = repositories
	for pause := firstPause; ; pause = min(pause*3/2, longestPause) {
		if missing, err = look(ctx, f, missing, told); err != nil || len(missing) == 0 || most <= 0 {
			return missing, err
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-deadline.C:
			next.Stop()
			return look(ctx, f, missing, told)
		case <-ctx.Done():
			next.Stop()
			return missing, ctx.Err()
		}
	}
}

// look looks once.
func look(ctx context.Context, f Finder, repositories []string, told func(string)) (missing []string, err error) {
	for _, full := range repositories {
		at := strings.LastIndexByte(full, '/')
		_, err := f.Find(ctx, full[:max(at, 0)], full[at+1:])
		switch {
		case err == nil:
			told(full)
		case ctx.Err() != nil:
			return repositories, ctx.Err()
		case forge.IsReason(err, forge.Unauthorized):
			return repositories, &Error{
				Text:   "The forge doesn't take the credential: " + err.Error() + ".",
				Remedy: "See that the key is of this App and whole, that the App isn't suspended, and that this machine's clock is right.", Err: err,
			}
		default:
			missing = append(missing, full)
		}
	}
	return missing, nil
}
