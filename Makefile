# Cairn. `make help` lists the targets.

SHELL      := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Settings of `make run`.
DATA        ?= data/flights
LISTEN      ?= 127.0.0.1:6420
ONCE        ?=
ARGS        ?=

# The packages that `make mutants` changes.
PKG         ?= ./keyspace

# How long `make fuzz` spends on each fuzz test, and how often `make crash` and `make chaos` kill a process.
FUZZTIME    ?= 30s
KILLS       ?= 100
ROUNDS      ?= 5

# How many actors `make bench-growth` puts into its stores.
ACTORS      ?= 1000000

GO ?= go

# One set of flags for all that runs, so that nothing is compiled twice: no cgo, whether or not there is a C compiler, and no
# debugging information, which takes a fifth of the time to compile and which programs in bin are linked without. Stack traces and
# profiles need none.
export CGO_ENABLED := 0
export GOFLAGS := $(shell $(GO) env GOFLAGS 2>/dev/null) -gcflags=all=-dwarf=false
BUILD := GOGC=400 $(GO) build -ldflags '-s -w'

# The race detector needs cgo, and has the other set: vet and staticcheck share it, because they need the same compiled packages, and so
# do tests that ask the go command for them. What costs time and finds nothing is left out: Pebble's zstd in C (its Go one is what
# others get), the C linker, the second that each process waits for late races as it ends, and what the script race is about.
RACE := CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 GOFLAGS="$$GOFLAGS -race -toolexec=$(CURDIR)/runtime/internal/policy/tools/race \
	-tags=pebblegozstd $(if $(filter Linux,$(shell uname -s)),-ldflags=-linkmode=internal)"

# Programs that check the sources. Their versions are in a module of their own, which users of Cairn do not get.
TOOLS := -modfile=$(CURDIR)/runtime/internal/policy/tools/go.mod

# All of staticcheck except the checks of comments and names, which have rules of their own in runtime/internal/policy.
CHECKS := all,-ST1000,-ST1003,-ST1016,-ST1020,-ST1021,-ST1022

# Modules of their own: what is measured beside other libraries, and examples and tests with dependencies that nobody else should have.
MODULES := runtime/bench docs/examples/orm docs/operate runtime/dashboard/browsertest

ALL := ./... $(MODULES:%=./%/...)

# Runs a command in each of some folders, all at the same time, and fails if one fails.
each = jobs=; for module in $(1); do (cd "$$module"; $(2)) & jobs="$$jobs $$!"; done; for job in $$jobs; do wait "$$job"; done

# Both SQLite libraries that are measured register one name, so the Go one is linked without its.
MATTN := -tags mattn -ldflags '-X github.com/ncruces/go-sqlite3/driver.driverName='

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: go ## replay 20,000 flights through durable actors, print a table, keep serving (ONCE=1 DATA=dir LISTEN=addr)
	@mkdir -p bin
	@echo 'Building bin/flights. The first build compiles SQLite and Pebble too, and takes a minute or more; the next takes a second.' >&2
	@$(BUILD) -o bin/ ./docs/examples/flights
	@exec bin/flights --data '$(DATA)' --listen '$(LISTEN)' $(if $(filter-out 0,$(ONCE)),--once) $(ARGS)

.PHONY: build
build: go ## build bin/cairn and bin/flights
	@mkdir -p bin
	@echo 'Building bin/cairn and bin/flights. The first build takes a minute or two.' >&2
	@$(BUILD) -o bin/ ./runtime/cmd/cairn ./docs/examples/flights

# vet has run all of go vet, so go test need not run a part of it. Tests wait as much as they compute: two packages for each core.
.PHONY: test
test: go cc tools node chromium vet ## go vet, staticcheck, deadcode, and all tests with the race detector
	@$(call each,. $(MODULES),$(RACE) $(GO) test -vet=off -timeout 20m -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) ./...)

# All modules are checked as one workspace, so that what they share is read once. With GOGC=200 staticcheck takes a quarter less
# processor time. deadcode need not look at the input of ent's generator; it reads sources while go vet compiles.
.PHONY: vet
vet: go cc ## go vet and staticcheck: faults; deadcode: code that no program and no test reaches
	@staticcheck="$$($(GO) tool $(TOOLS) -n staticcheck)"; deadcode="$$($(GO) tool $(TOOLS) -n deadcode)"; \
	export GOWORK='$(CURDIR)/runtime/internal/policy/tools/go.work'; \
	dead="$$(mktemp)"; trap 'rm -f "$$dead"' EXIT; "$$deadcode" -test $(ALL) >"$$dead" & reader=$$!; \
	echo 'go vet, deadcode'; $(RACE) $(GO) vet $(ALL); wait $$reader; \
	if sed '\|^docs/examples/orm/ent/|d' "$$dead" | grep . >&2; then exit 1; fi; \
	echo 'staticcheck'; GOGC=200 $(RACE) "$$staticcheck" -checks $(CHECKS) $(ALL)

.PHONY: bench
bench: go cc ## measure a node beside raw Pebble, bare HTTP handlers and SQLite files in one run (ROUNDS=5), then the packages' own benchmarks
	cd runtime/bench && $(GO) run . -rounds '$(ROUNDS)'
	cd runtime/bench && CGO_ENABLED=1 $(GO) run $(MATTN) . -rounds '$(ROUNDS)' -run SQL
	cd runtime/bench && CGO_ENABLED=1 $(GO) run $(MATTN) . -rounds '$(ROUNDS)' -run 'KV: puts'
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./keyspace/... ./engine ./traces ./actor/... ./sqlitevfs ./workflow/internal/replay

