package housekeeping

// scope says to which files of a room a rule applies.
type scope int

const (
	anywhere scope = iota
	inCode         // files that are built into something
	inTests        // _test.go files
)

// rule allows or forbids uses. The first rule whose from, in and what all match
// a use decides on it; a use that no rule matches is allowed.
type rule struct {
	from  string // rooms, as patterns
	in    scope
	what  string // uses, as patterns; see match and use
	allow bool
	why   string // the reason, printed with a violation
}

const (
	allow = true
	deny  = false
)

// starting is every way of starting a process that the standard library has.
const starting = "os/exec name:os.StartProcess name:syscall.StartProcess name:syscall.ForkExec " +
	"name:syscall.Exec name:golang.org/x/sys/unix.Exec"

// testOnly is what only tests need, ours and other people's.
const testOnly = "./...test testing testing/... net/http/httptest pgregory.net/rapid github.com/google/go-cmp/... " +
	"go.uber.org/goleak github.com/rogpeppe/go-internal/... github.com/gowebpki/jcs " +
	"github.com/chromedp/... github.com/getkin/kin-openapi/..."

// pure is the part of the standard library that computes and does nothing else.
// A package is added here only if it can't read a clock, a file, a socket, the
// environment, the scheduler or a source of randomness.
const pure = "bufio bytes cmp container/heap container/list crypto/sha256 crypto/subtle embed encoding encoding/base64 " +
	"encoding/binary encoding/hex encoding/json errors fmt hash io iter maps math math/big math/bits path reflect " +
	"regexp slices sort strconv strings time unicode unicode/utf16 unicode/utf8"

// clocks is what package time offers beyond types and arithmetic.
const clocks = "name:time.Now name:time.Since name:time.Until name:time.Sleep name:time.After name:time.AfterFunc " +
	"name:time.Tick name:time.NewTicker name:time.NewTimer name:time.Local name:time.LoadLocation"

