# Every target does its own set-up and is quick when run again: what is done leaves a stamp in .venv.
# PYTHON=python3.12 chooses the interpreter; ARGS="-k conv" goes to pytest, ARGS="-n0 -x" runs the tests in one process.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find csrc kernels -type f 2>/dev/null)
POCL := /etc/OpenCL/vendors/pocl.icd
# Drivers compile kernels on one core, which is what most of the tests' time goes into: a process for each core.
# Idle ones take over what is left of the others' share, from its end.
PARALLEL := -n $$(nproc) --maxprocesses 8 --dist worksteal
export PYTHON PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-gpu bench oclgrind sanitize fuzz lint format tables docs wheels clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      classify photos with a pretrained network (does all set-up first)"
	@echo "make test      run the tests"
	@echo "make test-all  run every test: full sweeps, the ONNX backend suite, notebooks"
	@echo "make test-gpu  run the tests on a GPU (CLCNN_TEST_DEVICE, default gpu)"
	@echo "make bench     list and run the benchmarks"
	@echo "make oclgrind  look for races, bad accesses and uninitialised reads in the kernels"
	@echo "make sanitize  run the tests under AddressSanitizer and UBSan"
	@echo "make fuzz      fuzz the readers of weight files and of ONNX models, and random networks against onnxruntime"
	@echo "make lint      clang-format, ruff, mypy, stubtest"
	@echo "make format    format C and kernels"
	@echo "make tables    write the generated tables of docs/ and python/clcnn/ops.pyi"
	@echo "make docs      the same, then build and check the documentation site, in build/site"
	@echo "make wheels    build and check the source archive and the wheels, in dist/"
	@echo "make setup     system packages, .venv, build and install"
	@echo "make clean     remove what was built, and .venv"

setup: $(VENV)/.extra-test

# Checked each time, in a few hundredths of a second: a system package may have gone since the stamp was made.
.PHONY: system
system:
	@.ci/system build

$(VENV)/.made: | system
	@echo "Creating the virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq "setuptools>=77" "numpy>=2.0"
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml setup.py MANIFEST.in
	@echo "Building clcnn and installing it in $(VENV)"
	@$(BIN)/python -m pip install -qq --no-build-isolation -e .
	@touch $@ $(VENV)/.built

$(VENV)/.built: $(VENV)/.installed $(SOURCES)
	@echo "Building the extension module again: its sources have changed"
	@$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

# The packages of one extra of pyproject.toml, say $(VENV)/.extra-demo.
$(VENV)/.extra-%: $(VENV)/.installed $(VENV)/.built
	@if [ ! -e $@ ] || [ pyproject.toml -nt $@ ]; then \
	    echo "Installing the Python packages for: $*"; \
	    $(BIN)/python -m pip install -qq --no-build-isolation -e ".[$*]"; fi
	@touch $@

demo: system $(VENV)/.extra-demo
	@echo "Classifying sample photos with EfficientNet-Lite0"
	@$(BIN)/python -m clcnn demo

test: system $(VENV)/.extra-test
	@echo "Running the tests (device: $${CLCNN_TEST_DEVICE:-cpu})"
	@$(BIN)/python -m pytest -q $(PARALLEL) $(ARGS)

test-all: system $(VENV)/.extra-test
	@echo "Running all tests, the slow ones too (device: $${CLCNN_TEST_DEVICE:-cpu})"
	@$(BIN)/python -m pytest -q --run-slow $(PARALLEL) $(ARGS)

test-gpu: export CLCNN_TEST_DEVICE ?= gpu
test-gpu: system $(VENV)/.extra-test
	@echo "Running the tests on device: $$CLCNN_TEST_DEVICE"
	@$(BIN)/python -m pytest -q $(ARGS)

