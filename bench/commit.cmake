# SPDX-License-Identifier: Apache-2.0
# Writes HEADER with the commit of SOURCE ("-dirty" with changes in tracked files) and the tools of
# the build; touches the file only where its text changes.
set(commit "unknown")
execute_process(COMMAND git describe --always --dirty --exclude=* --abbrev=12
  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE described RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed)
  set(commit ${described})
endif()
if(CUDA)
  set(runtime "CUDA ${CUDA}")
else()
  set(runtime "none")
endif()
set(text "// SPDX-License-Identifier: Apache-2.0
// Written by bench/commit.cmake.
#pragma once

namespace tilegate::bench {
inline constexpr const char* kCommit = \"${commit}\";
inline constexpr const char* kCompiler = \"${COMPILER}\";
inline constexpr const char* kCudaRuntime = \"${runtime}\";
}  // namespace tilegate::bench
")
set(old "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
