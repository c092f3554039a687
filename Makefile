# `make demo` and `make test` need Python 3.11 or newer, make and a package index; all else is installed into .venv from requirements.lock.
SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= 2
FITS := import ensurepip, sys; sys.exit(sys.version_info < (3, 11))
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help install demo test lint format bench tables overhead lock clean

help:
	@echo "make demo    one private regression over three parties' files, end to end"
	@echo "make test    lint, types, import floors, and the whole test suite"
	@echo "make lint    ruff, mypy --strict, import-linter"
	@echo "make format  ruff format and its safe fixes"
	@echo "make bench   CPU time of the secure products against the plain matrix product"
	@echo "make tables  the paper's tables, from our own runs, into docs/results (long)"
	@echo "make overhead  time and bytes of the secure products against n, d and K (long)"
	@echo "make lock    resolve requirements.lock anew (asks the package index)"
	@echo "make clean   remove everything that was built or written by a run"

install: $(READY)

$(READY): requirements.lock pyproject.toml
	@python=; for p in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if "$$p" -c "$(FITS)" >/dev/null 2>&1; then python=$$p; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo "Colonnade needs Python 3.11 or newer with venv; set PYTHON=/path/to/python3" >&2; exit 1; fi; \
	if ! $(BIN)/python -c "$(FITS)" >/dev/null 2>&1; then \
	  echo "creating .venv with $$($$python --version)"; "$$python" -m venv --clear .venv; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)
	$(BIN)/colonnade fit demo/study.toml --out demo/release.json --model demo/model.json
	$(BIN)/python demo/evaluate.py
	@$(BIN)/colonnade report demo/release.json --html demo/report.html --json > /dev/null
	@printf '\nThe page to read and sign is demo/report.html.\n'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	PYTHONPATH=src $(BIN)/lint-imports

test: lint
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/product.py --table

tables overhead: $(READY)
	$(ONE_THREAD) $(BIN)/python -m experiments.paper $@

lock:
	.ci/lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist src/*.egg-info
	rm -f demo/release.json demo/model.json demo/report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
