#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All GPU tests on a machine with a GPU, from a folder that tools/gpu_pack.sh made, in less than ten
# minutes, for so much are the limits of all stages together; needs no compiler. Writes SUMMARY, one
# line a stage, and prints it:
#
#   FOLDER/gpu_test.sh [SUMMARY]
#
# Stages: kernels (launched directly), laws-cuda and -cudnn (every law), cases (every case file on
# cuda and cudnn: it must pass, or be rejected with a reason), python (the package with the arrays
# of every framework that is there), call-cost (what Python adds to a call: a table), and
# compute-sanitizer's memcheck, racecheck and synccheck over small calls of every kernel of ours
# (cuDNN's are left out) where that program is found.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
summary=${1:-$here/summary.txt}
logs=$(mktemp -d)
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Small calls of every kernel, for the sanitizers. In gpu_tests, in this order: decode with 8, 16
# and 32 rows a block, its combine kernel, its masks; units in clusters and with tags; steps of the
# delta rule, of one token too, and commit; append; the transfers; cuDNN's prepare, copy, finish.
small=Decode.GroupsAndRows:Decode.PageSizes:Decode.OneLongRequestIsSplit:Decode.PinnedSplits
small+=:Decode.WindowsSinksAndCaps:Decode.HiddenKeysMayHoldNanAndInfinity
small+=:DecodeUnits.EveryClusterSize:DecodeUnits.TagsOfManyUnits
small+=:DeltaDecodeGpu.RulesAndGates:DeltaDecodeGpu.PoolsSlotsAndSkips
small+=:DeltaDecodeGpu.VerifyThenCommit:DeltaTokenGpu.RulesGatesAndHeads
small+=":DeltaTokenGpu.PoolsSlotsAndSkips:ReplayGpu.*:StreamGpu.ARecordingFillsAndCopies"
small+=":StreamGpu.ReadsLeaveTheBufferAsItIs:Cudnn.RaggedFormsMasksAndEmptyRequests:Ptx.*"
# In op_tests: merge, and append of every layout.
small_ops='*/MergeStates.*/cuda:*/AppendPagedKv.FillsEveryLayoutBitForBit/cuda'
small_ops+=':*/AppendPagedKv.TokensOfManyHeads/cuda:*/AppendPagedKv.StridedSourcesAndCaches/cuda'
passed=0
failed=0

say() { echo "$*" | tee -a "$summary"; }

# stage NAME SECONDS COMMAND...: runs it and reports.
stage() {
  local name=$1 limit=$2 start=$SECONDS
  shift 2
  timeout "$limit" "$@" > "$logs/$name.log" 2>&1
  report "$name" $? $((SECONDS - start))
}

# report NAME STATUS SECONDS: one line about a stage, and the end of its log where it failed.
report() {
  local name=$1 log=$logs/$1.log verdict=ok
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) verdict=FAILED; fi
  say "$(printf '%-12s %-6s %4d s  %s' "$name" "$verdict" "$3" "$(short "$log")")"
  [ "$2" -eq 0 ] && return
  grep -aE '^\[  FAILED  \]|^FAILED|^ERROR|^E  |^miss|^error|ERROR SUMMARY|Failure|========= [A-Z]' "$log" |
    cut -c 1-300 | head -n 60 | tee -a "$summary"
  tail -n 15 "$log" | cut -c 1-300 | tee -a "$summary"
}

short() {
  grep -aE '\[  PASSED  \]|\[  SKIPPED \] [0-9]|cases:|ERROR SUMMARY|[0-9] passed' "$1" | tr -s ' ' |
    tr '\n' ' ' | cut -c 1-150
}

# Every case alone, so that one that is rejected (3) does not hide another that misses.
cases() {
  local backend=$1 ok=0 rejected=0 missed=0 file code
  for file in "$here"/cases/*.safetensors; do
    "$here/tilegate" run "$file" --check --backend "$backend"
    code=$?
    case $code in
      0) ok=$((ok + 1)) ;;
      3) rejected=$((rejected + 1)) ;;
      *) missed=$((missed + 1)) ;;
    esac
  done
  echo "cases: $ok passed, $missed missed, $rejected rejected"
  [ "$missed" -eq 0 ] && [ "$ok" -gt 0 ]
}

# jax keeps most of a GPU's memory for itself unless told otherwise.
python_package() {
  XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH} \
    TILEGATE_PROGRAM=$here/tilegate python3 -B "$@"
}

# Runs a stage of Python and shows the lines of its log that match a pattern.
python_stage() {
  local name=$1 limit=$2 pattern=$3
  shift 3
  stage "$name" "$limit" bash -c 'python_package "$@"' python_package "$@"
  grep -aE "$pattern" "$logs/$name.log" | cut -c 1-200 | tee -a "$summary"
}

sanitize() {
  local check=(compute-sanitizer --tool "$1" --error-exitcode 9 --kernel-regex kns=tilegate) bad=0
  "${check[@]}" "$here/gpu_tests" --gtest_filter="$small" || bad=1
  "${check[@]}" "$here/op_tests" --gtest_filter="$small_ops" || bad=1
  return $bad
}

find "$here" -name '*.gz' -exec gunzip -f {} + || exit 1
: > "$summary"
export here small small_ops
export -f cases python_package sanitize
say "date    $(date -u +%Y-%m-%dT%H:%MZ)"
say "machine $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>&1 | head -n 1)"
say "build   $("$here/tilegate" info 2>&1 | tr '\n' ';' | tr -s ' ' | cut -c 1-400)"
# About twice what each took on one H200; together, with cuDNN's laws beside the first three, less
# than 600 s.
began=$SECONDS
timeout 170 "$here/op_tests" --gtest_filter='*/cudnn' > "$logs/laws-cudnn.log" 2>&1 & # builds graphs
cudnn=$!
stage kernels 100 "$here/gpu_tests"
stage laws-cuda 50 "$here/op_tests" --gtest_filter='*/cuda'
stage cases-cuda 40 bash -c 'cases cuda'
wait "$cudnn"
report laws-cudnn $? $((SECONDS - began))
stage cases-cudnn 50 bash -c 'cases cudnn'
python_stage python 90 '^SKIPPED' -m pytest -q -rfEs -p no:cacheprovider "$here/python_tests"
python_stage call-cost 50 . "$here/call_cost.py" "$here/call_cost" cuda
if command -v compute-sanitizer > /dev/null; then
  stage memcheck 60 bash -c 'sanitize memcheck'
  stage racecheck 70 bash -c 'sanitize racecheck'
  stage synccheck 50 bash -c 'sanitize synccheck'
else
  say "compute-sanitizer is not on PATH: memcheck, racecheck and synccheck were not run"
fi
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
