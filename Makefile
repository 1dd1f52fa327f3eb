# Every target sets up .venv by itself, on a machine that has Python 3.11 or newer, pip and make.

PYTHON ?= python3
BIN := .venv/bin
RAY := tests/experiments/test_ray.py# a cluster wants the machine for itself
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests start many processes, which would each compile the library anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all check bench faults fuzz docs dist clean

demo: .venv/user
	$(BIN)/rankmixup demo

test: .venv/dev
	$(BIN)/python -m pytest -q -n auto --dist worksteal

test-all: .venv/dev
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "(slow or data) and not dist and not browser"
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "dist or browser" --ignore $(RAY)
	$(BIN)/python -m pytest -q -m dist $(RAY)

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: .venv/dev
	$(BIN)/python -m benchmarks

faults: .venv/dev
	$(BIN)/python -m studies.faults

fuzz: .venv/dev
	$(BIN)/python -m studies.fuzz

docs: .venv/docs
	$(BIN)/sphinx-build --quiet --fail-on-warning docs site

dist: .venv/dev
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf .venv site runs demo dist

# Stamps: reinstalled only when the list of what to install has changed.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/user: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable .
	touch $@

.venv/dev: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable '.[dev]'
	touch $@ .venv/user

.venv/docs: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) --editable '.[docs]'
	touch $@ .venv/user