.PHONY: bench-growth
bench-growth: go ## measure a node whose store has many actors beside raw Pebble (ACTORS=1000000 ROUNDS=5 ARGS='-soak 20m')
	cd runtime/bench && $(GO) run ./growth -actors '$(ACTORS)' -rounds '$(ROUNDS)' $(ARGS)

.PHONY: fuzz
fuzz: go ## run every fuzz test for a while (FUZZTIME=30s)
	@$(GO) list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do \
		{ grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go 2>/dev/null || true; } | while read -r _ name; do \
			echo "$$package $$name"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime '$(FUZZTIME)' -fuzzminimizetime 10x "$$package" </dev/null; \
		done; \
	done

.PHONY: crash
crash: build ## kill -9 the flights program at random moments, many times, and compare the tables (KILLS=100)
	$(GO) test -count=1 -timeout 120m -v -run '^TestKill' ./docs/examples/flights -binary '$(CURDIR)/bin/flights' -kills '$(KILLS)' -flights 20000

.PHONY: chaos
chaos: go ## kill -9 node, senders, workers and readers of the jobs example at random, and account for every message (KILLS=100)
	@mkdir -p bin
	$(BUILD) -o bin/ ./docs/examples/jobs
	$(GO) test -count=1 -timeout 120m -v ./docs/examples/jobs -binary '$(CURDIR)/bin/jobs' -kills '$(KILLS)' -letters 5000

.PHONY: browser
browser: go chromium ## connections from a page in Chromium, which is installed if it is missing
	$(GO) test -count=1 -tags browser -run Browser -v ./docs/guides

.PHONY: test-denokv
test-denokv: go node ## the clients of Deno KV against a node: @deno/kv in Node, and Deno, which is downloaded from npm (100 MB)
	CAIRN_DENO=1 $(GO) test -count=1 -run '^TestDenoKV' -v ./docs/guides

.PHONY: calls
calls: go ## count the functions that an HTTP action runs through, and list them
	$(GO) run ./runtime/internal/policy/calls

.PHONY: breaks
breaks: go ## break the code on purpose, one place at a time, and show that the tests find each (ARGS='-only name,name'; takes an hour or more)
	$(GO) run ./runtime/internal/policy/breaks $(ARGS)

.PHONY: mutants
mutants: go ## count the small changes of a package that its tests find (PKG=./keyspace ARGS='-sample 100'; -help lists the flags)
	$(GO) run ./runtime/internal/policy/mutants $(ARGS) $(PKG)

.PHONY: conformance
conformance: go cc ## the conformance suite on all parts, with a crash at every sync
	CAIRN_LONG=1 $(RACE) $(GO) test -count=1 -timeout 60m -run '^TestPartsConform$$' ./runtime/internal/node

.PHONY: soak
soak: go cc ## the long forms of the tests against models
	CAIRN_LONG=1 $(RACE) $(GO) test -count=1 -timeout 120m ./runtime/... ./engine/... ./sqlitevfs/... ./traces/... ./workflow/...

.PHONY: peers
peers: go node ## measure one workflow on Cairn, Restate and Temporal in turn (ROUNDS=5); builds Temporal's server, which takes minutes
	cd runtime/bench/peers && npm ci --no-audit --no-fund && $(GO) run . -rounds '$(ROUNDS)'

.PHONY: bench-denokv
bench-denokv: go node ## measure writes of the client of Deno KV on a node, beside a server with canned replies (ROUNDS=5)
	cd runtime/bench/denokv && npm ci --no-audit --no-fund && $(GO) run . -rounds '$(ROUNDS)'

# A fresh machine may lack Go, or the C compiler that the race detector (and nothing else here) needs.
.PHONY: go cc tools node chromium
go:
	@command -v $(GO) >/dev/null || { \
		echo 'Go is missing. Install version 1.26 or newer from https://go.dev/dl, or a packaged one from 1.21 on, which fetches it.' >&2; exit 1; }
cc:
	@command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null || { \
		echo 'The race detector needs a C compiler: installing gcc.'; \
		sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
		if command -v apt-get >/dev/null && { [ -z "$$sudo" ] || command -v sudo >/dev/null; }; then \
			$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends gcc libc6-dev; \
		else \
			echo 'Install gcc and the C library headers first.' >&2; exit 1; \
		fi; }

# Tests run the commands of the guides in a shell, and look at exported databases with the stock SQLite program.
tools:
	@command -v curl >/dev/null && command -v jq >/dev/null && command -v sqlite3 >/dev/null || { \
		echo 'The tests use curl, jq and sqlite3: installing them.'; \
		sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
		if command -v apt-get >/dev/null && { [ -z "$$sudo" ] || command -v sudo >/dev/null; }; then \
			$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends curl jq sqlite3; \
		else \
			echo 'Install curl (7.82 or newer), jq and sqlite3 first.' >&2; exit 1; \
		fi; }

# The client in TypeScript is compiled with packages of npm, and Restate's server comes from there.
node:
	@command -v npm >/dev/null || { \
		echo 'npm is missing: installing it.'; \
		sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
		$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends npm; }

# The pages of the dashboard are tested in a browser.
chromium:
	@command -v chromium >/dev/null || { \
		echo 'Chromium is missing: installing it.'; \
		sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
		$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends chromium; }
