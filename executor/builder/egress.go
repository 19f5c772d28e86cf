package builder

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// DefaultEgress bounds what goes through the gateway of one sandbox.
var DefaultEgress = gateway.Limits{Open: 128, Total: 10_000, Up: 256 << 20, Down: 4 << 30}

// egressGrace is how long the gateway outlives the longest time of its program, so
// that it isn't the gateway that ends a program at its limit.
const egressGrace = time.Minute

// maxGatewaysLost is how many gateways the programs of a task may lose before each further
// one counts as an interruption. It is no program's failure, but one that had found out how
// to end its gateway would otherwise have as many runs as it likes, with nothing counted.
const maxGatewaysLost = 3

// maxLosers bounds the tasks of which that is remembered.
const maxLosers = 1024

// losers remember how many gateways the programs of each task have lost since this process
// began. The zero value is ready.
type losers struct {
	mu sync.Mutex
	of map[string]int
}

// lost notes one more, and gives the code for it.
func (g *losers) lost(task string) kernel.Code {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil || len(g.of) >= maxLosers {
		g.of = map[string]int{}
	}
	if g.of[task]++; g.of[task] > maxGatewaysLost {
		return kernel.CodeEgressLost
	}
	return kernel.CodeEgressUnavailable
}

// taskName names a task among those of all worlds.
func taskName(world string, task int64) string { return fmt.Sprintf("%s#%d", world, task) }

// outlet is the way out of one sandbox: a gateway of its own.
type outlet struct {
	server *gateway.Server
	task   string             // whose program it is
	hook   func(net.Listener) // of tests
	purse  *purse             // nil: nothing limits what its program uses of models
	ctx    context.Context    //nolint:containedctx // the gateway begins when the sandbox has its listener
	cancel context.CancelFunc
	serves sync.WaitGroup
	end    context.CancelCauseFunc // ends the program
	lost   error                   // what ended the gateway before its time; after close
}

// worldRules are what the operator lets a world reach. Without a list of worlds all of
// them may reach what the first list allows.
func (l *Local) worldRules(world string, otherwise []gateway.Rule) []gateway.Rule {
	if l.cfg.Worlds != nil {
		return l.cfg.Worlds[world]
	}
	out := slices.Clone(otherwise)
	for i := range out {
		out[i].Credential = nil
	}
	return out
}

// builderLists are what a builder may reach. No contract asks for it, so that the
// operator's own list stands in for that of the contract.
func (l *Local) builderLists(world string, b Builder) gateway.Lists {
	out := gateway.Lists{Builder: b.Egress, World: l.worldRules(world, b.Egress)}
	for _, r := range b.Egress {
		r.Addresses, r.Credential = nil, nil
		out.Contract = append(out.Contract, r)
	}
	return out
}

// checkLists are what a check may reach: what the contract asks for, and the operator
// allows.
func (l *Local) checkLists(world string, c kernel.Check) (gateway.Lists, error) {
	out := gateway.Lists{Builder: l.cfg.Checks.Egress, World: l.worldRules(world, l.cfg.Checks.Egress)}
	for _, text := range c.Hosts {
		r, err := gateway.ParseHost(text)
		if err != nil {
			return out, err
		}
		out.Contract = append(out.Contract, r)
	}
	return out, nil
}

// Reach implements [executor.Outward].
func (l *Local) Reach(world string, checks []kernel.Check, steps []kernel.Step) (out []kernel.Violation) {
	if len(steps) > 0 && l.cfg.Sandbox.Name() != gatewayLevel {
		out = append(out, kernel.Violation{Code: kernel.CodePrepareLevel, Subject: l.cfg.Sandbox.Name(), Detail: "The level " + l.cfg.Sandbox.Name() + " has no mounts of its own, so that it can't show what is prepared."})
	}
	checks = slices.Clone(checks)
	for _, s := range steps {
		checks = append(checks, kernel.Check{Name: "prepare " + s.Name, Hosts: s.Hosts})
	}
	for _, c := range checks {
		lists, err := l.checkLists(world, c)
		var d *gateway.Decider
		if err == nil {
			d, err = gateway.NewDecider(lists)
		}
		if err != nil {
			out = append(out, kernel.Violation{Code: kernel.CodeEgressDenied, Subject: c.Name, Detail: err.Error()})
			continue
		}
		for i, r := range lists.Contract {
			if d := d.Covers(r); d.Code != "" {
				out = append(out, kernel.Violation{Code: kernel.CodeEgressDenied, Subject: c.Name, Detail: notReached(c.Hosts[i], d.Rule, l.cfg.Sandbox.Name())})
			}
		}
	}
	return l.plain(out)
}

