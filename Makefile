# danlu: two commands do it all on a fresh machine, `make run` and `make test`. What they print is in the README.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
STORE ?= out/sample
RECIPE ?= recipes/sample.yaml
export PREFECT_SERVER_ANALYTICS_ENABLED = false
export DO_NOT_TRACK = 1

.PHONY: run test check bench serve setup lock clean

run: setup  ## the whole pipeline on the bundled sample: checkpoint and report
	$(BIN)/danlu run --config $(RECIPE) --store $(STORE)

test: setup $(VENV)/.triton check  ## format, lint and types, then every test
	$(BIN)/python -m pytest -q

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup  ## every benchmark: figures beside those of peers in the same run
	@failed=0; for file in $$(grep -l __main__ benchmarks/*.py); do echo "== $$file"; $(BIN)/python $$file || failed=1; done; exit $$failed

bench-%: setup  ## one of them, such as bench-clean or bench-charsets
	$(BIN)/python benchmarks/$*.py

serve: setup  ## Prefect server, work pool, deployments and a worker, until Ctrl-C
	$(BIN)/python -m flows.serve

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "danlu needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@command -v g++ >/dev/null || { echo "danlu needs g++ (DeepSpeed compiles one operator on the CPU): apt-get install g++" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV): about 3 minutes the first time"
	@$(PIP) --constraint requirements.lock torch  # with its dependencies: which they are depends on the machine
	@$(PIP) --no-deps --requirement requirements.lock  # the lock is complete; see CONTRIBUTING.md for why --no-deps
	@$(PIP) --no-deps --editable .
	@touch $@

# A GPU's torch brings Triton along. Elsewhere only the tests of its kernels need it, for its interpreter: 200 MB.
$(VENV)/.triton: $(VENV)/.ready
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(PIP) --no-deps triton==3.7.1
	@touch $@

lock: setup  ## write requirements.lock from what is installed
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | grep -Ev '^(fasttext-predict|triton)==' > requirements.lock

clean:
	rm -rf out .mypy_cache .ruff_cache .pytest_cache
