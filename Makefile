# Every target works on a fresh clone with Python 3.11 or newer and make; nothing but packages is fetched.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n 4
FRAMEWORKS ?=
DEMO_SERVER_ARGS ?=
SOAK ?= 20m
PIP_INSTALL := PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input

# The first interpreter that is new enough; `make PYTHON=/path/to/python` overrides.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: help demo demo-server pictures ui test test-long test-local-model test-frameworks test-ray test-clickhouse coverage check format lint types layers sizes docs bench bench-server soak validity budget clean

help:  ## Show the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## Evaluate recorded answers of a real model and write the reports.
	@$(BIN)/python examples/quickstart/run.py
	@$(BIN)/python examples/finance/run.py

demo-server: $(VENV)/.demo-server  ## Start a server with the runs of the demo in it; Ctrl-C stops it.
	@$(BIN)/python examples/server/run.py $(DEMO_SERVER_ARGS)

pictures: $(VENV)/.dev  ## Make the pictures of the README and of the docs from the demo; needs a browser.
	@$(BIN)/python tools/pictures.py
	@$(BIN)/python tools/web_pictures.py

ui:  ## Build the web interface from frontend/; needs Node 20.19 or newer.
	@cd frontend && npm ci --no-audit --no-fund && npm test && npm run build

test: $(VENV)/.dev  ## Run the tests.
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-long: $(VENV)/.dev  ## Test the server with many more drawn requests, on both databases, and its images (hours).
	@DOKIMOS_LONG_TESTS=1 $(BIN)/python -m pytest $(PYTEST_ARGS) --timeout 7200 tests/server tests/deploy

test-local-model: $(VENV)/.dev  ## Run the judged evaluators on the model server at DOKIMOS_TEST_MODEL_URL.
	@test -n "$$DOKIMOS_TEST_MODEL_URL" || { echo "Set DOKIMOS_TEST_MODEL_URL, such as http://127.0.0.1:8000/v1"; exit 1; }
	@$(BIN)/python -m pytest -rP tests/local_model

test-frameworks: $(VENV)/.python  ## Test the integrations with the real frameworks (FRAMEWORKS="mcp openai" for some).
	@$(BIN)/python tools/test_frameworks.py $(FRAMEWORKS)

test-ray: $(VENV)/.python  ## Test runs on a real Ray cluster of several nodes, in an environment of its own.
	@$(BIN)/python tools/test_frameworks.py ray

test-clickhouse: $(VENV)/.dev  ## Test traces on ClickHouse: embedded, or that of DOKIMOS_TEST_CLICKHOUSE_URL.
	@$(BIN)/python tools/test_clickhouse.py $(PYTEST_ARGS)

coverage: $(VENV)/.dev  ## Run the tests, and print the lines that none of them reaches.
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --cov=dokimos --cov-report=term-missing:skip-covered

check: format lint types layers sizes test  ## Everything that CI runs.

format: $(VENV)/.dev  ## Check the formatting.
	@$(BIN)/ruff format --check .

lint: $(VENV)/.dev  ## Check the style and the words.
	@$(BIN)/ruff check .
	@$(BIN)/python tools/check_words.py

types: $(VENV)/.dev  ## Check the types, and that every public symbol has one.
	@$(BIN)/mypy --strict
	@$(BIN)/python tools/verify_types.py

layers: $(VENV)/.dev  ## Check that no layer imports one above it.
	@$(BIN)/lint-imports --no-logo

sizes: $(VENV)/.dev  ## List modules and functions that have grown large, and measure how the source reads.
	@$(BIN)/python tools/size_outliers.py
	@$(BIN)/python tools/style_measures.py

docs: $(VENV)/.dev  ## Build the documentation site.
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.dev  ## Run the benchmarks at a small size.
	@for script in benchmarks/[a-z]*.py; do \
		echo "== $$script"; \
		rows=$$(grep -q -- '"--rows"' $$script && echo --rows 50000); \
		$(BIN)/python $$script $$rows || exit 1; done

bench-server: $(VENV)/.dev  ## Measure the server, with five million items in its tables (half an hour).
	@$(BIN)/python benchmarks/server_ingestion.py --rounds 10
	@$(BIN)/python benchmarks/server_traces.py --spans 500000
	@$(BIN)/python benchmarks/server_trace_pages.py --traces 1000000
	@$(BIN)/python benchmarks/server_datasets.py --rows 100000 1000000
	@$(BIN)/python benchmarks/server_start.py
	@$(BIN)/python benchmarks/server_pages.py --items 5000000
	@$(BIN)/python benchmarks/web_pages.py --items 100000
	@$(BIN)/python benchmarks/server_backup.py --items 5000000
	@$(BIN)/python benchmarks/install_budget.py server

soak: $(VENV)/.dev  ## Put a server under mixed load, and see whether its memory grows (20 minutes, or SOAK=2h).
	@$(BIN)/python tools/soak.py $(SOAK)

validity: $(VENV)/.dev  ## Simulate whether the statistics do what they promise (an hour).
	@$(BIN)/python benchmarks/validity
	@$(BIN)/python benchmarks/judge_agreement table

budget: $(VENV)/.dev  ## Measure what installing, importing and starting cost.
	@$(BIN)/python benchmarks/install_budget.py

clean:  ## Remove what the other targets made, except the virtual environment.
	@rm -rf build dist out docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found; install one, or use make PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --default-pip >/dev/null
	@touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing dokimos into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile -c constraints.txt -e '.[agents-openai,nlp]'
	@touch $@

$(VENV)/.demo-server: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing dokimos and its server into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile -c constraints.txt -e '.[nlp,server]'
	@touch $@

# The constraints are the whole set, so that pip has nothing left to resolve.
$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing dokimos and its development packages into $(VENV) ..."
	@$(PIP_INSTALL) --no-deps -r constraints.txt
	@$(PIP_INSTALL) --no-deps -e .
	@touch $@ $(VENV)/.demo $(VENV)/.demo-server
