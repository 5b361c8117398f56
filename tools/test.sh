#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All that is tested, from a bare machine, cheapest first; the first stage that fails ends the run:
#
#   tools/test.sh [STAGE...]
#
# Without names every stage below runs, in that order. The last line is 'N passed, N failed, N
# skipped'. TILEGATE_CASES_DIR names a folder of more case files (unset: those tests are skipped),
# TILEGATE_FUZZ_SECONDS how long each fuzz target runs (60).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/stages.sh

jobs=$(nproc)
fuzz_seconds=${TILEGATE_FUZZ_SECONDS:-60}
has_nvcc=false
if command -v nvcc > /dev/null; then has_nvcc=true; fi
export PYTHONDONTWRITEBYTECODE=1
# The cuDNN backend is compiled and its support table tested where nvcc and cuDNN's headers are.
if $has_nvcc && [ -e "$(dirname "$(readlink -f "$(command -v nvcc)")")/../include/cudnn_graph.h" ]; then
  export TILEGATE_CUDNN=ON
fi

run_ctest() {
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error --parallel "$jobs" "${@:2}"
  # GoogleTest prints the reason on the line after 'FILE:LINE: Skipped'.
  grep -A1 ': Skipped$' "build/$1/Testing/Temporary/LastTest.log" | grep -v -e ': Skipped$' -e '^--$' |
    sort | uniq -c | sed 's/^ *\([0-9]*\) /skip: \1 x /' || true
}

bootstrap() { tools/bootstrap.sh test; }
format() { tools/check_format.sh; }
tree() { tools/check_tree.py; }
tools() { python3 -m unittest discover -s tests/tools; }
release() { tools/build.sh release; }
ptxas() { tools/check_ptxas.py build/release; }
laws() { run_ctest release; }
run() { tools/run.sh; }

# An install tree, and two projects outside of ours built against it: the example consumer and the
# README's C++ block as pasted.
consumer() {
  local prefix=$PWD/build/install project
  rm -rf "$prefix" build/consumer
  cmake --install build/release --prefix "$prefix"
  [ "$(ls "$prefix" | tr '\n' ' ')" = "bin include lib " ]  # the Python module is the wheel's
  tools/readme_example.py README.md cpp build/consumer/readme.cpp
  for project in examples/consumer tests/readme; do
    cmake -G Ninja -S "$project" -B "build/consumer/$project" -DCMAKE_PREFIX_PATH="$prefix" \
      -DREADME_EXAMPLE="$PWD/build/consumer/readme.cpp"
    cmake --build "build/consumer/$project"
    ctest --test-dir "build/consumer/$project" --output-on-failure --no-tests=error
  done
}

# The package as a user installs it, into a folder of its own; its tests and the README's Python
# block against that.
pip() {
  rm -rf build/pip
  PYTHONPATH=$PWD/.deps/python CMAKE_ARGS="-DTILEGATE_CUDA=OFF" python3 -m pip install --quiet \
    --disable-pip-version-check --root-user-action=ignore --no-deps --no-build-isolation \
    --target build/pip .
  export PYTHONPATH=$PWD/build/pip:$PWD/.deps/python
  tools/readme_example.py README.md python build/pip/readme.py
  python3 build/pip/readme.py
  python3 -m pytest -q -p no:cacheprovider tests/python
}

# -O1 and without CUDA, which also proves that the library builds without it.
asan() {
  tools/build.sh asan
  run_ctest asan
}

# Only tests about threads (by their name): a race needs two of them.
tsan() {
  tools/build.sh tsan unit_tests op_tests
  TSAN_OPTIONS="suppressions=$PWD/tools/tsan.supp" run_ctest tsan -R Thread
}

# Every target for the same time, side by side; what they find next to the kept corpus is not kept.
fuzz() {
  tools/build.sh fuzz fuzzers
  local target name pids=() pid bad=0
  for target in build/fuzz/tests/fuzz_*; do
    name=$(basename "$target")
    mkdir -p "build/fuzz/found/$name"
    "$target" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
      -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
      "build/fuzz/found/$name" "tests/fuzz/corpus/${name#fuzz_}" 2>&1 | sed "s/^/$name: /" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
  [ "${#pids[@]}" -gt 0 ] && [ "$bad" -eq 0 ]
  echo "fuzz: ${#pids[@]} targets, $fuzz_seconds s each"
}

all_stages() {
  echo bootstrap format tree tools release
  if $has_nvcc; then echo ptxas; fi
  echo laws run consumer pip asan tsan fuzz
}

$has_nvcc || echo "no nvcc: CUDA kernels are not built and their ptxas report is not checked"
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(all_stages)
for name in "$@"; do
  stage "$name" "$name"
done
finish
