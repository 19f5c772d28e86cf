package wire

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
)

// TestResolve_GivenAddresses: --resolve gives a host the address that it names, leaves all other hosts to
// who looked them up before, and refuses what is no address by the host's name.
func TestResolve_GivenAddresses(t *testing.T) {
	proc := &Process{}
	var p *problem.Error
	if err := proc.Resolve(map[string]string{"models.example": "localhost"}); !errors.As(err, &p) || p.Exit != problem.ExitUsage || !strings.Contains(err.Error(), `no address for "models.example"`) || proc.Resolver != nil {
		t.Errorf("a wrong address: %v, resolver %v", err, proc.Resolver)
	}
	for host, want := range map[string]string{"models.example": "127.0.0.1", "other.example": "192.0.2.7"} {
		proc := &Process{Resolver: told{hosts: map[string]netip.Addr{"other.example": netip.MustParseAddr("192.0.2.7")}}}
		if err := proc.Resolve(map[string]string{"models.example": "127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		if list, err := proc.Resolver.LookupNetIP(t.Context(), "ip", host+"."); err != nil || len(list) != 1 || list[0].String() != want {
			t.Errorf("%s: %v, %v", host, list, err)
		}
	}
}
