# Each target sets up .venv and installs what it needs: a clone and one command are enough.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE $(shell find src -type f -name '*.[chp]*' ! -name '*.pyc')
CORE := $(shell find src/core tests/native -name '*.[ch]pp')
TIDY ?= $(filter src/%.cpp,$(CORE))
TESTS ?= tests reproduction --pyargs predgap
STRICT := $(if $(CI),--config-settings=cmake.define.PREDGAP_WERROR=ON,)

.PHONY: demo reproduce test test-all test-clusters native mutants docs coverage bench constants leaderboard sanitize lint tidy format clean

demo: $(VENV)/.demo
	$(VENV)/bin/predgap demo

# The paper, recomputed: a quarter of an hour. make reproduce ARGS=--quick, or ARGS="agreement --data DIR"; ARGS=--help
reproduce: $(VENV)/.reproduce
	$(VENV)/bin/python -m reproduction $(ARGS)

# On all cores. make test PYTEST='-m "not slow_paper"' leaves out the paper's slow checks.
test: $(VENV)/.test $(VENV)/.native
	$(VENV)/bin/python -m pytest -n auto $(PYTEST) tests reproduction --pyargs predgap

# The same with many more random cases, other ones each time: before a release, or when an issue is resolved.
test-all: $(VENV)/.test $(VENV)/.native
	HYPOTHESIS_PROFILE=full $(VENV)/bin/python -m pytest -n auto $(PYTEST) tests reproduction --pyargs predgap

# Spark and Ray, which make test leaves out: 800 MB to install, and Spark takes a minute to start.
test-clusters: $(VENV)/.clusters
	$(VENV)/bin/python -m pytest $(PYTEST) tests/clusters

# The kernels against their definition, without Python or a model: a minute. Part of make test.
native: $(VENV)/.native
	$(VENV)/bin/python tests/native/native_tests.py

# Whether these tests notice changes of the core, one after the other; some minutes. make mutants MUTANTS="push plan"
mutants: $(VENV)/.native
	$(VENV)/bin/python tests/native/mutants.py $(MUTANTS)

# The pages in build/docs/index.html, warnings as errors; the code on them is run and its output compared.
docs: $(VENV)/.docs
	$(VENV)/bin/python -m pytest -q tests/test_examples.py
	$(VENV)/bin/sphinx-build -W --keep-going -q -d build/doctrees docs build/docs

# Which lines of the package the tests run, in build/coverage/index.html. make coverage TESTS=tests/noise
coverage: $(VENV)/.coverage
	$(VENV)/bin/python -m pytest $(TESTS) --cov --cov-report=term --cov-report=html

# The speeds by which the planner prices answers, measured again; some minutes. They are in src/core/constants.hpp.
constants: $(VENV)/.test
	$(VENV)/bin/python benchmarks/constants.py

bench: $(VENV)/.test
	$(VENV)/bin/python benchmarks/run.py

# Writes the tables of docs/leaderboard.md; some minutes.
leaderboard: $(VENV)/.leaderboard
	$(VENV)/bin/python -W ignore benchmarks/leaderboard.py

# The kernels' tests with the address and undefined-behaviour sanitizers, on a build of its own, with exact buffers and checked indices.
sanitize: $(VENV)/.test $(VENV)/.native
	$(VENV)/bin/python tests/native/native_tests.py --sanitize
	$(PIP) install --quiet --no-deps --upgrade --target build/sanitized \
	  --config-settings=build-dir=build/sanitizing --config-settings=cmake.define.PREDGAP_SANITIZE=ON .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH=build/sanitized \
	  $(VENV)/bin/python -m pytest -p no:cacheprovider $(addprefix tests/engine/test_,background.py blocks.py bounded.py categories.py category_laws.py curves.py curves_of_tables.py \
	  engine.py exact_gaps.py gains.py joint_means.py moments.py outcomes.py plan.py racing.py sampling.py sensitivity.py subset_gaps.py)

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(CORE)

# clang-tidy on the C++ core, with the checks in .clang-tidy. make tidy TIDY=src/core/noise/row_tables.cpp
tidy: $(VENV)/.tidy
	$(VENV)/bin/cmake -S . -B build/tidy -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
	  -DPython_EXECUTABLE=$(abspath $(VENV)/bin/python) \
	  -Dnanobind_DIR="$$($(VENV)/bin/python -m nanobind --cmake_dir)"
	$(VENV)/bin/clang-tidy -p build/tidy --quiet $(TIDY)

format: $(VENV)/.lint
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CORE)

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

$(VENV)/.reproduce: $(VENV)/.demo
	$(PIP) install --quiet --group reproduce
	touch $@

# The tests of the report drive Chromium. Where it cannot be installed they are skipped, and say so.
$(VENV)/.test: $(VENV)/.demo
	$(PIP) install --quiet --group test
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit 0; done; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo 'Installing Chromium for the tests of the report'; \
	    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium; } \
	      > /dev/null 2>&1 || echo 'Chromium cannot be installed; the tests that drive it are skipped'; \
	  fi
	touch $@

# cmake, and the one header of the native tests. Where it cannot be had they are skipped, and say so.
$(VENV)/.native: $(VENV)/.pip
	$(PIP) install --quiet --group native || echo 'cmake cannot be installed'
	$(VENV)/bin/python tests/native/native_tests.py --fetch
	touch $@

$(VENV)/.clusters: $(VENV)/.test
	$(PIP) install --quiet --group clusters
	touch $@

$(VENV)/.lint: $(VENV)/.test
	$(PIP) install --quiet --group lint
	touch $@

$(VENV)/.docs: $(VENV)/.test
	$(PIP) install --quiet --group docs
	touch $@

$(VENV)/.coverage: $(VENV)/.test
	$(PIP) install --quiet --group coverage
	touch $@

$(VENV)/.leaderboard: $(VENV)/.test
	$(PIP) install --quiet --group leaderboard
	touch $@

$(VENV)/.tidy: $(VENV)/.pip
	$(PIP) install --quiet --group tidy
	touch $@
