# Toolchain of `make wheels`: zig as the C compiler of one target, for the oldest C
# library that the wheels promise to run on. tools/wheels.py sets both variables.
#
# HF_ZIG         the zig program
# HF_ZIG_TARGET  for example x86_64-linux-gnu.2.17, aarch64-linux-musl

if(NOT DEFINED ENV{HF_ZIG} OR NOT DEFINED ENV{HF_ZIG_TARGET})
  message(FATAL_ERROR "hardfetch: cmake/zig.cmake needs HF_ZIG and HF_ZIG_TARGET")
endif()
string(REGEX MATCH "^[^-]+" hf_processor "$ENV{HF_ZIG_TARGET}")

# With a system's name CMake takes this for a cross build and runs nothing it has built:
# true for another processor, and for musl on a glibc machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${hf_processor})
set(CMAKE_C_COMPILER "$ENV{HF_ZIG}" cc)
set(CMAKE_C_COMPILER_TARGET "$ENV{HF_ZIG_TARGET}")

# zig is its own ar. CMake wants one program, so the subcommand goes into the rules.
set(CMAKE_AR "$ENV{HF_ZIG}")
set(CMAKE_RANLIB "$ENV{HF_ZIG}")
set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "<CMAKE_AR> ar q <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")

# musl's C library has no name of its own inside. Everything built on musl systems names
# it so, and auditwheel knows it by that: cmake/python.cmake writes the name.
if("$ENV{HF_ZIG_TARGET}" MATCHES "musl")
  set(HF_LIBC_NAME "libc.musl-${hf_processor}.so.1")
endif()

# No path of this machine may reach the result. What is unused is dropped, and stripped
# here, since the machine's own strip may not know the target. What gains by vectors is
# written with them: those that clang finds are size alone. Nothing unwinds C: no
# exception passes through it and no thread is cancelled, so it needs no tables for that.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH hf_source)
set(CMAKE_C_FLAGS_INIT
    "-ffile-prefix-map=${hf_source}=. -ffunction-sections -fdata-sections \
-fno-vectorize -fno-slp-vectorize -fno-unroll-loops \
-fno-asynchronous-unwind-tables -fno-unwind-tables -fomit-frame-pointer")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s -Wl,--gc-sections -Wl,--hash-style=gnu -Wl,-z,relro -Wl,-z,now")

# The machine's libraries are not the target's; its programs (Python, ninja) are used.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
