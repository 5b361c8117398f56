#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for the GPU and gathers what tools/gpu_test.sh needs on a machine that has one: programs,
# the shared libraries they load from outside the C library, case files, and the Python package with
# its tests and what it calls through. There Python needs NumPy, pytest and torch.
#
#   tools/gpu_pack.sh FOLDER [PRESET]
#
# PRESET (sm90) is one of CMakePresets.json. TILEGATE_CASES_DIR adds a folder of case files,
# TILEGATE_GPU_PYTHON (3.12) is the version of Python on the other machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?usage: tools/gpu_pack.sh FOLDER [PRESET]}
preset=${2:-sm90}
python=${TILEGATE_GPU_PYTHON:-3.12}

# With the cuDNN backend wherever cuDNN's headers are; TILEGATE_CUDNN=AUTO does without.
export TILEGATE_CUDNN=${TILEGATE_CUDNN:-ON} TILEGATE_PYTHON=ON
tools/bootstrap.sh run
tools/build.sh "$preset" gpu_tests op_tests tilegate_cli tilegate_python call_cost
rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/cases" "$folder/python"
build=build/$preset
programs=("$build/tests/gpu/gpu_tests" "$build/tests/op_tests" "$build/cli/tilegate"
  "$build/bench/call/call_cost")
for program in "${programs[@]}"; do strip -o "$folder/${program##*/}" "$program"; done

# Not the C and C++ runtimes and the driver: those are the machine's own.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libcuda)\.so' |
  xargs -r -I{} cp -L {} "$folder/lib/"
cp examples/cases/*.safetensors "$folder/cases/"
if [ -d "${TILEGATE_CASES_DIR:-}" ]; then cp "$TILEGATE_CASES_DIR"/*.safetensors "$folder/cases/"; fi

# What the package calls through, as tools/wheels.txt pins it, for the other machine's Python.
wheels=$(mktemp -d)
awk '/^[^ #]/ {wanted = /^(apache-tvm-ffi|typing-extensions)==/} wanted' tools/wheels.txt > "$wheels/wanted.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
  --only-binary=:all: --python-version "$python" --implementation cp \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_24_x86_64 \
  --dest "$wheels" -r "$wheels/wanted.txt"
for wheel in "$wheels"/*.whl; do python3 -m zipfile -e "$wheel" "$folder/python"; done
rm -rf "$wheels"
cp -r python/tilegate "$folder/python/"
strip -o "$folder/python/tilegate/libtilegate_ffi.so" "$build/python/libtilegate_ffi.so"
cp -r tests/python "$folder/python_tests"
mkdir -p "$folder/data" # where those tests look for it
cp tests/data/bench_small.json "$folder/data/"
cp bench/call/call_cost.py tools/gpu_test.sh "$folder/"
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
# Needed to build against it, not to run.
rm -rf "$folder"/python/tvm_ffi/{3rdparty,include,src}
# The kernels are in every program; gpu_test.sh unpacks them.
gzip "$folder"/{gpu_tests,op_tests,tilegate,call_cost} "$folder/python/tilegate/libtilegate_ffi.so"
echo "packed $(du -sh "$folder" | cut -f 1) into $folder"