bench: system $(VENV)/.extra-demo
	@echo "Running the benchmarks (peers that are not installed are skipped: $(BIN)/pip install -e '.[bench]')"
	@grep -l __main__ benchmarks/*.py
	@for script in $$(grep -l __main__ benchmarks/*.py); do echo "== $$script"; $(BIN)/python $$script $(ARGS) || exit 1; done

oclgrind: system $(VENV)/.extra-test
	@.ci/system oclgrind
	@echo "Running every portable kernel under Oclgrind"
	@$(BIN)/python tests/lib/oclgrind.py $(ARGS)

# Every process of the tests inherits the sanitizers and leaks a little at its end: reports go to files, of which only
# what concerns the library counts.
sanitize: system $(VENV)/.extra-test
	@echo "Running the tests under AddressSanitizer and UBSan"
	@CLCNN_SANITIZE=1 $(BIN)/python setup.py -q build --build-base build/sanitize --build-lib build/sanitize/lib
	@rm -rf build/sanitize/reports && mkdir -p build/sanitize/reports
	@LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=1:use_sigaltstack=0:log_path=$(CURDIR)/build/sanitize/reports/report LSAN_OPTIONS=exitcode=0 \
	    UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc OCL_ICD_VENDORS=$(POCL) \
	    PYTHONPATH=build/sanitize/lib $(BIN)/python -m pytest -q --capture=sys -m "not (leaks_on_purpose or not_sanitized)" \
	    --deselect tests/meta/test_docs.py::test_generated_tables_are_up_to_date $(ARGS)
	@find build/sanitize/reports -type f -exec .ci/sanitizer-reports {} +

# The core is built by clang for its sanitizers and its coverage, which the ones that Atheris brings belong to.
fuzz: CLANG = $(shell ls $(subst :, ,$(PATH)) 2>/dev/null | grep -xE 'clang(-[0-9]+)?' | sort -V | tail -1)
fuzz: system $(VENV)/.extra-test $(VENV)/.extra-fuzz
	@.ci/system fuzz
	@echo "Fuzzing the readers of weight files for a minute (ARGS=-max_total_time=SECONDS for longer)"
	@$(BIN)/python tests/fuzz_weights.py $(or $(ARGS),-max_total_time=60)
	@echo "Fuzzing the loader of ONNX models, the core under AddressSanitizer and UBSan"
	@CLCNN_SANITIZE=1 CC=$(CLANG) LDSHARED="$(CLANG) -shared" CFLAGS=-fsanitize=fuzzer-no-link \
	    $(BIN)/python setup.py -q build --build-base build/fuzz --build-lib build/fuzz/lib
	@LD_PRELOAD="$$(echo $(VENV)/lib/python3*/site-packages/asan_with_fuzzer.so) $$($(CLANG) -print-file-name=libstdc++.so)" \
	    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc PYTHONPATH=build/fuzz/lib \
	    $(BIN)/python tests/fuzz_onnx.py $(or $(ARGS),-max_total_time=60)
	@echo "Running random networks by clcnn and by onnxruntime for two minutes (NETS='--seconds 3600 --seed 1' for longer)"
	@$(BIN)/python tests/fuzz_nets.py $(or $(NETS),--seconds 120)

lint: system $(VENV)/.extra-test $(VENV)/.extra-lint
	@echo "Checking style and types"
	@$(BIN)/clang-format --dry-run --Werror $$(find csrc -name '*.[ch]')
	@$(BIN)/python tests/lib/kernel_format.py --check
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/stubtest clcnn._core

format: system $(VENV)/.extra-lint
	@$(BIN)/clang-format -i $$(find csrc -name '*.[ch]')
	@$(BIN)/python tests/lib/kernel_format.py

tables: system $(VENV)/.extra-test
	@$(BIN)/python tests/lib/stubgen.py
	@$(BIN)/python tests/lib/docgen.py

docs: tables $(VENV)/.extra-docs
	@echo "Building the documentation in build/site, notebooks and plots included"
	@.ci/system docs
	@CLCNN_SITE=build/site $(BIN)/python -m pytest -q --run-slow tests/meta/test_site.py $(ARGS)

wheels: system $(VENV)/.extra-wheel $(VENV)/.extra-test
	@.ci/wheels $(BIN)/python
	@echo "Installing the wheel in empty environments, one for each Python that is there"
	@CLCNN_WHEELS=dist $(BIN)/python -m pytest -q --run-slow tests/meta/test_wheel.py $(ARGS)

clean:
	@echo "Removing what was built, and $(VENV)"
	@rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache python/clcnn.egg-info
	@find python csrc -name '*.so' -delete; find . -name __pycache__ -type d -prune -exec rm -rf {} +
