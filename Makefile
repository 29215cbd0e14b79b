# `make` alone lists the targets.

GO     ?= go
LINT    = $(GO) tool -modfile=tools/lint/go.mod golangci-lint
SOURCES = $(shell find . -name '*.go' -not -path './.git/*' -not -path '*/testdata/*' -not -path '*/node_modules/*')
CASES   = $(wildcard internal/conformance/testdata/cases/*.yaml internal/conformance/testdata/cases/*.json)
PARTS   = @$(GO) run ./internal/parts $(if $(LOG),-log $(LOG))
# The race detector needs a C compiler.
RACING  = env CGO_ENABLED=1 $(GO) test -race
# Packages of many goroutines that link no database and no server: the race detector watches them before each change, and
# all others each night. SQLite alone takes it a minute to compile, net/http with what it encrypts half of one.
RACED   = ./internal/body ./internal/cluster ./internal/lease ./internal/remote ./internal/worker

FUZZTIME ?= 60s

# Everything is compiled in one way, so that it is compiled once: as what is released, which no debugger reads.
export CGO_ENABLED = 0
export GOFLAGS    += -trimpath -ldflags=-s

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./pawl, a static binary
	$(GO) build -o pawl ./cmd/pawl

# Each test is in one of three lists: before each change, or each night if it asks internal/nightly, or each week. A test
# of internal/house compares the lists with the tests.

# Many tests wait, for processes, disks and PostgreSQL: two packages a core keep the machine at work.
ATONCE  = -p $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 4))
# Those that wait longest are begun first.
FIRST   = ./cmd/pawl ./pawlcluster ./outbox ./internal/conformance ./internal/journal/postgres ./examples
# What the race detector watches is not run without it, too: each night it is.
CALM    = $$($(GO) list $(FIRST) ./... $(if $(RACE),| grep -vxF "$$($(GO) list $(RACED))"))

.PHONY: test
test: ## run what must pass before each change; Go alone is enough: RACE=1 LOG=file
	$(PARTS) tests $(GO) test -short $(ATONCE) -vet=off -timeout 30m $(CALM) \
	  $(if $(RACE),+ race nice $(RACING) -short $(ATONCE) -vet=off -timeout 30m $(RACED))

.PHONY: nightly
nightly: ## run everything, in an hour or two: .ci/run, all tests, all under the race detector, faults, seeds, fuzzing
	@. .ci/machine; $(PARTS:@%=%) change bash .ci/run \
	  : vet $(MAKE) vet \
	  : lint $(MAKE) lint \
	  : whole $(GO) test -count=1 -timeout 60m ./... \
	  : race $(RACING) -count=1 -timeout 120m ./... \
	  : systems $(MAKE) systems \
	  : faults $(MAKE) faults FAULTS=5m + sim nice $(MAKE) sim SEEDS=20000 \
	  : crash $(MAKE) crash ROUNDS=50 + powercut nice $(MAKE) powercut CUTS=200 \
	  : fuzz $(MAKE) fuzz \
	  : peers $(MAKE) peers \
	  : bench $(MAKE) bench BENCH=--quick

.PHONY: weekly
weekly: ## run what takes hours: mutants, 1,000,000 seeds, power cuts, 1,000 kills, an hour of faults, fuzzing, the benchmark
	@. .ci/machine; $(PARTS:@%=%) mutants $(MAKE) mutants \
	  : sim $(MAKE) sim SEEDS=1000000 \
	  : powercut $(MAKE) powercut CUTS=10000 \
	  : crash $(MAKE) crash ROUNDS=1000 \
	  : faults $(MAKE) faults FAULTS=1h \
	  : fuzz $(MAKE) fuzz FUZZTIME=5m \
	  : weight $(MAKE) weight WEIGHT=-check \
	  : bench $(MAKE) bench

.PHONY: race
race: ## run the tests that make test runs, and packages of many goroutines under the race detector (needs a C compiler)
	$(MAKE) test RACE=1

.PHONY: fmt
fmt: ## format the code
	$(LINT) fmt

.PHONY: lint
lint: ## run golangci-lint; the first time it is compiled, which takes a minute or two
	$(LINT) run

# The linter has more to compile than Pawl: before each change its formatter alone is run.
.PHONY: format
format: ## tell which files gofumpt would write in another way
	@$(GO) run -modfile=tools/lint/go.mod mvdan.cc/gofumpt -l $(SOURCES) | (! grep .) || { echo 'not formatted: make fmt'; exit 1; }

.PHONY: vet
vet: ## run go vet, pawlvet over the workflows, and see whether go.mod is tidy
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) run ./cmd/pawlvet ./...

.PHONY: systems
systems: ## build for all systems that Pawl runs on, and run go vet for Windows
	GOOS=linux GOARCH=arm64 $(GO) build ./...
	GOOS=darwin $(GO) build ./...
	GOOS=windows $(GO) build ./...
	GOOS=windows $(GO) vet ./...
	$(GO) vet -tags small ./cmd/pawl

.PHONY: check
check: fmt lint vet race ## what to run before sending a change: format, lint, vet, tests with race

.PHONY: conformance
conformance: ## show every row of the contract, one test each
	$(GO) test ./internal/conformance -run '^TestConformance$$' -count 1 -v

.PHONY: cases
cases: build ## check the policy cases with the real binary
	@for file in $(CASES); do echo "$$file"; ./pawl policy simulate --check -f "$$file" || exit 1; done

.PHONY: sim
sim: ## simulate whole clusters with faults: SEEDS=500 CLUSTER=1 (machines in each universe)
	$(GO) test ./internal/sim -run '^TestSeeds$$' -count 1 -timeout 12h -v -seeds=$(or $(SEEDS),500) $(if $(CLUSTER),-cluster)

.PHONY: crash
crash: ## kill -9 the real binary in the middle of its work, and the examples: ROUNDS=50
	$(GO) test ./cmd/pawl -run '^TestCrash$$' -count 1 -timeout 3h -v -crash.rounds=$(or $(ROUNDS),50)
	$(GO) test ./examples -run '^TestKilled$$' -count 1 -timeout 60m -v -kills=100

.PHONY: faults
faults: ## disturb clusters of real processes in every way: FAULTS=10m (how long)
	PAWL_TEST_FAULTS_FOR=$(or $(FAULTS),10m) $(GO) test ./cmd/pawl -run '^TestMixedFaults' -count 1 -timeout 4h -v

.PHONY: page
page: ## build the page of web/app into web/dist
	cd web/app && npm ci --no-audit --no-fund && npm run build

.PHONY: pictures
pictures: ## take pictures of the page in a browser, into dist/pictures; docs/ui has some of them
	mkdir -p dist/pictures
	PAWL_SHOTS=$(CURDIR)/dist/pictures PAWL_REQUIRE_BROWSER=1 $(GO) test ./cmd/pawl -run '^TestPage' -count 1

.PHONY: mutants
mutants: ## put each mistake of internal/conformance/mutants into a copy, a test must fail: MUTANTS=S3
	$(GO) test ./internal/conformance -run '^TestMutants$$' -count 1 -v -timeout 4h \
		$(if $(REFRESH),-refresh,-mutants='$(or $(MUTANTS),.)')

.PHONY: powercut
powercut: ## cut the power under the journal in a file, and under an engine: CUTS=1000
	$(GO) test ./internal/journal/sqlite -run '^TestPowerCut$$' -count 1 -timeout 4h -v -cuts=$(or $(CUTS),1000)
	$(GO) test ./internal/engine -run '^TestPowerCut$$' -count 1 -timeout 4h -v -cuts=$(or $(CUTS),1000)

.PHONY: bench
bench: build ## measure this machine: BENCH=--quick, or BENCH='NAME --quick -o json' for one row
	$(GO) run ./tools/bench --pawl ./pawl $(BENCH)

.PHONY: weight
weight: ## tell what each part of the binary costs to compile, in processor seconds and MB: WEIGHT=-check
	$(GO) run ./tools/weight $(WEIGHT)

.PHONY: bench-peers
bench-peers: ## the same work for Pawl and others, into the page beside it: POSTGRES=postgres://...
	cd tools/peers && $(GO) run . -postgres '$(POSTGRES)' -write README.md

.PHONY: peers
peers: ## build the programs of tools/peers, and measure Pawl there for a moment
	cd tools/peers && $(GO) vet ./... && $(GO) run . -peers 'Pawl, SQLite' \
	  -works onestep,tenstep,retry,latency,recovery -rounds 1 -warm 100ms -window 300ms

.PHONY: fuzz
fuzz: ## fuzz every parser: FUZZTIME=60s each
	bash .ci/fuzz $(FUZZTIME)

.PHONY: man
man: build ## write the manual pages into dist/man
	./pawl man dist/man

.PHONY: dist
dist: ## build archives for all systems into dist, with their checksums: VERSION=1.2.3
	bash .ci/dist $(VERSION)

.PHONY: deb
deb: ## build a Debian package into dist: VERSION=1.2.3
	bash .ci/deb $(VERSION)

.PHONY: hooks
hooks: ## let git check what is committed
	git config core.hooksPath .githooks

.PHONY: clean
clean: ## remove what was built
	rm -rf pawl bin dist
