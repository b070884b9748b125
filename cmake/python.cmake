# The module hardfetch._core: cffi generates its C from csrc/api.h, which is also the
# header that our C includes.
#
# scikit-build-core sets SKBUILD_SABI_VERSION to 3.10 where the stable ABI is to be used:
# one module for CPython 3.10 and newer. It is empty on PyPy and on free-threaded Pythons.

# A cross build must not look for the target's Python (CMP0190): it needs none. The one
# that builds is given by scikit-build-core as Python_EXECUTABLE.
if(NOT (SKBUILD_SABI_VERSION AND HF_OWN_PYTHON_H))
  find_package(Python REQUIRED COMPONENTS Interpreter
               OPTIONAL_COMPONENTS Development.Module ${SKBUILD_SABI_COMPONENT})
endif()

set(core_c "${CMAKE_CURRENT_BINARY_DIR}/_core.c")
set(api "${PROJECT_SOURCE_DIR}/csrc/api.h")
set(prelude "${PROJECT_SOURCE_DIR}/csrc/cffi_prelude.c")
file(GLOB pyabi CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/csrc/pyabi/*.c")
add_custom_command(
  OUTPUT "${core_c}"
  COMMAND "${Python_EXECUTABLE}" -m cffi.gen_src read-sources hardfetch._core
          "${api}" "${prelude}" "${core_c}"
  DEPENDS "${api}" "${prelude}"
  COMMENT "Generating _core.c"
  VERBATIM)

if(SKBUILD_SABI_VERSION AND (HF_OWN_PYTHON_H OR NOT Python_Development.SABIModule_FOUND))
  # Debian keeps Python.h in a package of its own, and a cross build has none at all.
  # The stable ABI needs none: the few declarations used stand in csrc/pyabi/Python.h.
  message(STATUS "hardfetch: building against csrc/pyabi/Python.h")
  add_library(_core MODULE "${core_c}" ${pyabi})
  set_target_properties(_core PROPERTIES PREFIX "" SUFFIX ".abi3.so")
  target_include_directories(_core PRIVATE "${PROJECT_SOURCE_DIR}/csrc/pyabi")
  target_compile_definitions(_core PRIVATE Py_LIMITED_API=0x030a0000)
elseif(SKBUILD_SABI_VERSION)
  python_add_library(_core MODULE USE_SABI "${SKBUILD_SABI_VERSION}" WITH_SOABI
                     "${core_c}" ${pyabi})
elseif(Python_Development.Module_FOUND)
  python_add_library(_core MODULE WITH_SOABI "${core_c}" ${pyabi})
  # Else cffi's preamble turns the limited API on by itself.
  target_compile_definitions(_core PRIVATE _CFFI_NO_LIMITED_API)
else()
  message(FATAL_ERROR
    "hardfetch: the headers of ${Python_EXECUTABLE} (Python.h) are needed to build for "
    "a Python without the stable ABI. Install them (Debian, Ubuntu: python3-dev).")
endif()

set_target_properties(_core PROPERTIES C_VISIBILITY_PRESET hidden)
target_link_libraries(_core PRIVATE hf)
# Its wrappers are called once for hundreds of records: size is what they can save.
target_compile_options(_core PRIVATE $<$<CONFIG:Release>:-Os>)
set_source_files_properties(${pyabi} PROPERTIES COMPILE_OPTIONS "${hf_warnings}")
set_property(SOURCE "${PROJECT_SOURCE_DIR}/csrc/pyabi/lines.c" APPEND
             PROPERTY COMPILE_OPTIONS -O3)
if(HF_LIBC_NAME)
  add_custom_command(TARGET _core POST_BUILD
    COMMAND patchelf --replace-needed libc.so ${HF_LIBC_NAME} $<TARGET_FILE:_core>
    VERBATIM)
endif()
install(TARGETS _core DESTINATION hardfetch)
