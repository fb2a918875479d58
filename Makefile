# Plimsoll. `make help` lists the targets; the work is done in scripts/.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(PATH):/usr/local/go/bin

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZ    ?= 10s
SOAK    ?= 10
BENCH   ?= .

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/plimsoll, a static binary
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/plimsoll ./cmd/plimsoll

.PHONY: demo
demo: build ## See the main job done on real processes, within a minute
	bin/plimsoll demo

.PHONY: test
test: ## Run all tests with the race detector; installs and starts what they need
	scripts/test

.PHONY: vmtest
vmtest: ## Run those of them that boot a Linux of their own (QEMU), one by one
	scripts/vmtest

.PHONY: check
check: ## Run all that CI runs: format, generated code, imports, vet, staticcheck, tests
	scripts/check

.PHONY: bench
bench: ## Run the benchmarks (BENCH=regexp)
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: fuzz
fuzz: ## Fuzz every target for a while (FUZZ=10s each)
	scripts/fuzz $(FUZZ)

.PHONY: soak
soak: ## Repeat simulations, kill loops and stress tests with new seeds (SOAK=10 minutes)
	scripts/soak $(SOAK)

.PHONY: vuln
vuln: ## Look for known holes in what the program calls
	scripts/vuln

.PHONY: fmt
fmt: ## Format the sources
	go tool -modfile=tools/go.mod gofumpt -w $$(git ls-files -co --exclude-standard '*.go' ':!*.gen.go' ':!*.pb.go' ':!*.connect.go')

.PHONY: generate
generate: ## Generate what follows from api/openapi.yaml and proto/
	go generate ./...

.PHONY: pictures
pictures: ## Draw docs/pictures anew from what was measured (internal/pictures/data)
	go test ./internal/pictures -run TestPicturesAreCurrent -update

.PHONY: regimes
regimes: build ## Play the ways to admit on the fitted model and write docs/regimes.html
	bin/plimsoll sim regimes --report docs/regimes.html

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist
