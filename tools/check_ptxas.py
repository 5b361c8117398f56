#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what ptxas said of every kernel against tools/ptxas.tsv.

    tools/check_ptxas.py BUILD_DIR [--update]

Reads the .ptxas files that tools/nvcc_log.sh left beside the CUDA objects. A register spill, a
local stack that the table does not grant, or a remark with a code (C7510: wgmma serialised) is an
error. So is any kernel whose registers, stack or shared memory differ from the table's row for this
nvcc, a kernel without a row, and a row without its kernel: --update rewrites the rows, and the
diff of the table shows the change. An nvcc that the table does not know is only held to the errors.
Build seconds are of the whole file; they are kept where a build cache answered or nothing changed.
"""

import argparse
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

COLUMNS = "nvcc arch source kernel registers stack_bytes smem_bytes build_s".split()
COMPILING = re.compile(r"Compiling entry function '(.+)' for '(\S+)'")
PROPERTIES = re.compile(r"Function properties for (.+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SMEM = re.compile(r"(\d+) bytes smem")
REMARK = re.compile(r"^ptxas.*(\(C\d+\)|warning|Potential Performance Loss).*$", re.IGNORECASE)
OPTIONAL = ("src/backend/cudnn/",)  # built only where third-party headers are
KEEP_SECONDS_WITHIN = 0.3  # of the table's value: machines and loads differ


class Key(NamedTuple):
    nvcc: str
    arch: str
    source: str
    kernel: str


class Row(NamedTuple):
    registers: int
    stack_bytes: int
    smem_bytes: int
    build_s: float

    def facts(self):
        return self[:3]


class Report(NamedTuple):
    rows: dict  # Key -> Row
    errors: list


def demangle(text):
    filtered = subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True)
    return filtered.stdout


def parse(text, source, nvcc, seconds):
    """Rows and errors of one object's ptxas output, after demangling."""
    rows, errors = {}, []
    key = function = None
    stack = 0
    for line in text.splitlines():
        if match := COMPILING.search(line):
            key = Key(nvcc, match.group(2), source, match.group(1))
        elif match := PROPERTIES.search(line):
            function = match.group(1)
        elif match := FRAME.search(line):
            frame, stores, loads = map(int, match.groups())
            stack = frame if key and function == key.kernel else stack
            if stores or loads:
                arch = key.arch if key else "?"
                what = f"spills {stores} bytes of stores, {loads} of loads"
                errors.append(f"{source} {arch} {function}: {what}")
        elif (match := USED.search(line)) and key:
            smem = SMEM.search(line)
            shared = int(smem.group(1)) if smem else 0
            rows[key] = Row(int(match.group(1)), stack, shared, seconds)
            stack = 0
        elif REMARK.search(line):
            errors.append(f"{source}: {line.strip()}")
    return Report(rows, errors)


def read_build(build, root, nvcc):
    rows, errors = {}, []
    for path in sorted(build.rglob("*.o.ptxas")):
        head, _, body = path.read_text().partition("\n")
        _, source, seconds = head.split()
        source = pathlib.Path(source)
        if not source.exists() or not path.with_suffix("").exists():
            continue  # left over from a file that is gone
        name = source.resolve().relative_to(root).as_posix() if source.is_absolute() else str(source)
        report = parse(demangle(body), name, nvcc, float(seconds))
        rows.update(report.rows)
        errors += report.errors
    return Report(rows, errors)


def nvcc_version(build):
    for path in build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        match = re.search(r'CMAKE_CUDA_COMPILER_VERSION "([^"]+)"', path.read_text())
        if match:
            return match.group(1)
    return None


def read_table(path):
    table = {}
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        if line and not line.startswith("#") and not line.startswith("nvcc\t"):
            cells = line.split("\t")
            numbers = [int(cells[4]), int(cells[5]), int(cells[6]), float(cells[7])]
            table[Key(*cells[:4])] = Row(*numbers)
    return table


def write_table(path, table):
    lines = [
        "# What ptxas gave each kernel; tools/check_ptxas.py BUILD_DIR --update writes it.",
        "\t".join(COLUMNS),
    ]
    lines += ["\t".join(map(str, [*key, *row])) for key, row in sorted(table.items())]
    path.write_text("\n".join(lines) + "\n")


def in_scope(table, built):
    """The table's rows that this build should have: its nvcc, the architectures it compiled, and
    the kernels of an optional backend if it has any of them."""
    scope = {(key.nvcc, key.arch) for key in built}
    absent = () if any(key.source.startswith(OPTIONAL) for key in built) else OPTIONAL
    return {
        key: row
        for key, row in table.items()
        if (key.nvcc, key.arch) in scope and not key.source.startswith(absent)
    }


def compare(table, built):
    known = in_scope(table, built)
    problems = []
    for key in sorted(built.keys() | known.keys()):
        name = f"{key.source} {key.arch} {key.kernel}"
        if key not in known:
            problems.append(f"{name}: has no row, got {built[key].facts()}")
        elif key not in built:
            problems.append(f"{name}: has a row but was not built")
        elif known[key].facts() != built[key].facts():
            problems.append(f"{name}: table {known[key].facts()}, got {built[key].facts()}")
    return problems


def merged(table, built):
    """The table with this build's rows in place of those in scope."""
    known = in_scope(table, built)
    result = {key: row for key, row in table.items() if key not in known}
    for key, row in built.items():
        old = known.get(key)
        cached = row.build_s == 0
        if old and (cached or abs(row.build_s - old.build_s) < KEEP_SECONDS_WITHIN * old.build_s):
            row = row._replace(build_s=old.build_s)
        result[key] = row
    return result


def check(report, table):
    """Every problem as a line, and a note."""
    if not report.rows:
        return ["no .ptxas file with a kernel: is this a build with CUDA kernels?"], ""
    nvcc = next(iter(report.rows)).nvcc
    if not any(key.nvcc == nvcc for key in table):
        note = f"the table has no rows for nvcc {nvcc}: only spills and remarks were checked"
        return report.errors, note
    return report.errors + compare(table, report.rows), ""


def main():
    parser = argparse.ArgumentParser(description="check ptxas's report against tools/ptxas.tsv")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="rewrite the rows of this nvcc")
    arguments = parser.parse_args()
    tools = pathlib.Path(__file__).resolve().parent
    nvcc = nvcc_version(arguments.build)
    if nvcc is None:
        print(f"ptxas check: {arguments.build} was configured without CUDA", file=sys.stderr)
        return 1
    report = read_build(arguments.build, tools.parent, nvcc)
    table = read_table(tools / "ptxas.tsv")
    if arguments.update and report.rows:
        table = merged(table, report.rows)
        write_table(tools / "ptxas.tsv", table)
    problems, note = check(report, table)
    for line in filter(None, [*problems, note]):
        print(line)
    archs = sorted({key.arch for key in report.rows})
    print(f"ptxas check: nvcc {nvcc}, {len(report.rows)} kernels for {' '.join(archs)}, "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
