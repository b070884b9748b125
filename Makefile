# The front door. Each target does its own set-up in .venv and build/; stamps make a
# second run quick. Needed on the machine: python3 >= 3.10 with venv, a C compiler, make.

VENV := .venv
BIN := $(VENV)/bin
CMAKE := $(BIN)/cmake
# The libcurl that the C tests load is the one that the package uses.
SITE = $(firstword $(wildcard $(VENV)/lib/python3*/site-packages))
LIBCURL = $(firstword $(wildcard $(SITE)/curl_cffi/_wrapper*.so))
C_FILES := $(wildcard csrc/*.[ch] csrc/pyabi/*.[ch] tests/c/*.[ch] tests/c/*/*.[ch] tests/fuzz/*.[ch] bench/*.[ch])
BUILD_FILES := CMakeLists.txt $(wildcard cmake/*.cmake tests/c/CMakeLists.txt)

# The Python tests that are run under ASan as well.
ASAN_TESTS := tests/integration/test_cli_fetch.py tests/test_handover.py tests/test_record.py \
              tests/test_request.py
comma := ,

# Configures, builds and runs the C tests in build/$(1) with the options $(2).
define run-ctest
	@mkdir -p build
	@$(CMAKE) -S . -B build/$(1) -G Ninja -DHF_TESTS=ON $(2) \
	    -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DHF_TEST_LIBCURL=$(abspath $(LIBCURL)) >build/$(1).log || { cat build/$(1).log; exit 1; }
	$(CMAKE) --build build/$(1)
	$(BIN)/ctest -j 2 --output-on-failure --no-tests=error --test-dir build/$(1)
endef

.PHONY: help demo demo-celery test test-c test-py test-wheel lint format sanitize sanitize-c sanitize-py fuzz clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: $(VENV)/.built ## run a few thousand URLs of a local fault site
	@$(BIN)/python -m hardfetch.cli.demo

demo-celery: $(VENV)/.built ## run the Celery example; needs redis-server or HARDFETCH_BROKER
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[celery]'
	@$(BIN)/python examples/celery_app.py

test: test-c test-py ## run the C and the Python tests

test-c: $(VENV)/.built
	$(call run-ctest,c,-DHF_WERROR=ON)

test-py: $(VENV)/.built
	$(BIN)/pytest -q $(PYTEST_ARGS)

# What users get: the wheel in an environment of its own, far from this folder.
test-wheel: $(VENV)/.built ## build the wheel, install it elsewhere, ask its doctor
	rm -rf build/wheel build/wheel-venv
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-build-isolation \
	    --no-deps -w build/wheel .
	$(BIN)/python -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip install -q --disable-pip-version-check build/wheel/*.whl
	cd / && $(abspath build/wheel-venv)/bin/hardfetch doctor

lint: $(VENV)/.built ## check style, types and warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy hardfetch tests
	$(BIN)/mypy $(wildcard bench/*.py)
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)

format: $(VENV)/.built ## lay out all code
	$(BIN)/ruff check -q --fix-only . && $(BIN)/ruff format -q .
	$(BIN)/clang-format -i $(C_FILES)

sanitize: sanitize-c sanitize-py ## run C tests under ASan, UBSan, TSan; Python under ASan

sanitize-c: $(VENV)/.built
	$(call run-ctest,asan,-DHF_SANITIZE=address$(comma)undefined)
	$(call run-ctest,tsan,-DHF_SANITIZE=thread)

# In an environment of its own, which sees the packages of .venv, but not the editable
# install there: that one is a hook, and hooks of a mere path are not run.
sanitize-py: $(VENV)/.built
	$(BIN)/python -m venv --without-pip build/asan-venv
	site="$$(build/asan-venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
	echo $(abspath $(SITE)) >"$$site/packages.pth" && \
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation \
	    --no-deps --upgrade --target "$$site" . \
	    --config-settings=build-dir=build/asan-module --config-settings=install.strip=false \
	    --config-settings=cmake.define.HF_SANITIZE=address,undefined
	cd build/asan-venv && \
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	    bin/python $(abspath $(BIN))/pytest -q -p no:cacheprovider -c $(CURDIR)/pyproject.toml \
	    $(abspath $(ASAN_TESTS))

# Findings are left in build/fuzz; each becomes a test.
FUZZ_SECONDS := 60
fuzz: $(VENV)/.built ## fuzz parsers and decoders, FUZZ_SECONDS=60 for each
	@command -v clang >/dev/null || { echo "hardfetch: clang is needed to fuzz; install it (Debian, Ubuntu: apt install clang)" >&2; exit 1; }
	CC=clang $(CMAKE) -S . -B build/fuzz -G Ninja -DHF_FUZZ=ON \
	    -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja
	$(CMAKE) --build build/fuzz --target fuzzers
	cd build/fuzz && for target in fuzz_*; do \
	    mkdir -p corpus/$$target && \
	    HARDFETCH_LIBCURL=$(abspath $(LIBCURL)) ./$$target -max_total_time=$(FUZZ_SECONDS) \
	        -verbosity=0 -print_final_stats=1 -timeout=10 corpus/$$target || exit 1; \
	done

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .benchmarks
	find hardfetch tests bench -name __pycache__ -exec rm -rf {} +

$(VENV)/.tools: tools/venv
	@sh tools/venv $(VENV)
	@touch $@

# Editable: Python files are read where they stand, so only C makes a new build.
$(VENV)/.built: $(VENV)/.tools pyproject.toml hardfetch/_version.py $(BUILD_FILES) $(wildcard csrc/*.[ch] csrc/pyabi/*.[ch])
	@mkdir -p build
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[dev]'
	@touch $@

# --- benches: other clients live in an environment of their own ----------------------

BENCH := build/bench-venv

.PHONY: bench bench-check bench-programs

# BENCH_ARGS=--full measures all workloads; bench/compare.py tells more.
bench: $(BENCH)/.built bench-programs ## compare with bare libcurl and other clients
	$(BENCH)/bin/python bench/compare.py $(BENCH_ARGS)

bench-check: $(VENV)/.built bench-programs ## assert how the costs compare
	$(BIN)/pytest -q bench $(PYTEST_ARGS)

# Exported symbols stand in for Python's: see bench/libcurl.h.
bench-programs: $(VENV)/.tools
	@mkdir -p build
	@$(CMAKE) -S . -B build/bench -G Ninja -DHF_BENCH=ON -DCMAKE_ENABLE_EXPORTS=ON \
	    -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    >build/bench.log || { cat build/bench.log; exit 1; }
	$(CMAKE) --build build/bench

$(BENCH)/.built: $(VENV)/.built bench/requirements.txt $(shell find hardfetch -name '*.py')
	$(BIN)/python -m venv $(BENCH)
	rm -rf build/bench-wheel
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-build-isolation \
	    --no-deps -w build/bench-wheel .
	$(BENCH)/bin/python -m pip install -q --disable-pip-version-check \
	    -r bench/requirements.txt build/bench-wheel/*.whl
	$(BENCH)/bin/python -m pip install -q --disable-pip-version-check \
	    --force-reinstall --no-deps build/bench-wheel/*.whl
	@touch $@

# --- wheels: built by pinned tools in an environment of their own -----------------------

WHEELS := build/wheel-tools

.PHONY: wheels wheels-twice wheels-test wheels-arm64-test wheels-musl-test

wheels: $(WHEELS)/.built ## build sdist and wheels into dist/
	$(WHEELS)/bin/python tools/wheels.py

wheels-twice: $(WHEELS)/.built ## build them twice and compare the bytes
	$(WHEELS)/bin/python tools/wheels.py --twice

wheels-test: $(WHEELS)/.built ## try the wheels in dist/ on each CPython found
	$(WHEELS)/bin/python tools/wheel_check.py dist/*.whl
	for wheel in dist/*.whl; do $(WHEELS)/bin/auditwheel show $$wheel || exit 1; done
	$(WHEELS)/bin/python tools/curl_symbols.py
	$(WHEELS)/bin/python tools/wheel_test.py dist

wheels-arm64-test: $(WHEELS)/.built ## try the aarch64 wheel in dist/ under qemu (slow)
	$(WHEELS)/bin/python tools/wheel_test_arm64.py dist

# The C tests, built as the musl wheel is, on musl's own loader (Debian: apt install musl).
wheels-musl-test: $(WHEELS)/.built ## run the C tests as the musl wheel's C
	HF_ZIG=$$($(WHEELS)/bin/python -c 'import ziglang, pathlib; print(pathlib.Path(ziglang.__file__).parent / "zig")') && \
	export HF_ZIG HF_ZIG_TARGET=x86_64-linux-musl && \
	$(WHEELS)/bin/cmake -S . -B build/musl -G Ninja -DHF_TESTS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DCMAKE_EXE_LINKER_FLAGS=-dynamic \
	    -DCMAKE_MAKE_PROGRAM=$(abspath $(WHEELS))/bin/ninja >build/musl.log && \
	$(WHEELS)/bin/cmake --build build/musl
	$(WHEELS)/bin/ctest --output-on-failure --no-tests=error --test-dir build/musl

$(WHEELS)/.built: $(VENV)/.tools tools/wheel-requirements.txt
	$(BIN)/python -m venv $(WHEELS)
	$(WHEELS)/bin/python -m pip install -q --disable-pip-version-check \
	    -r tools/wheel-requirements.txt
	@touch $@
