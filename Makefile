# `make` alone lists the targets.

GO     ?= go
LINT    = $(GO) tool -modfile=tools/go.mod golangci-lint
CASES   = $(wildcard internal/conformance/testdata/cases/*.yaml internal/conformance/testdata/cases/*.json)

SEEDS   ?= 500
ROUNDS  ?= 50
FUZZTIME ?= 30s

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./pawl, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o pawl ./cmd/pawl

.PHONY: test
test: ## run the tests (Go alone is enough)
	$(GO) test ./...

.PHONY: race
race: ## run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

.PHONY: fmt
fmt: ## format the code
	$(LINT) fmt

.PHONY: lint
lint: ## run golangci-lint; the first time it is compiled, which takes a minute or two
	$(LINT) run

.PHONY: vet
vet: ## run go vet
	$(GO) vet ./...

.PHONY: check
check: fmt lint vet race ## what to run before sending a change: format, lint, vet, tests with race

.PHONY: conformance
conformance: ## show every row of the contract, one test each
	$(GO) test ./internal/conformance -run TestConformance -count 1 -v

.PHONY: cases
cases: build ## check the policy cases with the real binary
	@for file in $(CASES); do echo "$$file"; ./pawl policy simulate --check -f "$$file" || exit 1; done

.PHONY: sim
sim: ## simulate whole clusters with faults: SEEDS=500
	$(GO) test ./internal/sim -run 'TestSeeds$$' -count 1 -timeout 60m -seeds=$(SEEDS)

.PHONY: crash
crash: ## kill -9 the real binary in the middle of its work: ROUNDS=50
	$(GO) test ./cmd/pawl -run TestCrash -count 1 -timeout 60m -crash.rounds=$(ROUNDS)

.PHONY: bench
bench: build ## measure this machine; `./pawl bench NAME --quick -o json` for one row
	./pawl bench

.PHONY: fuzz
fuzz: ## fuzz every parser: FUZZTIME=30s each
	bash .ci/fuzz $(FUZZTIME)

.PHONY: hooks
hooks: ## let git check what is committed
	git config core.hooksPath .githooks

.PHONY: clean
clean: ## remove what was built
	rm -rf pawl bin
