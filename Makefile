# Every target needs nothing but python3 (3.11 or newer, with venv) and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all check lint types floors bench golden clean

demo: $(INSTALLED)
	$(BIN)/perdure demo

test: $(INSTALLED)
	$(BIN)/python -m pytest

# The tests on every CPython >= 3.11 of this machine.
test-all:
	$(PYTHON) .ci/test_all.py

check: lint types floors

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy cannot follow the mapping of an editable install: check what users get.
types: $(INSTALLED)
	$(BIN)/python .ci/wheel.py build/wheel
	rm -rf build/typecheck
	$(PIP) install --quiet --no-deps --target build/typecheck build/wheel/perdure-*.whl
	cd build/typecheck && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p perdure

# The lower bounds of pyproject.toml, installed exactly, must carry the package.
floors: $(INSTALLED)
	$(BIN)/python .ci/floors.py build/floors

# The golden store of the schema under way; those of released ones stay as they are.
golden: $(INSTALLED)
	$(BIN)/python tests/golden/make.py

# The short form of every bench that exists, into bench/RESULTS.md and its plot; with a
# PostgreSQL server where one is installed.
bench: $(INSTALLED)
	.ci/postgres --installed $(BIN)/python bench/all.py --short

clean:
	rm -rf $(VENV) .venvs build perdure.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("perdure needs Python 3.11 or newer, this is %d.%d: run make with PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --editable '.[demo,objects,openai,postgres,prices,tokens,test,check]'
	@touch $@
