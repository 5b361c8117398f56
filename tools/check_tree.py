#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the shape of the source tree; prints one line a finding and exits 1 if there is any.

    tools/check_tree.py [--root DIR]

Rules: who may include whom (ROOMS), what library code must not do (LIBRARY_WORDS), file and
function length, ASCII, the SPDX line and a comment that says what the file is, words in
tools/forbidden.txt, dead links in Markdown. A folder with many files is only a warning. Looks at files that git tracks or
would track, so it takes under a second.
"""

import argparse
import ast
import pathlib
import posixpath
import re
import subprocess
import sys
from collections import Counter
from typing import NamedTuple

import cpp_scan

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_DEVICE_FUNCTION_LINES = 150  # one warp role of a kernel
MAX_FOLDER_FILES = 15
SPDX = "SPDX-License-Identifier: Apache-2.0"

CPP = {".h", ".cpp", ".cc", ".cuh", ".cu"}
SCRIPTS = {".py", ".sh", ".cmake"}
TEXT = CPP | SCRIPTS | {".md", ".txt", ".tsv", ".json", ".toml", ".yml", ""}

PUBLIC = "include/tilegate/"
CANDIDATE = "src/plan/candidate.h"
BACKEND_FACES = [f"src/backend/*/{face}.h" for face in ("candidates", "device", "stream")]
LOWER = [PUBLIC, "src/core/", "src/problem/"]
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")  # not of the web

# Room -> what its files may include besides their own room: folders, or single files.
ROOMS = {
    "include/tilegate/": [],
    "src/core/": [PUBLIC],
    "src/problem/": [PUBLIC, "src/core/"],
    "src/plan/": LOWER,
    "src/backend/reference/": [*LOWER, CANDIDATE],
    "src/backend/cpu/": [*LOWER, CANDIDATE],
    "src/backend/cuda/": [*LOWER, CANDIDATE, "src/kernel/"],
    "src/backend/cudnn/": [*LOWER, CANDIDATE],
    "src/kernel/ptx/": [],
    "src/kernel/tile/": ["src/kernel/ptx/"],
    "src/kernel/pipe/": ["src/kernel/ptx/", "src/kernel/tile/"],
    "src/kernel/attention/": ["src/kernel/ptx/", "src/kernel/tile/", "src/kernel/pipe/"],
    "src/kernel/linear/": ["src/kernel/ptx/", "src/kernel/tile/", "src/kernel/pipe/"],
    "src/api/": [*LOWER, "src/plan/", *BACKEND_FACES],
    "io/": [PUBLIC],
    "cli/": [PUBLIC, "io/", "bench/"],
    "python/": [PUBLIC],
    "bench/": [PUBLIC, "io/"],
    "examples/": [PUBLIC, "io/"],
    "tests/unit/": [PUBLIC, "src/", "io/", "cli/"],
    "tests/gpu/": [PUBLIC, "src/"],
    "tests/fuzz/": [PUBLIC, "src/", "io/"],
    "tests/op/": [PUBLIC],
    "tests/rehearsal/": [PUBLIC, "src/", "tests/op/"],
    "tests/examples/": [PUBLIC, "examples/"],
    "tests/fail/": [PUBLIC],
    "tests/cli/": [PUBLIC, "io/", "cli/"],
    "tests/bench/": [PUBLIC, "bench/", "tests/cli/program.h"],
    "tests/": [PUBLIC, "io/"],
}
CUDA_ROOMS = ["src/backend/cuda/", "src/backend/cudnn/", "src/kernel/", "tests/op/harness/",
              "tests/gpu/", "bench/native/"]
# System headers that only some rooms may bring in.
SYSTEM_HEADERS = [
    (re.compile(r"^cudnn"), ["src/backend/cudnn/"]),
    (re.compile(r"^(cuda|cooperative_groups|mma\.h|nv/|cub/)"), CUDA_ROOMS),
    (re.compile(r"^(tbb|oneapi)/"), ["src/core/", "src/backend/cpu/"]),
    (re.compile(r"^hwy/"), ["src/core/", "src/backend/cpu/", "tests/unit/"]),
    (re.compile(r"^CLI/"), ["cli/", "bench/", "examples/"]),
    (re.compile(r"^nlohmann/"), ["io/", "cli/", "bench/", "examples/", "tests/"]),
    (re.compile(r"^(gtest|gmock)/"), ["tests/"]),
]
# The library neither speaks, dies, throws nor reads the environment behind the caller's back.
LIBRARY_WORDS = [
    (re.compile(r"\bthrow\b"), "throws", []),
    (re.compile(r"\bstd::(cout|cerr|clog)\b|\bf?printf\s*\(|\bfmt::print|\bputs\s*\("), "prints", []),
    (re.compile(r"\babort\s*\(|\b_?exit\s*\(|\bstd::terminate\b"), "ends the process", []),
    (re.compile(r"\bgetenv\s*\("), "reads the environment", ["src/api/"]),
]


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


def room_of(path):
    """The longest room that holds the path, or None."""
    rooms = [room for room in ROOMS if path.startswith(room)]
    return max(rooms, key=len) if rooms else None


def matches(target, allowed):
    if "*" in allowed:
        return pathlib.PurePosixPath(target).match(allowed)
    return target.startswith(allowed) if allowed.endswith("/") else target == allowed


def resolve(path, include, known):
    """The tracked file that a quoted include names, or None: include/, src/, the root, beside it."""
    beside = (pathlib.PurePosixPath(path).parent / include).as_posix()
    for candidate in (f"include/{include}", f"src/{include}", include, beside):
        if candidate in known:
            return candidate
    return None


def check_quoted_include(path, include, known):
    room = room_of(path)
    target = resolve(path, include, known)
    if target is None:
        return f'"{include}" is no file of the repository (third-party headers take <>)'
    host_safe = path.startswith("src/kernel/") and path.endswith("params.h")
    if host_safe and not target.endswith("params.h"):
        return f"params.h is host-safe and may only include other params.h, not {target}"
    if target.startswith(room) and room_of(target) == room:
        return None
    if any(matches(target, allowed) for allowed in ROOMS[room]):
        return None
    return f"{room} must not include {target}"


def check_system_include(path, include):
    if path.startswith(PUBLIC) and not re.fullmatch(r"[a-z_]+", include):
        return f"public headers include standard headers only, not <{include}>"
    if path.startswith("src/kernel/") and path.endswith("params.h") and "." in include:
        return f"params.h is host-safe and includes standard headers only, not <{include}>"
    if include.startswith("tilegate/"):
        return None if room_of(path) == "examples/" else f'write "{include}"'
    for pattern, rooms in SYSTEM_HEADERS:
        if pattern.search(include) and not any(path.startswith(room) for room in rooms):
            return f"{room_of(path)} must not include <{include}>"
    return None


def check_includes(path, text, known):
    if room_of(path) is None:
        return [Finding(path, 1, "is in no room that tools/check_tree.py knows")]
    findings = []
    for line, include, quoted in cpp_scan.includes(text):
        if quoted:
            problem = check_quoted_include(path, include, known)
        else:
            problem = check_system_include(path, include)
        if problem:
            findings.append(Finding(path, line, problem))
    return findings


def check_library_words(path, text):
    if not path.startswith("src/"):
        return []
    findings = []
    for number, line in enumerate(cpp_scan.blank_comments(text).split("\n"), 1):
        for pattern, what, rooms in LIBRARY_WORDS:
            if pattern.search(line) and not any(path.startswith(room) for room in rooms):
                findings.append(Finding(path, number, f"library code {what}: {line.strip()}"))
    return findings


def python_functions(text):
    nodes = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        cpp_scan.Function(node.name, node.lineno, node.end_lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, nodes)
    ]


def check_lengths(path, text):
    findings = []
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        findings.append(Finding(path, lines, f"has {lines} lines, at most {MAX_FILE_LINES}"))
    suffix = pathlib.PurePosixPath(path).suffix
    if suffix in CPP:
        found = cpp_scan.functions(text)
    else:
        found = python_functions(text) if suffix == ".py" else []
    limit = MAX_DEVICE_FUNCTION_LINES if path.startswith("src/kernel/") else MAX_FUNCTION_LINES
    for function in found:
        if function.lines > limit:
            what = f"{function.name} has {function.lines} lines, at most {limit}"
            findings.append(Finding(path, function.first_line, what))
    return findings


def check_opening(path, text):
    """The SPDX line, then a comment (or docstring) that says what the file is."""
    lines = text.split("\n")
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    comment = "//" if pathlib.PurePosixPath(path).suffix in CPP else "#"
    if not lines or lines[0] != f"{comment} {SPDX}":
        return [Finding(path, 1, f"must start with '{comment} {SPDX}'")]
    if len(lines) < 2 or not lines[1].startswith((comment, '"""')):
        return [Finding(path, 2, "must say after the SPDX line what the file is")]
    return []


