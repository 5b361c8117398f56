# SPDX-License-Identifier: Apache-2.0
"""Every rule of tools/check_tree.py on a small tree that keeps it and one that breaks it."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_tree  # noqa: E402

OPENING = "// SPDX-License-Identifier: Apache-2.0\n// What it is.\n"
FILES = {
    "include/tilegate/status.h": OPENING + "#include <string>\n",
    "src/core/half.h": OPENING + '#include "tilegate/status.h"\n',
    "src/problem/problem.h": OPENING,
    "src/plan/candidate.h": OPENING + '#include "problem/problem.h"\n',
    "src/plan/planner.h": OPENING + '#include "plan/candidate.h"\n',
    "src/backend/cpu/candidates.h": OPENING + '#include "plan/candidate.h"\n',
    "src/backend/cpu/flash.cpp": OPENING + '#include <hwy/highway.h>\n#include "core/half.h"\n',
    "src/backend/cuda/launch.cpp": OPENING + '#include <cuda_runtime.h>\n',
    "src/kernel/ptx/barrier.cuh": OPENING,
    "src/kernel/attention/params.h": OPENING + "#include <cstdint>\n",
    "src/kernel/attention/prefill.cuh": OPENING + '#include "kernel/ptx/barrier.cuh"\n',
    "src/api/registry.cpp": OPENING + '#include "backend/cpu/candidates.h"\n',
    "tools/forbidden.txt": "# rules\nzebra\tno animals\n",
}


def findings(extra):
    """What the check says of FILES with some files replaced or added."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = {**FILES, **extra}
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return [str(f) for f in check_tree.check_tree(root, sorted(files))]


class CheckTree(unittest.TestCase):
    def assert_one(self, extra, pattern):
        found = findings(extra)
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], pattern)

    def assert_include(self, path, include, pattern):
        text = OPENING + f"#include {include}\n"
        self.assert_one({path: text}, f"^{re.escape(path)}:3: {pattern}")

    def test_a_good_tree_has_no_findings(self):
        self.assertEqual(findings({}), [])

    def test_include_direction(self):
        self.assert_include("src/core/a.h", '"problem/problem.h"', "src/core/ must not include")
        self.assert_include("src/problem/a.h", '"plan/planner.h"', "src/problem/ must not")
        self.assert_include("src/backend/cpu/a.h", '"plan/planner.h"', "src/backend/cpu/ must not")
        self.assert_include("src/backend/reference/a.h", '"backend/cpu/candidates.h"', ".* must not")
        self.assert_include("src/kernel/ptx/a.cuh", '"kernel/attention/prefill.cuh"', ".* must not")
        self.assert_include("src/backend/cpu/a.h", '"kernel/attention/params.h"', ".* must not")
        self.assert_include("src/api/a.cpp", '"backend/cpu/flash.h"', '"backend/cpu/flash.h" is no')
        self.assert_include("cli/run.cpp", '"core/half.h"', "cli/ must not include src/core/half.h")
        self.assert_include("tests/op/a.cpp", '"core/half.h"', "tests/op/ must not include")

    def test_allowed_includes(self):
        for path, include in (
            ("src/backend/cuda/a.cpp", "kernel/attention/params.h"),
            ("tests/unit/a.cpp", "core/half.h"),
            ("src/kernel/attention/a.cuh", "kernel/attention/prefill.cuh"),
        ):
            self.assertEqual(findings({path: OPENING + f'#include "{include}"\n'}), [])

    def test_system_headers(self):
        self.assert_include("include/tilegate/a.h", "<fmt/format.h>", "public headers")
        self.assert_include("src/plan/a.h", "<cuda_runtime.h>", "src/plan/ must not")
        self.assert_include("src/problem/a.h", "<tbb/parallel_for.h>", "src/problem/ must not")
        self.assert_include("src/kernel/attention/b_params.h", "<cuda_bf16.h>", "params.h is")

    def test_unknown_room(self):
        self.assert_one({"src/misc/a.h": OPENING}, "in no room")

    def test_library_words(self):
        for code in ("throw 1;", 'printf("x");', "std::cout << 1;", "abort();", 'getenv("A");'):
            self.assert_one({"src/core/a.cpp": OPENING + f"void f() {{ {code} }}\n"}, "library code")
        self.assertEqual(findings({"src/core/a.cpp": OPENING + "// never throw; printf(1)\n"}), [])
        self.assertEqual(findings({"src/api/a.cpp": OPENING + 'auto x = getenv("A");\n'}), [])

    def test_file_length(self):
        self.assertEqual(findings({"src/core/a.h": OPENING + "\n" * 498}), [])
        self.assert_one({"src/core/a.h": OPENING + "\n" * 499}, "has 501 lines, at most 500")

    def test_function_length(self):
        def body(lines):
            return OPENING + "void f() {\n" + "\n" * (lines - 2) + "}\n"

        self.assertEqual(findings({"src/core/a.h": body(80)}), [])
        self.assert_one({"src/core/a.h": body(81)}, ":3: f has 81 lines, at most 80")
        self.assertEqual(findings({"src/kernel/attention/a.cuh": body(150)}), [])
        self.assert_one({"src/kernel/attention/a.cuh": body(151)}, "at most 150")
        script = "# SPDX-License-Identifier: Apache-2.0\n# x\ndef f():\n" + "    pass\n" * 80
        self.assert_one({"tools/a.py": script}, "f has 81 lines")

    def test_opening(self):
        self.assert_one({"src/core/a.h": "#pragma once\n"}, "must start with '// SPDX")
        self.assert_one({"src/core/a.h": OPENING.split("\n")[0] + "\n#pragma once\n"}, "must say")
        script = "#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\n# Builds.\n"
        self.assertEqual(findings({"tools/a.sh": script}), [])

    def test_ascii_and_forbidden_words(self):
        self.assert_one({"src/core/a.h": OPENING + "// caf\u00e9\n"}, "is not ASCII")
        self.assert_one({"docs/a.md": "a ZEBRA\n"}, "docs/a.md:1: holds 'ZEBRA': no animals")

    def test_links(self):
        good = "[a](../src/core/half.h) [b](../src/core) [c](d.md#x) [d](https://e.org/f)\n"
        self.assertEqual(findings({"docs/a.md": good, "docs/d.md": ""}), [])
        self.assert_one({"docs/a.md": "\n[a](gone.md)\n"}, "docs/a.md:2: links to gone.md")

    def test_folder_warning(self):
        many = [f"src/core/f{i}.h" for i in range(16)]
        self.assertEqual(len(check_tree.folder_warnings(many)), 1)
        self.assertEqual(check_tree.folder_warnings(many[1:]), [])


if __name__ == "__main__":
    unittest.main()
