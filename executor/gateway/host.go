package gateway

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxName is the longest host name that DNS can carry, in bytes.
const maxName = 253

// names maps case, width and international spelling to one form, and refuses
// whatever isn't letters, digits and hyphens then.
var names = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(true), idna.VerifyDNSLength(true))

// normalise gives the one form of a host's name in which it is compared, looked up
// and recorded: lower case, ASCII, no trailing dot.
func normalise(host string) (string, error) {
	if isLiteral(host) {
		return "", denied(CodeLiteral, "an address instead of a name")
	}
	// The length is looked at first, since mapping takes time for each byte.
	// Unicode needs at most four bytes for what Punycode writes in one or more.
	if len(host) > 4*maxName {
		return "", denied(CodeHostInvalid, "the name is too long")
	}
	name, err := names.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || !utf8.ValidString(host) || len(name) > maxName || !strings.Contains(name, ".") || strings.HasSuffix(name, ".") {
		return "", denied(CodeHostInvalid, "not a whole domain name")
	}
	if isLiteral(name) {
		return "", denied(CodeLiteral, "an address instead of a name")
	}
	return name, nil
}

// isLiteral tells addresses, in every spelling that some program reads as one: a
// name whose last label is a number is never looked up but computed (127.1,
// 0x7f.0.0.1, 0177.1, 2130706433).
func isLiteral(host string) bool {
	if strings.ContainsAny(host, ":[]%") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// splitAuthority takes host and port of a request's target apart. Without a port it
// is byDefault; zero says that there must be one.
func splitAuthority(authority string, byDefault uint16) (host string, port uint16, err error) {
	if strings.ContainsAny(authority, "[]") || strings.Count(authority, ":") > 1 {
		return "", 0, denied(CodeLiteral, "an address instead of a name")
	}
	host, digits, given := strings.Cut(authority, ":")
	if !given && byDefault != 0 {
		return host, byDefault, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != digits {
		return host, 0, denied(CodeRequest, "no port")
	}
	return host, uint16(n), nil
}
