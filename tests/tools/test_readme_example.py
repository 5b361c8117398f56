# SPDX-License-Identifier: Apache-2.0
"""tools/readme_example.py takes the one block of a language, and refuses any other count."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import readme_example  # noqa: E402

BLOCK = "```cpp\nint main() {}\n```\n"
TEXT = f"# A\n```sh\nmake run\n```\n{BLOCK}\n```python\nx\n```\n"


class Extract(unittest.TestCase):
    def test_takes_the_block_and_leaves_other_languages(self):
        self.assertEqual(readme_example.extract(TEXT, "cpp"), "int main() {}\n")
        self.assertEqual(readme_example.extract(TEXT, "python"), "x\n")

    def test_refuses_none_or_two(self):
        for text in ("# A\n", BLOCK + BLOCK):
            with self.assertRaises(ValueError):
                readme_example.extract(text, "cpp")


if __name__ == "__main__":
    unittest.main()
