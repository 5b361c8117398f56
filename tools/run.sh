#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on real input, from a bare machine: installs what is missing, builds the program and
# the MiniLM example, runs every case of examples/cases against its expected values, then encodes
# sentences with a real model and prints how similar they are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/bootstrap.sh run
mkdir -p build
echo "building; the log is build/run.log"
if ! tools/build.sh release tilegate_cli minilm > build/run.log 2>&1; then
  tail -n 60 build/run.log >&2
  echo "the build failed" >&2
  exit 1
fi
build/release/cli/tilegate run examples/cases --check
build/release/examples/minilm/minilm
