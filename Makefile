# Writ's tasks. `make` alone lists them; a target says what it does after ##.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory

# The release's number is kernel/VERSION, as a tag v1.2.3 carries it; between
# tags git describes the commit, and a tree without git still has a name.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo "v$$(cat kernel/VERSION)-nogit")
LDFLAGS := -s -w -X main.version=$(VERSION)

# Everything is compiled in the same way, as the program itself is, so that its libraries
# are compiled once for tests, linters and the program, wherever the checkout is.
export CGO_ENABLED      := 0
override export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)

# Tools are pinned in a module file of their own, so that go.mod names only what
# writ itself needs. Nothing is installed: `go tool` builds and caches them.
TOOL := go tool -modfile=.ci/tools.mod

# TEST_TIMEOUT bounds one package's tests. The slowest ones kill and restart
# real processes, and need half an hour on a machine that is five times slower than
# most; a hang must still end within a CI run.
TEST_TIMEOUT ?= 45m
# TEST_JSON=FILE also keeps the run's events, for `make cases CASES_IN=FILE`.
TEST_JSON    ?=
CASES_IN     ?=
# UNRACED are compiled without the race detector's checks, which make SQLite (C in
# Go's form) many times slower. What this module's code, its other libraries and the
# rest of Go's do is checked; that one of these reads what somebody changes meanwhile
# is not seen. RACE=-race checks everything.
UNRACED      := modernc.org/... crypto/internal/fips140/... compress/... hash/... regexp/... go.yaml.in/... github.com/pjbgf/...
RACE         ?= -race $(UNRACED:%=-gcflags=%=-race=false)
# TEST_FLAGS and PKG narrow a run by hand: make race PKG=./kernel/... TEST_FLAGS='-run L2'
TEST_FLAGS   ?=
PKG          ?= ./...
# One package more than there are processors is tested at a time, since some wait.
GO_TEST       = go test -vet=off -p $$(( $$(nproc) + 1 )) -timeout $(TEST_TIMEOUT)
# The race detector makes five times of a test's time, and finds only what goroutines
# of one process do to each other. So CI draws, of the packages that start some, one in
# RACE_ROOMS by lot, and of its tests one in RACE_OF, to run again under it (make race
# draws all). LOT decides, and is printed, so that a failure can be had again:
# make race-lot LOT=…
RACE_ROOMS   := 4
RACE_OF      := 2
ifeq ($(origin LOT),undefined)
LOT          := $(shell date -u +%Y%m%d%H)
endif
# These are in no lot, and whole:
# PLAIN are packages that start no goroutine, and cmd/e2e, whose servers are processes.
# WHOLE are tests that enumerate (each point, each byte, each lie) or simulate, one step
# after the other, that run their package's tests again as another user, that follow
# somebody's tools, and the scripts of cmd/writ, which start the program.
PLAIN        := cmd/e2e cmd/cases cmd/housekeeping cmd/internal/config cmd/internal/doctor cmd/internal/trial compliance/approval \
                compliance/contract compliance/instruction compliance/internal/visible compliance/replay compliance/report \
                kernel kernel/canon kernel/lease kernel/plan kernel/world
SCRIPTS      := $(filter Test%,$(shell grep -o '^func Test[A-Za-z0-9_]*' cmd/writ/script_test.go))
ENUMERATIONS := TestSim_\w+ TestJ[14]_Git(Hub|Lab) TestJ3_HostileStores TestJ5_Refs TestR1_(Archive|BytesOfTheFile|EveryByteOfEveryStoredRecord|Segments) \
                TestX10_EachSystemCall TestLayers_LaidOutAnew TestK7_EveryPoint(Same|Other)Disk TestB6_ARuleAndAKill TestL12_BranchMadeMeanwhile \
                TestE8_LostAndRefused TestL19_AReplicaThatStands TestG6_EachStateHasAHead TestP10_TakenBackForEverybody
