package main

import (
	"context"
	"net"
	"net/netip"
	"strings"

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

// resolve takes in --resolve.
func (a *process) resolve(hosts map[string]string) error {
	list := map[string]netip.Addr{}
	for host, text := range hosts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return usage("--resolve has no address for %q: write HOST=ADDRESS, such as models.example=127.0.0.1.", host)
		}
		list[host] = address
	}
	if len(list) > 0 {
		other := a.resolver
		if other == nil {
			other = net.DefaultResolver
		}
		a.resolver = told{list, other}
	}
	return nil
}
