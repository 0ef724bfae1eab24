# Commands for contributors. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# what only tests need: torch, mpirun, sshd, Slurm, PostgreSQL, podman, Chromium
TEST_READY := $(VENV)/.test-ready
# what real training needs: torch and others
WORKLOADS_READY := $(VENV)/.workloads-ready
# tests and tours start thousands of processes; without bytecode files each of them compiles Weft again
export PYTHONDONTWRITEBYTECODE :=
POLICIES := fifo,srtf,srsf,tiresias,themis,muri-s,muri-l

# $(call debian,PROGRAM,PACKAGE,WITHOUT IT): install PROGRAM if it is missing and the user is root; otherwise print a note
debian = command -v $(1) >/dev/null || { [ "$$(id -u)" = 0 ] && { apt-get install -qq -y $(2) || { apt-get update -qq && \
	apt-get install -qq -y $(2); }; } >/dev/null 2>&1; } || echo "$(1) is not installed: $(3) (Debian: apt-get install $(2))" >&2
# the weft of this .venv; the jobs of a worker find its python
WEFT := PATH="$(CURDIR)/$(BIN):$$PATH" weft
IP ?= 127.0.0.1
SCHEDULER ?= balanced
WORKER_PORT ?= 0
# the first port at which the processes of a gang meet; without it, WORKER_PORT
TRAINER_PORT ?= $(WORKER_PORT)
# the matrix of make testbed
SCHEDULERS ?= srtf,srsf,tiresias,themis,muri-s,muri-l
SETUPS ?= n8g8
INTERVALS ?= 360
TESTBED ?= testbed-out

.DEFAULT_GOAL := help
.PHONY: help setup workloads all proto rpc run testbed test soak lint check release pictures bench clean server worker submit monitor master run1 run2 run3 run-slurm run-ray

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with Weft and its tools, if needed

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Weft needs Python 3.11 or newer, and '$(PYTHON)' is not: try 'make setup PYTHON=python3.11'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "'$(PYTHON)' cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(call debian,tmux,tmux,workspaces have no sessions and their tests are skipped)
	@touch $@

$(WORKLOADS_READY): $(READY)
	@echo "installing torch and other packages for real training (once)" >&2
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[workloads]' && touch $@ || \
		echo "torch could not be installed: jobs and tests that train real models cannot run" >&2

