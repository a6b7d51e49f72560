# Commands for developers. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

OUT         := bin/pgdispatch
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
CYCLONEDX   := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
GOTEST      := go test -race -timeout 20m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/pgdispatch, static and reproducible
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(OUT) ./cmd/pgdispatch

.PHONY: reproducible
reproducible: build ## rebuild in another directory without a cache, and compare the bytes
	@copy=$$(mktemp -d) && trap 'chmod -R u+w "$$copy" && rm -rf "$$copy"' EXIT && git ls-files -z | xargs -0 cp --parents -t "$$copy" && \
	GOCACHE=$$copy/.cache $(MAKE) --no-print-directory -C "$$copy" build VERSION=$(VERSION) && cmp bin/pgdispatch "$$copy/bin/pgdispatch" && sha256sum bin/pgdispatch

.PHONY: release
release: ## pack dist/ for Linux and macOS on amd64 and arm64, twice, and compare the bytes; VERSION=v1.2.3
	.ci/release '$(VERSION)'

.PHONY: sbom
sbom: build ## write the binary's software bill of materials to dist/, in the CycloneDX format; VERSION=v1.2.3
	mkdir -p dist
	go run $(CYCLONEDX) bin -json -std -version '$(VERSION)' -output 'dist/pgdispatch_$(VERSION).cdx.json' bin/pgdispatch

.PHONY: devstack
devstack: ## build bin/devstack, the embedded Temporal server and the demo (minutes the first time)
	@echo "building bin/devstack with the embedded Temporal server: 4 to 7 minutes on two cores the first time, seconds later"
	@start=$$SECONDS; (while sleep 20; do echo "  still building, $$((SECONDS - start)) s"; done) & ticker=$$!; \
	trap "kill $$ticker 2>/dev/null" EXIT; \
	go build -C cmd/devstack -o ../../bin/devstack . && echo "  built in $$((SECONDS - start)) s"

.PHONY: run
run: ## run Postgres, Temporal, two replicas and a live view on this machine (RUN_ONCE=1 exits when done)
	@.ci/need run
	@$(MAKE) --no-print-directory build devstack
	exec bin/devstack demo --pgdispatch bin/pgdispatch $(if $(RUN_ONCE),--once)

.PHONY: test
# The embedded server is not built with the race detector: that takes minutes for third-party code. Tests of the module
# in test/ read files of the product, or build it, so cached results may be wrong.
test: ## lint, and run all tests with the race detector on a real Postgres and Temporal
	@.ci/need test
	@$(MAKE) --no-print-directory devstack build lint
	$(GOTEST) ./...
	$(MAKE) --no-print-directory simulation SEEDS=3000
	go test -C test -timeout 20m -count=1 -skip LoseNothing ./simulation/...
	PGDISPATCH_LONG=1 go test -run 'TestNoInterleaving|TestEveryRule' ./notify
	cd cmd/devstack && $(GOTEST) ./internal/... && go test -timeout 10m .
	cd test && $(GOTEST) -count=1 -run LoseNothing ./simulation # its goroutines on several processors
	cd test && $(GOTEST) -count=1 -parallel 4 ./e2e ./internal/... ./bench/internal/... ./chaos/... ./deploy/... ./failover/... ./mutants/...
	$(MAKE) --no-print-directory -j 2 --output-sync upgrade browser

FIRST   ?= 0
SEEDS   ?= 1
LASTING ?=

.PHONY: simulation
simulation: ## run seeds of the replica simulation again, and print their digest; FIRST=1015, SEEDS=1000, LASTING='a start hangs'
	@set -o pipefail; PGDISPATCH_FIRST_SEED=$(FIRST) PGDISPATCH_SEEDS=$(SEEDS) PGDISPATCH_LASTING="$(LASTING)" \
	go test -C test -timeout 0 -count=1 -v -run LoseNothing ./simulation | grep -v -e '^=== ' -e '--- PASS.*/runs'

.PHONY: test-bare
test-bare: ## run both commands of the README in a chroot with Debian's base, Go, git and make; needs Debian and root
	.ci/bare

.PHONY: test-matrix
test-matrix: devstack build ## run the tests on Postgres 15 to 18, which it downloads (Linux x86-64); PG='17 18', PACKAGES
	.ci/matrix $(PG)

.PHONY: clients
clients: ## run the programs of docs/clients in Go, Python, Node, Java, Ruby and psql; installs missing tools, on Debian as root
	.ci/clients

.PHONY: alerts
alerts: ## test the alerts of deploy/prometheus with promtool, which it downloads (Debian)
	promtool=$$(.ci/promtool) && cd deploy/prometheus && $$promtool check rules alerts.yml && $$promtool test rules alerts_test.yml

