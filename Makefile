# `make demo` and `make test` need Python 3.11 or newer, make and a package index; all else is installed into .venv by hash:
# for the demo what requirements-core.lock lists, for the rest all of requirements.lock.
SHELL := /bin/sh
BIN := .venv/bin
CORE := .venv/.core
READY := .venv/.ready
# Two cores: tests that wait for browsers, servers and databases leave room for a third worker.
WORKERS ?= 3
FITS := import ensurepip, sys; sys.exit(sys.version_info < (3, 11))
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests start hundreds of interpreters: what Python compiles is kept in .venv, where the environment forbids it, too.
KEPT := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/bytecode

.PHONY: help install demo demo-network test quick lint format docs wheel lock sbom clean audit chaos soak fuzz mutants

help:
	@echo "make demo    one private regression over three parties' files, end to end"
	@echo "make demo-network  the same over a network: four processes, mutual TLS on loopback, the same release and scores when seeded"
	@echo "make test    lint, types, import floors, and the whole test suite"
	@echo "make quick   what to run before every commit: lint and the tests that end within two minutes"
	@echo "make lint    ruff, mypy --strict, import-linter"
	@echo "make format  ruff format and its safe fixes"
	@echo "make docs    the documentation as a site, into site/; every warning fails"
	@echo "make wheel   build the wheel twice, to the same bytes, and the sdist; install the wheel into fresh environments of Python 3.11 to 3.13, run the demo there"
	@echo "make sbom    a bill of materials, CycloneDX, of the package and the lock, into dist/"
	@echo "make lock    resolve both locks anew (asks the package index)"
	@echo "make clean   remove everything that was built or written by a run"
	@echo "make audit   attack every view, plant every bug, and write docs/audit.md (20 minutes)"
	@echo "make chaos   kill -9 of server and parties at each step; ledgers must stay right (long)"
	@echo "make soak    100 sessions over the real engine with restarts, certificates renewed and revoked, a full disk, a wrong clock (two hours)"
	@echo "make fuzz    a million hostile inputs for every reader, into docs/results/operations.md (4 minutes)"
	@echo "make mutants 500 changes of the code that promises rest on, each of which a quick test must notice (hours; goes on where it was cut off)"
	@echo "Tables, benchmarks and other drills: python -m experiments, python -m drills"

install: $(READY)

$(CORE): requirements-core.lock pyproject.toml
	@python=; for p in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if "$$p" -c "$(FITS)" >/dev/null 2>&1; then python=$$p; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo "Colonnade needs Python 3.11 or newer with venv; set PYTHON=/path/to/python3" >&2; exit 1; fi; \
	if ! $(BIN)/python -c "$(FITS)" >/dev/null 2>&1; then \
	  echo "creating .venv with $$($$python --version)"; "$$python" -m venv --clear .venv; \
	fi
	$(PIP) --no-compile --require-hashes -r requirements-core.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(READY): $(CORE) requirements.lock
	$(PIP) --no-compile --require-hashes -r requirements.lock
	@touch $@

demo: $(CORE)
	$(BIN)/colonnade fit demo/study.toml --out demo/release.json --model demo/model.json --force
	$(BIN)/python demo/evaluate.py
	@$(BIN)/colonnade report demo/release.json --html demo/report.html --json > /dev/null
	@printf '\nThe page to read and sign is demo/report.html.\n'

demo-network: $(READY)
	$(ONE_THREAD) $(BIN)/python demo/network.py --check

# EVERY=1 kills at every request of every process.
EVERY ?= 5
chaos: $(READY)
	$(ONE_THREAD) POLARS_MAX_THREADS=1 $(BIN)/python -m drills.chaos --every $(EVERY)
	$(ONE_THREAD) $(BIN)/python -m drills.strikes
	$(ONE_THREAD) COLONNADE_LONG=1 $(BIN)/python -m pytest tests/network

fuzz: $(READY)
	RUST_BACKTRACE=0 $(ONE_THREAD) $(BIN)/python docs/write_robustness.py fuzz

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	PYTHONPATH=src $(BIN)/lint-imports

test: lint
	$(ONE_THREAD) $(KEPT) $(BIN)/python -m pytest -n $(WORKERS)

quick: lint
	$(ONE_THREAD) $(KEPT) $(BIN)/python -m pytest -n 2 -m quick

# COUNT and SEED say how many changes are drawn, and which.
COUNT ?= 500
SEED ?= 1
mutants: $(READY)
	$(ONE_THREAD) $(BIN)/python -m drills mutants map
	$(ONE_THREAD) $(BIN)/python -m drills mutants run --count $(COUNT) --seed $(SEED); \
	  code=$$?; $(BIN)/python -m drills mutants write; exit $$code

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

audit: $(READY)
	$(ONE_THREAD) $(BIN)/python -m audit

SESSIONS ?= 100
soak: $(READY)
	$(ONE_THREAD) POLARS_MAX_THREADS=1 $(BIN)/python -m drills.soak --sessions $(SESSIONS) --minutes 110 --write

wheel: $(READY)
	.ci/wheel

sbom: $(READY)
	$(BIN)/python docs/write_sbom.py dist/colonnade.cdx.json

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site is in site/; open site/index.html."

lock:
	.ci/lock

clean:
	rm -rf site .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist src/*.egg-info
	rm -f demo/release.json demo/model.json demo/report.html demo/network-release.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