ELSEWHERE    := TestOrdinaryUser TestX4_ClosedContainer TestRecipes_\w+
empty        :=
WHOLE        := ^($(subst $(empty) ,|,$(strip $(SCRIPTS) $(ENUMERATIONS) $(ELSEWHERE))))$$
# SAMPLE are those of them that go through all the rest by lot, or run everything in one
# process: with fewer seeds and tasks they run under the race detector, too.
SAMPLE       := ^(TestF4_(TwoHundredTasks|RefusedInTheMiddle)|TestSim_(F5_LyingForge|F5_F6_LyingForges|K7_Seeds|P10_TakenBack))$$
# dirs_of lists the directories of the tests that a pattern names.
dirs_of       = $(sort $(dir $(shell grep -rlE --include='*_test.go' '^func $(patsubst ^%$$,%,$(1))\>' .)))
# LONGEST begin first, so that none of them runs alone at the end.
LONGEST      := executor/supervisor cmd/writ executor/sandbox cmd/internal/server executor/builder compliance/ledger
RACED         = $(addprefix ./,$(LONGEST)) $(filter-out $(LONGEST:%=./%) $(PLAIN:%=./%),$(patsubst github.com/writbot/writ/%,./%,$(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)))
# lot passes one line in $(1), by a hash of LOT and the line, so that one that comes or goes
# changes nothing of the others.
lot           = awk '{ s = "$(LOT)" $$0; h = 7; for (i = 1; i <= length(s); i++) \
                  h = (h * 31 + index("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/", substr(s, i, 1))) % 1000003; \
                  h = (h * h + h + 1) % 1000003; h = (h * h + h + 1) % 1000003 } h % $(1) == 0'
# tests_in are the names of the tests in the packages that it is given. One that a package has,
# too, which isn't drawn is in no lot.
tests_in      = sed 's|.*|ls &/*_test.go 2> /dev/null|' | sh | xargs grep -ohE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' | sed 's/^func //' | sort -u

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what the tests need: git, bubblewrap, ssh, a C compiler, a browser, npm packages
	@.ci/setup

.PHONY: setup-run
setup-run: ## install what writ itself needs: git and bubblewrap
	@.ci/setup run

.PHONY: build
build: ## build bin/writ, static, with its version
	go build -ldflags '$(LDFLAGS)' -o bin/writ ./cmd/writ

# NARROWED is empty unless PKG or TEST_FLAGS is given.
NARROWED      = $(filter-out ./...,$(PKG) $(TEST_FLAGS))

# Programs that hold little collect garbage more seldom here than by themselves, which is a
# tenth of their time.
.PHONY: test
test: setup ## every test but that of two hundred tasks at once (make limits), without the race detector
	@GOGC=400 $(GO_TEST) -parallel $$(( 2 * $$(nproc) )) -skip '^TestF4_TwoHundredTasks$$' $(TEST_FLAGS) \
	  $(if $(NARROWED),$(PKG),$(PLAIN:%=./%) $(RACED)) $(if $(TEST_JSON),-json | tee $(TEST_JSON) | go run ./cmd/cases -follow)

# DRAWN runs what the lot draws, and SAMPLE.
define DRAWN
rooms=$$(printf '%s\n' $(RACED) | sort -u | $(call lot,$(RACE_ROOMS))); \
others=$$(printf '%s\n' $(PLAIN:%=./%) $(RACED) | sort -u | grep -vxF "$$rooms" || true); \
drawn=$$(echo "$$rooms" | $(tests_in) | grep -vE '$(WHOLE)|^TestMain$$' | grep -vxF -f <(echo "$$others" | $(tests_in)) | $(call lot,$(RACE_OF)) || true); \
[ -n "$$drawn" ] || { echo "LOT=$(LOT) draws no test" >&2; exit 1; }; \
echo "under the race detector, by LOT=$(LOT): $$(echo "$$drawn" | wc -l) tests of" $$rooms; \
$(GO_TEST) $(RACE) -run "^($$(echo "$$drawn" | paste -sd '|'))$$|$(SAMPLE)" $$(printf '%s\n' $$rooms $(patsubst %/,%,$(call dirs_of,$(SAMPLE))) | sort -u)
endef

