# `make` alone lists the targets.

GO     ?= go
LINT    = $(GO) tool -modfile=tools/go.mod golangci-lint
CASES   = $(wildcard internal/conformance/testdata/cases/*.yaml internal/conformance/testdata/cases/*.json)

FUZZTIME ?= 30s

# What `make test` can be asked for, as .ci/run does: make test RACE=1 SEEDS=500 ROUNDS=5 V=1
RACE   ?= # 1: run under the race detector, which needs a C compiler
SEEDS  ?= # how many clusters to simulate; empty: as many as `go test` does
ROUNDS ?= # how often to crash the real binary; empty: as often as `go test` does
V      ?= # 1: show each row of the contract, and what the simulation and the crash test have seen

PLAIN    = $(GO) test -timeout 30m
# The race detector needs C; what a test builds itself does not, and is the same as elsewhere.
TEST     = $(if $(RACE),CGO_ENABLED=1) $(PLAIN) $(if $(RACE),-race -exec 'env CGO_ENABLED=0')
COUNTED  = ^(TestConformance|TestSeeds|TestCrash)$$
# Packages with one goroutine each: the race detector has nothing to watch there, and makes them five times slower.
# Of the simulation it watches TestSeeds. And the one that measures.
SINGLE   = $(addprefix github.com/pawl-dev/pawl/,cmd/pawlvet dialect% flow internal/bench internal/core internal/house \
             internal/sim internal/vet policy)
# What takes so long under the race detector that it does a part of its work there. make test does all of it without.
PARTLY   = ^(TestConformanceOnPostgres|TestConformanceOverTwoStores|TestGoServed|TestGoOverHTTP|TestSearchOfMany|$\
             TestChangedBranches|TestRandomBodies|TestRunsGoFromNodeToNode)$$
# Tests that do little but start the command, hundreds of times. Each start is dear under the race detector, and what the
# command does is watched in the tests of its packages, and of servers and clusters.
STARTING = ^(TestScript|TestPage.*|TestBenchServers)$$
PACKAGES = $(shell $(GO) list ./...)
COMMAND  = github.com/pawl-dev/pawl/cmd/pawl

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./pawl, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o pawl ./cmd/pawl

# The same tests as `go test ./...`. Three of them run by themselves, so that they can be shown and asked for more.
# With make -j2 the parts run beside each other: the second has the time in which a test of the first waits.
.PHONY: test
test: test-packages test-command test-single test-starts test-whole test-rows test-seeds test-crash
test: ## run the tests, Go alone is enough: RACE=1 SEEDS=500 ROUNDS=5 V=1

.PHONY: test-packages test-command test-single test-starts test-whole test-rows test-seeds test-crash
test-packages:
	$(TEST) -skip '$(COUNTED)' $(filter-out $(SINGLE) $(COMMAND),$(PACKAGES))
test-command:
	$(TEST) -skip '$(COUNTED)|$(STARTING)' $(COMMAND)
test-single:
	$(PLAIN) -skip '$(COUNTED)' $(filter $(SINGLE),$(PACKAGES))
test-starts:
	$(PLAIN) -run '$(STARTING)' $(COMMAND)
test-whole:
	$(if $(RACE),$(PLAIN) $(if $(V),-v) -run '$(PARTLY)' ./internal/conformance ./internal/facetest ./internal/journal/sqlite \
	  ./internal/lease)
test-rows:
	$(TEST) $(if $(V),-v) -run '^TestConformance$$' ./internal/conformance
test-seeds:
	$(TEST) $(if $(V),-v) -run '^TestSeeds$$' ./internal/sim $(if $(SEEDS),-seeds=$(SEEDS))
test-crash:
	$(TEST) $(if $(V),-v) -run '^TestCrash$$' ./cmd/pawl $(if $(ROUNDS),-crash.rounds=$(ROUNDS))

.PHONY: race
race: ## run the tests under the race detector (needs a C compiler)
	$(MAKE) test RACE=1

.PHONY: fmt
fmt: ## format the code
	$(LINT) fmt

.PHONY: lint
lint: ## run golangci-lint; the first time it is compiled, which takes a minute or two
	$(LINT) run

.PHONY: vet
vet: ## run go vet, and pawlvet over the workflows
	$(GO) vet ./...
	$(GO) run ./cmd/pawlvet ./...

.PHONY: check
check: fmt lint vet race ## what to run before sending a change: format, lint, vet, tests with race

.PHONY: conformance
conformance: ## show every row of the contract, one test each
	$(GO) test ./internal/conformance -run TestConformance -count 1 -v

.PHONY: cases
cases: build ## check the policy cases with the real binary
	@for file in $(CASES); do echo "$$file"; ./pawl policy simulate --check -f "$$file" || exit 1; done

.PHONY: sim
sim: ## simulate whole clusters with faults: SEEDS=500 CLUSTER=1 (machines in each universe)
	$(GO) test ./internal/sim -run '^TestSeeds$$' -count 1 -timeout 60m -seeds=$(or $(SEEDS),500) $(if $(CLUSTER),-cluster)

.PHONY: crash
crash: ## kill -9 the real binary in the middle of its work, and the examples: ROUNDS=50
	$(GO) test ./cmd/pawl -run '^TestCrash$$' -count 1 -timeout 60m -crash.rounds=$(or $(ROUNDS),50)
	$(GO) test ./examples -run '^TestKilled$$' -count 1 -timeout 60m -kills=100

.PHONY: page
page: ## build the page of web/app into web/dist
	cd web/app && npm ci --no-audit --no-fund && npm run build

.PHONY: pictures
pictures: ## take the pictures of docs/ui in a browser
	mkdir -p docs/ui
	PAWL_SHOTS=$(CURDIR)/docs/ui PAWL_REQUIRE_BROWSER=1 $(GO) test ./cmd/pawl -run '^TestPage' -count 1

.PHONY: mutants
mutants: ## put each mistake of internal/conformance/mutants into a copy, a test must fail: MUTANTS=S3
	$(GO) test ./internal/conformance -run '^TestMutants$$' -count 1 -v -timeout 120m \
		$(if $(REFRESH),-refresh,-mutants='$(or $(MUTANTS),.)')

.PHONY: powercut
powercut: ## cut the power under the journal in a file, and under an engine: CUTS=1000
	$(GO) test ./internal/journal/sqlite -run '^TestPowerCut$$' -count 1 -timeout 60m -v -cuts=$(or $(CUTS),1000)
	$(GO) test ./internal/engine -run '^TestPowerCut$$' -count 1 -timeout 60m -v -cuts=$(or $(CUTS),1000)

.PHONY: bench
bench: build ## measure this machine; `./pawl bench NAME --quick -o json` for one row
	./pawl bench

.PHONY: bench-peers
bench-peers: ## the same work for Pawl and others, into README.md and tools/peers: POSTGRES=postgres://...
	cd tools/peers && $(GO) run . -postgres '$(POSTGRES)' -write README.md,../../README.md

.PHONY: fuzz
fuzz: ## fuzz every parser: FUZZTIME=30s each
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
