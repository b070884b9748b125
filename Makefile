# The front door. Each target does its own set-up in .venv and build/; stamps make a
# second run quick. Needed on the machine: python3 >= 3.10 with venv, a C compiler, make.

VENV := .venv
BIN := $(VENV)/bin
CMAKE := $(BIN)/cmake
CTEST := $(BIN)/ctest --output-on-failure --no-tests=error --test-dir
# The libcurl that the C tests load is the one that the package uses.
LIBCURL = $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/curl_cffi/_wrapper*.so))
C_FILES := $(wildcard csrc/*.[ch] csrc/pyabi/*.h tests/c/*.[ch])
BUILD_FILES := CMakeLists.txt $(wildcard cmake/*.cmake tests/c/CMakeLists.txt)

.PHONY: help demo test test-c test-py lint format sanitize clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: $(VENV)/.built ## run a few thousand URLs of a local fault site
	@$(BIN)/python -m hardfetch.cli.demo

test: test-c test-py ## run the C and the Python tests

test-c: $(VENV)/.built
	$(CMAKE) -S . -B build/c -G Ninja -DHF_TESTS=ON -DHF_WERROR=ON \
	    -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DHF_TEST_LIBCURL=$(abspath $(LIBCURL)) >build/c.log
	$(CMAKE) --build build/c
	$(CTEST) build/c

test-py: $(VENV)/.built
	$(BIN)/pytest -q $(PYTEST_ARGS)

lint: $(VENV)/.built ## check style, types and warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)

format: $(VENV)/.built ## lay out all code
	$(BIN)/ruff check -q --fix-only . && $(BIN)/ruff format -q .
	$(BIN)/clang-format -i $(C_FILES)

sanitize: $(VENV)/.built ## run the C tests under ASan, UBSan and TSan
	for kind in address,undefined thread; do \
	    $(CMAKE) -S . -B build/$$kind -G Ninja -DHF_TESTS=ON -DHF_SANITIZE=$$kind \
	        -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DHF_TEST_LIBCURL=$(abspath $(LIBCURL)) \
	        >build/$$kind.log && \
	    $(CMAKE) --build build/$$kind && $(CTEST) build/$$kind || exit 1; \
	done

clean: ## remove everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .benchmarks
	find hardfetch tests bench -name __pycache__ -exec rm -rf {} +

$(VENV)/.tools: tools/venv
	@sh tools/venv $(VENV)
	@touch $@

# Editable: Python files are read where they stand, so only C makes a new build.
$(VENV)/.built: $(VENV)/.tools pyproject.toml hardfetch/_version.py $(BUILD_FILES) $(wildcard csrc/*.[ch] csrc/pyabi/*.h)
	@mkdir -p build
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[dev]'
	@touch $@
