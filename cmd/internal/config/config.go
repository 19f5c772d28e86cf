package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// The words of the configuration.
const (
	SandboxBubblewrap = "bubblewrap"
	SandboxLandlock   = "landlock"
	SandboxNone       = "none"

	RefsHidden = "hidden"
	RefsHeads  = "heads"

	ResultOptional = "optional"
	ResultRequired = "required"

	LogText = "text"
	LogJSON = "json"
)

// Size is a number of bytes, written with its unit: 512KiB, 4GiB.
type Size int64

// Config is the whole file. A field's tags are its key, its bounds and its
// documentation; [Default] has its default.
type Config struct {
	Sandbox         string             `key:"sandbox" oneof:"bubblewrap landlock none" doc:"How builders and checks are isolated. landlock is for containers that forbid namespaces: weaker, and without loopback. none runs them with all that you may do yourself: for development only."`
	WithoutLandlock bool               `key:"without_landlock" doc:"Accept a Linux without Landlock. Without this such a machine has no sandbox."`
	Builders        map[string]Builder `key:"builders" doc:"The programs that do the work, by the name that a task or contract gives. A repository can name one of these and nothing else."`
	Worlds          map[string]World   `key:"worlds" doc:"What each repository may reach, by its name in texts, such as git.example/acme/shop or local/acme/shop. Where it names any, one that it doesn't name reaches nothing; where it names none, each may reach what builders and checks may."`
	Prices          Prices             `key:"prices" doc:"What the models of builders cost, so that what a run cost is told beside its tokens. It is worked out from what the gateway metered, and is no invoice."`
	Budgets         Budgets            `key:"budgets" doc:"What builders may use of models together. Nothing is claimed of which an attempt needs more than is left (budget.spent). Each limit needs the same one in the budget of each builder that has a provider, for that is what is reserved."`
	Checks          Checks             `key:"checks" doc:"Surroundings of a contract's checks. Each runs in a sandbox of its own, on a fresh tree."`
	Limits          Limits             `key:"limits" doc:"Limits of each sandbox: the whole process tree of a builder or check."`
	Layers          Layers             `key:"layers" restart:"yes" doc:"The repositories' trees that are kept on the disk, so that a workspace costs what is written to it and not each file of the repository. They are shown as overlays, where the kernel lets a sandbox mount them (writ doctor says whether); elsewhere each workspace is laid out whole."`
	Lease           Lease              `key:"lease" doc:"How a task is claimed, and when a dead runner's claim may be taken over."`
	Caps            Caps               `key:"caps" doc:"The most that a contract's budgets may ask for. A larger value is lowered to the cap, and the report says so. 0 caps nothing beyond the contract's own bounds."`
	LockSources     []string           `key:"lock_sources" doc:"Sources that a lock file may name beside those of its base, as the status comment names them: a host that is asked over https, such as proxy.example.com, where everybody has repositories one of them, such as github.com/owner/name, and for go.sum the host of a module's path."`
	TrustedRunners  []string           `key:"trusted_runners" doc:"OpenSSH public keys (ssh-ed25519 …) of other installations whose results count here. writ key prints one."`
	Base            string             `key:"base" doc:"The branch that tasks start from, such as main. Empty: the contract's, or else the repository's default branch."`
	Refs            string             `key:"refs" restart:"yes" oneof:"hidden heads" doc:"Where state refs live: hidden is refs/writ/task/<n>; heads is refs/heads/writ/task/<n>, for a server that refuses hidden refs."`
	World           string             `key:"world" doc:"What the governed repository is called in texts for people; it decides nothing. Empty: made of the repository's path or URL."`
	Identity        Identity           `key:"identity" doc:"Author and committer of what writ commits."`
	Server          Server             `key:"server" doc:"What writ serve does; writ task run doesn't read it."`
	Forges          Forges             `key:"forges" doc:"Where issues come from, for writ serve."`
	Redact          []string           `key:"redact" doc:"Names of environment variables whose values are hidden wherever text is shown or kept, and refused in files that a builder changes (secret.detected). The values themselves never stand here."`
}

