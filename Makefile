# The two commands of a fresh machine with Python 3.11+, make and git: `make demo` and `make test`.
# Their packages go into .venv, from the locks in requirements/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# A lock has all that it needs. Without --no-deps, pip looks at newer releases of packages with extras, and refuses them.
INSTALL := $(PIP) install --quiet --only-binary :all: --no-deps --require-hashes
EDITABLE := $(PIP) install --quiet --no-deps --no-build-isolation --editable .

# Many containers set it. But the tests start hundreds of processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test quick clients page check docs bench fuzz mutants golden lock clean

help:  ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# An idle worker takes half of the remaining tests of another, so that the tests of a file mostly stay together.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal

demo: $(VENV)/demo.stamp  ## compile a code-review prompt over real files into 8,000 and 2,000 tokens
	$(BIN)/python examples/code_review/demo.py

test: $(VENV)/dev.stamp  ## run all tests
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

quick: $(VENV)/dev.stamp  ## run the everyday tests: all but the slow ones
	$(BIN)/python -m pytest -m "not slow" $(PARALLEL) $(ARGS)

clients: $(VENV)/dev.stamp  ## install the official clients and send their requests through the gateway
	PYTHON=$(CURDIR)/$(BIN)/python tests/clients/setup
	$(BIN)/python -m pytest tests/clients $(ARGS)

page:  ## build the page of tokenbox inspect with Node; ARGS=--check fails if the built files are out of date
	@command -v npm >/dev/null || { echo "npm is not installed: building the page needs Node 20 or newer." >&2; exit 1; }
	cd page && { cmp -s package-lock.json node_modules/installed \
		|| { npm ci --ignore-scripts --no-audit --no-fund --silent && cp package-lock.json node_modules/installed; }; }
	cd page && node build.mjs $(ARGS)

check: $(VENV)/dev.stamp  ## lint, formatting, types, import direction, docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy src tests tools
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python tools/mutants.py --check
	$(BIN)/python tools/notice.py --check
	$(BIN)/python tools/check_sdist.py
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/check_docs.py

docs: $(VENV)/docs.stamp  ## build the documentation site into build/site; a broken link or anchor fails it
	$(BIN)/python tools/reference.py --check
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs --quiet build --strict

bench: $(VENV)/dev.stamp  ## compare the speed with other libraries, each in its own environment
	bench/setup
	$(BIN)/python bench/run.py layout
	$(BIN)/python bench/run.py policy
	$(BIN)/python bench/run.py pack
	$(BIN)/python bench/run.py codec
	$(BIN)/python bench/run.py ladder
	$(BIN)/python bench/run.py lenses
	$(BIN)/python bench/run.py proof
	$(BIN)/python bench/run.py cache
	$(BIN)/python bench/run.py gateway
	$(BIN)/python bench/run.py conversation
	$(BIN)/python bench/run.py evidence
	$(BIN)/python bench/run.py toolchats
	$(BIN)/python bench/run.py shell
	$(BIN)/python bench/run.py inspect
	$(BIN)/python bench/run.py batch
	$(BIN)/python tools/import_time.py

fuzz: $(VENV)/dev.stamp  ## fuzz the pack decoder for SECONDS (60), guided by coverage
	$(INSTALL) --requirement requirements/fuzz.txt
	$(BIN)/python tools/fuzz_lcp.py $(or $(SECONDS),60)

mutants: $(VENV)/dev.stamp  ## change the sources in one place at a time and check that a test fails
	$(BIN)/python tools/mutants.py $(ARGS)

golden: $(VENV)/dev.stamp  ## rewrite the golden files of the tests from the current output
	$(BIN)/python -m pytest --update-golden $(ARGS)

# The site has its own environment, so that the tests do not depend on its packages.
DOCS := $(VENV)/docs
$(VENV)/docs.stamp: requirements/docs.txt $(VENV)/dev.stamp
	@echo "Installing the packages of the documentation site ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --only-binary :all: \
		--no-deps --require-hashes --requirement requirements/docs.txt
	@touch $@

# Locks contain no index URL: packages come from the index that pip is configured with.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header

# Environments of tests in which tokenbox is also installed, so its dependencies are locked with them.
OURS = tests/clients/locks/objects.in $(wildcard tests/clients/locks/with-*.in)

lock: $(VENV)/demo.stamp  ## recompile all locks of Python packages; ARGS=--upgrade takes newer versions
	$(INSTALL) --requirement requirements/lock.txt
	$(COMPILE) $(ARGS) --output-file requirements/lock.txt requirements/lock.in
	$(COMPILE) $(ARGS) --output-file requirements/dev.txt --all-extras \
		pyproject.toml requirements/build.in requirements/dev.in
	$(COMPILE) $(ARGS) --output-file requirements/fuzz.txt requirements/fuzz.in
	$(COMPILE) $(ARGS) --output-file requirements/docs.txt requirements/docs.in
	$(COMPILE) $(ARGS) --no-deps --output-file requirements/templates.txt requirements/templates.in
	$(COMPILE) $(ARGS) --output-file requirements/demo.txt --extra outline --constraint requirements/dev.txt \
		pyproject.toml requirements/build.in
	for file in $(OURS); do \
		$(COMPILE) $(ARGS) --output-file "$${file%.in}.txt" pyproject.toml "$$file" || exit; \
	done
	for file in bench/requirements-*.in $(filter-out $(OURS),$(wildcard tests/clients/locks/*.in)); do \
		$(COMPILE) $(ARGS) --directory "$$(dirname "$$file")" \
			--output-file "$$(basename "$$file" .in).txt" "$$(basename "$$file")" || exit; \
	done

clean:  ## remove all environments, caches and build output
	rm -rf $(VENV) bench/.venv* tests/clients/.venv-* tests/clients/node/node_modules page/node_modules build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) is not installed. Install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "tokenbox needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
			"Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# dev.txt contains demo.txt with the same versions, so one environment serves both.
$(VENV)/demo.stamp: requirements/demo.txt pyproject.toml | $(BIN)/python
	@echo "Installing the packages of the demo ..."
	@$(INSTALL) --requirement requirements/demo.txt
	@$(EDITABLE)
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/demo.stamp
	@echo "Installing the packages of the tests and checks ..."
	@$(INSTALL) --requirement requirements/dev.txt
	@touch $@
