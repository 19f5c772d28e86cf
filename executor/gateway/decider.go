package gateway

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// DefaultPort is the port of a rule that names none.
const DefaultPort = 443

// methods are those that a plain request may have, if its rule names none.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// Rule allows requests to hosts.
type Rule struct {
	// Host is a name, or *.name for all names below it but not itself.
	Host string `json:"host"`
	// Ports are those that may be asked for: DefaultPort if there are none.
	Ports []uint16 `json:"ports,omitempty"`
	// Methods restricts plain requests. A rule with methods allows no tunnel, since
	// nobody could hold it there.
	Methods []string `json:"methods,omitempty"`
	// Addresses are private networks in which the host may be, beside all that is
	// public. Only the operator's rules may have them.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Credential has the gateway itself speak TLS to the host and set it. Inside the
	// host is asked for by plain HTTP, and a tunnel to it is denied. Only rules of
	// the builder may have one, for a name and no pattern.
	Credential *Credential `json:"-"`
}

// Lists are what a run may reach: what all three of them allow. The first two are
// the operator's, and cap what the contract asks for. An empty list allows nothing.
type Lists struct {
	Builder, World, Contract []Rule
}

// Decider answers who may ask for what. It never changes, and reads nothing.
type Decider struct {
	layers []layer
}

type layer struct {
	name  string
	rules []Rule
}

// NewDecider checks the lists. Its errors are mistakes in a configuration or a
// contract, and name the list and the rule.
func NewDecider(l Lists) (*Decider, error) {
	d := &Decider{}
	for _, in := range []layer{{"builder", l.Builder}, {"world", l.World}, {"contract", l.Contract}} {
		out := layer{name: in.name}
		for _, r := range in.rules {
			r, err := r.checked(in.name != "contract")
			if err != nil {
				return nil, fmt.Errorf("egress of the %s, host %q: %w", in.name, clean(r.Host), err)
			}
			if out.credential(r.Host) != nil && r.Credential != nil {
				return nil, fmt.Errorf("egress of the %s, host %q: there is a credential for it already", in.name, clean(r.Host))
			}
			if r.Credential != nil && in.name != "builder" {
				return nil, fmt.Errorf("egress of the %s, host %q: a credential is given to a builder or to checks", in.name, clean(r.Host))
			}
			out.rules = append(out.rules, r)
		}
		d.layers = append(d.layers, out)
	}
	return d, nil
}

// checked is the rule in the form in which requests are compared with it.
func (r Rule) checked(operators bool) (Rule, error) {
	base, below := strings.CutPrefix(r.Host, "*.")
	name, err := normalise(base)
	if err != nil {
		return r, fmt.Errorf("%w: name a host (example.org), or those below it (*.example.org)", err)
	}
	if below {
		name = "*." + name
	}
	r.Host = name
	if len(r.Ports) == 0 {
		r.Ports = []uint16{DefaultPort}
	}
	if slices.Contains(r.Ports, 0) {
		return r, fmt.Errorf("there is no port 0: name ports from 1 to 65535")
	}
	for _, m := range r.Methods {
		if !slices.Contains(methods, m) {
			return r, fmt.Errorf("method %q is unknown: name some of %s", clean(m), strings.Join(methods, ", "))
		}
	}
	if len(r.Addresses) > 0 && !operators {
		return r, fmt.Errorf("only the operator opens private networks: leave out addresses")
	}
	if r.Credential != nil {
		if below || !operators {
			return r, fmt.Errorf("a credential is for one host, and the operator's to give: name the host")
		}
		if err := r.Credential.check(); err != nil {
			return r, err
		}
	}
	for _, p := range r.Addresses {
		if !isPrivate(p) {
			return r, fmt.Errorf("%s is no part of a private network: leave it out", p)
		}
	}
	return r, nil
}

// isPrivate tells networks that lie wholly in a private one.
func isPrivate(p netip.Prefix) bool {
	return p.IsValid() && slices.ContainsFunc(private, func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// ParseHost reads a host as a contract writes it: a name, or *.name, and a port behind
// a colon if it isn't [DefaultPort].
func ParseHost(text string) (r Rule, err error) {
	var port uint16
	if r.Host, port, err = splitAuthority(text, DefaultPort); err == nil {
		r.Ports = []uint16{port}
		r, err = r.checked(false)
	}
	return r, err
}

// Inside is where a program asks for a host for which the gateway has a credential.
func (r Rule) Inside() string {
	if len(r.Ports) == 0 || r.Ports[0] == DefaultPort {
		return "http://" + r.Host
	}
	return fmt.Sprintf("http://%s:%d", r.Host, r.Ports[0])
}

// anyName stands for any name below a pattern.
const anyName = "writ-asks-for-any-name."

// Covers decides whether something of what a rule asks for is allowed: the first name
// below it for a pattern, and a tunnel or a plain request.
func (d *Decider) Covers(r Rule) (out Decision) {
	for _, port := range r.Ports {
		for _, method := range append([]string{""}, methods...) {
			if out = d.decideAny(r.Host, port, method); out.Code == "" {
				return out
			}
		}
	}
	return out
}

// decideAny is Decide for the first name below a pattern.
func (d *Decider) decideAny(host string, port uint16, method string) Decision {
	if below, ok := strings.CutPrefix(host, "*."); ok {
		host = anyName + below
	}
	return d.Decide(Ask{Host: host, Port: port, Method: method})
}

// Hosts are those of the lists that something is allowed of, as a contract writes them
// (see [ParseHost]), sorted. Of two names where one is below the other the lower one is
// what both lists allow, so that each list's own names are enough. One for which the
// gateway sets a credential is named as it is asked for, see [Rule.Inside], and so is one that
// is asked for by plain HTTP alone, with the methods that it allows; a provider of models is
// left out, since asking it is the agent's matter, not the task's.
func (d *Decider) Hosts() []string {
	hosts := []string{}
	for r, given := range d.allowed() {
		switch {
		case given != nil && given.API != nil:
		case given != nil:
			hosts = append(hosts, r.Inside()+d.only(r))
		case d.only(r) != "":
			hosts = append(hosts, strings.TrimSuffix(fmt.Sprintf("http://%s:%d", r.Host, r.Ports[0]), ":80")+d.only(r))
		case r.Ports[0] != DefaultPort:
			hosts = append(hosts, fmt.Sprintf("%s:%d", r.Host, r.Ports[0]))
		default:
			hosts = append(hosts, r.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// only says by which methods alone a host is asked for; nothing where it is by all of them, or
// by a tunnel, in which they can't be seen.
func (d *Decider) only(r Rule) string {
	allowed := slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return d.decideAny(r.Host, r.Ports[0], m).Code != "" })
	if d.decideAny(r.Host, r.Ports[0], "").Code == "" || len(allowed) == len(methods) {
		return ""
	}
	return " (" + strings.Join(allowed, " and ") + " only)"
}

// Reaches says whether anything is allowed at all, a provider of models included.
func (d *Decider) Reaches() bool {
	for range d.allowed() {
		return true
	}
	return false
}

// allowed are the lists' own names that something is allowed of, each with one port and with
// the credential that the gateway sets for it.
func (d *Decider) allowed() iter.Seq2[Rule, *Credential] {
	return func(yield func(Rule, *Credential) bool) {
		for _, l := range d.layers {
			for _, r := range l.rules {
				for _, port := range r.Ports {
					one := Rule{Host: r.Host, Ports: []uint16{port}}
					if out := d.Covers(one); out.Code == "" && !yield(one, out.credential) {
						return
					}
				}
			}
		}
	}
}

func (r Rule) matches(host string) bool {
	if below, ok := strings.CutPrefix(r.Host, "*"); ok {
		return len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return host == r.Host
}

// Ask is what somebody wants to reach, as it was said.
type Ask struct {
	Host string
	Port uint16
	// Method is that of a plain request, and empty in a tunnel, where it can't be seen.
	Method string
}

// Decision is the answer to an Ask. One without a code allows.
type Decision struct {
	// Code says why it is denied.
	Code string
	// Rule is the list that decided, and its rule if one speaks of the host:
	// "contract *.example.org".
	Rule string
	// Host is the name in the form in which it was decided upon. It is empty if
	// the asked host is no name.
	Host string

	// Port is the asked one, or that at which the gateway speaks TLS for it.
	Port uint16

	// credential is what the gateway sets; nil for nothing.
	credential *Credential
	// opened are the private networks of each list of the operator.
	opened [][]netip.Prefix
}

// Decide answers an Ask. What is allowed is still denied if the name leads to an
// address that must not be reached.
func (d *Decider) Decide(a Ask) Decision {
	host, err := normalise(a.Host)
	if err != nil {
		return Decision{Code: codeOf(err), Rule: "names"}
	}
	out := Decision{Host: host, Port: a.Port, Code: CodeHost, Rule: "none"}
	if len(d.layers) > 0 {
		out.credential = d.layers[0].credential(host)
	}
	if out.credential != nil {
		if a.Method == "" {
			out.Code, out.Rule = CodeTunnel, "builder "+host
			return out
		}
		if a.Port == plainPort {
			a.Port, out.Port = DefaultPort, DefaultPort
		}
	}
	for _, l := range d.layers {
		rule, code := l.decide(host, a)
		out.Code, out.Rule = code, strings.TrimSpace(l.name+" "+rule.Host)
		if code != "" {
			return out
		}
		if l.name != "contract" {
			out.opened = append(out.opened, rule.Addresses)
		}
	}
	return out
}

func codeOf(err error) string { return asFault(err).code }

// plainPort is that of plain HTTP.
const plainPort = 80

// credential is that for a host. No other rule of its list speaks of the host then.
func (l layer) credential(host string) *Credential {
	for _, r := range l.rules {
		if r.Credential != nil && r.Host == host {
			return r.Credential
		}
	}
	return nil
}

// decide finds the first rule that allows. If there is none, it is the rule that
// came closest, and the code says what it misses.
func (l layer) decide(host string, a Ask) (closest Rule, code string) {
	code = CodeHost
	given := l.credential(host)
	for _, r := range l.rules {
		switch {
		case !r.matches(host), r.Credential != given:
		case !slices.Contains(r.Ports, a.Port):
			if code == CodeHost {
				closest, code = r, CodePort
			}
		case !r.allowsMethod(a.Method):
			closest, code = r, CodeMethod
		default:
			return r, ""
		}
	}
	return closest, code
}

func (r Rule) allowsMethod(method string) bool {
	if method == "" {
		return len(r.Methods) == 0
	}
	return slices.Contains(methods, method) && (len(r.Methods) == 0 || slices.Contains(r.Methods, method))
}
