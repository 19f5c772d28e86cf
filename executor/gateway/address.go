package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// maxAnswers is how many addresses a name may have. Large services have a dozen.
	maxAnswers = 64
	// maxTries is how many of them are dialled, one after the other.
	maxTries = 4
)

// private are the networks that an operator may open to a host.
var private = prefixes(
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", // private use
	"100.64.0.0/10",          // between a provider and its customers
	"127.0.0.0/8", "::1/128", // this machine
)

// metadata are where clouds give their machines' credentials to whoever asks. Some
// are in networks that are private, or even public, otherwise.
var metadata = prefixes("169.254.0.0/16", "fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")

// special are networks in which nobody is (RFC 6890 and its successors).
var special = prefixes(
	"0.0.0.0/8", "192.0.0.0/24", // this network, protocol assignments
	"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20", // documentation
	"198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", // benchmarking, multicast, reserved and broadcast
	"192.88.99.0/24", "2002::/16", // 6to4, whose addresses carry one of IPv4
	"2001::/23", // Teredo, benchmarking and other protocols
)

var (
	global6 = netip.MustParsePrefix("2000::/3")     // all of IPv6 that is assigned to the public
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // an address of IPv4 in the last four bytes
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

func in(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// reachable gives the form of an answered address that is dialled. An error says
// why it must not be. Own are this machine's addresses, opened what each list of the
// operator opens to the host.
func reachable(a netip.Addr, own []netip.Addr, opened [][]netip.Prefix) (netip.Addr, error) {
	a = a.Unmap()
	bad := func(what string) (netip.Addr, error) {
		return netip.Addr{}, denied(CodeAddress, "the name leads to "+what)
	}
	carried := a
	if nat64.Contains(a) {
		b := a.As16()
		carried = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case !a.IsValid():
		return bad("no address of the internet")
	case in(metadata, carried):
		return bad("metadata of a cloud, or a link-local address")
	case isOpened(a, opened):
		return a, nil
	case slices.Contains(own, carried):
		return bad("this machine")
	case in(private, carried):
		return bad("a private network")
	case in(special, carried), carried.Is6() && !global6.Contains(carried), isTunnel(carried):
		return bad("a network that isn't public")
	}
	return a, nil
}

// isTunnel tells addresses of ISATAP, which carry one of IPv4 in the last four bytes
// behind 0000:5efe or 0200:5efe, in whatever network (RFC 5214).
func isTunnel(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// isOpened tells addresses that every list of the operator opens.
func isOpened(a netip.Addr, opened [][]netip.Prefix) bool {
	return len(opened) > 0 && !slices.ContainsFunc(opened, func(list []netip.Prefix) bool { return !in(list, a) })
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	return own, err
}

// resolve looks a name up, once. One address that must not be reached denies all:
// an honest name has none.
func resolve(ctx context.Context, r Resolver, d Decision) ([]netip.Addr, error) {
	// The dot at the end keeps the resolver from trying the machine's own domains.
	answers, err := r.LookupNetIP(ctx, "ip", d.Host+".")
	if err != nil {
		return nil, failed("the name wasn't found", err)
	}
	if len(answers) == 0 || len(answers) > maxAnswers {
		return nil, failed(fmt.Sprintf("the name has %d addresses", len(answers)), nil)
	}
	own, err := ownAddresses()
	if err != nil {
		return nil, failed("this machine's addresses are unknown", err)
	}
	checked := make([]netip.Addr, len(answers))
	for i, a := range answers {
		if checked[i], err = reachable(a, own, d.opened); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// dial connects to the first address that answers. They are dialled as they were
// checked, and nothing is looked up again.
func dial(ctx context.Context, addresses []netip.Addr, port uint16) (c net.Conn, to netip.Addr, err error) {
	for _, a := range addresses[:min(len(addresses), maxTries)] {
		var d net.Dialer
		if c, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, port).String()); err == nil {
			return c, a, nil
		}
	}
	return nil, netip.Addr{}, failed("no connection", err)
}