// rules are the import rules of the house, in order. The numbers are those of
// the list in docs/architecture.md.
var rules = []rule{
	// 5. Nobody imports cmd but cmd itself, what it keeps for itself.
	{"cmd/...", anywhere, "./cmd/internal/...", allow, "what commands share, such as the configuration"},
	{"...", anywhere, "./cmd/...", deny,
		"commands only wire; what somebody else needs belongs in a room"},

	// 6. Test packages are imported from tests only.
	{"...test", anywhere, testOnly, allow, "test packages build on each other"},
	{"...", inCode, testOnly, deny, "test code must not be built into the binary"},
	{"...", inTests, "call:Skip", deny,
		"a skipped test looks like a passed one; fail with the remedy, make setup installs what is missing"},

	// 1. The kernel is pure.
	{"kernel/kerneltest/...", anywhere, "./kernel/... std ext stmt:go", allow, "the simulator is test code"},
	{"kernel/...", inTests, "./kernel/... std ext", allow, "tests of the kernel may use files and oracles"},
	{"kernel/...", anywhere, "name:print name:println name:fmt.Print name:fmt.Printf name:fmt.Println", deny,
		"the kernel returns what it has to say"},
	{"kernel/canon/... kernel/lease/...", inCode, "./...", deny,
		"a leaf: it must stay usable without the rest (seed 000: small, deterministic, universal)"},
	{"kernel/machine/...", inCode, "./kernel/canon", allow, "audit entries are hashed"},
	{"kernel/machine/...", inCode, "./...", deny, "the machine knows states and audit, no tasks"},
	{"kernel", inCode, "./kernel/canon ./kernel/lease ./kernel/machine", allow, "its leaves"},
	{"kernel", inCode, "./...", deny, "plan and world are built on the domain types, not under them"},
	{"kernel/...", inCode, "./kernel/...", allow, "rooms of the kernel"},
	{"kernel/...", anywhere, "./...", deny, "the kernel is under every other room"},
	{"kernel/machine/...", inCode, "sync sync/atomic", allow, "the machine serialises its callers (seed 004)"},
	{"kernel/canon", inCode, "sync", allow, "what it learned about a Go type is kept, and read by many"},
	{"kernel/...", inCode, "stmt:go", deny, "the kernel starts no goroutines; its callers decide what runs at once"},
	{"kernel/...", inCode, clocks, deny, "time is an input, so that every decision replays"},
	{"kernel/...", inCode, pure, allow, "computes only"},
	{"kernel/...", inCode, "std", deny, "not on the kernel's allow-list: time, randomness and ids are inputs, effects are records"},
	{"kernel/...", inCode, "ext", deny, "the kernel uses the standard library only, so that a verifier can be small"},

	// 2. Adapters don't know each other, nor who uses them.
	{"compliance/lazyregexp", inCode, "./...", deny, "a leaf, which knows nothing of any room"},
	{"forge/... executor/gateway", inCode, "./compliance/lazyregexp", allow, "it compiles a pattern when that is used first"},
	{"forge/github/...", anywhere, "./forge/gitlab/... ./forge/local/...", deny, "adapters never import adapters"},
	{"forge/gitlab/...", anywhere, "./forge/github/... ./forge/local/...", deny, "adapters never import adapters"},
	{"forge/local/...", anywhere, "./forge/github/... ./forge/gitlab/...", deny, "adapters never import adapters"},
	{"forge/gitlab/...", anywhere, "github.com/xanzy/go-gitlab", allow, "its library"},
	{"...", anywhere, "github.com/xanzy/go-gitlab", deny, "the library is no longer kept up: one package holds it"},
	{"forge/...", anywhere, "./executor/... ./compliance/... ./webhook/...", deny,
		"a forge is told what to do; it doesn't know who decides"},
	{"forge/git/...", anywhere, "./kernel/...", deny, "objects and refs only; it knows no tasks"},

	{"forge/github/...", anywhere, "github.com/google/go-github/... github.com/bradleyfalzon/ghinstallation/...", allow, "its own library, and the one that makes tokens"},
	{"...", inTests, "github.com/google/go-github/...", allow, "tests may look at payloads as the library does"},
	{"...", inCode, "github.com/google/go-github/... github.com/bradleyfalzon/ghinstallation/...", deny,
		"GitHub's library accepts SHA-1 signatures, remembers limits and doesn't escape names: only the adapter knows how to use it"},

	// 3. The webhook hands bytes to an inbox and decides nothing.
	{"webhook/...", anywhere, "./executor/... ./kernel/world/...", deny,
		"an event is only a hint; who acts on it reads fresh state"},

	// 4. Who may start processes.
	{"executor/sandbox/... executor/builder/... executor/command/... forge/git/...", anywhere, starting, allow, "their task"},
	{"cmd/bench/... cmd/cases/... cmd/mutants/...", anywhere, starting, allow,
		"the project's own tools, not part of writ"},
	{"cmd/internal/demo/...", anywhere, starting, allow, "it starts writ itself, to kill it"},
	{"...test", anywhere, starting, allow, "fakes that are real programs"},
	{"...", inTests, starting, allow, "tests start git, servers and themselves"},
	{"...", inCode, starting, deny, "only executor/sandbox, executor/builder, executor/command and forge/git start processes"},
	{"executor/command/...", inCode, "./...", deny, "it starts a program and knows nothing of why"},
	{"cmd/... executor/builder/... executor/supervisor/...", anywhere, "./executor/builder/...", allow,
		"the supervisor starts builders, cmd wires them"},
	{"...", inCode, "./executor/builder/...", deny, "nothing but the supervisor starts a builder (seed 001)"},
	{"executor/sandbox/...", anywhere, "./executor/sandbox/... ./kernel", allow, "itself and the failure codes"},
	{"executor/sandbox/...", anywhere, "./...", deny, "the sandbox isolates processes and knows nothing of tasks"},
	{"executor/gateway/...", inCode, "./...", deny, "the gateway is the way out of any sandbox, and knows no tasks"},
	{"executor/scheduler/...", inCode, "./executor/scheduler/... ./kernel", allow, "itself and the words for a person's acts"},
	{"executor/scheduler/...", inCode, "./...", deny, "the scheduler decides when, never what: it knows no task state, store or supervisor"},

	// 5. One database, and one room for each of its tables (tables_test.go).
	{"compliance/store/...", anywhere, "database/sql/driver modernc.org/sqlite/...", allow, "the instance's one database"},
	{"forge/local/...", anywhere, "database/sql modernc.org/sqlite/...", allow, "a forge has a file of its own, as any other"},
	{"...", inTests, "database/sql modernc.org/sqlite/...", allow, "tests play the one who tampers"},
	{"...", inCode, "database/sql database/sql/... modernc.org/sqlite/...", deny,
		"compliance/store alone speaks to the database; other rooms speak through it"},
	{"compliance/ledger/... compliance/pushed/... compliance/shelf/... webhook/inbox/... cmd/...", anywhere, "./compliance/store", allow,
		"rooms with tables of their own, and who opens the file"},
	{"...", inCode, "./compliance/store", deny, "a room asks the one that owns the table"},
	{"compliance/store/...", anywhere, "./kernel ./compliance/filesystem", allow, "the failure codes, and which disk is full"},
	{"compliance/store/...", anywhere, "./...", deny, "the store knows no tasks and no records"},

	// What holds everywhere.
	{"...", anywhere, "C", deny, "the binary is static and built without cgo"},
	{"...", anywhere, "stmt:dot-import", deny, "a dot import hides where names come from, from readers and from these rules"},
	{"executor/sandbox/...", anywhere, "unsafe", allow, "system calls without a wrapper"},
	{"...", inCode, "unsafe", deny, "only the sandbox talks to the kernel of the operating system by hand"},
	{"...", inCode, "log name:log/slog.Default name:log/slog.SetDefault name:log/slog.Debug name:log/slog.Info " +
		"name:log/slog.Warn name:log/slog.Error", deny, "a logger is given to constructors; there are no globals"},
	{"cmd/bench/...", inCode, "math/rand math/rand/v2", allow, "sample data"},
	{"forge/local/localtest", inCode, "math/rand/v2", allow, "a port that a test keeps"},
	{"...", inCode, "math/rand math/rand/v2", deny, "ids and keys need crypto/rand, decisions need an input"},
}