.PHONY: upgrade
# A shallow clone or an archive lacks the baseline's commit.
upgrade: devstack ## upgrade and downgrade under load, with replicas of the baseline's build beside replicas of this one
	@if git cat-file -e "$$(cat test/upgrade/baseline)^{commit}" 2>/dev/null; then cd test && go test -timeout 20m -count=1 ./upgrade/...; \
	else echo "NOT RUN: ./upgrade needs the commit that test/upgrade/baseline names: git fetch --unshallow"; fi

.PHONY: browser
browser: devstack ## test every page and action of the web view in headless Chromium, with axe-core
	cd test && go test -timeout 20m -parallel 4 -count=1 ./browser/... # it builds another package's binary, so a cached result may be wrong

.PHONY: screenshots
screenshots: devstack ## retake the screenshots of the documentation; DEMO=LINK: the overview's of a make run under load
	cd test && go test -count=1 -run Pictures ./browser -args -screenshots $(CURDIR)/docs/images -demo "$(DEMO)"

# Another version of Postgres is downloaded (Linux x86-64).
BENCH_POSTGRES = $(if $(PG),PGDISPATCH_PG_BINDIR=$$(.ci/postgres $(PG)))

.PHONY: bench
bench: build ## compare with River, a floor and the machine's limit; takes two to three hours; writes test/bench/report.md; PG=18
	$(BENCH_POSTGRES) go run -C test ./bench -pgdispatch $(CURDIR)/bin/pgdispatch

.PHONY: bench-quick
bench-quick: build ## run the benchmarks in a minute and print the result; checks that they work, not how fast; PG=18
	$(BENCH_POSTGRES) go run -C test ./bench -quick -pgdispatch $(CURDIR)/bin/pgdispatch

.PHONY: failpoint
failpoint: ## build bin/pgdispatch-failpoint, which fails on request, for make chaos
	CGO_ENABLED=0 go build -tags failpoint -ldflags '-X main.version=$(VERSION)' -o bin/pgdispatch-failpoint ./cmd/pgdispatch

.PHONY: chaos-tools
chaos-tools: ## install libfaketime and PgBouncer for some faults of make chaos, on Debian as root
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libfaketime pgbouncer

.PHONY: chaos
chaos: failpoint devstack ## inject faults around three replicas and check every invariant; CHAOS_MINUTES, SEED; writes test/chaos/report.md
	go run -C test ./chaos -pgdispatch $(CURDIR)/bin/pgdispatch-failpoint -devstack $(CURDIR)/bin/devstack $(if $(SEED),-seed $(SEED))

.PHONY: failover-tools
failover-tools: ## install Patroni, etcd and HAProxy for make failover, without starting their services, on Debian as root
	.ci/failover-tools

.PHONY: failover
failover: failover-tools build devstack ## change the primary of a Patroni cluster in every way, and check that nothing is lost; EVENTS, SEED, MODES
	go run -C test ./failover -pgdispatch $(CURDIR)/bin/pgdispatch -devstack $(CURDIR)/bin/devstack \
		$(if $(EVENTS),-events $(EVENTS)) $(if $(SEED),-seed $(SEED)) $(if $(MODES),-modes $(MODES))

.PHONY: mutants
mutants: ## remove each guard and check that a named test fails; takes about 4 minutes; prints a table
	go run -C test ./mutants

.PHONY: mutants-random
N ?= 200
mutants-random: ## change claims, settles, wake-ups, ends and signals at random, and print what no test notices; SEED, N
	go run -C test ./mutants -random $(N) $(if $(SEED),-seed $(SEED))

.PHONY: lint
lint: ## run gofmt, go vet, staticcheck, go mod tidy and the rules of test/lint on all modules, and actionlint
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; echo "run: make fmt"; exit 1; }
	go vet ./... && go vet -tags failpoint ./internal/replica && go vet -C cmd/devstack ./... && go vet -C test ./...
	go test -C test -count=1 ./lint
	go run $(STATICCHECK) ./...
	cd cmd/devstack && go run $(STATICCHECK) ./...
	cd test && go run $(STATICCHECK) ./...
	go run $(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yml
	go mod tidy -diff
	cd cmd/devstack && go mod tidy -diff
	cd test && go mod tidy -diff

.PHONY: fmt
fmt: ## format the code
	gofmt -w .

.PHONY: golden
golden: ## rewrite generated files: the lifecycle diagram, the tables of commands, settings, metrics and SQLSTATEs, and golden files
	go test ./sql -run 'Golden|Schema|Role|Catalogue' -update
	go test ./cmd/pgdispatch ./internal/operate/cli -run Page -update
	go test -C test ./lint -run Page -update
	go test ./internal/operate/view -run Screen -update

.PHONY: vuln
vuln: ## check for known vulnerabilities; needs the network
	go run $(GOVULNCHECK) ./...

.PHONY: clean
clean: ## remove built files
	rm -rf bin dist
