# SPDX-License-Identifier: Apache-2.0
# Sourced by tools/test.sh: runs a command as a named stage, prints its seconds and one line about
# it, and counts tests. The output goes to build/logs/STAGE.log and is shown only where the stage
# fails; that also ends the run.

passed=0
failed=0
skipped=0
stage_logs=build/logs

# Adds what test runners counted in a log; a stage without a test runner counts as one check.
count_tests() {
  local log=$1 total bad skips
  bad=$(sed -n 's/.*% tests passed, \([0-9]*\) tests\? failed out of .*/\1/p' "$log" | sum)
  total=$(sed -n -e 's/.* tests\? failed out of \([0-9]*\).*/\1/p' \
    -e 's/^Ran \([0-9]*\) tests\? in .*/\1/p' \
    -e 's/^\([0-9]*\) passed.* in [0-9.]*s.*/\1/p' "$log" | sum)
  skips=$(grep -c '(Skipped)$' "$log" || true)  # of ctest, whose totals hold them too
  [ "$total" -gt 0 ] || total=1
  passed=$((passed + total - bad - skips))
  failed=$((failed + bad))
  skipped=$((skipped + skips))
}

sum() { awk '{n += $1} END {print n + 0}'; }

# The closing line that says how all went: 'N passed, N failed, N skipped'.
finish() {
  echo "stages took $SECONDS s"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ] && exit 0
  exit 1
}

# The last line worth showing of a log of a stage that went well.
summary() {
  grep -E '% tests passed|^Ran [0-9]+ test|check: |passed|^fuzz' "$1" | tail -n 1
}

# stage NAME COMMAND...: the command is a program or a shell function.
stage() {
  local name=$1 log=$stage_logs/$1.log start=$SECONDS
  shift
  mkdir -p "$stage_logs"
  # In the background, because errexit is off inside the condition of an if.
  (set -euo pipefail; "$@") > "$log" 2>&1 < /dev/null &
  if wait $!; then
    count_tests "$log"
    printf 'stage %-14s %5d s  %s\n' "$name" $((SECONDS - start)) "$(summary "$log")"
    grep '^skip: ' "$log" || true
    return
  fi
  printf 'stage %-14s %5d s  FAILED: %s\n' "$name" $((SECONDS - start)) "$*"
  show_failure "$log"
  local before=$failed
  if grep -q '% tests passed,' "$log"; then count_tests "$log"; fi
  [ "$failed" -gt "$before" ] || failed=$((failed + 1))
  finish
}

# The failing part of a log: the lines that name an error, then its end without tests that passed.
show_failure() {
  local routine='^ *Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test .*(Passed|Skipped) '
  grep -nE 'error:|ERROR: |FAILED|Failed |\*\*\*Failed' "$1" | cut -c 1-300 | head -n 40 || true
  echo "--- the end of $1"
  grep -vE "$routine" "$1" | cut -c 1-300 | tail -n 150
  echo "---"
}
