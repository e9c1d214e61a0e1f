# The two commands of a fresh machine are `make run` and `make test`; both
# install what is missing (scripts/deps.sh) and may be repeated.

GO ?= go
BIN := bin/gateway
DEPS := postgres redis

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: deps build ## Run a gateway to try, with its own PostgreSQL and Redis
	@exec $(BIN) dev

.PHONY: demo
demo: deps build ## Play the story of a paused worker
	@$(BIN) demo

.PHONY: test
test: DEPS = postgres redis pgbouncer etcd node python promtool chromium
test: deps check ## Run every check and test, against real servers
	$(GO) run ./test/stack -- $(GO) test -race -count=1 -timeout 20m ./...
	$(GO) run ./test/stack -- scripts/fuzz.sh 2s -race

.PHONY: test-backends
test-backends: DEPS = postgres redis pgbouncer etcd
test-backends: deps ## Run the tests of every lock service alone
	$(GO) run ./test/stack -- $(GO) test -race -count=1 -v ./test/backends/...

.PHONY: bench
bench: deps ## Measure the write path
	$(GO) run ./test/stack -- $(GO) test -run '^$$' -bench . -benchtime 2s ./test/bench

.PHONY: bench-refusals
bench-refusals: deps ## Measure pages of five million refusals
	$(GO) run ./test/stack -- $(GO) test -run '^$$' -bench . -benchtime 200x ./test/bench/refusals

.PHONY: bench-guard
bench-guard: deps ## Measure what a table's guard costs
	$(GO) run ./test/stack -- $(GO) test -run '^$$' -bench . -benchtime 20x ./test/bench/guard

.PHONY: fuzz
fuzz: deps ## Fuzz each parser for a minute
	$(GO) run ./test/stack -- scripts/fuzz.sh 60s

.PHONY: screenshots
screenshots: DEPS = postgres redis chromium
screenshots: deps ## Photograph the dashboard while it tells a story
	$(GO) run ./test/screenshots docs/screenshots

.PHONY: build
build: ## Build bin/gateway
	$(GO) build -o $(BIN) ./cmd/gateway

.PHONY: generate
generate: ## Generate the wire code from openapi.yaml
	$(GO) generate ./internal/api

.PHONY: check
check: ## Formatting, vet, and that generated code is up to date
	scripts/check.sh

.PHONY: audit
audit: ## Licences of what is built in, and known vulnerabilities
	scripts/audit.sh

.PHONY: deps
deps:
	@scripts/deps.sh $(DEPS)