// Server is how writ serve runs.
type Server struct {
	StateDir       string        `key:"state_dir" restart:"yes" doc:"The directory that holds store, key and logs of this installation. It is yours alone (mode 0700)."`
	Listen         string        `key:"listen" restart:"yes" doc:"Address and port for webhooks, and for health and metrics where probes is empty."`
	Probes         string        `key:"probes" restart:"yes" doc:"Address and port for /healthz, /readyz and /metrics alone, such as 127.0.0.1:8716, out of reach of a flood of the other one. Empty: they are at listen."`
	Hosts          []string      `key:"hosts" restart:"yes" doc:"Names under which /readyz and /metrics may be asked for, beside addresses and localhost."`
	TrustedProxies []string      `key:"trusted_proxies" restart:"yes" doc:"Addresses or networks of your own proxies. Whom they name in X-Forwarded-For is believed, and no address may then hold more than 64 connections, or deliveries that aren't received yet. Empty: everybody may come from one proxy's address, so nobody is counted by address."`
	Builds         int64         `key:"builds" restart:"yes" min:"1" max:"256" doc:"How many tasks may have a builder or checks running at once."`
	BuildsPerWorld int64         `key:"builds_per_world" restart:"yes" min:"1" max:"256" doc:"The same, for each repository. Not given, it is at most builds."`
	Intake         string        `key:"intake" restart:"yes" oneof:"webhook poll" doc:"How writ learns that something happened. poll asks the forges and needs no address that they reach: it takes no webhooks, and listens for health and metrics only."`
	Poll           time.Duration `key:"poll" min:"1s" max:"24h" doc:"With intake: poll, how often each repository is asked what changed."`
	Sweep          time.Duration `key:"sweep" min:"1s" max:"24h" doc:"How often each repository is searched for issues whose webhooks were lost."`
	Drain          time.Duration `key:"drain" restart:"yes" min:"1s" max:"10m" doc:"How long a shutdown may take to hand leases back."`
	Keep           time.Duration `key:"keep" min:"1h" max:"8760h" doc:"How long received deliveries are kept for the record."`
	MaxBody        Size          `key:"max_body" restart:"yes" min:"1KiB" doc:"The largest webhook body that is taken."`
	Observe        bool          `key:"observe" doc:"Decide and say what would be done, and claim nothing, whatever contracts say: each is read as if it said mode: observe."`
	PauseFile      string        `key:"pause_file" restart:"yes" doc:"While a file is at this path nothing new is started. Empty: pause in state_dir."`
	Log            string        `key:"log" restart:"yes" oneof:"text json" doc:"The form of the log on standard error."`
	LogLevel       string        `key:"log_level" oneof:"debug info warn error" doc:"debug, info, warn or error. What is less than this is not logged."`
	Traces         Traces        `key:"traces" restart:"yes" doc:"Where traces go, if anywhere."`
}

// ProbesAt is where health and metrics are.
func (s Server) ProbesAt() string { return cmp.Or(s.Probes, s.Listen) }

