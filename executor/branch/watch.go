package branch

import (
	"context"
	"maps"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
)

// PollEvery is how often Watch reads the clone's own refs: from its files, without a
// process.
const PollEvery = 500 * time.Millisecond

// Watch calls tick at once, then whenever a ref of the clone has moved, and after
// each interval, until ctx ends or tick says so. What tick itself moved wakes it at
// most once more, and then it finds nothing to do (A38).
func Watch(ctx context.Context, c *clone.Clone, interval time.Duration, tick func(context.Context) error) error {
	poll := time.NewTicker(min(PollEvery, interval))
	defer poll.Stop()
	for {
		seen, err := refsOf(ctx, c)
		if err != nil {
			return err
		}
		if err := tick(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		due := time.Now().Add(interval)
		for moved := false; !moved && time.Now().Before(due); {
			select {
			case <-ctx.Done():
				return nil
			case <-poll.C:
			}
			now, err := refsOf(ctx, c)
			if err != nil {
				return err
			}
			moved = !maps.Equal(seen, now)
		}
	}
}

func refsOf(ctx context.Context, c *clone.Clone) (map[string]git.OID, error) {
	refs, err := c.Repo.Refs(ctx, "refs/")
	if err != nil {
		return nil, err
	}
	out := map[string]git.OID{}
	for _, name := range refs.Names() {
		out[name] = refs.OID(name)
	}
	return out, nil
}
