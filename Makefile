# Two commands are all one needs: `make demo` and `make test`. Both set up everything themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PYTHONWARNINGS :=
# hundreds of processes of the tests import sfumato: what they compile is kept, whatever the shell says
export PYTHONDONTWRITEBYTECODE :=

.PHONY: golden demo test verify mutants row-mutants lint types unit docs docs-serve bench bench-large system clean help

help:            ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

$(VENV)/bin/python:
	@sh requirements/venv.sh $(PYTHON) $(VENV)

$(VENV)/run.stamp: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing what sfumato needs (once)..."
	$(PIP) install --quiet --require-hashes -r requirements/run.txt
	$(PIP) install --quiet --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/run.stamp
	@echo "Installing what the tests need (once)..."
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

demo: $(VENV)/run.stamp  ## mask a generated teacher survey and write out/ with the masked data, the recipe and a report
	$(BIN)/sfumato demo --out out --replace

test: $(VENV)/dev.stamp system lint  ## linter, type checker, docs built strictly, all tests but the long ones of verify
	@$(MAKE) --no-print-directory --jobs 2 types docs
	@$(MAKE) --no-print-directory unit

verify: $(VENV)/dev.stamp system  ## the long statistical confirmations and every class on Spark; before a release, not in CI
	$(BIN)/python -m pytest -m verify -n 2 --dist worksteal

system:          ## what the tests need from the operating system (Java, Chromium, Pango), as root; else said loudly
	@sh tests/system.sh

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

unit: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

docs: $(VENV)/dev.stamp  ## build the documentation into site/, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/dev.stamp  ## read the documentation at http://localhost:8000
	$(BIN)/mkdocs serve

bench: $(VENV)/dev.stamp  ## the speed and memory claims, each measured
	$(BIN)/python -m benchmarks

bench-large: $(VENV)/dev.stamp  ## 100M records out of core on DuckDB within 6 GB; takes minutes, and is not part of bench
	$(BIN)/python -m benchmarks.large

clean:
	rm -rf $(VENV) out out-confidential site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

golden: $(VENV)/dev.stamp  ## before a change of shape: write digests of answers to .golden.txt; after it: compare with them
	$(BIN)/python tests/golden.py

mutants: $(VENV)/dev.stamp  ## change 200 places of the source one by one, and list those that no test notices; takes hours
	$(BIN)/python tests/mutants.py map
	$(BIN)/python tests/mutants.py run -n 200 --jobs 2

row-mutants: $(VENV)/dev.stamp  ## change what each row of the papers names, until the row's tests notice; takes an hour
	$(BIN)/python tests/row_mutants.py
