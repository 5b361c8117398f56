# SPDX-License-Identifier: Apache-2.0
"""python -m tilegate report RESULT.json... -o report.html: one page from results of the program's
`tilegate bench`, or Markdown tables where the output ends in .md. Usage errors and unreadable files
are one sentence and exit status 2."""

import argparse
import sys

from ._report import page, read, tables


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tilegate", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    report = verbs.add_parser("report", help="One page of tables from benchmark results")
    report.add_argument("results", nargs="+", metavar="RESULT.json")
    report.add_argument("-o", "--output", required=True, metavar="REPORT.html",
                        help="or REPORT.md")
    return parser


def main(arguments=None) -> int:
    options = _parser().parse_args(arguments)
    try:
        files = [read(path) for path in options.results]
        text = tables(files) if options.output.endswith(".md") else page(files)
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    except ImportError as error:
        print(f"the page needs matplotlib (pip install tilegate[report]): {error}",
              file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
