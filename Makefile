# Everything a contributor runs. `make` alone lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
POLICIES := fifo,srtf,srsf,tiresias,themis,muri-s,muri-l

.DEFAULT_GOAL := help
.PHONY: help setup all proto run test check bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with Weft and its tools; at once when it is there

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Weft needs Python 3.11 or newer, and '$(PYTHON)' is not: try 'make setup PYTHON=python3.11'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "'$(PYTHON)' cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@command -v tmux >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -qq -y tmux >/dev/null 2>&1; } || { \
		[ "$$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1 && apt-get install -qq -y tmux >/dev/null 2>&1; } || \
		echo "tmux is not installed: workspaces have no sessions, their tests are skipped (Debian: apt-get install tmux)" >&2
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[torch]' || \
		echo "torch could not be installed: the tests that really train on several nodes are skipped" >&2
	@command -v mpirun >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -qq -y openmpi-bin >/dev/null 2>&1; } || { \
		[ "$$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1 && apt-get install -qq -y openmpi-bin >/dev/null 2>&1; } || \
		echo "mpirun is not installed: its tests are skipped (Debian: apt-get install openmpi-bin)" >&2
	@touch $@

all: setup proto ## setup, plus whatever is generated

proto: setup ## the messages of the wire, from weft.proto
	@cd src && ../$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. weft/wire/weft.proto

run: setup ## compare the policies on a small cluster, run real jobs on this machine, then a workspace of training scripts
	@$(BIN)/weft compare demo --cluster 4x8 --policies $(POLICIES)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/jobs/tour.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/workspace/tour.sh

test: setup ## the whole test suite
	@$(BIN)/python -m pytest -n 2 --dist loadfile

check: setup ## format, lint, types, imports, then the quick tests
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest tests/unit tests/contract tests/tidy -x

bench: setup ## the benchmarks, each as a ratio; with their peers where they can be had
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[bench]' || true
	@command -v tsp >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -qq -y task-spooler >/dev/null 2>&1; } || \
		echo "task-spooler is not installed: Weft is not compared with it (Debian: apt-get install task-spooler)" >&2
	@$(BIN)/python -m benchmarks

clean: ## remove all that make has made, .venv included
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