// Hosts implements [executor.Outward].
func (l *Local) Hosts(world, name string) []string {
	if d := l.deciderOf(world, name); d != nil {
		return d.Hosts()
	}
	return nil
}

// deciderOf is what is decided by for a builder in a world; nil for one that reaches nothing.
func (l *Local) deciderOf(world, name string) *gateway.Decider {
	b, ok := l.builder(name)
	if !ok || len(b.Egress) == 0 {
		return nil
	}
	d, err := gateway.NewDecider(l.builderLists(world, b))
	if err != nil || !d.Reaches() { // with an error its run will fail
		return nil
	}
	return d
}

// notReached says which list lacks a host.
func notReached(host, rule, level string) string {
	if level != gatewayLevel {
		return host + " can't be reached: the level " + level + " has no network namespace, so that nothing could hold a check to the gateway. Set sandbox: bubblewrap."
	}
	return host + " is not allowed: " + listed(rule) + " of the server's configuration lacks it."
}

// gatewayLevel is the one level that has a network namespace.
const gatewayLevel = "bubblewrap"

// listed is the key of the list that decided on what a check asks for.
func listed(rule string) string {
	if strings.HasPrefix(rule, "world") {
		return "egress of this repository under worlds"
	}
	return "checks.egress"
}

// outlet makes the gateway of one sandbox that may run for limit. It begins when the
// sandbox has its listener, and tells log of each connection.
func (l *Local) outlet(ctx context.Context, lists gateway.Lists, limit time.Duration, log *egressLog) (*outlet, error) {
	decider, err := gateway.NewDecider(lists)
	if err != nil {
		return nil, failed(kernel.CodeEgressUnavailable, "the gateway's lists can't be used", err)
	}
	cfg := gateway.Config{Decider: decider, Resolver: l.cfg.Resolver, Limits: l.cfg.Gateway, Roots: l.roots, Record: log.add}
	if log.purse != nil {
		cfg.Purse = log.purse
	}
	cfg.Limits.Time = limit + egressGrace
	o := &outlet{task: log.task, hook: l.onGateway, purse: log.purse}
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if o.server, err = gateway.New(cfg); err != nil {
		return nil, failed(kernel.CodeEgressUnavailable, "the gateway can't be made", err)
	}
	return o, nil
}

// listen begins to serve; see [sandbox.Spec].
func (o *outlet) listen(listener net.Listener) {
	if o.hook != nil {
		o.hook(listener)
	}
	o.serves.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				o.lost = fmt.Errorf("panic: %v", p)
			}
			if o.lost != nil {
				o.end(o.lost)
			}
		}()
		o.lost = o.server.Serve(o.ctx, listener)
	})
}

// close ends the gateway. Everything is recorded when it returns.
func (o *outlet) close() {
	o.cancel()
	o.serves.Wait()
}

// through runs a program whose only way out is o, or that has none. If the gateway ends
// before the program, the program is ended, and it isn't its failure.
func (l *Local) through(ctx context.Context, o *outlet, spec sandbox.Spec, w *watch, t times) (ending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o != nil {
		defer o.close()
		o.end, spec.Gateway = cancel, o.listen
		o.purse.ends(cancel)
	}
	p, err := l.cfg.Sandbox.Start(ctx, spec)
	if err != nil {
		return ending{}, err
	}
	end := w.wait(ctx, p, t)
	if end.exit.Cause == kernel.CauseExited && !end.succeeded() {
		if code, err := l.writable(); err != nil { // it may have failed over that
			end = ending{exit: kernel.Exit{Code: -1, Cause: kernel.CauseStopped}, watched: end.watched, err: failed(code, "no workspace can be written", err)}
		}
	}
	if o == nil {
		return end, nil
	}
	if o.close(); o.lost != nil {
		code := l.losers.lost(o.task)
		l.cfg.Log.Warn("a gateway ended before its program, which was ended, too", "task", o.task, "code", code, "error", o.lost)
		end = ending{
			exit: kernel.Exit{Code: -1, Cause: kernel.CauseStopped}, watched: end.watched, diskLow: end.diskLow,
			err: failed(code, "the gateway ended before the program", o.lost),
		}
	}
	return end, nil
}

// egressLog keeps what becomes of the connections of a program, or of all runs of a check.
type egressLog struct {
	l    *Local
	task string // whose programs they are
	// world and builder are whose usage is told; empty for checks.
	world, builder string
	purse          *purse
	most           int // connections that are told one by one
	mu             sync.Mutex
	e              kernel.Egress
	// provider is the last connection over which a provider of models was asked.
	provider gateway.Record
}

