# SPDX-License-Identifier: Apache-2.0
# The two commands of the README, and two for work on the code. Each does its own set-up.
.PHONY: run test format check

run:
	@tools/run.sh

test:
	@tools/test.sh

format:
	@git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cuh' '*.cu' | xargs clang-format-14 -i

check:
	@tools/check_format.sh
	@tools/check_tree.py
