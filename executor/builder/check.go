package builder

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// check runs one check as often as the contract wants. Every run counts: the
// first failure is what is kept, and runs that end differently on the same tree
// are a failure of their own (case X9). After a run that had to be ended there
// is no other: it would cost as much again.
func (k *checks) check(ctx context.Context, trees *trees, c kernel.Check) (kernel.CheckResult, []kernel.Violation) {
	out := kernel.CheckResult{Name: c.Name, Passed: true, Stable: true}
	out.Output = k.l.evidence(k.l.newWatch(nil).stdout)
	egress := k.l.newEgressLog(taskName(k.job.World, k.job.Task), k.told)
	var first, told ending
	var vs []kernel.Violation
	for n := range max(c.Repeat, 1) {
		end, w := k.once(ctx, trees, c, int(n), egress)
		if n == 0 {
			first = end
		}
		passed := end.succeeded()
		if n == 0 || !passed && out.Passed {
			told, out.Exit, out.Output = end, end.exit, k.l.evidence(w.stdout)
			vs = append(vs, checkFaults(c.Name, end)...)
		}
		out.Stable = out.Stable && end.exit == first.exit
		out.Passed = out.Passed && passed
		out.Runs++
		if end.exit.Cause != kernel.CauseExited {
			break
		}
	}
	if !out.Stable {
		out.Passed = false
		vs = append(vs, kernel.Violation{Code: kernel.CodeNondeterministic, Subject: c.Name, Detail: "Repeated on the same tree, the check ended differently."})
	}
	if out.Egress = egress.result(); out.Egress != nil {
		k.told -= len(out.Egress.Connections)
	}
	return out, k.compare(ctx, c, &out, k.lacks(c, told, out.Output.Tail, out.Egress), vs)
}

// once runs a check on the next fresh tree.
func (k *checks) once(ctx context.Context, trees *trees, c kernel.Check, n int, egress *egressLog) (ending, *watch) {
	w := k.l.newWatch(k.job.OnLine)
	t, err := trees.take(ctx)
	if err == nil {
		end := k.in(ctx, t, c, n, w, egress)
		if !k.l.layersRefused(end.err) {
			return end, w
		}
		// In a tree that holds everything itself. Nothing of the check has run.
		if t, err = k.freshTree(ctx); err == nil {
			return k.in(ctx, t, c, n, w, egress), w
		}
	}
	if ctx.Err() != nil {
		return stoppedEarly(), w
	}
	k.l.doubt(err)
	return notStarted(err), w
}

// in runs a check in a tree, and throws that away.
func (k *checks) in(ctx context.Context, t *tree, c kernel.Check, n int, w *watch, egress *egressLog) ending {
	defer k.l.stock.discard(t)
	end, err := k.l.inside(ctx, k.job.World, c, k.spec(c, n, t, w), w, egress)
	if err == nil {
		k.l.doubt(end.err)
		if end.diskLow {
			k.l.stock.discardNow(t)
		}
		return end
	}
	if ctx.Err() != nil {
		return stoppedEarly()
	}
	k.l.doubt(err)
	return notStarted(err)
}

// inside runs a check, or a step of the preparation, whose tree is laid out.
func (l *Local) inside(ctx context.Context, world string, c kernel.Check, spec sandbox.Spec, w *watch, egress *egressLog) (ending, error) {
	t := checkTimes(c)
	if len(c.Hosts) == 0 {
		return l.through(ctx, nil, spec, w, t)
	}
	lists, err := l.checkLists(world, c)
	if err != nil {
		return ending{}, failed(kernel.CodeEgressDenied, "the check's hosts can't be read", err)
	}
	o, err := l.outlet(ctx, lists, t.total, egress)
	if err != nil {
		return ending{}, err
	}
	return l.through(ctx, o, spec, w, t)
}

// checkTimes of a check, which has one limit. The others never come first, so
// that a check that hangs always ends in the same words.
func checkTimes(c kernel.Check) times {
	return times{start: 2 * ms(c.TimeoutMs), total: ms(c.TimeoutMs), idle: 2 * ms(c.TimeoutMs)}
}

// spec is the invocation. Both streams are one: a check's output is read as one.
func (k *checks) spec(c kernel.Check, n int, t *tree, w *watch) sandbox.Spec {
	cfg := k.l.cfg.Checks
	return sandbox.Spec{
		Argv: c.Argv, Env: environment(withProxy(cfg.Env, len(c.Hosts) > 0), variation(c, n)), Umask: umask(c, n),
		Workspace: t.workspace(), Layers: k.l.stock.shown(t), ReadOnly: cfg.ReadOnly, Loopback: cfg.Loopback,
		Dirs: k.prep.dirs(t, cfg.ReadOnly, k.taken), Stdout: w.stdout, Stderr: w.stdout, Limits: k.l.cfg.Limits,
	}
}

// checkFaults are what is wrong with one run of a check. A check whose program
// isn't there, or can't be executed, has failed: it is the contract's, and it
// would be missing in every other run too. What the host failed to do is no
// check's failure.
func checkFaults(name string, e ending) []kernel.Violation {
	if e.succeeded() {
		return nil
	}
	if isOutage(e.err) {
		return []kernel.Violation{faultOf(name, e.err)}
	}
	if e.exit.Cause == kernel.CauseStopped {
		return []kernel.Violation{{Code: kernel.CodeTaskInterrupted, Subject: name, Detail: "The check was ended: " + e.detail + "."}}
	}
	if e.err != nil && !isProgramFault(e.err) {
		return []kernel.Violation{faultOf(name, e.err)}
	}
	sentence := "The check " + e.sentence()
	out := []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: name, Detail: sentence}}
	switch e.exit.Cause {
	case kernel.CauseTimeout, kernel.CauseIdle, kernel.CauseStart:
		out = append(out, kernel.Violation{Code: kernel.CodeTimeout, Subject: name, Detail: sentence})
	case kernel.CauseResource:
		out = append(out, kernel.Violation{Code: kernel.CodeExecutionResource, Subject: name, Detail: sentence})
	}
	return out
}

