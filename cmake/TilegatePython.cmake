# SPDX-License-Identifier: Apache-2.0
# Finds apache-tvm-ffi and decides whether the Python module is built: TILEGATE_PYTHON_ENABLED,
# with tvm_ffi_ROOT set. Wheels in .deps/python count as installed.
set(TILEGATE_PYTHON_ENABLED OFF)
set(TILEGATE_PYTHON_REASON "switched off by TILEGATE_PYTHON=OFF")
if(NOT TILEGATE_PYTHON STREQUAL "OFF")
  set(TILEGATE_PYTHON_REASON "no Python interpreter with apache-tvm-ffi found")
  find_package(Python COMPONENTS Interpreter)
  if(Python_FOUND)
    if(EXISTS ${PROJECT_SOURCE_DIR}/.deps/python/tvm_ffi)
      set(ENV{PYTHONPATH} "${PROJECT_SOURCE_DIR}/.deps/python:$ENV{PYTHONPATH}")
    endif()
    execute_process(COMMAND ${Python_EXECUTABLE} -m tvm_ffi.config --cmakedir
      OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE tvm_ffi_ROOT
      RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      set(TILEGATE_PYTHON_ENABLED ON)
    endif()
  endif()
  if(TILEGATE_PYTHON STREQUAL "ON" AND NOT TILEGATE_PYTHON_ENABLED)
    message(FATAL_ERROR "TILEGATE_PYTHON=ON, but ${TILEGATE_PYTHON_REASON}")
  endif()
endif()
message(STATUS "tilegate: Python module ${TILEGATE_PYTHON_ENABLED}")
