package kerneltest

import "maps"

// Move is one command of a compare-and-swap; "" stands for no commit.
type Move struct{ Ref, Old, New string }

// Answer is what a pusher learns.
type Answer string

// The answers of a server, and the silence.
const (
	Won     Answer = "won"
	Lost    Answer = "lost"
	Unknown Answer = "unknown"
	Refused Answer = "refused"
	Unable  Answer = "unable"
)

// Fault is what goes wrong with one push.
type Fault string

// The faults of a push: {nothing done, done} × {answer, none}, and done later.
const (
	NoFault    Fault = ""
	LostAnswer Fault = "lost answer" // applied, nobody hears of it
	Dropped    Fault = "dropped"     // not applied, nobody hears of it
	Delayed    Fault = "delayed"     // applied later, nobody hears of it
	Refuse     Fault = "refuse"      // a rule of the server's own
	Down       Fault = "down"        // the request never got there
	Disk       Fault = "disk"        // the server can't take anything
	Forgotten  Fault = "forgotten"   // won, it says, and has nothing of it
	Half       Fault = "half"        // won, it says, and has moved the first ref only
	Rear       Fault = "rear"        // the other half: nobody hears of it, and of two refs the second has moved
)

// Faults lists the faults that a push can meet.
func Faults() []Fault {
	return []Fault{LostAnswer, Dropped, Delayed, Refuse, Down, Disk, Forgotten, Half, Rear}
}

// Server is a model of a git server: objects and refs, moved by compare-and-swap
// only, all or none. Readers see what is there now.
type Server struct {
	Head    string // the ref that HEAD points to
	Version int    // grows with each change of a ref
	// Moved is called with each change, before anybody hears of it; a person's
	// has no pusher.
	Moved func(pusher string, moves []Move)
	// Received is called with each new object.
	Received func(Object)

	refs    map[string]string
	objects map[string]Object
	late    []request
	behind  bool            // a push that was late is being applied
	strays  map[string]bool // commits that came to the second ref of a push alone
}

type request struct {
	pusher string
	moves  []Move
}

// NewServer is an empty repository.
func NewServer() *Server {
	return &Server{Head: "refs/heads/main", refs: map[string]string{}, objects: map[string]Object{}, strays: map[string]bool{}}
}

// Ref is the commit at a ref, "" for none.
func (s *Server) Ref(name string) string { return s.refs[name] }

// Refs is a copy of all refs.
func (s *Server) Refs() map[string]string { return maps.Clone(s.refs) }

// Object finds an object.
func (s *Server) Object(id string) (Object, bool) { o, ok := s.objects[id]; return o, ok }

// Put stores objects.
func (s *Server) Put(list ...Object) {
	for _, o := range list {
		id := o.ID()
		if _, known := s.objects[id]; !known && s.Received != nil {
			s.Received(o)
		}
		s.objects[id] = o
	}
}

// Swap takes one push. Objects arrive wherever the request does.
func (s *Server) Swap(pusher string, moves []Move, objects []Object, f Fault) Answer {
	switch f {
	case Down, Disk:
		return Unable
	case Refuse:
		return Refused
	case Dropped:
		return Unknown
	case Forgotten:
		if s.free(moves) {
			return Won
		}
		return Lost
	}
	s.Put(objects...)
	if f == Delayed {
		s.late = append(s.late, request{pusher, moves})
		return Unknown
	}
	made := moves
	switch {
	case f == Half:
		made = moves[:1]
	case f == Rear && len(moves) > 1 && s.free(moves):
		made = moves[1:]
		s.strays[made[0].New] = true
		moves = made
	}
	won := s.apply(request{pusher, moves}, made)
	switch {
	case f == LostAnswer || f == Rear:
		return Unknown
	case won:
		return Won
	}
	return Lost
}

// free reports whether all refs are as expected. What is where it is to go already is
// no move.
func (s *Server) free(moves []Move) bool {
	for _, m := range moves {
		if s.refs[m.Ref] != m.Old || m.Old == m.New {
			return false
		}
	}
	return true
}

// apply moves all refs or none, but for a server that moves only those that are made.
func (s *Server) apply(r request, made []Move) bool {
	if !s.free(r.moves) {
		return false
	}
	for _, m := range made {
		s.put(m.Ref, m.New)
	}
	if s.Moved != nil {
		s.Moved(r.pusher, r.moves)
	}
	return true
}

func (s *Server) put(ref, id string) {
	s.Version++
	if id == "" {
		delete(s.refs, ref)
		return
	}
	s.refs[ref] = id
}

// Late is how many pushes are still on their way.
func (s *Server) Late() int { return len(s.late) }

// Deliver applies the push that has been on its way for the longest.
func (s *Server) Deliver() {
	if len(s.late) == 0 {
		return
	}
	r := s.late[0]
	s.late, s.behind = s.late[1:], true
	s.apply(r, r.moves)
	s.behind = false
}

// Force is a person who moves a ref whatever it was.
func (s *Server) Force(ref, id string) {
	old := s.refs[ref]
	if old == id {
		return
	}
	s.put(ref, id)
	if s.Moved != nil {
		s.Moved("", []Move{{ref, old, id}})
	}
}

// At reads the commit at a ref; ok is false if there is none.
func (s *Server) At(ref string) (Head, bool) {
	id := s.refs[ref]
	o, ok := s.objects[id]
	if id == "" || !ok {
		return Head{}, false
	}
	return ReadHead(id, o), true
}
