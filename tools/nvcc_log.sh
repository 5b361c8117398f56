#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiler launcher for nvcc: runs its arguments and keeps what ptxas said beside the object, in
# OBJECT.ptxas, for tools/check_ptxas.py. The first line of that file is '# SOURCE SECONDS', with 0
# seconds where ccache knew the answer. What is routine in ptxas's report is not shown again;
# errors, warnings and remarks with a code are.
object='' source='' previous=''
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  case $argument in *.cu) source=$argument ;; esac
  previous=$argument
done
case $object in
  *.o) ;;
  *) exec "$@" ;;
esac

rm -f "$object.stats"
start=$(date +%s.%N)
CCACHE_STATSLOG=$object.stats "$@" 2> "$object.stderr"
status=$?
end=$(date +%s.%N)
if grep -q 'cache_hit' "$object.stats" 2> /dev/null; then end=$start; fi
routine='^ptxas info *: \(Compiling entry\|Function properties\|Used \|Compile time\|[0-9]* bytes gmem\)'
grep -v -e "$routine" -e '^ *[0-9]* bytes stack frame' "$object.stderr" >&2
if [ $status -eq 0 ]; then
  {
    echo "# $source $(echo "$start $end" | awk '{printf "%.1f", $2 - $1}')"
    cat "$object.stderr"
  } > "$object.ptxas"
fi
rm -f "$object.stderr" "$object.stats"
exit $status
