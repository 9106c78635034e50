# The developer's door: every target works on a fresh machine with Python 3.11 or later.
#
#   make demo    the main job on real data, through the service and the Python client
#   make test    every test (those that need a CUDA device skip where there is none)
#   make quick   the inner loop: the compiler and the golden numbers, under a minute
#   make check   style, types, import directions, shape of the code
#   make docs    the documentation site, in build/docs
#   make bounds  tests with the lowest and the newest versions of what is needed (BOUNDS_ARGS=--quick)
#   make dist    the wheel and the source distribution, in dist; with Docker also the images
#   make bench   benchmarks of the CPU target, and of the CUDA target where there is a device
#   make clean   remove what the other targets made

VENV := .venv
BIN := $(VENV)/bin

# The first Python that is new enough; override with `make PYTHON=/path/to/python test`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)

# CuPy for the driver's CUDA where there is a device; nothing where there is none.
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA.*Version: *1\([23]\)\..*/,cuda1\1/p' | head -n 1)

# Every warning is an error: missing links, unknown references, notebooks that fail.
SITE = $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/docs

# Dozens of processes import the same modules, so what is made of them is kept, whatever else is usual.
export PYTHONDONTWRITEBYTECODE :=

# Test processes: three on two cores, as tests wait a third of their time. The kernels' own threads are
# kept at one a process, so that they do not compete.
WORKERS ?= 3

.PHONY: demo test quick check docs bounds dist bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.stamp-demo
	$(BIN)/python demo/run.py $(DEMO_ARGS)

test: $(VENV)/.stamp-dev
	NUMBA_NUM_THREADS=$(if $(filter 0,$(WORKERS)),2,1) MPLBACKEND=Agg \
		$(BIN)/pytest --quiet -n $(WORKERS) --dist worksteal --benchmark-disable $(TEST_ARGS)

quick: $(VENV)/.stamp-dev
	NUMBA_NUM_THREADS=1 $(BIN)/pytest --quiet -n $(WORKERS) --dist worksteal --benchmark-disable \
		tests/architecture/test_shape.py tests/engine/language tests/engine/ir tests/engine/passes \
		tests/engine/analysis tests/engine/datasets tests/golden tests/service/jobs $(TEST_ARGS)

check: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/pytest --quiet --benchmark-disable tests/architecture tests/contract
	$(SITE)

docs: $(VENV)/.stamp-docs
	$(SITE)
	@echo "The site is build/docs/index.html."

bounds:
	$(PYTHON) deploy/try-bounds.py $(BOUNDS_ARGS)

# The images take their tag from the wheel; where no Docker daemon answers, they are left out.
dist: $(VENV)/.stamp-dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	@if docker info >/dev/null 2>&1; then \
		version=$$($(BIN)/python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])') && \
		for target in cpu gpu; do \
			docker build --file deploy/Dockerfile --target $$target --tag halocline:$$version-$$target . || exit 1; \
		done; \
	else \
		echo "No Docker daemon answers: the images were not built."; \
	fi

bench: $(VENV)/.stamp-dev
	mkdir -p build
	$(BIN)/pytest --quiet --benchmark-only --benchmark-columns=min,median,rounds \
		--benchmark-json=build/benchmarks.json tests/benchmarks $(BENCH_ARGS)
	$(BIN)/python tests/benchmarks/cpu_stencil.py --no-gt4py --patience 15 --result build/cpu.json
	if $(BIN)/python -c 'import cupy; cupy.cuda.runtime.getDeviceCount()' 2>/dev/null; then \
		$(BIN)/python tests/benchmarks/gpu_stencil.py build/gpu.json --commit "$$(git rev-parse --short HEAD)"; \
	fi

clean:
	rm -rf $(VENV) demo-output build dist .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-%: pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "Halocline needs Python 3.11 or later, and found none. Name one with 'make PYTHON=/path/to/python'." >&2; \
		exit 1; \
	fi
	@echo "Installing Halocline and what '$*' needs into $(VENV) (some minutes the first time)."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip 2>&1 | grep -v ^WARNING || true
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable '.[$*$(CUDA)]'
	@touch $@
