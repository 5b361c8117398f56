#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for the GPU and gathers what tools/gpu_test.sh needs on a machine that has one: programs,
# the shared libraries they load from outside the C library, and case files.
#
#   tools/gpu_pack.sh FOLDER [PRESET]
#
# PRESET (sm90) is one of CMakePresets.json. TILEGATE_CASES_DIR adds a folder of case files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?usage: tools/gpu_pack.sh FOLDER [PRESET]}
preset=${2:-sm90}

# With the cuDNN backend wherever cuDNN's headers are; TILEGATE_CUDNN=AUTO does without.
export TILEGATE_CUDNN=${TILEGATE_CUDNN:-ON}
tools/bootstrap.sh run
tools/build.sh "$preset" gpu_tests op_tests tilegate_cli
rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/cases"
programs=("build/$preset/tests/gpu/gpu_tests" "build/$preset/tests/op_tests" "build/$preset/cli/tilegate")
strip -o "$folder/gpu_tests" "${programs[0]}"
strip -o "$folder/op_tests" "${programs[1]}"
strip -o "$folder/tilegate" "${programs[2]}"

# Not the C and C++ runtimes and the driver: those are the machine's own.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libcuda)\.so' |
  xargs -r -I{} cp -L {} "$folder/lib/"
cp examples/cases/*.safetensors "$folder/cases/"
if [ -d "${TILEGATE_CASES_DIR:-}" ]; then cp "$TILEGATE_CASES_DIR"/*.safetensors "$folder/cases/"; fi
cp tools/gpu_test.sh "$folder/"
echo "packed $(du -sh "$folder" | cut -f 1) into $folder"
