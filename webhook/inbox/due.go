package inbox

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/store"
)

// Due is a task with its due time.
type Due struct {
	Key   Key
	DueMs int64
}

// open are the tasks that are due some time, and that aren't taken.
const open = `due_ms <> 0 AND taken_ms = 0`

// Due lists tasks that are due and aren't taken: the longest due of
// each world, then each world's second, and so on, so that a world with a
// thousand tasks keeps no other waiting. Within a world the backlog comes last,
// but for each fourth call, in which it comes first: whatever else comes in, it
// is worked off. Fewer than limit means that there are no more.
func (b *Inbox) Due(ctx context.Context, nowMs int64, limit int) (all []Due, err error) {
	limit = max(limit, 0)
	order := [2]int64{0, 1}
	if b.asked.Add(1)%backlogTurn == 0 {
		order = [2]int64{1, 0}
	}
	err = b.store.View(ctx, func(q store.Queries) error {
		lines, err := earliest(q)
		if err != nil {
			return err
		}
		lines = slices.DeleteFunc(lines, func(l *line) bool { return l.first > nowMs })
		all, err = inTurn(q, lines, order, nowMs, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// backlogTurn is in which call of Due the backlog comes first.
const backlogTurn = 4

// line is what waits in a world.
type line struct {
	world string
	first int64 // the earliest due time
	found []Due // the first of them
	ended bool  // found are all of them
}

// earliest is the line of each world in which something waits. It jumps from
// world to world, however many tasks there are.
func earliest(q store.Queries) (lines []*line, err error) {
	const text = `WITH RECURSIVE w (world) AS (
			SELECT (SELECT world FROM schedule WHERE ` + open + ` ORDER BY world LIMIT 1)
			UNION ALL
			SELECT (SELECT s.world FROM schedule s WHERE ` + open + ` AND s.world > w.world ORDER BY s.world LIMIT 1)
			FROM w WHERE w.world IS NOT NULL)
		SELECT w.world, (SELECT s.due_ms FROM schedule s WHERE ` + open + ` AND s.world = w.world ORDER BY s.due_ms LIMIT 1)
		FROM w WHERE w.world IS NOT NULL`
	err = q.Rows(text, nil, func(r store.Row) error {
		l := &line{}
		err := r.Scan(&l.world, &l.first)
		lines = append(lines, l)
		return err
	})
	return lines, err
}

// inTurn takes one of each line in turn. It reads from each line as many as
// there would be of each if all were long, and more only if some are short.
func inTurn(q store.Queries, lines []*line, order [2]int64, nowMs int64, limit int) ([]Due, error) {
	for turns := limit/max(len(lines), 1) + 1; ; turns *= 2 {
		read, ended := 0, true
		for _, l := range lines {
			if err := l.read(q, order, nowMs, turns); err != nil {
				return nil, err
			}
			read += len(l.found)
			ended = ended && l.ended
		}
		if ended || read >= limit {
			return merge(lines, limit), nil
		}
	}
}

// read has the line's first tasks found, as many as asked for if there are.
func (l *line) read(q store.Queries, order [2]int64, nowMs int64, most int) (err error) {
	if l.ended {
		return nil
	}
	const text = `SELECT task, due_ms FROM schedule WHERE ` + open + ` AND world = $1 AND backlog = $2 AND due_ms <= $3
		ORDER BY due_ms, task LIMIT $4 + 0`
	l.found = l.found[:0]
	for _, backlog := range order {
		if err == nil && len(l.found) < most {
			err = q.Rows(text, []any{l.world, backlog, nowMs, int64(most - len(l.found))}, func(r store.Row) error {
				d := Due{Key: Key{World: l.world}}
				err := r.Scan(&d.Key.Task, &d.DueMs)
				l.found = append(l.found, d)
				return err
			})
		}
	}
	l.ended = len(l.found) < most
	return err
}

func merge(lines []*line, limit int) (all []Due) {
	for turn := 0; len(all) < limit; turn++ {
		begin := len(all)
		for _, l := range lines {
			if turn < len(l.found) {
				all = append(all, l.found[turn])
			}
		}
		if len(all) == begin {
			break
		}
		slices.SortFunc(all[begin:], func(a, b Due) int {
			return cmp.Or(cmp.Compare(a.DueMs, b.DueMs), strings.Compare(a.Key.World, b.Key.World))
		})
	}
	return all[:min(len(all), limit)]
}

// Scheduled lists all tasks of a world that have a due time and aren't taken, the
// earliest first; of all worlds for "".
func (b *Inbox) Scheduled(ctx context.Context, world string) ([]Due, error) {
	const text = `SELECT world, task, due_ms FROM schedule WHERE ` + open + ` AND ($1 = '' OR world = $1)
		ORDER BY due_ms, world, task`
	return b.list(ctx, text, world)
}

func (b *Inbox) list(ctx context.Context, text string, args ...any) (all []Due, err error) {
	err = b.store.View(ctx, func(q store.Queries) error {
		return q.Rows(text, args, func(r store.Row) error {
			var d Due
			err := r.Scan(&d.Key.World, &d.Key.Task, &d.DueMs)
			all = append(all, d)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Next is the earliest due time of the tasks that aren't taken.
func (b *Inbox) Next(ctx context.Context) (atMs int64, ok bool, err error) {
	err = b.store.View(ctx, func(q store.Queries) error {
		lines, err := earliest(q)
		for _, l := range lines {
			if !ok || l.first < atMs {
				atMs, ok = l.first, true
			}
		}
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return atMs, ok, nil
}

// Stats is how the inbox stands.
type Stats struct {
	Pending     int64 // tasks that are due and aren't taken
	Taken       int64 // tasks that are taken
	Scheduled   int64 // tasks that have a due time and aren't taken
	OldestDueMs int64 // the earliest due time of the pending, 0 if there are none
	LagMs       int64 // for how long that has been due
	BodyBytes   int64 // that kept bodies take
}

// Stats counts.
func (b *Inbox) Stats(ctx context.Context, nowMs int64) (s Stats, err error) {
	err = b.store.View(ctx, func(q store.Queries) error {
		for _, c := range []struct {
			text string
			args []any
			dest *int64
		}{
			{`SELECT count(*) FROM schedule WHERE ` + open + ` AND due_ms <= $1`, []any{nowMs}, &s.Pending},
			{`SELECT count(*) FROM schedule WHERE ` + open, nil, &s.Scheduled},
			{`SELECT count(*) FROM schedule WHERE taken_ms <> 0`, nil, &s.Taken},
			{`SELECT due_ms FROM schedule WHERE ` + open + ` AND due_ms <= $1 ORDER BY due_ms LIMIT 1`, []any{nowMs}, &s.OldestDueMs},
			{bodyBytes, nil, &s.BodyBytes},
		} {
			if _, err := q.Row(c.text, c.args, c.dest); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	if s.OldestDueMs != 0 {
		s.LagMs = nowMs - s.OldestDueMs
	}
	return s, nil
}

const bodyBytes = `SELECT CAST(coalesce(sum(kept), 0) AS BIGINT) FROM deliveries WHERE kept <> 0`
