# `make demo` and `make test` work alone on a fresh clone: they need Python 3.11 or newer, make, and a package index.

PYTHON ?= python3
VENV   ?= .venv
XLA    ?= .venv-xla
JOBS   ?= auto
K      ?= examples/rms_normalise.py
ARGS   ?= --arg 128x512:float32
QUICK  := tests/test_layers.py tests/test_prose.py tests/test_target.py tests/ir tests/analysis tests/cost tests/passes \
          tests/backend/test_kernel_ir_rules.py tests/backend/test_storage.py tests/backend/test_frame.py
NATIVE := tests/backend tests/numerics tests/transforms tests/kernels

BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test quick threads older nightly xla million lint format types bench acceptance validate docs dump release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  PYTHON=python3.12 chooses the interpreter, JOBS=1 the number of test processes"

demo: $(STAMP) ## embed sentences with a transformer whose every layer is an NKI kernel
	$(BIN)/python -m examples.minilm

test: lint types ## everything that CI checks: lint, types, all tests
	$(BIN)/python -m pytest -n $(JOBS)

quick: $(STAMP) ## tests that localise: layers, prose, IR, analyses, stages, kernel IR; under a minute
	$(BIN)/python -m pytest -n $(JOBS) $(QUICK)

threads: $(STAMP) ## all tests, each native launch again on 1, 2 and 3 threads and in the simulator: the same bits
	$(BIN)/python -m pytest -n $(JOBS) -p tests.support.repeated_launches $(or $(TESTS),tests)

older: $(STAMP) ## tests of native code as on processors without AMX, and without AVX-512 as well
	NKI_TEST_WITHOUT=amx $(BIN)/python -m pytest -n $(JOBS) -p tests.support.masked_features $(NATIVE)
	NKI_TEST_WITHOUT=amx,avx512 $(BIN)/python -m pytest -n $(JOBS) -p tests.support.masked_features $(NATIVE)

nightly: $(STAMP) xla ## many random samples and changed kernels, with a seed that failures name (NKI_TEST_SEED=… repeats)
	NKI_TEST_SEED=$${NKI_TEST_SEED:-random} NKI_TEST_EXAMPLES=$${NKI_TEST_EXAMPLES:-500} \
	$(BIN)/python -m pytest -n $(JOBS) tests/isa tests/frontend tests/fuzz tests/ir/test_mutated_programs.py tests/collectives tests/proofs tests/testing tests/profiling/test_many_intervals.py
	$(MAKE) threads
	$(MAKE) older

xla: $(XLA)/.installed ## kernels on tensors of torch_xla, in an environment of its own that this makes (1 GB)
	PYTHONPATH=src:. $(XLA)/bin/python -m pytest tests/frameworks/test_torch_xla.py

million: $(STAMP) ## a million random instances of instructions, native = simulated = oracle; stopped, it goes on where it was
	NKI_TEST_SEED=$${NKI_TEST_SEED:-0} $(BIN)/python -m tests.isa.million $(MILLION)

lint: $(STAMP) ## rules and format of the source, by ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## rewrite the source the way lint wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## pyright, strict, on src/
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(STAMP) ## measure against PyTorch, NumPy and BLAS: ratios within the run; NKILIB=PATH: compile that library's kernels
	$(BIN)/python -m benchmarks$(if $(NKILIB),.public_library $(NKILIB))

acceptance: $(STAMP) ## tests of a checkout of nki-library, NKILIB=PATH: all, or SAMPLE=500 SEED=0; stopped, it goes on where it was
	$(BIN)/python -m tools.acceptance $(NKILIB) $(if $(SAMPLE),--sample $(SAMPLE) --seed $(or $(SEED),0)) $(ACCEPTANCE)

validate: $(STAMP) ## the timing model against every published time that we hold: docs/validation.md
	$(BIN)/python -m validation

docs: $(STAMP) ## write docs/reference/, docs/errors/ and the stub of nki.isa from the declarations and the tests
	$(BIN)/python -m tools.reference

dump: $(STAMP) ## the stages of the README's kernel as text; K=FILE.py ARGS='--arg …' for another
	$(BIN)/nki dump $(K) $(ARGS)

release: $(STAMP) ## sdist and wheel in dist/, the wheel tried in a bare environment with the README's kernel
	$(BIN)/python -m tools.release

clean: ## remove the environment and everything generated
	rm -rf $(VENV) $(XLA) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; \
	sys.exit(None if sys.version_info >= (3, 11) else "Open NKI needs Python 3.11 or newer; $(PYTHON) is " + v)'
	@echo "creating $(VENV); the first time this fetches PyTorch and JAX and takes a few minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -e '.[dev]'
	$(BIN)/python -m compileall -q src  # import nki takes 0.1 s with bytecode, 0.3 without; PYTHONDONTWRITEBYTECODE=1 still reads it
	@touch $@

$(XLA)/.installed: tools/torch_xla_environment.py pyproject.toml
	$(PYTHON) -m tools.torch_xla_environment $(XLA)
	@touch $@
