#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset of CMakePresets.json and builds it in build/PRESET:
#
#   tools/build.sh PRESET [TARGET...]
#
# Without targets everything is built. A compiler cache is used where ccache is installed, across
# checkouts too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
shift

if command -v ccache > /dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
cmake --preset "$preset"
cmake --build "build/$preset" --parallel "$(nproc)" ${1:+--target "$@"}
