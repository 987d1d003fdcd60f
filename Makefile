# Every target sets up what it needs: nothing but Python >= 3.11 and make is expected. The page is
# built with the machine's Node.js if it is new enough, else with one from PyPI.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# How many processes share the tests, which wait as much as they compute; 0 runs them in pytest
# itself, as `-s` and debuggers need it.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
COMPILE := $(BIN)/uv pip compile --universal --generate-hashes --no-header --no-emit-index-url \
             --python-version 3.11 --quiet

# Hundreds of tests start the program, and each test process imports all tests: whoever keeps Python
# from writing bytecode would have them compile everything each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Equipoise needs Python >= 3.11; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: setup
setup: $(VENV)/.installed ## Create .venv with the locked dependencies

.PHONY: page
page: setup ## Build the web page into the package, if its sources changed
	@$(BIN)/python -m shipping.page

# Tests of the page are skipped, and say so, where its packages are not to be had.
.PHONY: page-to-test
page-to-test: setup
	-@$(BIN)/python -m shipping.page

.PHONY: run
run: setup ## Run an embedded cluster to use with a browser, kubectl and equipoise (ARGS=--once to place pods and exit)
	-@$(BIN)/python -m shipping.page
	@$(BIN)/python -m scheduler demo $(ARGS)

.PHONY: test
test: check controlplane unit e2e ## Run everything: checks, unit and embedded tests, then the real control plane

.PHONY: unit
unit: setup page-to-test chromium other-python ## Run unit and embedded-server tests only (ARGS= for pytest)
	$(PYTEST) tests $(ARGS)

.PHONY: check
check: setup ## Lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m shipping.page --check

.PHONY: format
format: setup ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m shipping.page --format

.PHONY: controlplane
controlplane: setup ## Build etcd, Kubernetes, kwok and helm once, into a cache outside the checkout
	$(BIN)/python -m e2e.controlplane.build

.PHONY: e2e
e2e: controlplane page-to-test chromium other-python ## Run the program against a real control plane (ARGS= for pytest)
	$(PYTEST) e2e $(ARGS)

.PHONY: chromium
chromium: setup ## Download Chromium for the tests of the web page, if there is none; without it they are skipped
	-@$(BIN)/python -m tests.page.chromium

.PHONY: other-python
other-python: setup ## Prepare a Python of another version that is on the machine, to replay recordings with
	-@$(BIN)/python -m tests.replaying.other_python

.PHONY: adversity
adversity: controlplane ## Attack two replicas on a real API server, and show the results (ARGS=--help)
	@$(BIN)/python -m e2e.adversity $(ARGS)

.PHONY: overload
overload: setup ## Overload the scheduler on the embedded API server (ARGS="burst --write")
	@$(BIN)/python -m e2e.overload $(ARGS)

.PHONY: soak
soak: controlplane ## Create and delete pods and nodes for half an hour, and check that nothing grows (ARGS="--minutes 10")
	@$(BIN)/python -m e2e.soak $(ARGS)

# SEED=7 replays one history with its trace; SEEDS=0-999 runs many on all cores.
.PHONY: sim
sim: setup ## Simulate a cluster under seeded faults (SEED=7 or PLAN=file to replay one, SHRINK=1, SEEDS=0-199, PLANTED=1)
	@$(BIN)/python -m tests.sim $(if $(PLANTED),--planted,$(if $(PLAN),--plan $(PLAN),$(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),0-199)))) $(if $(SHRINK),--shrink) $(ARGS)

.PHONY: faults
faults: controlplane ## Kill, stop and cut replicas, API server and etcd; write docs/reliability.md (ARGS=--help)
	@$(BIN)/python -m e2e.faults $(ARGS)

.PHONY: fuzz
fuzz: setup ## Send hostile input to every parser and to the ingest path (ARGS="--minutes 10", ARGS=--help)
	@$(BIN)/python -m tests.fuzz $(ARGS)

.PHONY: flakes
flakes: controlplane page-to-test chromium ## Repeat all tests in random order with all cores busy (ARGS="--rounds 10")
	@$(BIN)/python -m tests.flakes $(ARGS)

.PHONY: manifests
manifests: controlplane ## Generate deploy/, the schema of the chart's values and the table in its README
	$(BIN)/python -m shipping.manifests

