package worldref

import (
	"encoding/base64"
	"errors"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/canon"
)

// memory is what is kept of a ref: the commits of its acts, the oldest first.
type memory struct {
	Kind  string `json:"kind"` // "world_memory"
	World string `json:"world_id"`
	Acts  []kept `json:"acts"`
}

type kept struct {
	OID    string `json:"oid"`
	Commit string `json:"commit"` // base64 of the object
	Act    string `json:"act"`    // base64 of act.json
}

const memoryKind = "world_memory"

func pack(world string, links []link) ([]byte, error) {
	m := memory{Kind: memoryKind, World: world, Acts: []kept{}}
	for _, l := range links {
		m.Acts = append(m.Acts, kept{string(l.commit.OID), base64.StdEncoding.EncodeToString(l.commit.Raw), base64.StdEncoding.EncodeToString(l.act)})
	}
	return canon.Marshal(m)
}

// unpack reads what pack made. Each commit must follow the one before.
func unpack(world string, data []byte) (links []link, err error) {
	var m memory
	if err := canon.UnmarshalCanonical(data, &m); err != nil || m.Kind != memoryKind || m.World != world {
		return nil, errors.New("it is no memory of this world")
	}
	for _, k := range m.Acts {
		raw, err := base64.StdEncoding.DecodeString(k.Commit)
		if err != nil {
			return nil, err
		}
		c, err := git.ParseCommit(raw)
		if err != nil && git.CodeOf(err) != git.CodeCommitAmbiguous {
			return nil, err
		}
		if string(c.OID) != k.OID {
			return nil, errors.New("a commit was changed")
		}
		l := link{commit: c}
		if l.act, err = base64.StdEncoding.DecodeString(k.Act); err != nil {
			return nil, err
		}
		if n := len(links); n > 0 && (len(c.Parents) == 0 || c.Parents[0] != links[n-1].commit.OID) {
			return nil, errors.New("its commits don't follow each other")
		}
		links = append(links, l)
	}
	return links, nil
}
