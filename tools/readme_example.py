#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ examples of a Markdown file as sources, so that a test builds what readers paste.

    tools/readme_example.py README.md OUT.cpp

The file must hold exactly one ```cpp block; it becomes OUT.cpp, unchanged.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def extract(markdown):
    """The text of the only C++ block; ValueError if there is none or another."""
    blocks = BLOCK.findall(markdown)
    if len(blocks) != 1:
        raise ValueError(f"the text must hold one cpp block, got {len(blocks)}")
    return blocks[0]


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    source, target = map(pathlib.Path, arguments)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(extract(source.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
