# Every target sets up .venv by itself. PYTHON=... chooses the interpreter that makes it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Where nothing is kept, every process of the tests compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.runs
PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
CORES ?= 2

INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

LOCK := supply/requirements.lock
TOOLS := js/node_modules/.package-lock.json

.PHONY: help demo quick test coverage check docs soak bench lock vulnerabilities clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What the demo needs, in about a minute.
$(RUNS): pyproject.toml $(LOCK)
	@for candidate in $(CANDIDATES); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    found="$$candidate"; break; \
	  fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "sfumato needs Python 3.11 or newer; tried: $(CANDIDATES). Say where it is: make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$found" --version); this takes about a minute."; \
	"$$found" -m venv $(VENV)
	@$(BIN)/python -m supply.part server > $(VENV)/runs.lock
	@$(INSTALL) --require-hashes --requirement $(VENV)/runs.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# All else: what checks and tests need, several databases and engines among them.
$(READY): $(RUNS)
	@echo "Installing what checks and tests need; this takes a few minutes the first time."
	@$(INSTALL) --require-hashes --requirement $(LOCK)
	@touch $@

demo: $(RUNS) ## a first look: a made-up survey and a collector, in build/demo
	$(BIN)/sfumato demo --out build/demo --force

quick: $(READY) ## the answer to a small change: check, and the tests that are not slow
	@$(MAKE) check
	$(BIN)/python -m pytest -q -n $(CORES) --dist worksteal -m "not soak and not slow" tests src

$(TOOLS): js/package-lock.json $(READY)
	@cd js && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --no-audit --no-fund
	@touch $@

test: $(READY) $(TOOLS) ## everything that must hold: check, all tests, docs
	@$(MAKE) check
	@$(BIN)/python -m supply.browser
	$(BIN)/python -m pytest -n $(CORES) --dist worksteal
	@$(MAKE) docs

# Apart from `test`, which it would make twice as long.
coverage: $(READY) $(TOOLS) ## all tests again, counting the branches that they take; below the floor it fails
	@$(BIN)/python -m supply.browser
	$(BIN)/python -m pytest -n $(CORES) --dist worksteal --cov --cov-report=term

check: $(READY) ## lint, format, strict types and layers, changing nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

docs: $(READY) $(TOOLS) ## build the pages into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

soak: $(READY) ## heavy statistics with fresh seeds; SEED=... repeats a run; keeps results/soak/*.json
	$(BIN)/python -m pytest tests -m soak -n $(CORES) --hypothesis-profile=soak \
	  --soak-results=results/soak $(if $(SEED),--soak-seed=$(SEED))

bench: $(READY) ## measure speed and error; keeps results/bench/*.json
	@mkdir -p results/bench
	$(BIN)/python -m benchmarks $(ARGS)

lock: $(READY) ## lock the newest versions that pyproject.toml allows, with hashes; writes the bill of materials
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras \
	  --generate-hashes --custom-compile-command "make lock" --output-file $(LOCK) pyproject.toml
	$(BIN)/python -m supply.bill

vulnerabilities: $(READY) ## check the locked versions for known vulnerabilities; offline it says so and passes
	$(BIN)/python -m supply.vulnerabilities

clean: ## remove .venv and everything built; results/ stays
	rm -rf $(VENV) build dist js/node_modules .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests docs benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