.PHONY: race-lot
race-lot: setup ## some tests under the race detector, by lot: one in eight of packages that start goroutines
	@export CGO_ENABLED=1; $(DRAWN)

.PHONY: race
race: setup ## all tests that a lot could draw, under the race detector: many times the time of make test (PKG= runs all of that package)
	@export CGO_ENABLED=1; $(if $(NARROWED),$(GO_TEST) $(RACE) $(TEST_FLAGS) $(PKG),$(MAKE) race-lot RACE_ROOMS=1 RACE_OF=1)

.PHONY: instruction
instruction: setup ## what builders are told, held against cmark-gfm on 10,000 generated documents
	go test -run TestI15_ -timeout $(TEST_TIMEOUT) ./compliance/instruction -documents 10000

.PHONY: demo
demo: setup-run build ## writ with an embedded forge: four issues, four ends, a kill -9 in between
	bin/writ demo

# The agents' packages have 353 MB to download, and 800 MB on the disk.
AGENTS ?= claude-code codex acp
.PHONY: demo-agents
demo-agents: setup-run build ## the demo's first issue by each published agent, against a stub of its provider (installs them)
	at=$$(.ci/setup agents | tail -n 1); for kind in $(AGENTS); do bin/writ demo --builder $$kind --agent $$at || exit 1; done

.PHONY: bench
bench: setup-run build ## measure against the git binary and SHA-256; rewrites docs/benchmarks.md (installs the agents)
	WRIT_TEST_AGENTS=$$(.ci/setup agents | tail -n 1) go run ./cmd/bench

.PHONY: soak
soak: setup ## 50 worlds, 2,000 issues, five crashes, and a server that can't in turns: nothing done twice, nothing left over
	go test -run '^$$' -bench Soak -benchtime 1x -timeout 60m ./cmd/e2e
	go test -run '^$$' -bench SoakOutages -benchtime 1x -timeout 60m ./executor/supervisor

# The ordinary suite runs the first few of them.
SEEDS ?= 500
.PHONY: seeds
seeds: setup ## simulations at length: GitHub and GitLab that lie, 500 seeds through the real adapters, ten times the suite's of the others, each point with each end
	go test -count=1 -timeout 60m -v ./executor/supervisor -run '^Test(Sim_(F5_F6_LyingForges|F5_LyingForge|G7_E8_OnForges|P10_TakenBack|K6_EveryPoint\w*|K7_\w*EveryPoint\w*|K7_Seeds)|B6_ARuleAndAKill|E8_LostAndRefused|L12_BranchMadeMeanwhile)$$' -args -hosted-seeds $(SEEDS) -seeds $$(( 3 * $(SEEDS) )) \
	  | grep -v -e '=== ' -e '--- PASS.*seeds/' -e '--- PASS: .*/[0-9]* (' -e '--- PASS.*/lost='

# Under the race detector, in make race-lot, they are fewer.
.PHONY: limits
limits: setup ## two hundred tasks at once within the limits that forges publish; ten thousand slow connections
	go test -count=1 -timeout 15m -v ./cmd/e2e -run '^TestF4_TwoHundredTasks$$' | grep -v '=== '
	go test -run '^$$' -bench SlowConnections -benchtime 1x -timeout 5m ./cmd/e2e

# Not in CI: it takes minutes and the tools of five languages.
.PHONY: builds
builds: ## builds that people have, in each sandbox: Go, npm, Python, Maven, C++ (installs their tools)
	@.ci/setup builds
	go test -count=1 -timeout 60m -tags builds -v ./executor/sandbox -run '^TestBuilds_' | grep -v '=== '

.PHONY: agents
agents: agents-smoke ## the published agents as builders, against a stub of their providers, with everything that a hostile model has them do
	WRIT_TEST_AGENTS=$$(.ci/setup agents | tail -n 1) go test -count=1 -timeout 60m -tags agents -v ./executor/builder -run '^Test(Agents|[FIX][0-9]_Agent)' | grep -v '=== '

