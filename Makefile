# otel-rl: every task of the project. `make` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Builds and tools live outside the checkout, so that a fresh clone does not build them again.
CACHE := $(or $(OTEL_RL_CACHE_DIR),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/otel-rl)
PYTHON ?= python3
UV := $(or $(shell command -v uv 2>/dev/null),$(CACHE)/uv/bin/uv)
VENV := .venv
BIN := $(VENV)/bin
export UV OTEL_RL_CACHE_DIR := $(CACHE)

DEPENDENCIES := pyproject.toml constraints.txt
PYTEST := $(BIN)/python -m pytest

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- environments ---------------------------------------------------------------------------------------------------

$(CACHE)/uv/bin/uv:
	@echo "installing uv into $(CACHE)/uv" >&2
	$(PYTHON) -m venv $(CACHE)/uv
	$(CACHE)/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

.PHONY: install
install: $(VENV)/.demo ## environment with the pack and what the demo needs, in .venv

$(VENV)/.demo: $(DEPENDENCIES) | $(UV)
	test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(VENV) --constraint constraints.txt --group demo --editable '.[report]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(UV) pip install --quiet --python $(VENV) --constraint constraints.txt --group test --editable '.[report,dashboards]'
	touch $@

# -- the main job ---------------------------------------------------------------------------------------------------

DEMO_COMMAND := opentelemetry-instrument torchrun --nproc-per-node=2 examples/grpo_two_ranks.py

.PHONY: demo
demo: $(VENV)/.demo ## train an unmodified TRL GRPO program on two ranks and write its HTML report
	@echo "+ $(DEMO_COMMAND)" >&2
	run_id="demo-$$(date +%Y%m%d-%H%M%S)"; \
	PATH="$(CURDIR)/$(BIN):$$PATH" OTEL_RL_RUN_ID="$$run_id" $(DEMO_COMMAND); \
	$(BIN)/otel-rl report "otel-rl/$$run_id"

# -- checks ---------------------------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.test check-generated ## format, lint and type checks; generated files are current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/.test ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: generate
generate: $(VENV)/.test ## write constants, reference pages, boards and rules from their sources
	$(BIN)/python -m instrumentation.semconv generate
	$(BIN)/python -m dashboards build

.PHONY: check-generated
check-generated: $(VENV)/.test ## fail where a generated file differs from its source
	$(BIN)/python -m instrumentation.semconv check
	$(BIN)/python -m instrumentation.semconv generate --check
	$(BIN)/python -m dashboards build --check

.PHONY: weaver-check
weaver-check: ## check the registry with OpenTelemetry's weaver, where it is on PATH
	./instrumentation/semconv/weaver-check.sh
