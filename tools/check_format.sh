#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails if clang-format 14 would change a C++ or CUDA file. `make format` makes the changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cuh' '*.cu' |
  xargs clang-format-14 --dry-run -Werror