def check_ascii(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if not line.isascii():
            return [Finding(path, number, f"is not ASCII: {line.strip()!a}")]
    return []


def load_forbidden(root):
    rules = []
    for line in (root / "tools/forbidden.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition("\t")
            rules.append((re.compile(pattern, re.IGNORECASE), reason))
    return rules


def check_forbidden(path, text, rules):
    if path in ("tools/forbidden.txt", "LICENSE"):
        return []
    findings = []
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, reason in rules:
            match = pattern.search(line)
            if match:
                findings.append(Finding(path, number, f"holds '{match.group(0)}': {reason}"))
    return findings


def check_links(path, text, known):
    """Relative links of a Markdown file must lead to a file or folder of the repository."""
    findings = []
    for number, line in enumerate(text.split("\n"), 1):
        for target in LINK.findall(line):
            joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if joined not in known and not any(p.startswith(joined + "/") for p in known):
                findings.append(Finding(path, number, f"links to {target}, which is not there"))
    return findings


def is_source(path):
    name = pathlib.PurePosixPath(path)
    return name.suffix in CPP | SCRIPTS or name.name == "CMakeLists.txt" or path == ".ci/run"


def check_file(path, text, known, rules):
    findings = check_forbidden(path, text, rules)
    if path.endswith(".md"):
        findings += check_links(path, text, known)
    if not is_source(path):
        return findings
    findings += check_ascii(path, text) + check_opening(path, text) + check_lengths(path, text)
    if pathlib.PurePosixPath(path).suffix in CPP:
        findings += check_includes(path, text, known) + check_library_words(path, text)
    return findings


def folder_warnings(paths):
    folders = Counter(pathlib.PurePosixPath(p).parent.as_posix() for p in paths if is_source(p))
    return [
        f"warning: {folder}/ holds {count} source files; split it past {MAX_FOLDER_FILES}"
        for folder, count in sorted(folders.items())
        if count > MAX_FOLDER_FILES
    ]


def tracked_files(root):
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted({p for p in listed.split("\0") if p and (root / p).is_file()})


def check_tree(root, paths):
    rules = load_forbidden(root)
    known = set(paths)
    findings = []
    for path in paths:
        if pathlib.PurePosixPath(path).suffix in TEXT:
            try:
                text = (root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                findings.append(Finding(path, 1, "is not UTF-8 text"))
                continue
            findings += check_file(path, text, known, rules)
    return findings


def main():
    parser = argparse.ArgumentParser(description="check the shape of the source tree")
    default = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=default)
    root = parser.parse_args().root
    paths = tracked_files(root)
    for warning in folder_warnings(paths):
        print(warning)
    findings = check_tree(root, paths)
    for finding in findings:
        print(finding)
    print(f"tree check: {len(paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
