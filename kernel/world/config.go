package world

import (
	"encoding/binary"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// ConfigOf reads the configuration of a world from the body of its first
// record; instance is the record's.
func ConfigOf(g kernel.Genesis, instance string) WorldConfig {
	seed := g.Seed
	return WorldConfig{
		Kind: KindConfig, V: Version, WorldID: g.World,
		InitMemberNumber: int64(len(g.Builders)), LandShape: [2]int64{g.MaxPaths, g.MaxDepth},
		RandomSeed: &seed, Members: slices.Clone(g.Builders), Instance: instance,
		RepositoryID: g.RepositoryID, InstanceKey: g.InstanceKey,
		GovernanceHash: g.Contract, KernelVersion: g.Kernel,
	}
}

// Genesis is the body of the first record of a world with this configuration.
// The configuration must be a valid one; builders are sorted, and an absent
// seed is made of world and instance, so that one is recorded in any case.
func (c WorldConfig) Genesis() kernel.Genesis {
	return kernel.Genesis{
		Kind: string(kernel.KindGenesis), World: c.WorldID, RepositoryID: c.RepositoryID,
		InstanceKey: c.InstanceKey, Contract: c.GovernanceHash, Kernel: c.KernelVersion,
		Builders: slices.Sorted(slices.Values(c.Members)), Seed: c.seed(),
		MaxPaths: c.LandShape[0], MaxDepth: c.LandShape[1],
	}
}

func (c WorldConfig) seed() int64 {
	if c.RandomSeed != nil {
		return *c.RandomSeed
	}
	sum, err := canon.Sum([]byte(c.WorldID + "\n" + c.Instance)).Bytes()
	if err != nil { // a digest that was just made is valid
		return 0
	}
	const exact = 53 // bits of an integer that every reader of JSON keeps
	return int64(binary.BigEndian.Uint64(sum[:8]) >> (64 - exact))
}

func (c WorldConfig) check() error {
	members := slices.Sorted(slices.Values(c.Members))
	switch {
	case c.Kind != KindConfig || c.V != Version:
		return refuse(ErrConfig, nil, "it must be a %s of version %d", KindConfig, Version)
	case c.WorldID == "" || c.Instance == "":
		return refuse(ErrConfig, nil, "world_id and instance are required")
	case c.LandShape[0] < 1 || c.LandShape[1] < 1:
		return refuse(ErrConfig, nil, "both bounds of land_shape must be at least 1")
	case c.InitMemberNumber != int64(len(members)):
		return refuse(ErrConfig, nil, "init_member_number must be the number of members")
	case slices.Contains(members, "") || len(slices.Compact(members)) != len(c.Members):
		return refuse(ErrConfig, nil, "each member needs a name of its own")
	}
	return nil
}
