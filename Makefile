# SPDX-License-Identifier: Apache-2.0
# The commands of every day; the build itself is CMake's (CMakePresets.json).
PRESET ?= release
BUILD := build/$(PRESET)
JOBS ?= $(shell nproc)
CTEST_ARGUMENTS ?=
DEMO_SENTENCES ?= 3000
DEMO_REQUESTS ?= 300

.PHONY: help setup configure build release test sanitize demo docs format clean

help:
	@echo 'make demo     run a sentence-embedding program under Whet and show what it gained'
	@echo 'make test     build and run all tests'
	@echo 'make sanitize a part of the tests under sanitizers: what CI runs besides make test'
	@echo 'make release  build build/release/bin/whet'
	@echo 'make test PRESET=asan (ubsan, tsan, dev): the same with another preset'
	@echo 'make docs     write docs/env.md again;  make format: clang-format'

setup:
	@tools/setup.sh

configure: setup
	@cmake --preset $(PRESET) $(CMAKE_ARGUMENTS) --log-level=WARNING

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

release:
	@$(MAKE) --no-print-directory build PRESET=release

test: build
	@ctest --test-dir $(BUILD) --output-on-failure --output-junit test-results.xml $(CTEST_ARGUMENTS)

# Address and undefined behaviour: every unit test written in C++. Threads: what several threads do at once.
sanitize: setup
	@cmake --preset asan --log-level=WARNING
	@cmake --build build/asan -j $(JOBS) --target whet_unit_tests
	@cmake --preset tsan --log-level=WARNING
	@cmake --build build/tsan -j $(JOBS) --target whet_threads_tests
	@ctest --test-dir build/asan -L unit -E '^(numerics|tools|python)\.' --output-on-failure \
	    --output-junit test-results.xml $(CTEST_ARGUMENTS); first=$$?; \
	ctest --test-dir build/tsan -L threads --output-on-failure \
	    --output-junit test-results.xml $(CTEST_ARGUMENTS) && exit $$first

demo: release
	@mkdir -p build/demo
	@.venv/bin/python examples/minilm/sentences.py $(DEMO_SENTENCES) > build/demo/sentences.txt
	@build/release/bin/whet run --json build/demo/report.json -- \
	    .venv/bin/python examples/minilm/embed.py < build/demo/sentences.txt > build/demo/embeddings.txt
	@echo
	@echo 'Request latency without Whet (original), with it (paused), and while it tunes, in turn:'
	@build/release/bin/whet bench app --input build/demo/sentences.txt --blocks 9 --requests $(DEMO_REQUESTS) \
	    --json build/demo/latency.json -- .venv/bin/python examples/minilm/embed.py

docs: release
	@build/release/base/whet_env_page > docs/env.md

format:
	@git ls-files '*.cpp' '*.hpp' '*.h' | xargs clang-format-22 -i

clean:
	@rm -rf build
