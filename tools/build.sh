#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset of CMakePresets.json and builds it in build/PRESET:
#
#   tools/build.sh PRESET [TARGET...]
#
# TILEGATE_CUDNN=ON insists on the cuDNN backend and may use the headers that tools/bootstrap.sh
# unpacked for it; TILEGATE_PYTHON=ON insists on the Python module. Without targets everything is
# built. A compiler cache is used where ccache is installed, across checkouts too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
shift

if command -v ccache > /dev/null; then
  # Not for nvcc: it once served an object of an older header.
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
# TILEGATE_CUDNN is for builds with CUDA; the others have no use for it.
case "$preset" in
  release | sm90 | fatbin)
    cmake --preset "$preset" -DTILEGATE_CUDNN="${TILEGATE_CUDNN:-AUTO}" \
      -DTILEGATE_PYTHON="${TILEGATE_PYTHON:-AUTO}"
    ;;
  *) cmake --preset "$preset" ;;
esac
cmake --build "build/$preset" --parallel "$(nproc)" ${1:+--target "$@"}
