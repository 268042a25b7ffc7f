# Two commands do everything on a fresh machine with Python 3.10+, gcc and node: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?= auto

.PHONY: venv demo test test-all lint types bench golden clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml scripts/make_venv.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" bash scripts/make_venv.sh
	touch $@

demo: venv
	$(BIN)/python scripts/demo.py

test: venv
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not editor and not gpu and not slow" tests

test-all: venv
	$(BIN)/python -m pytest -q -n $(WORKERS) tests

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/pyright

bench: venv
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python benchmarks/editor_latency.py

golden: venv
	$(BIN)/python -m pytest -q tests/golden --update-golden

clean:
	rm -rf $(VENV)
