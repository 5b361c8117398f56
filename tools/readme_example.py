#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an example of a Markdown file as a source, so that a test runs what readers paste.

    tools/readme_example.py README.md LANGUAGE OUT

The file must hold exactly one block of the language (cpp, python); it becomes OUT, unchanged.
"""

import pathlib
import re
import sys


def extract(markdown, language):
    """The text of the only block of a language; ValueError if there is none or another."""
    fence = rf"^```{re.escape(language)}\n(.*?)^```$"
    blocks = re.findall(fence, markdown, re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        raise ValueError(f"the text must hold one {language} block, got {len(blocks)}")
    return blocks[0]


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, language, target = arguments
    target = pathlib.Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(extract(pathlib.Path(source).read_text(), language))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
