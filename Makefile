# Each target sets up .venv and installs what it needs: a clone and one command are enough.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE $(shell find src -type f -name '*.[chp]*' ! -name '*.pyc')
STRICT := $(if $(CI),--config-settings=cmake.define.PREDGAP_WERROR=ON,)

.PHONY: demo test bench lint format clean

demo: $(VENV)/.demo
	$(VENV)/bin/predgap demo

test: $(VENV)/.test
	$(VENV)/bin/python -m pytest tests --pyargs predgap

bench: $(VENV)/.test
	$(VENV)/bin/python benchmarks/run.py

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run --Werror src/core/*.cpp src/core/*.hpp

format: $(VENV)/.lint
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i src/core/*.cpp src/core/*.hpp

clean:
	rm -rf $(VENV) build dist predgap-demo

$(VENV)/.pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "predgap needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet 'pip>=25.1'
	touch $@

$(VENV)/.demo: $(VENV)/.pip $(SOURCES)
	$(PIP) install --quiet $(STRICT) '.[demo]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) install --quiet --group test
	touch $@

$(VENV)/.lint: $(VENV)/.test
	$(PIP) install --quiet --group lint
	touch $@
