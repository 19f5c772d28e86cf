package config

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/writbot/writ/compliance/contract"
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
	Checks          Checks             `key:"checks" doc:"Surroundings of a contract's checks. Each runs in a sandbox of its own, on a fresh tree."`
	Limits          Limits             `key:"limits" doc:"Limits of each sandbox: the whole process tree of a builder or check."`
	Lease           Lease              `key:"lease" doc:"How a task is claimed, and when a dead runner's claim may be taken over."`
	Caps            Caps               `key:"caps" doc:"The most that a contract's budgets may ask for. A larger value is lowered to the cap, and the report says so. 0 caps nothing beyond the contract's own bounds."`
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
	Probes         string        `key:"probes" restart:"yes" doc:"Address and port for /healthz, /readyz and /metrics alone, such as 127.0.0.1:8716, out of reach of whoever floods the other one. Empty: they are at listen."`
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
	Argv     []string          `key:"argv" doc:"The program and its arguments. It must be visible in the sandbox: below /usr, or below a mount of ro."`
	Env      map[string]string `key:"env" doc:"Variables on top of the sandbox's own few. Nothing of writ's environment is passed on."`
	RO       []Mount           `key:"ro" doc:"Directories or files shown read-only, as /source or /source:/target: toolchains, caches."`
	Result   string            `key:"result" oneof:"optional required" doc:"Whether the builder must leave a file at $WRIT_RESULT. optional: without one, exit status and output are the result."`
	Loopback bool              `key:"loopback" doc:"A loopback interface of its own, for programs that talk to themselves. Nothing outside is reachable either way."`
	Git      bool              `key:"git" doc:"A throw-away .git with one commit in the workspace, for programs that want one. It is never read again."`
}

// Checks are the surroundings of a contract's checks.
type Checks struct {
	Env      map[string]string `key:"env" doc:"Variables on top of the sandbox's own few."`
	RO       []Mount           `key:"ro" doc:"Directories or files shown read-only, as /source or /source:/target."`
	Loopback bool              `key:"loopback" doc:"A loopback interface of its own, as test suites with a local server need."`
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
	Output      Size          `key:"output" min:"1KiB" doc:"Standard output and standard error together. A tail is kept, all of it is hashed."`
	DiskReserve Size          `key:"disk_reserve" min:"1MiB" doc:"What must stay free on the workspace's file system."`
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
		},
		Lease: Lease{
			Seconds: lease.DefaultLeaseSeconds, Grace: lease.DefaultGraceSeconds * time.Second,
			Max: lease.MaxLeaseSeconds * time.Second, Margin: lease.DefaultMarginSeconds * time.Second,
			Skew: lease.DefaultFutureSkewSeconds * time.Second,
		},
		Refs: RefsHidden,
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

// DefaultBuilder is a builder of which only argv is known.
func DefaultBuilder(argv ...string) Builder {
	return Builder{Argv: argv, Result: ResultOptional, Git: true}
}

// Sandbox gives the limits as package sandbox takes them.
func (l Limits) Sandbox() sandbox.Limits {
	return sandbox.Limits{
		CPU: l.CPU, MemoryBytes: int64(l.Memory), Processes: l.Processes, OpenFiles: l.OpenFiles,
		FileSizeBytes: int64(l.FileSize), TmpBytes: int64(l.Tmp), TmpFiles: l.TmpFiles,
		OutputBytes: int64(l.Output), DiskReserveBytes: int64(l.DiskReserve),
	}
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
