# Everything a person types. `make demo` and `make test` do their own set-up on a fresh machine with Python 3.11+.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.complete
WORKERS ?= 2

.PHONY: help setup demo serve test lint format types unit local infra sandbox bench synth clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The environment is made anew only when the pinned requirements changed.
$(STAMP): requirements/dev.lock pyproject.toml
	@echo "setting up .venv (once; quick when nothing changed)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.8
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

.PHONY: payload
payload: $(STAMP)
	@$(BIN)/python -m local.payload

setup: $(STAMP) payload ## Make the environment and the sandbox's Python

demo: setup ## The main job, end to end, on the embedded local system
	@$(BIN)/python -m local.demo

serve: setup ## The whole system on this machine; PORT=0 for a free port
	@$(BIN)/workbench serve --port $(or $(PORT),8080)

lint: $(STAMP) ## Style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP) ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

unit: $(STAMP) ## Pure logic
	@$(BIN)/pytest -n $(WORKERS) tests/unit tests/contract

local: setup ## The local system: the real handlers on moto
	@$(BIN)/pytest -n $(WORKERS) tests/local

infra: $(STAMP) ## Templates: isolation, least privilege, lifecycle
	@$(BIN)/pytest tests/infra

sandbox: setup ## Hostile programs against the real sandbox
	@$(BIN)/pytest tests/sandbox

test: lint setup ## Everything that CI runs
	@$(BIN)/pytest -n $(WORKERS) --dist loadscope tests

# Peers have an environment of their own: with them, this project's libraries in the same versions, and this project.
BENCH := build/bench-env
$(BENCH)/.complete: $(STAMP) requirements/bench.lock
	@echo "setting up $(BENCH) (once; quick when nothing changed)"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(BENCH)
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BENCH)/bin/python --require-hashes requirements/bench.lock
	@$(BIN)/uv pip install --quiet --python $(BENCH)/bin/python --no-deps --editable .
	@touch $@

bench: setup $(BENCH)/.complete ## Speed against peers, one table; WORDS="search tar" measures rows with these words
	@$(BENCH)/bin/python -m bench $(WORDS)

synth: $(STAMP) ## Synthesise all stacks offline into cdk.out
	@$(BIN)/python app.py && ls cdk.out/*.template.json

clean: ## Remove what was built
	@rm -rf .venv build out cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis
