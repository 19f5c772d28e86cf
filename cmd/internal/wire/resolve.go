package wire

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/gateway"
)

// told are hosts with the addresses that --resolve has for them. All others are looked up
// as ever.
type told struct {
	hosts map[string]netip.Addr
	other gateway.Resolver
}

// LookupNetIP implements [gateway.Resolver].
func (t told) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if a, ok := t.hosts[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{a}, nil
	}
	return t.other.LookupNetIP(ctx, network, host)
}

// Resolve takes in --resolve.
func (proc *Process) Resolve(hosts map[string]string) error {
	list := map[string]netip.Addr{}
	for host, text := range hosts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return problem.Usage("--resolve has no address for %q: write HOST=ADDRESS, such as models.example=127.0.0.1.", host)
		}
		list[host] = address
	}
	if len(list) > 0 {
		other := proc.Resolver
		if other == nil {
			other = net.DefaultResolver
		}
		proc.Resolver = told{list, other}
	}
	return nil
}
