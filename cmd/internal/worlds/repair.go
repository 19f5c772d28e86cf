package worlds

import (
	"context"
	"errors"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// faultRepairActed is the fault point of a repair, for crash tests.
const faultRepairActed supervisor.Point = "world.repair.acted"

// Repair is a world whose acts are not as they were seen.
type Repair struct {
	*Place
	Lost   []string // what was seen, and isn't there any more or counts no more
	Way    Way
	acting *Acting
	last   string // the last act that was seen, of a fork
}

// Way is what a repair does.
type Way int

// The ways of a repair.
const (
	Nothing    Way = iota // the acts follow what was seen
	GoOn                  // what is there counts, without the act that state commits name
	PutBack               // what was seen is put back over what is there
	SettleFork            // what is there counts, and what was lost of the acts doesn't
)

// Repair looks how the acts of a world stand to what was seen of them. End gives its
// repository back.
func (s *Acting) Repair(ctx context.Context, name string, elsewhere func(called, path, now string)) (r *Repair, end func(), err error) {
	worlds, err := s.WorldsOf(ctx, name, nil)
	if err != nil {
		return nil, nil, err
	}
	places, end, err := s.Places(ctx, worlds, elsewhere)
	if err != nil {
		return nil, nil, err
	}
	if len(places) == 0 {
		return nil, nil, problem.Coded(kernel.CodeWorldElsewhere, "The repository of %s is another world now.", name)
	}
	r = &Repair{Place: places[0], acting: s}
	if err := r.look(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return r, end, nil
}

func (r *Repair) look(ctx context.Context) error {
	sup, err := r.acting.reader(r.Place, r.World, supervisor.NoHistory())
	if err != nil {
		return err
	}
	standing, err := sup.Standing(ctx, r.refs) // the room is told whom the contract lists
	if err != nil {
		return err
	}
	if r.Room.Fault() == nil {
		if lacking, ok := errors.AsType[*worldref.Error](sup.LackingAct(ctx, standing)); ok {
			r.Lost, r.Way = []string{lacking.Detail}, GoOn
		}
		return nil
	}
	now, err := worldref.Read(ctx, r.Repo, r.tip())
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range now {
		there[e.OID] = true
	}
	for _, j := range standing.Acts {
		if r.last = j.OID; !there[j.OID] {
			r.Lost = append(r.Lost, j.String())
		}
	}
	if r.Way = SettleFork; r.Room.Forked() == nil {
		r.Way = PutBack
	}
	return nil
}

// Write says in the repository that somebody looked, and how it goes on. What is put back
// is written on top of what was seen, over what stands in its place and counts for nobody
// who is listed; of the world's acts none is lost by that.
func (r *Repair) Write(ctx context.Context, reason string) (err error) {
	s, w := r.acting, r.acting.Writer(r.acting.Key.SSHSigner())
	if r.Way == SettleFork {
		_, err = r.Room.Settle(ctx, s.act(worldref.Repair, reason, "", "", []worldref.Mark{{Ref: r.Room.Ref(), Head: r.last}}), w)
	} else {
		at := string(r.tip())
		if at == "" {
			at = string(git.ZeroOID)
		}
		_, err = r.Room.Append(ctx, s.act(worldref.Repair, reason, "", "", []worldref.Mark{{Ref: r.Room.Ref(), Head: at}}), w)
	}
	if err == nil {
		s.proc.Reach(faultRepairActed)
	}
	return err
}
