# Two commands matter: `make run` and `make test`. Both set up what they need; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLUSTER := $(PYTHON) hack/cluster
CODE := genericjob hack bench examples tests
TESTERS ?= 3

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# ------------------------------------------------------------------------------------------------ setting up

.PHONY: python
python:
	@$(if $(PYTHON),,echo "make: PYTHON is empty: it names a Python 3.11 or newer" >&2; exit 1)
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing: install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
		|| { echo "make: $(PYTHON) is not Python 3.11 or newer: install one, or name another (PYTHON=...)" >&2; exit 1; }

$(READY): pyproject.toml constraints.txt | python
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "make: Python's venv module is missing: install it (Debian and Ubuntu call it python3-venv)" >&2; exit 1; }
	@echo "== Making the virtual environment $(VENV)"
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@echo "== Installing the project and its tools into it (a minute or two)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' \
		|| { echo "make: the packages could not be installed: is a Python package index reachable?" >&2; exit 1; }
	@touch $@

.PHONY: setup
setup: $(READY) ## Make the virtual environment and install everything

.PHONY: programs
programs: python ## Build the control plane's programs (once; minutes)
	@echo "== Control plane: kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd"
	@$(CLUSTER) build >/dev/null

.PHONY: constraints
constraints: python ## Write constraints.txt anew from the bounds in pyproject.toml
	@hack/constraints.sh $(PYTHON)

.PHONY: manifests
manifests: $(READY) ## Write the CRD in manifests/crd anew from the models in genericjob/api
	@$(BIN)/python -m genericjob.api > manifests/crd/genericjobs.yaml.new
	@mv manifests/crd/genericjobs.yaml.new manifests/crd/genericjobs.yaml

# ------------------------------------------------------------------------------------------------ checking

.PHONY: test
test: $(READY) ## Everything: lint, unit tests, simulation, conformance and e2e tests on a real control plane
	@$(MAKE) programs
	@$(MAKE) lint
	@echo "== Unit tests, simulation, conformance and e2e tests, by $(TESTERS) processes"
	@$(BIN)/python -m pytest -n $(TESTERS) --dist loadgroup

.PHONY: unit
unit: $(READY) ## Unit tests only: a minute and a half, no Go, no server
	@$(BIN)/python -m pytest tests/unit -n auto

.PHONY: sim
sim: SIM_EVERY ?= 8
sim: $(READY) ## A minute: the controller's real threads under a seeded scheduler, with a crash at every 8th write (more: SIM_EVERY=1, SIM_SEEDS=N)
	@SIM_EVERY=$(SIM_EVERY) $(BIN)/python -m pytest tests/sim -n auto

.PHONY: sim-long
sim-long: N ?= 100000
sim-long: $(READY) ## N=100000 random schedules on all processors, an hour or so; goes on where it was interrupted, and writes docs/schedules.md
	@PYTHONPATH=tests $(BIN)/python -m sim.chance --count $(N) --state .sim-state.json --report docs/schedules.md

.PHONY: mutants
mutants: $(READY) ## Deliberate bugs in the controller, each of which the simulation must catch, and docs/mutants.md: a minute or two; OPTIONS=--help
	@PYTHONPATH=hack:tests $(BIN)/python -m sim.mutants --report docs/mutants.md $(OPTIONS)

.PHONY: conformance
conformance: $(READY) programs ## The API port's two implementations against each other
	@$(BIN)/python -m pytest tests/conformance

.PHONY: conformance-long
conformance-long: OPERATIONS ?= 10000
conformance-long: $(READY) programs ## Random operations on both implementations: OPERATIONS=10000, fresh seeds
	@CONFORMANCE_OPERATIONS=$(OPERATIONS) HYPOTHESIS_PROFILE=fresh $(BIN)/python -m pytest tests/conformance/test_random.py --timeout 0

.PHONY: e2e
e2e: $(READY) programs ## Tests on a real control plane
	@$(BIN)/python -m pytest tests/e2e

.PHONY: large
large: LARGE_RANKS ?= 10000
large: $(READY) programs ## A job of LARGE_RANKS=10000 ranks that all fail, beside others: many minutes
	@LARGE_RANKS=$(LARGE_RANKS) $(BIN)/python -m pytest tests/e2e/test_large.py -v -s --timeout 0

.PHONY: fairness
fairness: $(READY) programs ## How long a small job waits beside each abuse that docs/contract.md names (quiet machine, 2 minutes)
	@$(BIN)/python -m pytest tests/e2e/test_fairness.py -v -rP --show-capture=stdout

.PHONY: idle
idle: IDLE_SECONDS ?= 60
idle: $(READY) programs ## What the controller does beside 100 running jobs: IDLE_SECONDS=60 (quiet machine)
	@IDLE_SECONDS=$(IDLE_SECONDS) $(BIN)/python -m pytest tests/e2e/test_genericjob_idle.py -v -rP --show-capture=stdout

.PHONY: flaky
flaky: $(READY) programs ## Tests about signals, terminals and processes 50 times, the slowest 10 times, beside busy processes; continues where it was interrupted; OPTIONS=--help
	@PYTHONPATH=hack:tests $(BIN)/python -m flaky $(OPTIONS)

.PHONY: lint
lint: $(READY) ## ruff, mypy --strict, import-linter
	@echo "== Lint: ruff check"
	@$(BIN)/ruff check $(CODE)
	@echo "== Lint: ruff format"
	@$(BIN)/ruff format --check --quiet $(CODE)
	@echo "== Lint: mypy --strict (a minute without its cache)"
	@$(BIN)/mypy genericjob hack/cluster hack/capture hack/flaky tests/harness bench
	@echo "== Lint: import-linter"
	@$(BIN)/lint-imports --no-cache --no-logo

.PHONY: format
format: $(READY) ## Let ruff lay out the code
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)

.PHONY: bench
bench: $(READY) programs ## Measure, and write docs/benchmarks.md anew (quiet machine, minutes)
	@PYTHONPATH=hack $(BIN)/python -m bench.port

.PHONY: bench-quick
bench-quick: $(READY) programs ## One job of 1,000 ranks against the bare limit: docs/benchmarks-controller.md (quiet machine, 2 minutes); against another commit: OPTIONS="--against COMMIT" (10 minutes)
	@PYTHONPATH=hack:tests $(BIN)/python -m bench.quick $(OPTIONS)

.PHONY: bench-engine
bench-engine: $(READY) ## What a rank costs under genericjob run, and how fast output is: docs/benchmarks-engine.md (quiet machine, minutes); only output: OPTIONS=--lines-only
	@$(BIN)/python -m bench.engine $(OPTIONS)

# ------------------------------------------------------------------------------------------------ a job to look at

.PHONY: run
run: $(READY) ## Run a distributed job on this machine: no cluster, programs in place of containers
	@echo "== genericjob run examples/hello.yaml: one server, three workers, and no cluster"
	@$(BIN)/genericjob run examples/hello.yaml

.PHONY: picture
picture: $(READY) ## Draw what `make run` prints: docs/images/run.svg
	@PYTHONPATH=hack $(BIN)/python -m capture --output docs/images/run.svg make run

# ------------------------------------------------------------------------------------------------ a cluster to play with

.PHONY: cluster
cluster: programs ## Start a real control plane on this machine, and say how to use it
	@$(CLUSTER) status 2>/dev/null || $(CLUSTER) up

.PHONY: cluster-down
cluster-down: python ## End it, and remove its files
	@$(CLUSTER) down

.PHONY: clean
clean: ## Remove the virtual environment and caches of tools
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
