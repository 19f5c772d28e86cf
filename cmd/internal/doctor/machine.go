package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// Machine is an installation on this machine: what it has, and the ways in which
// a check looks at it.
type Machine struct {
	Config       config.Config
	Unconfigured bool // there is none: only what every installation needs is looked at

	// State says what is wrong with the state directory's kind, owner and mode,
	// and what to do; "" for nothing.
	State func(path string) (fault, remedy string)
	// Git is the version of the git program.
	Git func(ctx context.Context) (string, error)
	// Sandbox tries a level by its name in the configuration: it starts a program.
	Sandbox func(ctx context.Context, level string) error
	// Memory reports whether a control group holds the limits on memory.
	Memory func() bool
	// Lacks is what the level landlock doesn't hold on this kernel and does on others,
	// and what to do.
	Lacks func() (what, remedy string)
	// Layers is why workspaces can't be overlays; nil where they can.
	Layers func(ctx context.Context) error
	// Builders are the names that a task can give, and Environment is what is
	// wrong with one's surroundings.
	Builders    []string
	Environment func(ctx context.Context, builder string) []kernel.Violation
	// Preflight tries a builder at nobody's cost. An error says why it can't be tried.
	Preflight func(ctx context.Context, builder string) (builder.Preflight, error)

	Time time.Duration    // of one check; 0: CheckTime
	Now  func() time.Time // nil: time.Now
	Each func(Check)      // told of each check as it ends; nil for nobody
}

// Configuration is the check of a configuration file that was loaded with that
// error: every fault of it is named.
func Configuration(file string, err error) Check {
	c := Check{Name: NameConfiguration, Subject: file, Status: OK, Detail: "It is valid."}
	if err == nil {
		return c
	}
	c.Status, c.Remedy = Failed, "Mend what is named; docs/configuration.md has every key."
	var faults *config.Error
	if !errors.As(err, &faults) {
		c.Detail = sentence(err)
		return c
	}
	var list []string
	for _, f := range faults.Faults {
		text := f.Detail
		if f.Key != "" {
			text = f.Key + ": " + text
		}
		if f.Line > 0 {
			text = fmt.Sprintf("line %d, %s", f.Line, text)
		}
		list = append(list, text)
	}
	c.Detail = fmt.Sprintf("It can't be used, for %d reasons:", len(list))
	if len(list) == 1 {
		c.Detail = "It can't be used:"
	}
	c.Detail += " " + strings.Join(list, " ")
	return c
}

// Installation checks the machine: state directory, store, key, git, sandbox and
// builders, and the server if one runs.
func Installation(ctx context.Context, m Machine) []Check {
	if m.Now == nil {
		m.Now = time.Now
	}
	h := &house{Machine: m, runner: runner{limit: m.Time, each: m.Each}}
	if !m.Unconfigured {
		h.state(ctx)
	}
	h.check(ctx, NameGit, h.git)
	if h.check(ctx, NameSandbox, h.sandbox) {
		for _, name := range h.Builders {
			h.subject = name
			h.builderNamed(ctx, name)
		}
	} else {
		for _, h.subject = range h.Builders {
			h.skip("There is no sandbox to start it in.", NameBuilder)
		}
	}
	h.subject = ""
	if !m.Unconfigured {
		h.check(ctx, NameServer, h.server)
	}
	return h.done
}

// server asks the one that runs at the configured address, if there is one.
func (h *house) server(ctx context.Context) result {
	address := Nearest(h.Config.Server.ProbesAt())
	url := "http://" + address + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return bad("Mend server.listen or server.probes.", "%s can't be asked.", url)
	}
	// Past any proxy: it is this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return skipped("No writ serve runs at %s (server.probes, or else server.listen).", address)
	}
	if err != nil {
		return bad("See the server's log, and whether its configuration is this one.", "The server at %s doesn't answer: %s.", address, plain(errors.Unwrap(err)))
	}
	defer res.Body.Close()
	var ready readiness
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReady))
	if err == nil {
		err = json.Unmarshal(body, &ready)
	}
	if err != nil {
		return bad("See what else listens there, or give another server.listen or server.probes.", "%s is no server of writ's: it answers %d.", url, res.StatusCode)
	}
	return ready.judge(address)
}

type house struct {
	Machine
	runner
}

// oldestGit is what writ is tested with.
var oldestGit = [2]int{2, 39}

func (h *house) git(ctx context.Context) result {
	version, err := h.Git(ctx)
	if err != nil {
		return bad("Install it: apt-get install git.", "The git program can't be used: %s.", plain(err))
	}
	var got [2]int
	if _, err := fmt.Sscanf(version, "%d.%d", &got[0], &got[1]); err != nil || slices.Compare(got[:], oldestGit[:]) < 0 {
		return warn("Install git 2.39 or later.", "It is git %s, older than what writ is tested with.", version)
	}
	return ok("It is git %s.", version)
}

// sandbox starts a program in the configured level, and says what else there
// would be.
func (h *house) sandbox(ctx context.Context) result {
	level := h.Config.Sandbox
	if err := h.Sandbox(ctx, level); err != nil {
		return bad(sandboxRemedy(err)+h.instead(ctx, level), "The level %s isn't to be had here: %s.", level, plain(err))
	}
	switch level {
	case config.SandboxNone:
		return warn("Set sandbox: bubblewrap, or landlock in a container that forbids namespaces."+h.instead(ctx, level),
			"sandbox: none. Builders and checks run with all that writ's own account may do.")
	case config.SandboxLandlock:
		const works = "The level landlock works. It has no loopback interface: a check that listens fails."
		if h.Sandbox(ctx, config.SandboxBubblewrap) == nil {
			return warn("Set sandbox: bubblewrap.", works+" The stronger level bubblewrap would work here, too.%s", h.memory())
		}
		if what, remedy := h.Lacks(); what != "" {
			return warn(remedy, works+" %s%s", what, h.memory())
		}
		return ok(works+"%s", h.memory())
	}
	return ok("The level %s works: a program was started in it.%s%s", level, h.layers(ctx), h.memory())
}