// isOutage tells what the host couldn't do from what a program did: its gateway was
// gone, or its disk full.
func isOutage(err error) bool {
	xe, ok := errors.AsType[*executor.Error](err)
	return ok && xe.Code.Info().Counts != kernel.CountsAttempt
}

// isProgramFault tells a program that can't be run from a sandbox that can't.
func isProgramFault(err error) bool {
	var xe *executor.Error
	var se *sandbox.Error
	return !errors.As(err, &xe) && errors.As(err, &se) && se.Code != sandbox.CodeUnavailable
}

// zones are far from UTC, one of them by an odd fraction of an hour, so that
// another date or minute shows.
var zones = []string{"Pacific/Kiritimati", "America/St_Johns", "Asia/Kathmandu"}

// variation changes what a sound check doesn't depend on, from the second run
// on, where the contract asks for it.
func variation(c kernel.Check, n int) map[string]string {
	if !c.Vary || n == 0 {
		return nil
	}
	return map[string]string{"TZ": zones[(n-1)%len(zones)], "LC_ALL": "C", "GOMAXPROCS": "1"}
}

// variedUmask hides new files from everybody else.
const variedUmask = 0o077

func umask(c kernel.Check, n int) int {
	if c.Vary && n > 0 {
		return variedUmask
	}
	return 0 // the sandbox's own
}

// onBase runs a check that failed on the base once more, where nothing of the change is:
// who reads that it failed wants to know whether the change made it fail, and what the
// change lacks of its surroundings counts as that where the base lacks it, too. It says
// nothing of a run that had to be ended for its time, nor where the host failed. Nor is
// there a base to compare with where the preparation was made from the change's own key
// files, for it would run with the dependencies of the change, nor for what somebody
// pushed, which is the whole tree of its job.
func (k *checks) onBase(ctx context.Context, c kernel.Check, failed kernel.CheckResult, lacks []kernel.Lack) (baseEnd, bool) {
	ended := failed.Exit.Cause == kernel.CauseExited || len(lacks) > 0
	if failed.Passed || !failed.Stable || !ended || ctx.Err() != nil {
		return baseEnd{}, false
	}
	if k.job.Trusted != nil || k.prep != nil && k.prep.change != nil {
		return baseEnd{}, false
	}
	data, err := canon.Marshal(c)
	if err != nil || k.job.Base.Commit == "" {
		return baseEnd{}, false
	}
	key := k.job.Base.Commit + " " + string(canon.Sum(data))
	if end, sure := k.l.bases.known(key); sure {
		return end, true
	}
	k.feed.hold()
	defer k.feed.release()
	t, err := k.l.stock.take(ctx, k.feed, use{runner: true})
	if err != nil {
		return baseEnd{}, false
	}
	w, egress := k.l.newWatch(nil), k.l.newEgressLog(taskName(k.job.World, k.job.Task), 0)
	end := k.in(ctx, t, c, 0, w, egress)
	if end.err != nil && !isProgramFault(end.err) || end.exit.Cause == kernel.CauseStopped {
		return baseEnd{}, false
	}
	made := baseEnd{exit: end.exit, lacks: k.lacks(c, end, k.l.evidence(w.stdout).Tail, egress.result())}
	if end.exit.Cause != kernel.CauseExited && len(made.lacks) == 0 {
		return baseEnd{}, false
	}
	k.l.bases.add(key, made)
	return made, true
}

// compare tells of a failed check how it ends on the base. What it lacks as the base does
// is no fault of the change, and is told in place of the failure.
func (k *checks) compare(ctx context.Context, c kernel.Check, out *kernel.CheckResult, lacks []kernel.Lack, vs []kernel.Violation) []kernel.Violation {
	base, tried := k.onBase(ctx, c, *out, lacks)
	if !tried {
		return vs
	}
	if base.exit.Cause == kernel.CauseExited && out.Exit.Cause == kernel.CauseExited {
		out.OnBase = &base.exit
	}
	lack, alike := lackOf(lacks, base.lacks)
	if !alike || base.exit != out.Exit {
		return vs
	}
	out.Lacks = &lack
	return []kernel.Violation{{Code: lack.Code, Subject: c.Name, Detail: k.lackWords(c, lack)}}
}

// agreeing is how many runs on a base must have ended alike before it isn't asked any more.
const agreeing = 2

// maxBaseEnds bounds what is remembered.
const maxBaseEnds = 1024

// baseEnds remember how checks end on bases. An end that lacks something is never kept: the
// operator may have installed the program or made room since. The zero value is ready.
type baseEnds struct {
	mu sync.Mutex
	of map[string]baseEnd // by commit and check
}

type baseEnd struct {
	exit  kernel.Exit
	lacks []kernel.Lack
	runs  int
}

func (b *baseEnds) known(key string) (end baseEnd, sure bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end = b.of[key]
	return end, end.runs >= agreeing
}

func (b *baseEnds) add(key string, made baseEnd) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(made.lacks) > 0 {
		delete(b.of, key)
		return
	}
	if b.of == nil || len(b.of) >= maxBaseEnds {
		b.of = map[string]baseEnd{}
	}
	if was := b.of[key]; was.exit == made.exit {
		made.runs = was.runs
	}
	made.runs++
	b.of[key] = made
}

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