// Proxies are TrustedProxies, which were checked as the file was read.
func (s Server) Proxies() (list []netip.Prefix) {
	for _, text := range s.TrustedProxies {
		if p, err := network(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// network is an address or a network, as 10.0.0.0/8.
func network(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Prefix(a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// Traces are sent to an OpenTelemetry collector.
type Traces struct {
	Endpoint string `key:"endpoint" doc:"URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318. Without a path /v1/traces is added. Empty: there are no traces."`
	Headers  string `key:"headers" doc:"Name of the environment variable with headers for the collector, as name=value, with commas between them. With _FILE at its end the variable names a file that holds them. Empty: there are none."`
}

// Builder is a program that does the work of tasks.
type Builder struct {
	Kind  string `key:"kind" oneof:"command claude-code codex acp" doc:"What writ knows of the program. command: nothing. claude-code and codex: how to start that agent without a person, and how to read what it says; argv is then its program and arguments of your own. acp: that it speaks the Agent Client Protocol; argv is its program and what has it speak it. egress must have the agent's provider (docs/builders.md)."`
	Model string `key:"model" doc:"The model that the agent of a kind works with. Empty: its own choice."`
	// RepositoryInstructions is of the kinds of which builder.Instructs says that they heed it.
	RepositoryInstructions bool              `key:"repository_instructions" doc:"Whether the agent of a kind obeys the plain instructions of the repository: CLAUDE.md (claude-code), AGENTS.md (codex, and OpenCode by acp), as they are on the base; no task may change them. Its settings, hooks, MCP servers and plugins are never obeyed. false: it is told to obey none; of other programs it says nothing (docs/builders.md)."`
	Argv                   []string          `key:"argv" doc:"The program and its arguments. It must be visible in the sandbox: below /usr, or below a mount of ro."`
	Env                    map[string]string `key:"env" doc:"Variables on top of the sandbox's own few. Nothing of writ's environment is passed on."`
	RO                     []Mount           `key:"ro" doc:"Directories or files shown read-only, as /source or /source:/target: toolchains, caches."`
	Result                 string            `key:"result" oneof:"optional required" doc:"Whether the builder must leave a file at $WRIT_RESULT. optional: without one, exit status and output are the result."`
	Loopback               bool              `key:"loopback" doc:"A loopback interface of its own, for programs that talk to themselves. Nothing outside is reachable either way. false, and not to be had, with sandbox: landlock."`
	Egress                 []Egress          `key:"egress" doc:"Hosts that it may reach, through the gateway that is its only way out. Needs sandbox: bubblewrap."`
	Budget                 Spend             `key:"budget" doc:"The most that one attempt may use of models, by what the gateway meters. It is reserved before the attempt is claimed. A request that may go beyond it is refused, the builder is ended, and the attempt has failed (execution.budget)."`
	Git                    bool              `key:"git" doc:"A throw-away .git with one commit in the workspace, for programs that want one. It is never read again."`
}

// Checks are the surroundings of a contract's checks.
type Checks struct {
	Env      map[string]string `key:"env" doc:"Variables on top of the sandbox's own few."`
	RO       []Mount           `key:"ro" doc:"Directories or files shown read-only, as /source or /source:/target."`
	Egress   []Egress          `key:"egress" doc:"The most that a contract's checks may reach: hosts of a check that no rule here allows are refused (egress.not_allowed). A check without hosts reaches nothing. Needs sandbox: bubblewrap."`
	Loopback bool              `key:"loopback" doc:"A loopback interface of its own, as test suites with a local server need. Nothing outside is reachable either way. false, and not to be had, with sandbox: landlock."`
}

// World is what the operator decided for one repository.
type World struct {
	Egress []Egress `key:"egress" doc:"The most that its builders and checks may reach."`
}

// Egress allows connections to a host.
type Egress struct {
	Host       string     `key:"host" doc:"A name such as registry.example.org, or *.example.org for all below it but not itself. Never an address."`
	Ports      []int64    `key:"ports" doc:"Ports. Empty: 443."`
	Methods    []string   `key:"methods" doc:"Methods of plain HTTP requests, such as GET. Empty: all, and TLS. With methods only plain HTTP is allowed: in TLS they can't be seen."`
	Addresses  []string   `key:"addresses" doc:"Private networks in which the host may be, such as 10.1.0.0/16, beside all that is public. Each list that is asked must have them."`
	Credential Credential `key:"credential" doc:"What the gateway sets on requests to the host, which the program doesn't know. The host is then asked for by plain HTTP (http://host/), and the gateway speaks TLS to it; a tunnel to it is denied. Of builders and checks only, for a name and no pattern."`
}

// Credential is where a secret for a host comes from, and how it is sent.
type Credential struct {
	Secret string `key:"secret" doc:"Name of the environment variable with the secret. With _FILE at its end the variable names a file that holds it. Empty: there is none."`
	Header string `key:"header" doc:"The header that carries it. Empty: Authorization, or that of api."`
	Prefix string `key:"prefix" doc:"What stands before it there, such as 'Bearer ' with its blank. Not with api."`
	API    string `key:"api" doc:"The interface of the provider of models that the host is: anthropic, openai or gemini. What is sent there is then held to that interface's table (docs/egress.md), and the table says where the key goes. The providers' own hosts need it. Empty: anything may be sent."`
	// Allow are rows of the operator's beside the table of API.
	Allow []string `key:"allow" doc:"Rows beside the table of api, for what a newer version of an agent sends and the table doesn't know: a field (messages.n.hints), a type (tools.n.type=bash_20260101), an endpoint (GET /v1/models, POST /v1/plans as /v1/messages), a name of a query with its value (POST /v1/messages?trace=on), a word of a list in the head (anthropic-beta: plans-2026-01-01). The gateway's refusal names the row; what is left out of a head or a query is in its record. Such a row is your word that the provider fetches, keeps and runs nothing for it (docs/security.md)."`
}

// table is that of the interface, with the operator's rows; nil for anything. With an error
// it is without them.
func (c Credential) table() (*gateway.API, error) {
	api := gateway.APIs()[c.API]
	if api == nil {
		return nil, nil //nolint:nilnil // there is no table
	}
	if with, err := api.With(c.Allow); err != nil {
		return api, err
	} else {
		return with, nil
	}
}

// Of is the credential with its secret.
func (c Credential) Of(secret string) *gateway.Credential {
	if api, _ := c.table(); api != nil { // the rows were checked as the file was read
		return &gateway.Credential{Header: cmp.Or(c.Header, api.Header), Value: api.Prefix + secret, API: api}
	}
	return &gateway.Credential{Header: cmp.Or(c.Header, "Authorization"), Value: c.Prefix + secret}
}

// Credentials are the names of the variables with secrets for hosts.
func (c Config) Credentials() []string {
	names := secretsIn(c.Checks.Egress)
	for _, b := range c.Builders {
		names = append(names, b.Secrets()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Secrets are the names of the variables with secrets for hosts that the builder reaches.
func (b Builder) Secrets() []string { return secretsIn(b.Egress) }

func secretsIn(list []Egress) (names []string) {
	for _, e := range list {
		if e.Credential.Secret != "" {
			names = append(names, e.Credential.Secret)
		}
	}
	return names
}

// AsksModels reports whether the builder has a provider of models whose interface the
// gateway knows, and meters.
func (b Builder) AsksModels() bool {
	return slices.ContainsFunc(b.Egress, func(e Egress) bool { return e.Credential.API != "" })
}

// Rule is that of the gateway.
func (e Egress) Rule() (gateway.Rule, error) {
	r := gateway.Rule{Host: e.Host, Methods: e.Methods}
	for _, p := range e.Ports {
		if p < 1 || p > 65535 {
			return r, fmt.Errorf("there is no port %d: name ports from 1 to 65535", p)
		}
		r.Ports = append(r.Ports, uint16(p))
	}
	for _, text := range e.Addresses {
		p, err := network(text)
		if err != nil {
			return r, fmt.Errorf("%q is no network: write it as 10.1.0.0/16", text)
		}
		r.Addresses = append(r.Addresses, p)
	}
	return r, nil
}

// Rules are those of a list that was checked as the file was read, with the secrets by
// their names.
func Rules(list []Egress, secrets map[string]string) (out []gateway.Rule) {
	for _, e := range list {
		if r, err := e.Rule(); err == nil {
			if name := e.Credential.Secret; name != "" {
				r.Credential = e.Credential.Of(secrets[name])
			}
			out = append(out, r)
		}
	}
	return out
}

// Mount is a host path shown read-only in a sandbox. It is written as text.
type Mount struct {
	Source string // absolute path on the host
	Target string // absolute path inside; "" is the same
}

// Limits bound one sandbox.
type Limits struct {
	CPU         time.Duration `key:"cpu" min:"1s" max:"720h" doc:"Processor time of the whole tree."`
	Memory      Size          `key:"memory" min:"16MiB" doc:"Memory of the whole tree."`
	Processes   int64         `key:"processes" min:"1" max:"1000000" doc:"Processes and threads, together."`
	OpenFiles   int64         `key:"open_files" min:"16" max:"1000000" doc:"Open files of each process."`
	FileSize    Size          `key:"file_size" min:"1KiB" doc:"Size of each file that is written."`
	Tmp         Size          `key:"tmp" min:"1MiB" doc:"Size of /tmp, of /dev/shm and of the home directory, each. They live in memory."`
	TmpFiles    int64         `key:"tmp_files" min:"1" max:"100000000" doc:"Number of files in each of those."`
	Connections int64         `key:"connections" min:"1" max:"1000000" doc:"Connections through the gateway, in all."`
	Sent        Size          `key:"sent" min:"1KiB" doc:"Bytes through the gateway to the outside."`
	Received    Size          `key:"received" min:"1KiB" doc:"Bytes through the gateway from the outside."`
	Output      Size          `key:"output" min:"1KiB" doc:"Standard output and standard error together. A tail is kept, all of it is hashed."`
	DiskReserve Size          `key:"disk_reserve" min:"1MiB" doc:"What must stay free on the workspace's file system."`
}

// Layers bound the trees that are kept.
type Layers struct {
	Size Size          `key:"size" min:"0B" doc:"How much of the disk the trees may take that no run uses; the least recently used go first. 0B: none is kept, and each workspace is laid out whole."`
	Age  time.Duration `key:"age" min:"1m" max:"8760h" doc:"How long one stays that no run uses."`

	Builders bool `key:"builders" doc:"Use them for builders' workspaces, too, and not for those of checks alone. In such a workspace the kernel refuses to rename a directory of the base (EXDEV): mv copies instead, git mv fails."`
}

// Lease is how a task is held.
type Lease struct {
	Seconds int64         `key:"seconds" min:"2" max:"3600" doc:"Length of our own leases, in seconds. Three heartbeats fit into one."`
	Grace   time.Duration `key:"grace" min:"0s" max:"24h" doc:"How long past its end a foreign lease is still honoured, for clocks that differ."`
	Max     time.Duration `key:"max" min:"1s" max:"24h" doc:"The longest that a foreign lease is honoured, whatever it says."`
	Margin  time.Duration `key:"margin" min:"0s" max:"1h" doc:"How long before the end of our own lease the builder is killed if the lease could not be renewed. Shorter than the lease."`
	Skew    time.Duration `key:"skew" min:"0s" max:"24h" doc:"How far in the future the date of a foreign lease may lie before it is not believed."`
}

// Caps are upper bounds of a contract's budgets; 0 is none.
type Caps struct {
	StartTimeout    time.Duration `key:"start_timeout" min:"0s" max:"720h" doc:"Cap of budgets.start_timeout."`
	BuildTimeout    time.Duration `key:"build_timeout" min:"0s" max:"720h" doc:"Cap of budgets.build_timeout."`
	IdleTimeout     time.Duration `key:"idle_timeout" min:"0s" max:"720h" doc:"Cap of budgets.idle_timeout."`
	Attempts        int64         `key:"attempts" min:"0" doc:"Cap of budgets.attempts."`
	Interruptions   int64         `key:"interruptions" min:"0" doc:"Cap of budgets.interruptions."`
	RetryBackoff    time.Duration `key:"retry_backoff" min:"0s" max:"720h" doc:"Cap of budgets.retry_backoff."`
	RetryBackoffMax time.Duration `key:"retry_backoff_max" min:"0s" max:"720h" doc:"Cap of budgets.retry_backoff_max."`
	Files           int64         `key:"files" min:"0" doc:"Cap of budgets.files."`
	Bytes           Size          `key:"bytes" min:"0B" doc:"Cap of budgets.bytes."`
	Interpretations int64         `key:"interpretations" min:"0" doc:"Cap of budgets.interpretations."`
	Nodes           int64         `key:"nodes" min:"0" doc:"Cap of budgets.nodes."`
	Steps           int64         `key:"steps" min:"0" doc:"Cap of budgets.steps."`
	Depth           int64         `key:"depth" min:"0" doc:"Cap of budgets.depth."`
	Contradictions  int64         `key:"contradictions" min:"0" doc:"Cap of budgets.contradictions."`
	CheckTimeout    time.Duration `key:"check_timeout" min:"0s" max:"720h" doc:"Cap of each check's timeout."`
	Checks          int64         `key:"checks" min:"0" doc:"How many checks a task may have. More are refused, not cut."`
}

// Identity signs commits as their author; the key that signs them as evidence
// is the instance's own.
type Identity struct {
	Name  string `key:"name" doc:"Name in commits."`
	Email string `key:"email" doc:"Address in commits. It need not exist."`
}

// Default is the configuration of an operator who wrote none.
func Default() Config {
	return Config{
		Sandbox: SandboxBubblewrap,
		Limits: Limits{
			CPU: sandbox.DefaultCPU, Memory: sandbox.DefaultMemoryBytes, Processes: sandbox.DefaultProcesses,
			OpenFiles: sandbox.DefaultOpenFiles, FileSize: sandbox.DefaultFileSizeBytes, Tmp: sandbox.DefaultTmpBytes,
			TmpFiles: sandbox.DefaultTmpFiles, Output: sandbox.DefaultOutputBytes, DiskReserve: sandbox.DefaultDiskReserveBytes,
			Connections: int64(builder.DefaultEgress.Total), Sent: Size(builder.DefaultEgress.Up), Received: Size(builder.DefaultEgress.Down),
		},
		Layers: Layers{Size: builder.DefaultLayerBytes, Age: builder.DefaultLayerAge},
		Lease: Lease{
			Seconds: lease.DefaultLeaseSeconds, Grace: lease.DefaultGraceSeconds * time.Second,
			Max: lease.MaxLeaseSeconds * time.Second, Margin: lease.DefaultMarginSeconds * time.Second,
			Skew: lease.DefaultFutureSkewSeconds * time.Second,
		},
		Checks: Checks{Loopback: true},
		Refs:   RefsHidden,
		Server: Server{
			Listen: "127.0.0.1:8714", Builds: 2, BuildsPerWorld: 2, Intake: IntakeWebhook, Poll: time.Minute, Sweep: 5 * time.Minute, Drain: 30 * time.Second,
			Keep: 30 * 24 * time.Hour, MaxBody: 25 << 20, Log: LogText, LogLevel: "info",
		},
		Forges:   defaultForges(),
		Identity: Identity{Name: "writ", Email: "writ@localhost"},
		// Names that the tools of the field give their tokens. A name that isn't
		// set hides nothing.
		Redact: []string{
			"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "CI_JOB_TOKEN", "GEMINI_API_KEY",
			"GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "GOOGLE_API_KEY", "NPM_TOKEN", "OPENAI_API_KEY",
		},
	}
}

// KindCommand is the kind of a builder of which writ knows nothing.
const KindCommand = "command"

// DefaultBuilder is a builder of which only argv is known.
func DefaultBuilder(argv ...string) Builder {
	return Builder{Kind: KindCommand, Argv: argv, Result: ResultOptional, Loopback: true, Git: true}
}

// Sandbox gives the limits as package sandbox takes them.
func (l Limits) Sandbox() sandbox.Limits {
	return sandbox.Limits{
		CPU: l.CPU, MemoryBytes: int64(l.Memory), Processes: l.Processes, OpenFiles: l.OpenFiles,
		FileSizeBytes: int64(l.FileSize), TmpBytes: int64(l.Tmp), TmpFiles: l.TmpFiles,
		OutputBytes: int64(l.Output), DiskReserveBytes: int64(l.DiskReserve),
	}
}

// Gateway gives the limits as package gateway takes them.
func (l Limits) Gateway() gateway.Limits {
	return gateway.Limits{Open: builder.DefaultEgress.Open, Total: int(l.Connections), Up: int64(l.Sent), Down: int64(l.Received)}
}

// Policy gives the takeover rule of foreign leases.
func (l Lease) Policy() lease.Policy {
	p := lease.DefaultPolicy()
	p.GraceSeconds, p.MaxLeaseSeconds, p.FutureSkewSeconds = seconds(l.Grace), seconds(l.Max), seconds(l.Skew)
	p.DefaultLeaseSeconds = min(p.DefaultLeaseSeconds, p.MaxLeaseSeconds)
	return p
}

// MarginSeconds is Margin in seconds.
func (l Lease) MarginSeconds() int64 { return seconds(l.Margin) }

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// Contract gives the caps as package contract takes them.
func (c Caps) Contract() contract.Caps {
	return contract.Caps{
		Budgets: kernel.Budgets{
			StartTimeoutMs: c.StartTimeout.Milliseconds(), BuildTimeoutMs: c.BuildTimeout.Milliseconds(),
			IdleTimeoutMs: c.IdleTimeout.Milliseconds(), Attempts: c.Attempts, Interruptions: c.Interruptions,
			RetryBackoffMs: c.RetryBackoff.Milliseconds(), RetryBackoffMaxMs: c.RetryBackoffMax.Milliseconds(),
			Files: c.Files, Bytes: int64(c.Bytes), Interpretations: c.Interpretations, Nodes: c.Nodes,
			Steps: c.Steps, Depth: c.Depth, Contradictions: c.Contradictions,
		},
		CheckTimeoutMs: c.CheckTimeout.Milliseconds(), Checks: c.Checks,
	}
}
