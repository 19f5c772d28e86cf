package world

import (
	"slices"

	"github.com/writbot/writ/kernel"
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
// seed is derived ([kernel.Genesis.Seeded]), so that one is recorded in any case.
func (c WorldConfig) Genesis() kernel.Genesis {
	g := kernel.Genesis{
		Kind: string(kernel.KindGenesis), World: c.WorldID, RepositoryID: c.RepositoryID,
		InstanceKey: c.InstanceKey, Contract: c.GovernanceHash, Kernel: c.KernelVersion,
		Builders: slices.Sorted(slices.Values(c.Members)),
		MaxPaths: c.LandShape[0], MaxDepth: c.LandShape[1],
	}
	if c.RandomSeed != nil {
		g.Seed = *c.RandomSeed
		return g
	}
	if seeded, err := g.Seeded(); err == nil {
		g = seeded
	}
	return g // what can't be hashed can't be recorded either
}

func (c WorldConfig) check() error {
	members := slices.Sorted(slices.Values(c.Members))
	switch {
	case c.Kind != KindConfig || c.V != Version:
		return refuse(ErrConfig, nil, "it must be a %s of version %d", KindConfig, Version)
	case c.WorldID == "" || c.Instance == "":
		return refuse(ErrConfig, nil, "world_id and instance are required")
	case c.RandomSeed != nil && *c.RandomSeed == 0:
		return refuse(ErrConfig, nil, "random_seed is any integer but 0; null has one derived")
	case c.LandShape[0] < 1 || c.LandShape[1] < 1:
		return refuse(ErrConfig, nil, "both bounds of land_shape must be at least 1")
	case c.InitMemberNumber != int64(len(members)):
		return refuse(ErrConfig, nil, "init_member_number must be the number of members")
	case slices.Contains(members, "") || len(slices.Compact(members)) != len(c.Members):
		return refuse(ErrConfig, nil, "each member needs a name of its own")
	}
	return nil
}
