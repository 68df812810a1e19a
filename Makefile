# What a contributor runs. Times are of two processors, with caches that are warm.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help test suite affected race whole golden lint bench check full site editor

REF ?= main
PACKAGE ?= .
BENCH ?= .
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false $(GOFLAGS)
race := go test -race -tags=assert -short -vet=off

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

test: ## the root module, as a user runs it: 3 minutes, 7 after a change of the root package
	go test ./...

suite: ## one subject with its engine and its suite, which may be a file of a larger one: make suite NAME=audit; a minute
	@test -n "$(NAME)" || { echo 'usage: make suite NAME=audit'; exit 2; }
	@packages=$$(go list ./... | grep '/$(NAME)$$'); files=$$(ls internal/test/suite/*/$(NAME)*_test.go 2>/dev/null | grep -v '/$(NAME)/'); \
	[ -n "$$packages$$files" ] || { echo 'there is no $(NAME)'; exit 2; }; \
	{ [ -z "$$packages" ] || $(race) $$packages; } && { [ -z "$$files" ] || \
	$(race) -run "^($$(sed -n 's/^func \(Test.*\)(t .*/\1/p' $$files | paste -sd'|'))$$" $$(dirname $$files | sort -u | sed 's|^|./|'); }

affected: ## what changed since REF affects: a minute to the whole
	@packages=$$(go run ./internal/tools/affected $(REF)) && echo "$$packages" && { [ -z "$$packages" ] || $(race) $$packages; }

race: ## the root module with the race detector and checks of each state: 10 minutes
	$(race) ./...

whole: ## the same with all rounds of the random tests: an hour
	INFORMER_TESTS=whole go test -race -tags=assert -timeout 60m ./...

golden: ## writes all golden files again: look at the difference before you commit it; a minute
	$(race) ./internal/tools/shape -update
	$(race) -run Traces ./internal/test/suite/recovery -update
	cd codegen && go test -run Golden . -update
	cd bench && go test ./processes -update

lint: ## staticcheck of the root module, as in .ci/run: 2 minutes
	@. .ci/steps >/dev/null; trap - EXIT; lint

bench: ## compares with REF by turns: make bench REF=main PACKAGE=. BENCH='Notify|Store'
	bench/turns $(REF) $(PACKAGE) '$(BENCH)'

check: ## what has to pass before a change lands, with a real kube-apiserver: 25 minutes
	bash .ci/run

full: ## what runs each night: 3 hours
	bash .ci/full

site: ## builds the site of docs/ and checks its links: seconds, with Hugo
	site/build

editor: ## writes go.work, so that an editor sees most modules at once. With it, versions are mixed: GOWORK=off for tests
	rm -f go.work go.work.sum
	go work init $$(git ls-files go.mod '*/go.mod' | xargs -n1 dirname | grep -vE '^(bench/(cacher|pages)|clientgo/internal/newest|codegen/internal/realapis|e2e/.+)$$')
