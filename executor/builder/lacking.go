package builder

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// lacks are what a failing run of a check did without, as far as both the host saw it and
// the run said it. What the host sees alone may be harmless, for programs try much that
// they can do without; what the run says alone may be anybody's words. Only what the base
// lacks as well is believed of a change.
func (k *checks) lacks(c kernel.Check, e ending, output string, egress *kernel.Egress) (out []kernel.Lack) {
	add := func(code kernel.Code, what string) {
		if l := (kernel.Lack{Code: code, What: what}); what != "" && len(out) < maxLacks && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	if se, ok := errors.AsType[*sandbox.Error](e.err); ok && se.Code == sandbox.CodeNotFound {
		add(kernel.CodeLacksProgram, hostProgram(c.Argv[0]))
	}
	if e.exit.Cause == kernel.CauseResource && slices.ContainsFunc(e.limits, isSpace) {
		add(kernel.CodeLacksSpace, string(e.limits[0]))
	}
	if e.exit.Cause != kernel.CauseExited {
		return out
	}
	if slices.Contains(e.denied, "socket") && noSocket().MatchString(output) {
		add(kernel.CodeLacksLoopback, "socket")
	}
	if i := slices.IndexFunc(e.limits, isSpace); i >= 0 && noSpace().MatchString(output) {
		add(kernel.CodeLacksSpace, string(e.limits[i]))
	}
	for _, name := range missing(e, output) {
		add(kernel.CodeLacksProgram, hostProgram(name))
	}
	switch {
	case egress != nil:
		for _, d := range egress.Denied {
			if d.Host != "" && strings.Contains(output, d.Host) {
				add(kernel.CodeLacksNetwork, d.Host)
			}
		}
	case len(c.Hosts) == 0 && k.l.cfg.Sandbox.Name() == gatewayLevel: // there is no way out of its network namespace
		for _, m := range noName().FindAllStringSubmatch(output, maxLacks) {
			add(kernel.CodeLacksNetwork, strings.TrimSuffix(strings.Join(m[1:], ""), "."))
		}
	}
	return out
}

// maxLacks bounds what is noted of one run. Nobody reads more of it.
const maxLacks = 16

// Words of programs that say what they lacked.
var (
	noSocket = lazyregexp.New(`(?i)address family not supported|EAFNOSUPPORT|socket: (operation not permitted|permission denied)|socket.*\bE(PERM|ACCES)\b`)
	noSpace  = lazyregexp.New(`(?i)no space left on device|\bENOSPC\b|disk quota exceeded`)
	// noName is told by curl and git, by Go, by Node, by Python's and other resolvers.
	noName = lazyregexp.New(`(?i)could not resolve host(?:name)?:? "?([a-z0-9._-]+\.[a-z]{2,})|\blookup ([a-z0-9._-]+\.[a-z]{2,})(?: on [^ ]+)?: |getaddrinfo (?:ENOTFOUND|EAI_AGAIN) ([a-z0-9._-]+\.[a-z]{2,})|failed to resolve '?([a-z0-9._-]+\.[a-z]{2,})|unable to resolve (?:host address )?[‘'"]?([a-z0-9._-]+\.[a-z]{2,})|unknownhostexception: ([a-z0-9._-]+\.[a-z]{2,})`)
	// noCommand is told by shells, make and env: behind it comes exit status 127.
	noCommand = lazyregexp.New(`(?m)^(?:[^\s:]*\bsh: (?:line )?(?:\d+: )?|[^\n:]*: (?:line )?\d+: |g?make(?:\[\d+\])?: |/usr/bin/env: |env: )[‘'"]?([\w.+/-]+)[’'"]?: (?:command not found|not found|No such file or directory)\s*$`)
	// notOnPath is told by Go, whatever its exit status.
	notOnPath = lazyregexp.New(`exec: "([\w.+-]+)": executable file not found in \$PATH`)
	code127   = lazyregexp.New(`\b[Ee]rror 127\b|exit (?:status|code) 127\b`)
)

// missing are the programs that a run says aren't there.
func missing(e ending, output string) (names []string) {
	list := notOnPath().FindAllStringSubmatch(output, maxLacks)
	if e.exit.Code == 127 || code127().MatchString(output) {
		list = append(list, noCommand().FindAllStringSubmatch(output, maxLacks)...)
	}
	for _, m := range list {
		names = append(names, m[1])
	}
	return names
}

// hostProgram is a program that a machine has or lacks; "" for one that lies in the
// workspace, which a change is to bring.
func hostProgram(name string) string {
	if strings.Contains(name, "/") && (!path.IsAbs(name) || strings.HasPrefix(path.Clean(name), sandbox.WorkspaceDir+"/")) {
		return ""
	}
	return name
}

func isSpace(l sandbox.Limit) bool {
	return l == sandbox.LimitDisk || l == sandbox.LimitTmpBytes || l == sandbox.LimitTmpFiles
}

// lackOf is what the change and the base lack alike; false where there is nothing.
func lackOf(change, base []kernel.Lack) (kernel.Lack, bool) {
	i := slices.IndexFunc(change, func(l kernel.Lack) bool { return slices.Contains(base, l) })
	if i < 0 {
		return kernel.Lack{}, false
	}
	return change[i], true
}

// lackWords say what is lacking, and in which file and under which key it is given.
func (k *checks) lackWords(c kernel.Check, l kernel.Lack) string {
	const begin, conf = "It fails on the base as well, and both lack the same: ", " of the server's configuration"
	switch l.Code {
	case kernel.CodeLacksLoopback:
		return begin + "a socket. `sandbox: bubblewrap` with `checks.loopback: true`" + conf + " gives a loopback interface; the level is " + k.l.cfg.Sandbox.Name() + "."
	case kernel.CodeLacksSpace:
		return begin + "room, for a limit of the sandbox is reached. It is " + spaceKeys[sandbox.Limit(l.What)] + conf + "."
	case kernel.CodeLacksProgram:
		return begin + "the program " + l.What + ". Install it on writ's machine, show it by `checks.ro`" + conf + ", or get it by a step of `prepare` in " + contract.Path + "."
	}
	return begin + "the host " + l.What + ". Have a step of `prepare` in " + contract.Path + " download what is wanted, or add the host to `hosts` of the check " + c.Name + " there. `checks.egress`" + conf + ", and `egress` of the repository under `worlds` where that is, must allow it."
}

// spaceKeys are the keys of the server's configuration by the limit that was reached.
var spaceKeys = map[sandbox.Limit]string{
	sandbox.LimitDisk: "`limits.disk_reserve`, for which the disk of the workspaces needs more room,", sandbox.LimitTmpBytes: "`limits.tmp`", sandbox.LimitTmpFiles: "`limits.tmp_files`",
}
