# SPDX-License-Identifier: Apache-2.0
# Warnings and sanitizers for host code.
function(tilegate_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Werror>)
  if(TILEGATE_SANITIZE)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TILEGATE_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer>)
    target_link_options(${target} PUBLIC -fsanitize=${TILEGATE_SANITIZE})
  endif()
endfunction()