$(TEST_READY): $(WORKLOADS_READY)
	@# Ray in a separate virtual environment, because Weft does not import it; meanwhile, the extras: at once, or those that can be installed
	@{ [ -x $(VENV)/ray/bin/ray ] || { $(PYTHON) -m venv $(VENV)/ray && \
		$(VENV)/ray/bin/python -m pip install -qq --disable-pip-version-check 'ray[default]==2.60.0'; } || \
		echo "Ray could not be installed: its tests are skipped" >&2; } & \
	extras() { $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[$$1]"; }; \
	extras mpi,llm,sweeps,kubernetes,postgres 2>/dev/null || for extra in mpi llm sweeps kubernetes postgres; do \
		extras $$extra || echo "weft[$$extra] could not be installed: tests that need it are skipped" >&2; done; wait
	@$(call debian,mpirun,openmpi-bin,its tests are skipped)
	@# where systemd would start sshd at once, installing it is up to you
	@if [ "$$CI" = true ] || [ ! -d /run/systemd/system ]; then $(call debian,/usr/sbin/sshd,openssh-server,tests over ssh are skipped); fi
	@# a Slurm of the tests' own, which they start on loopback; the package's own services stay off
	@$(call debian,/usr/sbin/slurmctld,--no-install-recommends slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge,tests with Slurm are skipped)
	@# a PostgreSQL of the tests' own, started on loopback; the package would make and start a cluster without this setting
	@[ "$$(id -u)" != 0 ] || [ -e /etc/postgresql-common/createcluster.conf ] || { mkdir -p /etc/postgresql-common && \
		echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf; }
	@$(call debian,/usr/lib/postgresql/*/bin/initdb,--no-install-recommends -o Dpkg::Options::=--force-confold postgresql,tests with PostgreSQL are skipped)
	@# podman with an OCI runtime and an init; its images and containers go into folders of the tests
	@$(call debian,podman,--no-install-recommends podman runc conmon catatonit,tests with containers are skipped)
	@$(call debian,chromium,--no-install-recommends chromium chromium-driver,tests of the web page in a browser are skipped)
	@$(call debian,chromedriver,--no-install-recommends chromium-driver,tests of the web page in a browser are skipped)
	@touch $@

workloads: $(WORKLOADS_READY) ## install what real training needs into .venv, such as torch: python -m weft_workloads

all: setup proto ## setup, plus generated files

proto rpc: setup ## generate the protocol's messages from weft.proto
	@cd src && ../$(BIN)/python -m grpc_tools.protoc -I. --pyi_out=. --descriptor_set_out=weft/access/wire/weft.binpb weft/access/wire/weft.proto

run: setup ## compare policies on a small cluster, then run real jobs: here, in a workspace, on a cluster, next to a service
	@$(BIN)/weft compare demo --cluster 4x8 --policies $(POLICIES)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/jobs/tour.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/workspace/tour.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/cluster/tour.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/services/tour.sh

run-slurm: $(TEST_READY) ## show how nodes of Slurm come and go, on a Slurm of four nodes on loopback (needs root)
	@PYTHONPATH=tests $(BIN)/python -m support.peers.pool_tour slurm

run-ray: $(TEST_READY) ## show the same with Ray, in a namespace (needs root)
	@PYTHONPATH=tests $(BIN)/python -m support.peers.pool_tour ray

server: setup ## start the scheduler of a cluster: weft server
	@$(WEFT) server

# for a scheduler on loopback, root's workers run root's jobs too: those of `make submit` in a container
worker run1 run2 run3: export WEFT_RUN_AS ?= $(if $(filter 127.% localhost,$(IP)),worker)

worker: setup ## start a worker for it with two declared GPUs
	@$(WEFT) worker --id worker-1 --gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576

submit: $(WORKLOADS_READY) ## submit a training job to it: examples/sample_task.json
	@$(WEFT) submit --config examples/sample_task.json

monitor: setup ## show workers, GPUs and jobs, refreshed every second
	@$(WEFT) monitor

master: setup ## IP=10.0.0.1 SCHEDULER=srsf: start a scheduler that other machines reach at IP, with that policy
	@case "$(IP)" in 127.*|localhost) ;; *) $(WEFT) auth init --host "$(IP)" ;; esac
	@$(WEFT) server --host "$(IP)" --policy "$(SCHEDULER)"

testbed: setup ## [SCHEDULERS=srsf,muri-l] [SETUPS=n8g8] [TRACES=FILE] [IP=10.0.0.1]: a quick testbed here, or on workers that join IP
	@case "$(IP)" in 127.*|localhost) where="--at-once 3" ;; *) $(WEFT) auth init --host "$(IP)"; where="--host $(IP)" ;; esac; \
		$(WEFT) testbed run --quick --spec "$(SETUPS)" $(if $(TRACES),--trace "$(TRACES)") --policies "$(SCHEDULERS)" \
		--intervals "$(INTERVALS)" $$where --out "$(TESTBED)"

run1 run2 run3: setup ## IP=10.0.0.1 WORKER_PORT=9001 [TRAINER_PORT=9013] [TOKEN=...] [GPUS=0,1]: start worker 1, 2 or 3 of that scheduler on this machine
	@[ -z "$(TOKEN)" ] || $(WEFT) auth join "$(IP):50051" "$(TOKEN)" --node $(@:run%=%)
	@case "$(IP)" in 127.*|localhost) at=localhost ;; *) at=$$(hostname) ;; esac; $(WEFT) worker --scheduler "$(IP):50051" \
		--id $(@:run%=%) --addr "$$at:$(TRAINER_PORT)" $(if $(GPUS),--gpus "$(GPUS)")

test: $(TEST_READY) ## run all tests; those that fail run once more, one at a time
	@# many tests start real processes and have deadlines, which a busy machine may miss: a test that fails twice is broken
	@# in the order of the folders: with the default, the slow files with few tests come last, one worker each
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder || { [ $$? = 1 ] && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

soak: $(TEST_READY) ## run longer storms and more simulated clusters, up to an hour: before an issue is closed
	@$(BIN)/python -m pytest -n 2 --dist load --timeout 3000 -o faulthandler_timeout=3300 -m soak

lint: setup ## check format, lint, types, imports, and the rules of tests/tidy
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest tests/tidy

check: lint ## lint, then run the quick tests
	@$(BIN)/python -m pytest tests/unit tests/contract -x

release: setup ## build sdist and wheel in dist/, install the wheel outside the tree and use it
	@rm -rf dist build
	@$(BIN)/python -c 'from setuptools.build_meta import build_sdist, build_wheel; build_sdist("dist"); build_wheel("dist")' >/dev/null
	@PYTHONPATH=tests $(BIN)/python -m support.release

pictures: $(TEST_READY) ## draw the pictures of the README from a real run
	@PYTHONPATH=tests $(BIN)/python -m support.pictures docs/pictures

bench: setup ## run the benchmarks, compared with peers where they can be installed
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[bench]' || true
	@command -v tsp >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -qq -y task-spooler >/dev/null 2>&1; } || \
		echo "task-spooler is not installed: Weft is not compared with it (Debian: apt-get install task-spooler)" >&2
	@$(BIN)/python -m benchmarks

clean: ## remove everything that make created, including .venv
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