.PHONY: image-check
image-check: setup ## Lint the Dockerfile, run its steps without Docker, and start the result
	$(BIN)/python -m pytest -s tests/shipping/test_image.py $(ARGS)

.PHONY: image
image: setup ## Build the image for this machine into dist/, without a container engine (ARGS="--target slim")
	@$(BIN)/python -m shipping.image $(ARGS)

.PHONY: sbom
sbom: setup ## Write the bill of materials (CycloneDX) and the licences of the image into dist/
	@$(BIN)/python -m shipping.sbom

.PHONY: release
release: controlplane page ## Build wheel, sdist, chart, manifests, SBOM and notes into dist/ (ARGS="--final --image")
	@$(BIN)/python -m shipping.release $(ARGS)

.PHONY: bench
bench: controlplane ## Measure against kube-scheduler on a real API server; resumes (BENCH=full, ARGS=--help)
	@$(BIN)/python -m bench.cluster $(if $(filter full,$(BENCH)),--full) $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m bench.cluster.waiting)

.PHONY: bench-waiting
bench-waiting: controlplane ## Time pods that fit among thousands of distinct pods that do not (ARGS=--help)
	@$(BIN)/python -m bench.cluster.waiting $(ARGS)

.PHONY: bench-explain
bench-explain: controlplane ## Measure what explanations cost while pods are placed (ARGS=--help)
	@$(BIN)/python -m bench.cluster.explaining $(ARGS)

.PHONY: bench-page
bench-page: controlplane ## Measure what open pages and a recording cost while pods are placed (ARGS=--help)
	@$(BIN)/python -m bench.cluster.watching $(ARGS)

.PHONY: bench-beside
bench-beside: controlplane ## Count pods beyond allocatable when kube-scheduler fills the same nodes (ARGS=--help)
	@$(BIN)/python -m bench.cluster.beside $(ARGS)

.PHONY: bench-micro
bench-micro: setup ## Measure the scheduling core without an API server, on 5,000 nodes and more (ARGS=--help)
	@$(BIN)/python -m bench.core.micro --check $(ARGS)

.PHONY: bench-flow
bench-flow: setup ## Measure cost and benefit of placing a backlog as one batch (ARGS=--help)
	@$(BIN)/python -m bench.core.flow --check $(ARGS)

.PHONY: bench-what-if
bench-what-if: setup ## Measure what-if simulations on a copy of a large cluster (ARGS=--help)
	@$(BIN)/python -m bench.core.what_if $(ARGS)

.PHONY: bench-answers
bench-answers: setup ## Measure what an explanation with remedies costs, and how long it holds the loop (ARGS=--help)
	@$(BIN)/python -m bench.core.explaining $(ARGS)

.PHONY: bench-steps
bench-steps: setup ## Show the longest step between two checkpoints for pods at several limits (ARGS="--lists pairs")
	@$(BIN)/python -m bench.core.steps $(ARGS)

.PHONY: bench-lag
bench-lag: setup ## Find what holds the event loop of the core in a large cluster (ARGS="--stacks 3")
	@$(BIN)/python -m bench.core.lag $(ARGS)

.PHONY: docs
docs: setup ## Generate the reference pages and tables of the documentation
	@$(BIN)/python -m shipping.docs
	@$(BIN)/python -m shipping.custom_schemas

.PHONY: causes
causes: controlplane ## Run kube-scheduler and Equipoise on 15 causes of pending pods; write the table of docs/why-pending.md
	@$(BIN)/python -m e2e.pending_causes

.PHONY: lock
lock: setup ## Update the lock files from pyproject.toml, for development and for images
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) --group dev --extra flow --upgrade -o requirements.lock pyproject.toml
	$(COMPILE) -c requirements.lock -o shipping/locks/run.lock pyproject.toml
	$(COMPILE) -c requirements.lock --extra flow -o shipping/locks/full.lock pyproject.toml
	$(COMPILE) -c requirements.lock --group build -o shipping/locks/build.lock
	$(COMPILE) --group node --upgrade -o shipping/locks/node.lock
	$(COMPILE) --group go -o shipping/locks/go.lock

.PHONY: clean
clean: ## Remove the venv and all caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache web/node_modules scheduler/serve/static build/node
