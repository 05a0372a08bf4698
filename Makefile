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
export UV
export OTEL_RL_CACHE_DIR := $(CACHE)
# A shell that sets it has each process of the tests compile all that it imports. TRL's imports take 19 s of CPU then, else 10.
unexport PYTHONDONTWRITEBYTECODE

CONSTRAINTS := tests/constraints/latest.txt
DEPENDENCIES := pyproject.toml $(CONSTRAINTS)
PYTEST := $(BIN)/python -m pytest

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- environments ---------------------------------------------------------------------------------------------------

$(CACHE)/uv/bin/uv:
	@echo "installing uv into $(CACHE)/uv" >&2
	$(PYTHON) -m venv $(CACHE)/uv
	$(CACHE)/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

.PHONY: install
install: $(VENV)/.demo ## environment with the pack and what the demo needs, in .venv

$(VENV)/.demo: $(DEPENDENCIES) | $(UV)
	@echo "installing torch, TRL and otel-rl into $(VENV) (about a minute, 5 GB)" >&2
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("otel-rl: development needs Python 3.11 or newer, " \
	  "and $(PYTHON) is " + sys.version.split()[0] + "; give another one: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(UV) venv --quiet --seed --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(VENV) --constraint $(CONSTRAINTS) --group demo --editable '.[report,collector]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(UV) pip install --quiet --python $(VENV) --constraint $(CONSTRAINTS) --group test --editable '.[live,dashboards,collector]'
	touch $@

# -- the main job ---------------------------------------------------------------------------------------------------

DEMO_COMMAND := opentelemetry-instrument torchrun --nproc-per-node=2 examples/grpo_two_ranks.py

# Without the shell's OTEL_* variables: with an endpoint or a data directory of its own, the run would not be here.
.PHONY: demo
demo: $(VENV)/.demo ## train an unmodified TRL GRPO program on two ranks and write its HTML report
	@echo "watch it meanwhile, in another terminal: $(BIN)/otel-rl live otel-rl" >&2
	@echo "+ $(DEMO_COMMAND)" >&2
	@unset $${!OTEL_*}; run_id="demo-$$(date +%Y%m%d-%H%M%S)"; \
	PATH="$(CURDIR)/$(BIN):$$PATH" OTEL_RL_RUN_ID="$$run_id" PYTHONWARNINGS=ignore::FutureWarning $(DEMO_COMMAND); \
	$(BIN)/otel-rl report "otel-rl/$$run_id"

# -- checks ---------------------------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.test ## format, lint and type checks; generated files are current; with Go also its modules, minutes the first time
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory check-generated
	$(BIN)/python otelcol-builder/check.py lint

.PHONY: format
format: $(VENV)/.test ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: generate
generate: $(VENV)/.test ## write constants, reference pages, boards and rules from their sources
	$(BIN)/python -m instrumentation.registry generate
	$(BIN)/python -m instrumentation.metric_keys_page
	$(BIN)/python -m instrumentation.configuration_page
	$(BIN)/python -m instrumentation.support_page
	$(BIN)/python -m instrumentation.agent_shapes_page
	$(BIN)/python -m instrumentation.sinks_page
	$(BIN)/python -m instrumentation.trigger_table
	$(BIN)/python -m instrumentation.rooms_page
	$(BIN)/python -m instrumentation.health_rules
	$(BIN)/python -m dashboards build
	$(BIN)/python -m instrumentation.house_figures

.PHONY: check-generated
check-generated: $(VENV)/.test ## fail where a generated file differs from its source
	$(BIN)/python -m instrumentation.registry check
	$(BIN)/python -m instrumentation.registry generate --check
	$(BIN)/python -m instrumentation.metric_keys_page --check
	$(BIN)/python -m instrumentation.configuration_page --check
	$(BIN)/python -m instrumentation.support_page --check
	$(BIN)/python -m instrumentation.agent_shapes_page --check
	$(BIN)/python -m instrumentation.sinks_page --check
	$(BIN)/python -m instrumentation.trigger_table --check
	$(BIN)/python -m instrumentation.rooms_page --check
	$(BIN)/python -m instrumentation.health_rules --check
	$(BIN)/python -m dashboards build --check
	$(BIN)/python -m instrumentation.house_figures --check

# -- tests ----------------------------------------------------------------------------------------------------------

#: Four processes on two cores, since tests wait for half of their time; those of one file stay together and share
#: what the file sets up.
PARALLEL := -q --numprocesses 4 --dist loadfile
UNIT := tests/unit tests/conformance
#: Real programs on this machine; what needs the collector or the backends is test-stack's.
INTEGRATION := $(filter-out %/collector %/stack %/dashboards,$(wildcard tests/integration/*))
#: How much of test-{agents,collector,faults,stragglers,health,causes,engines} runs: `quick` is the part of minutes that CI runs; `full`
#: adds nothing but to test-faults, whose faults of full size no other size has.
SIZE :=
$(if $(filter-out quick full,$(SIZE)),$(error SIZE is "$(SIZE)"; it is quick, full or not given))
QUICK := $(filter quick,$(SIZE))
#: Those of test-agents that CI runs.
QUICK_AGENTS := anthropic openai_agents smolagents
#: Suites of test-hosts; without any all run, and the results are written.
HOSTS :=

#: What each test of `make test` costs.
COSTS := .test-costs.jsonl

.PHONY: test
test: ## unit and integration tests on the latest packages; units also on the oldest and on the newest interpreter
	@rm -f $(COSTS)
	@OTEL_RL_TEST_COSTS="$(CURDIR)/$(COSTS)" $(MAKE) --no-print-directory test-latest test-oldest test-newest
	@$(BIN)/python tests/support/expensive_tests.py $(COSTS)

.PHONY: test-latest
test-latest: $(VENV)/.test ## unit and integration tests in .venv, the largest part of `make test`
	$(PYTEST) $(PARALLEL) $(UNIT) $(INTEGRATION) -m "not slow"

.PHONY: test-oldest
test-oldest: $(VENV)/.test ## what depends on the interpreter or on packages, on the oldest of them
	$(PYTHON) tests/other_environments.py oldest
	$(BIN)/python tests/library_versions.py openai --only oldest

.PHONY: test-newest
test-newest: | $(UV) ## the same on the newest interpreter at hand
	$(PYTHON) tests/other_environments.py newest

.PHONY: test-slow
test-slow: $(VENV)/.test ## what takes more than a minute each, and workers of a real Ray in an environment of its own
	$(PYTEST) $(UNIT) $(INTEGRATION) -m slow
	@test -x $(CACHE)/ray/bin/python || $(UV) venv --quiet --python $(PYTHON) $(CACHE)/ray
	$(UV) pip install --quiet --python $(CACHE)/ray --editable . --group unit 'ray >=2.40'
	$(CACHE)/ray/bin/python -m pytest -q tests/integration/process/test_process_ray.py

.PHONY: test-trainers
test-trainers: $(VENV)/.test ## every trainer class of TRL, stable and experimental, and the Transformers Trainer
	$(PYTEST) $(PARALLEL) tests/integration/trainers tests/unit/training

.PHONY: test-systems
test-systems: $(VENV)/.test | $(UV) ## verl and others, each in an environment of its own (5 GB), compared with their own logs; SYSTEMS=verl: one of them
	UV="$(UV)" $(BIN)/python tests/systems/environments.py $(CACHE)/systems $(SYSTEMS)
	OTEL_RL_SYSTEMS="$(CACHE)/systems" $(PYTEST) -q $(if $(SYSTEMS),$(SYSTEMS:%=tests/systems/test_%.py),tests/systems)

.PHONY: test-agents
test-agents: $(VENV)/.test | $(UV) ## model clients and agent libraries, each in an environment of its own, resumed where it stopped (40 minutes); SIZE=quick: three of them
	UV="$(UV)" $(BIN)/python tests/library_versions.py --agents $(if $(QUICK),$(QUICK_AGENTS) --only latest)

.PHONY: test-hosts
test-hosts: $(VENV)/.test ## other projects' tests, plain against instrumented; all write the table, HOSTS=langchain-core is CI's part
	PYTHONPATH=tests $(BIN)/python -m hosts.compare $(or $(HOSTS),--write)

.PHONY: test-coexistence
test-coexistence: $(VENV)/.test ## model calls beside other instrumentors, each in an environment of its own; writes the table
	PYTHONPATH=tests $(BIN)/python -m coexistence.page
	$(PYTEST) -q tests/coexistence

.PHONY: test-collector
test-collector: $(VENV)/.test ## the collector's Go modules, configurations, redaction, durability; SIZE=quick: fewer configurations, no race detector
	$(if $(QUICK),,$(BIN)/python otelcol-builder/check.py race)
	$(BIN)/python otelcol-builder/check.py score
	$(BIN)/python otelcol-builder/check.py test
	$(BIN)/python otelcol-builder/check.py fuzz
	$(BIN)/python otelcol-builder/build.py
	$(PYTEST) -q --numprocesses 2 --dist loadfile tests/integration/collector $(if $(QUICK),-m "not slow")
	$(if $(QUICK),,$(BIN)/python otelcol-builder/check.py vulnerabilities)

FUZZ_SECONDS := 300
.PHONY: fuzz
fuzz: ## every fuzz test of our Go modules for FUZZ_SECONDS each; CI gives those of what anybody may send 40 seconds together
	$(PYTHON) otelcol-builder/check.py fuzz $(FUZZ_SECONDS)

.PHONY: test-faults
test-faults: $(VENV)/.test ## kill, starve and refuse real collectors under load, write the table; SIZE=quick: 2 minutes, full: an hour's outage
	$(BIN)/python otelcol-builder/build.py
	$(if $(SIZE),,OTEL_RL_FAULTS_RESULTS="$(CURDIR)/benchmarks/results/collector_faults.json") $(PYTEST) tests/faults -m "$(or $(QUICK),$(SIZE:full=full_size),not full_size)"

.PHONY: test-stragglers
test-stragglers: $(VENV)/.test ## late ranks of known place and time are named (half an hour), writes the results; SIZE=quick: 3 minutes
	$(if $(QUICK),,OTEL_RL_STRAGGLERS_RESULTS="$(CURDIR)/benchmarks/results/stragglers.json") $(PYTEST) tests/stragglers -m $(if $(QUICK),quick,full_size) -s

.PHONY: test-health
test-health: $(VENV)/.test ## real jobs driven into failures are named with place and onset (15 minutes), writes the table; SIZE=quick: 3 minutes
	$(if $(QUICK),,OTEL_RL_HEALTH_RESULTS="$(CURDIR)/benchmarks/results/health.json") $(PYTEST) tests/health $(if $(QUICK),-m quick) -v

.PHONY: test-causes
test-causes: $(VENV)/.test | $(UV) ## faults that no rule names, of known cause, place and step, and healthy runs (half an hour; recordings are kept), writes the table; SIZE=quick: 4 minutes
	PYTHONPATH=tests $(BIN)/python -m causes.run $(if $(QUICK),--quick,--results tests/causes/results.md)

.PHONY: test-stack
test-stack: $(VENV)/.test ## real collector, Prometheus, Tempo and Loki: builds them, sends real runs through, queries
	$(BIN)/python otelcol-builder/build.py
	for backend in prometheus tempo loki; do $(BIN)/python compose/backends/build.py $$backend; done
	$(PYTEST) -q --numprocesses 2 --dist loadgroup tests/integration/dashboards tests/integration/stack tests/e2e

.PHONY: test-sinks
test-sinks: $(VENV)/.test | $(UV) ## a rollout through a gateway into real MLflow, Phoenix and Zipkin (1.5 GB, of package registries; needs Java and Maven)
	$(BIN)/python otelcol-builder/build.py
	UV="$(UV)" $(BIN)/python tests/sinks/environments.py $(CACHE)/sinks
	OTEL_RL_SINKS="$(CACHE)/sinks" $(PYTEST) -q tests/sinks

.PHONY: test-engines
test-engines: | $(UV) ## a real vLLM and a real SGLang on the CPU, each in an environment of its own (3 and 8 GB); SIZE=quick: 6 minutes
	$(PYTHON) tests/library_versions.py vllm sglang $(if $(QUICK),--quick)

.PHONY: test-gpu
test-gpu: $(VENV)/.test ## training programs on a GPU with CUDA: losses, steps, memory (minutes; no part of `make test`)
	$(PYTEST) tests/gpu

# -- collector and stack --------------------------------------------------------------------------------------------

.PHONY: collector
collector: ## build otelcol-rl; the last line printed is its path
	@$(PYTHON) otelcol-builder/build.py

.PHONY: stack
stack: ## start otelcol-rl, Prometheus, Tempo and Loki without Docker and print their addresses
	@$(PYTHON) compose/stack.py up

.PHONY: stack-down
stack-down: ## stop exactly the processes that `make stack` started
	@$(PYTHON) compose/stack.py down

# -- figures --------------------------------------------------------------------------------------------------------

.PHONY: bench
bench: $(VENV)/.test ## measure the figures of docs/performance.md into benchmarks/results; leaks: benchmarks/run.py soak
	$(BIN)/python benchmarks/run.py

.PHONY: bench-collector
bench-collector: $(VENV)/.test ## measure the collector's figures of docs/performance.md; builds it first
	$(BIN)/python otelcol-builder/build.py
	$(BIN)/python benchmarks/run.py collector_start collector_throughput
