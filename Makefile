# The default goal needs Go alone: the BPF object and its bindings are committed.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 5s
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS     := -s -w -X main.version=$(VERSION)
PLATFORMS   := windows/amd64 darwin/amd64 darwin/arm64 freebsd/amd64 linux/arm64

.DEFAULT_GOAL := build
.PHONY: build help truth test test-vm generate check-generate bench accuracy lint cross fuzz whatif http-overhead mutate clean

build: ## build ./trace, one static binary (needs Go alone)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o trace ./cmd/trace

help: ## list the goals
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-16s %s\n", $$1, $$2 }'

test: ## run all tests; what this system cannot run is skipped with its reason
	$(GO) test ./...

test-vm: ## run the tests of the BPF programs and container-start on Debian's kernels 6.1 and 6.12 in qemu (KERNEL=image: on that one)
	@for k in $(if $(KERNEL),$(KERNEL),6.1 6.12); do CGO_ENABLED=0 $(GO) run ./cmd/vmtest -kernel $$k $(VMFLAGS) || exit 1; done

generate: ## make the BPF object and its bindings again (needs clang-19 and llvm-strip-19)
	$(GO) generate ./...

check-generate: generate ## fail if the committed generated files are not what the sources give
	git diff --exit-code -- bpf
	@test -z "$$(git ls-files --others --exclude-standard -- bpf)" || { git status --short -- bpf; exit 1; }

bench: ## measure the slowdown of trace and of other tools, interleaved in one run (root)
	CGO_ENABLED=0 $(GO) run ./cmd/bench $(BENCHFLAGS)

accuracy: build ## what the tables of strace, perf trace, off-CPU tools and trace add up to, over the wall time of one docker run (root)
	CGO_ENABLED=0 $(GO) run ./cmd/bench -accuracy -trace ./trace

truth: build ## run programs whose answer is known through the whole chain, and print how well it was recovered (root)
	./trace __truth

lint: ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

cross: ## build for every platform that reads, reports and compares
	@for p in $(PLATFORMS); do echo "$$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/trace || exit 1; done
	@for p in $(PLATFORMS); do GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./... || exit 1; done

fuzz: ## run every fuzz test for FUZZTIME each (5s)
	@$(GO) list ./... | while read -r pkg; do \
	  $(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r f; do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) "$$pkg" || exit 1; done || exit 1; done

whatif: ## predicted gains beside those of really leaving a part out, measured in one run (root, cc)
	TRACE_TEST_REQUIRE=bpf,root,cc $(GO) test ./cmd/trace -run TestRealWhatIf -count=1 -v

http-overhead: ## requests per second around recorded and other blocks, of one and of several processes, beside wrk's, in one run (root, wrk)
	TRACE_TEST_REQUIRE=bpf,root,wrk $(GO) test ./cmd/trace -run TestRealHTTPThroughput -count=1 -v

mutate: ## take every rule of the critical path out, one at a time: a story must fail
	TRACE_TEST_REQUIRE=mutations $(GO) test ./analysis -run 'Mutation' -count=1 -v

clean: ## remove what build makes
	rm -f trace
