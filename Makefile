# Every target sets up what it needs; see `make help`.

VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
# The same package, compiled: whoever has this folder before ours in PYTHONPATH imports that.
COMPILED := build/compiled
FAST   := PYTHONPATH=$(abspath $(COMPILED)/src)
CODE   := $(wildcard src tests benchmarks examples)
PYTEST := $(PY) -m pytest -ra
# Tests that look at signatures, which compiled functions do not have, instead of calling them.
OF_SOURCE := --ignore=tests/unit/blocking/test_twins.py

.DEFAULT_GOAL := help
.PHONY: help setup peers compiled demo test check format bench golden soak constraints clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## virtual environment in .venv with the pinned packages

$(STAMP): pyproject.toml constraints.txt scripts/bootstrap
	@scripts/bootstrap python $(VENV)
	@touch $@

peers: setup ## a JDK, Maven, Go, Apache's jars and its Go client, for the interop tests and benchmarks
	@scripts/bootstrap java
	@scripts/bootstrap go
	@$(PY) -m tests.peers

$(COMPILED)/done: $(STAMP) setup.py scripts/bootstrap $(shell find src -name '*.py')
	@scripts/bootstrap compiled $(COMPILED) $(abspath $(PY))
	@touch $@

compiled: $(COMPILED)/done ## the package with its hot modules compiled, in build/compiled

demo: setup ## orders through a broker and Spark, counted as you watch; ARGS=--seconds=60 ends by itself
	@$(PY) -m apogeemq.cli.main demo $(ARGS)

check: setup ## ruff, mypy --strict, the architecture test
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check $(CODE)
	@$(PY) -m mypy --strict $(CODE)
	@$(PY) -m pytest -q tests/test_architecture.py

test: check peers compiled ## check, then every test, with real Apache brokers and clients; then those of ours alone, compiled
	@$(PY) -m tests.run
	@if [ -d $(COMPILED)/src ]; then $(FAST) APOGEE_COMPILED=1 $(PY) -m tests.run tests/unit tests/property tests/crash $(OF_SOURCE); fi

soak: peers ## interop, property, crash, robustness and Spark tests, longer: more messages, more kills, more examples
	@APOGEE_SOAK=1 $(PYTEST) --timeout=1800 tests/interop tests/property tests/crash tests/robustness tests/spark

bench: peers compiled ## our name server, broker and client beside Apache's, Spark on them beside Spark on Kafka
	@$(FAST) $(PY) -m benchmarks.nameserver
	@$(FAST) $(PY) -m benchmarks.broker
	@$(FAST) $(PY) -m benchmarks.client
	@$(FAST) $(PY) -m benchmarks.spark

golden: peers ## capture the golden byte files again from the real peers; shows the difference
	@$(PY) -m tests.golden.capture

format: setup ## rewrite the code in the house style
	@$(PY) -m ruff check --fix $(CODE)
	@$(PY) -m ruff format $(CODE)

constraints: ## renew constraints.txt from the newest versions pyproject.toml allows
	@scripts/bootstrap constraints

clean: ## remove the virtual environment and every cache in the tree
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