// layers says what a workspace costs. It is no fault of a machine that it shows none.
func (h *house) layers(ctx context.Context) string {
	if h.Config.Layers.Size == 0 {
		return " Workspaces are laid out whole, each file of a repository for each of them: layers.size is 0."
	}
	if err := h.Layers(ctx); err != nil {
		return " Workspaces are laid out whole, each file of a repository for each of them: " + plain(err) + "."
	}
	return " Workspaces are overlays: one costs what is written to it."
}

// memory says so where no control group holds the limits on memory. A server that
// a service manager starts is in another group than a shell.
func (h *house) memory() string {
	if h.Memory() {
		return ""
	}
	return " Limits on memory are watched here, not held: no control group with the memory controller is writ's own." +
		" A server may have one where the shell has none (Delegate=yes): its reports say so. docs/security.md says what is not counted then."
}

func sandboxRemedy(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) && e.Remedy != "" {
		return e.Remedy
	}
	return sandbox.Remedy
}

// instead names the other levels that work here.
func (h *house) instead(ctx context.Context, level string) string {
	for _, other := range []string{config.SandboxBubblewrap, config.SandboxLandlock} {
		if other != level && h.Sandbox(ctx, other) == nil {
			return "\nThe level " + other + " works here: set sandbox: " + other + "."
		}
	}
	return "\nNo other level works here either; docs/containers.md says what each needs."
}

// builderNamed looks at a builder and, where all is there, has it tried.
func (h *house) builderNamed(ctx context.Context, name string) {
	there := h.check(ctx, NameBuilder, func(ctx context.Context) result { return h.builder(ctx, name) })
	if b := h.Config.Builders[name]; b.Kind == config.KindCommand && !b.AsksModels() {
		return
	}
	if !there {
		h.skip("Something of the builder isn't there.", NamePreflight)
		return
	}
	h.checkWithin(ctx, NamePreflight, builder.PreflightTime, func(ctx context.Context) result { return h.preflight(ctx, name) })
}

// preflight has a builder tried as it is before each claim.
func (h *house) preflight(ctx context.Context, name string) result {
	p, err := h.Preflight(ctx, name)
	if err != nil {
		return skipped("It can't be tried: %s", sentence(err))
	}
	var details, remedies []string
	for _, v := range p.Faults {
		details = append(details, v.Subject+": "+v.Detail+" ("+string(v.Code)+")")
		remedies = append(remedies, v.Code.Info().Remedy)
	}
	if len(details) > 0 {
		return bad(strings.Join(slices.Compact(remedies), "\n"), "Nothing would be claimed for it. %s", strings.Join(details, " "))
	}
	text := ""
	if p.Version != "" {
		text = "Its program starts in the sandbox, and says " + p.Version + ". "
	}
	if p.Passes {
		text += "What it asks its provider for first is in the gateway's table. "
	}
	text += "Reached, and takes the key: " + strings.Join(p.Takes, ", ") + "."
	if p.Note != "" {
		return warn("Install the tested version (docs/builders.md), or look into the report of the first run for what the gateway denied.", "%s %s", p.Note, text)
	}
	return ok("%s", text)
}

// builder looks whether its program is inside.
func (h *house) builder(ctx context.Context, name string) result {
	var wrong []string
	for _, v := range h.Environment(ctx, name) {
		if v.Code == kernel.CodeEnvBuilder {
			wrong = append(wrong, v.Subject+": "+v.Detail)
		}
	}
	key := "builders." + name
	if len(wrong) > 0 {
		return bad("Mend "+key+".argv, or mount what it needs with "+key+".ro.", "%s", strings.Join(wrong, " "))
	}
	b, configured := h.Config.Builders[name]
	if !configured {
		return ok("Its program is there.")
	}
	var secret []string
	for variable, value := range b.Env {
		if credential(variable) && value != builder.Placeholder {
			secret = append(secret, variable)
		}
	}
	if len(secret) > 0 {
		slices.Sort(secret)
		return warn("Take them out of "+key+".env: what a builder is given it can write into a change. A host's key is given with egress, as credential.secret.",
			"Its program is there. Its environment seems to hold credentials: %s.", strings.Join(secret, ", "))
	}
	if text := h.Config.Unmetered(name); text != "" {
		return warn("Give the credential the api of its provider (docs/egress.md), or take it out. Without one, budgets.build_timeout and attempts of contracts alone bound what is asked there.", "Its program is there. %s", text)
	}
	if outside := b.Secrets(); len(outside) > 0 {
		return ok("Its program is there. It reaches the hosts of %s.egress through the gateway, which has the credentials: %s. It has none itself.", key, strings.Join(outside, ", "))
	}
	if len(b.Egress) > 0 {
		return ok("Its program is there. It reaches the hosts of %s.egress through the gateway, and has no credentials.", key)
	}
	return ok("Its program is there. It has no network and no credentials.")
}

// credential reports whether a variable's name is that of one.
func credential(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY", "CREDENTIAL"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