func (l *Local) newEgressLog(task string, most int) *egressLog {
	return &egressLog{l: l, task: task, most: most, e: kernel.Egress{Connections: []kernel.Connection{}, Denied: []kernel.Denied{}}}
}

// result is nil where no connection was asked for.
func (g *egressLog) result() *kernel.Egress {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.e.Total == 0 {
		return nil
	}
	e := g.e
	e.Usage = slices.Clone(e.Usage)
	return &e
}

// maxSeen bounds the kinds of denied requests that an ending is told with.
const maxSeen = 3

// saw is what came through the gateway, in words: a program that waits for ever may do so
// over that.
func (g *egressLog) saw() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.e.Total == 0 {
		return "no request came to the gateway"
	}
	var parts []string
	allowed := g.e.Total
	for i, d := range g.e.Denied {
		if allowed -= d.Count; i < maxSeen {
			parts = append(parts, fmt.Sprintf("%s to %s denied (%s)", requests(d.Count), d.Host, d.Code))
		}
	}
	if allowed -= g.e.DeniedMore; allowed > 0 {
		parts = append(parts, requests(allowed)+" not denied")
	}
	return "through the gateway: " + strings.Join(parts, ", ")
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// add takes a connection in. What the inside has said of it may hold a secret.
func (g *egressLog) add(r gateway.Record) {
	if g.l.cfg.Connection != nil {
		g.l.cfg.Connection(r)
	}
	clean := func(s string) string { return g.l.clean(s, maxDetailBytes) }
	c := kernel.Connection{
		At: r.At.UnixMilli(), Mode: string(r.Mode), Host: clean(r.Host), Port: int64(r.Port), Method: clean(r.Method), Verdict: string(r.Verdict),
		Code: r.Code, Rule: r.Rule, Detail: clean(r.Detail), Address: r.Address, Up: r.Up, Down: r.Down, Millis: r.Millis,
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.API != "" && r.Verdict != gateway.Denied {
		g.provider = r
	}
	if r.Usage != nil {
		one := metered(*r.Usage, g.l.cfg.Price(r.Usage.Model))
		g.use(one)
		if g.l.cfg.Usage != nil && g.builder != "" {
			g.l.cfg.Usage(g.world, g.builder, one)
		}
	}
	g.e.Total++
	g.e.Up += c.Up
	g.e.Down += c.Down
	if len(g.e.Connections) < g.most {
		g.e.Connections = append(g.e.Connections, c)
	}
	if r.Verdict == gateway.Denied {
		g.deny(c)
	}
}

// use counts what a request to a provider used. Where no answer named the model it is the
// one that the inside has asked for, of which there may be many.
func (g *egressLog) use(one kernel.Usage) {
	model := g.l.clean(one.Model, maxDetailBytes)
	i := slices.IndexFunc(g.e.Usage, func(o kernel.Usage) bool { return o.Model == model })
	if i < 0 {
		if i = len(g.e.Usage); i == kernel.MaxModels {
			i--
			g.e.Usage[i].Model = kernel.OtherModels
		} else {
			g.e.Usage = append(g.e.Usage, kernel.Usage{Model: model, Price: one.Price})
		}
	}
	sum := &g.e.Usage[i]
	if sum.Model == kernel.OtherModels {
		sum.Price = kernel.Dearer(sum.Price, one.Price)
	}
	sum.Requests, sum.Reserved, sum.Unknown = sum.Requests+one.Requests, sum.Reserved+one.Reserved, sum.Unknown+one.Unknown
	for _, n := range []struct {
		to   *int64
		more int64
	}{{&sum.Input, one.Input}, {&sum.CacheRead, one.CacheRead}, {&sum.CacheWrite, one.CacheWrite}, {&sum.Output, one.Output}} {
		*n.to = min(*n.to+n.more, maxTokens)
	}
	*sum = sum.Priced(sum.Price)
}

// maxTokens bounds a sum: records have no larger number, and four of them fit an int64.
const maxTokens = 1<<53 - 1

func (g *egressLog) deny(c kernel.Connection) {
	for i, d := range g.e.Denied {
		if d.Host == c.Host && d.Port == c.Port && d.Code == c.Code && d.Rule == c.Rule {
			g.e.Denied[i].Count++
			return
		}
	}
	if len(g.e.Denied) == kernel.MaxDenied {
		g.e.DeniedMore++
		return
	}
	g.e.Denied = append(g.e.Denied, kernel.Denied{Host: c.Host, Port: c.Port, Code: c.Code, Rule: c.Rule, Count: 1})
}
