# `make demo` and `make test` need Python 3.11 or newer, make and a package index; all else is installed into .venv from requirements.lock.
SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/.ready
# Two cores: tests that wait for browsers, servers and databases leave room for a third worker.
WORKERS ?= 3
FITS := import ensurepip, sys; sys.exit(sys.version_info < (3, 11))
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help install notebooks alignment audit demo demo-network chaos network-load fuzz load scale whole test lint format bench tables tables-quick utility synthesis synthesis-baselines coverage overhead partners wheel docs soak lock clean

help:
	@echo "make demo    one private regression over three parties' files, end to end"
	@echo "make demo-network  the same over a network: four processes, mutual TLS on loopback, the same release and scores when seeded"
	@echo "make test    lint, types, import floors, and the whole test suite"
	@echo "make lint    ruff, mypy --strict, import-linter"
	@echo "make format  ruff format and its safe fixes"
	@echo "make bench   CPU time of the secure products against the plain matrix product"
	@echo "make tables  the paper's tables, from our own runs, into docs/results (long)"
	@echo "make tables-quick  the same with 2 splits, K = 1 and 2 and small synthetic data, into a temporary folder"
	@echo "make utility accuracy and error of ours against epsilon, K and collusion, into docs/results (long)"
	@echo "make synthesis  tables, rows and models of all columns from one release, into docs/results/synthesis.md (30 CPU minutes)"
	@echo "make synthesis-baselines  AIM and MST beside them, at most LIMIT=300 CPU seconds a run, in an environment of their own (an hour)"
	@echo "make coverage  how often intervals hold the truth, coefficient by coefficient, into docs/results (20 CPU minutes)"
	@echo "make overhead  time and bytes of the secure products against n, d and K (long)"
	@echo "make partners  which studies the default policy refuses because a partner could cheat, into docs/results/partners.md"
	@echo "make alignment  CPU, bytes and memory of matching ids, up to ten million, into docs/results/alignment.md (long)"
	@echo "make whole   a private study beside the same one in the clear, from files to model, into docs/results/whole.md (8 minutes)"
	@echo "make scale   whole studies of up to ROWS=10000000 rows, with ids and without, into docs/results/scale.md (long)"
	@echo "make chaos   kill -9 of server and parties at each step; ledgers must stay right (long)"
	@echo "make network-load  250 MB of sealed columns through the server; peak memory of each process (long)"
	@echo "make audit   attack every view, plant every bug, and write docs/audit.md (20 minutes)"
	@echo "make fuzz    a million hostile inputs for every reader, into docs/results/robustness.md (4 minutes)"
	@echo "make load    64 parties, 4,000 columns, 100 studies in a row, into docs/results/robustness.md (5 minutes)"
	@echo "make notebooks  run the notebooks and keep what they show (1 minute)"
	@echo "make soak    100 sessions over the real engine with restarts, certificates renewed and revoked, a full disk, a wrong clock (two hours)"
	@echo "make wheel   build wheel and sdist, install them into fresh environments of Python 3.11 to 3.13, run the demo there"
	@echo "make docs    the documentation as a site, into site/; every warning fails"
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
	$(BIN)/colonnade fit demo/study.toml --out demo/release.json --model demo/model.json --force
	$(BIN)/python demo/evaluate.py
	@$(BIN)/colonnade report demo/release.json --html demo/report.html --json > /dev/null
	@printf '\nThe page to read and sign is demo/report.html.\n'

alignment: $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/alignment_report.py --largest

demo-network: $(READY)
	$(ONE_THREAD) $(BIN)/python demo/network.py --check

# EVERY=1 kills at every request of every process.
EVERY ?= 5
chaos: $(READY)
	$(ONE_THREAD) POLARS_MAX_THREADS=1 $(BIN)/python -m drills.chaos --every $(EVERY)
	$(ONE_THREAD) $(BIN)/python -m drills.strikes
	$(ONE_THREAD) COLONNADE_LONG=1 $(BIN)/python -m pytest tests/network

# ROWS=100000000 takes 16 GB of disk for a while.
ROWS ?= 10000000
scale: $(READY)
	$(BIN)/python benchmarks/scale.py --series rows columns parties ids gram --most-rows $(ROWS)
	$(BIN)/python benchmarks/scale.py --write

whole: $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/whole.py --series

network-load: $(READY)
	$(ONE_THREAD) $(BIN)/python -m drills.load

fuzz: $(READY)
	@mkdir -p build
	RUST_BACKTRACE=0 $(ONE_THREAD) $(BIN)/python -m fuzz --json > build/fuzz.json
	$(BIN)/python docs/write_robustness.py build/fuzz.json

load: $(READY)
	@mkdir -p build
	$(ONE_THREAD) $(BIN)/python benchmarks/load.py --json > build/load.json
	$(BIN)/python docs/write_robustness.py build/load.json

notebooks: $(READY)
	$(ONE_THREAD) $(BIN)/python notebooks/write.py

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

tables-quick: $(READY)
	$(ONE_THREAD) $(BIN)/python -m experiments.paper tables --quick

utility synthesis: $(READY)
	$(ONE_THREAD) $(BIN)/python -m experiments.paper $@ --write

# AIM and MST have an environment of their own, outside the project's lock.
SYNTHESIZERS := .cache/synthesizers/venv
LIMIT ?= 300
synthesis-baselines: $(READY) $(SYNTHESIZERS)/.ready
	$(ONE_THREAD) $(BIN)/python -m experiments.paper $@ --limit $(LIMIT)

$(SYNTHESIZERS)/.ready: experiments/synthesizers/requirements.txt
	python3 -m venv --clear $(SYNTHESIZERS)
	$(SYNTHESIZERS)/bin/python -m pip install --quiet --disable-pip-version-check -r experiments/synthesizers/requirements.txt
	@touch $@

coverage: $(READY)
	$(ONE_THREAD) $(BIN)/python -m experiments.paper coverage --write

partners: $(READY)
	$(ONE_THREAD) $(BIN)/python docs/write_partners.py

audit: $(READY)
	$(ONE_THREAD) $(BIN)/python -m audit

SESSIONS ?= 100
soak: $(READY)
	$(ONE_THREAD) POLARS_MAX_THREADS=1 $(BIN)/python -m drills.soak --sessions $(SESSIONS) --minutes 110 --write

wheel: $(READY)
	.ci/wheel

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The site is in site/; open site/index.html."

lock:
	.ci/lock

clean:
	rm -rf site .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist src/*.egg-info
	rm -f demo/release.json demo/model.json demo/report.html demo/network-release.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
