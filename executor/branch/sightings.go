package branch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel/lease"
)

// sightings is since when runners of this clone have seen leases. They are kept below
// the git directory, so that runners that start, look and end add up (case L15).
type sightings struct {
	file  string
	place string // the remote, "" for the clone
	known map[string]map[string]lease.Sighting
	now   map[string]lease.Sighting
}

func openSightings(c *clone.Clone, remote string) (*sightings, error) {
	state, err := c.State()
	if err != nil {
		return nil, err
	}
	s := &sightings{file: filepath.Join(state, "seen.json"), place: remote, now: map[string]lease.Sighting{}}
	return s, s.read()
}

func (s *sightings) read() error {
	s.known = map[string]map[string]lease.Sighting{}
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &git.Error{Code: git.CodeLocal, Msg: "what was seen of leases can't be read: " + s.file, Remedy: "check its permissions", Err: err}
	}
	if json.Unmarshal(data, &s.known) != nil || s.known == nil {
		s.known = map[string]map[string]lease.Sighting{} // seen anew: that takes longer, never less
	}
	return nil
}

// observe notes a HEAD. Only leases are remembered: nothing else ends by being seen.
func (s *sightings) observe(h head, now lease.Clock) lease.Sighting {
	var prev *lease.Sighting
	if o, ok := s.known[s.place][h.ref]; ok {
		prev = &o
	}
	o := lease.Observe(prev, h.ref, string(h.commit.OID), now)
	if ev, err := lease.ReadEvent(h.lease()); err == nil && ev.State == lease.StateWorking {
		s.now[h.ref] = o
	}
	return o
}

// save adds what is new to what others have noted meanwhile, and drops what they
// had seen at these refs and isn't there now.
func (s *sightings) save() error {
	before := s.known[s.place]
	same := len(before) == len(s.now)
	for ref, o := range s.now {
		same = same && before[ref] == o
	}
	if same {
		return nil
	}
	if err := s.read(); err != nil {
		return err
	}
	for ref, theirs := range s.known[s.place] {
		if ours, ok := s.now[ref]; ok && ours.OID == theirs.OID && ours.BootID == theirs.BootID && theirs.FirstSeenBootMs < ours.FirstSeenBootMs {
			s.now[ref] = theirs
		}
	}
	s.known[s.place] = s.now
	data, err := json.Marshal(s.known)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.file), "seen-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file)
	}
	_ = os.Remove(f.Name()) // a renamed one is gone
	return err
}