.PHONY: agents-smoke
agents-smoke: setup-run ## each of the published agents does one task, and hostile models have it do the scripts of X1 to X3 (installs them: 400 MB to fetch)
	WRIT_TEST_AGENTS=$$(.ci/setup agents | tail -n 1) go test -count=1 -timeout 10m -v ./cmd/e2e -run '^TestAgents_' | grep -v '=== '
	WRIT_TEST_AGENTS=$$(.ci/setup agents | tail -n 1) go test -count=1 -timeout 10m -tags agents -v ./executor/builder -run '^TestAgents_(Versions|DoTheWork)$$' | grep -v '=== '
	WRIT_TEST_AGENTS=$$(.ci/setup agents | tail -n 1) go test -count=1 -timeout 10m -tags agents -v ./executor/builder -run '^TestAgents_HostileScripts$$/./^X[123]_' | grep -v '=== '

.PHONY: cases
cases: setup ## run the tests and print which case is held by which test
	go run ./cmd/cases $(if $(CASES_IN),-in $(CASES_IN),-- -timeout $(TEST_TIMEOUT) ./...)

# All of them take two hours on two processors: each runs a test of its own. A whole run
# belongs before a release, and a package's (make mutants PKG=./kernel/...)
# before a defence in it is changed. CI tries those that a change touches.
.PHONY: mutants
mutants: setup ## take each defence out; its test must then fail (PKG= narrows it)
	go run ./cmd/mutants -pkg $(PKG)

# BASE is a commit to compare with, BUDGET how long to go on.
BASE   ?= auto
BUDGET ?= 90s
.PHONY: mutants-changed
mutants-changed: setup ## mutants of the packages that the last change touches, for a minute and a half
	go run ./cmd/mutants -changed $(BASE) -budget $(BUDGET)

.PHONY: mutants-check
mutants-check: ## check that every mutant still applies to the code and names a test
	go run ./cmd/mutants -check

.PHONY: conformance
conformance: ## check that docs/conformance.md gives each requirement a test that exists
	go test -tags conformance -count=1 -run Conformance ./cmd/housekeeping

.PHONY: lint
lint: ## golangci-lint (staticcheck is one of its linters), with .golangci.yml
	$(TOOL) golangci-lint run ./...

.PHONY: chart
chart: ## lint the Helm chart and compare what it renders with its goldens (UPDATE=1 writes them)
	@.ci/chart

.PHONY: apiserver
apiserver: ## install the chart on a real API server, without a node (builds it first: minutes)
	@.ci/setup apiserver
	@.ci/kube server

# Not in CI: it takes minutes and root.
.PHONY: kube
kube: ## run the chart on one Kubernetes node made by hand, as docs/containers.md says (builds it first)
	@.ci/setup kube
	@.ci/kube node

# Needs a Docker engine, so CI doesn't: there a test holds the Dockerfile's lines.
.PHONY: image
image: ## build the container image writ:VERSION
	docker build --build-arg VERSION=$(VERSION) --tag writ:$(VERSION) .

.PHONY: fmt
fmt: ## format the Go files
	$(TOOL) golangci-lint fmt ./...

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum are not what the code needs
	go mod tidy -diff

.PHONY: generate-check
generate-check: ## run go generate in place and fail if a generated file changed by it
	@before=$$(git diff HEAD | sha256sum); go generate ./...; \
	if [ "$$before" != "$$(git diff HEAD | sha256sum)" ]; then \
	  git --no-pager diff --stat HEAD; echo "generated files were stale: commit what go generate wrote" >&2; exit 1; fi

# Not in `check` and not in CI: it asks a vulnerability database over the
# network, and a machine that reaches only the Go proxy, git and the system's
# packages can't reach that host. A gate that passes because it could not look
# would be worse than none, so it is run by hand before a release, and it fails
# loudly when it can't look.
.PHONY: vuln
vuln: ## look up known vulnerabilities (needs the database's host; not part of check)
	$(TOOL) govulncheck ./... || { echo "vuln: findings above, or the database could not be reached: then nothing was checked" >&2; exit 1; }

.PHONY: check
check: tidy-check generate-check lint build test ## what must be right before a commit lands

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
