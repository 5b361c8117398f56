# SPDX-License-Identifier: Apache-2.0
"""What tools/cpp_scan.py must see in C++ sources: literals, includes, function bodies."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import cpp_scan  # noqa: E402


def names(text):
    return [function.name for function in cpp_scan.functions(text)]


class BlankComments(unittest.TestCase):
    def test_keeps_code_and_line_numbers(self):
        text = 'a; // {\n/* }\n{ */ b; "}{" \'{\' c\n'
        blank = cpp_scan.blank_comments(text)
        self.assertEqual(blank.count("\n"), 3)
        self.assertEqual(blank.split(), ["a;", "b;", "c"])

    def test_raw_strings_and_digit_separators(self):
        blank = cpp_scan.blank_comments('x = R"j({"a": 1})j"; y = 1\'000\'000; z')
        self.assertEqual(blank.split(), ["x", "=", ";", "y", "=", "1'000'000;", "z"])

    def test_escaped_quotes(self):
        self.assertEqual(cpp_scan.blank_comments(r'f("\"{", "\\"); g').split(), ["f(", ",", ");", "g"])


class Includes(unittest.TestCase):
    def test_finds_both_forms_but_not_comments(self):
        text = '#include <vector>\n// #include "no.h"\n#  include "core/half.h"\n/*\n#include "no.h"\n*/\n'
        self.assertEqual(
            cpp_scan.includes(text), [(1, "vector", False), (3, "core/half.h", True)]
        )


class Functions(unittest.TestCase):
    def test_free_functions_in_namespaces(self):
        text = "namespace a::b {\nint f(int x) {\n  return x;\n}\nnamespace {\nvoid g() {}\n}\n}\n"
        self.assertEqual(
            cpp_scan.functions(text),
            [cpp_scan.Function("f", 2, 4), cpp_scan.Function("g", 6, 6)],
        )

    def test_length_counts_the_signature(self):
        text = "\n\ntemplate <class T>\nvoid f(\n    T x) {\n  x();\n}\n"
        self.assertEqual(cpp_scan.functions(text)[0].lines, 5)

    def test_members_constructors_and_operators(self):
        text = (
            "class A : public B<int> {\n public:\n  A(int x) : x_(x) {}\n"
            "  bool operator==(const A& o) const { return x_ == o.x_; }\n"
            "  int x() const { return x_; }\n  int x_{};\n};\n"
        )
        self.assertEqual(names(text), ["A", "operator_", "x"])

    def test_lambdas_and_local_types_belong_to_their_function(self):
        text = "void f() {\n  struct L { void m() {} };\n  auto g = [&](int) { return 1; };\n}\n"
        self.assertEqual(names(text), ["f"])

    def test_initialisers_are_no_functions(self):
        text = "constexpr C kTable[] = {{f(1), 2}, {3, 4}};\nint a{g()};\nauto h = [](int x) { return x; };\n"
        self.assertNotIn("kTable", names(text))
        self.assertNotIn("h", names(text))

    def test_device_code(self):
        text = (
            "struct alignas(128) Storage { float a[4]; };\nenum class Barrier : int { kFull };\n"
            "template <class T>\n__global__ void __launch_bounds__(256, 1) kernel(const Params p) {\n}\n"
        )
        self.assertEqual(names(text), ["kernel"])

    def test_templates_with_constraints_and_defaults(self):
        text = (
            "template <class F>\n  requires(!std::is_same_v<F, int>)\nvoid f(F&& x, int n = 3) {}\n"
            "template <class T, class = std::enable_if_t<(sizeof(T) > 2)>>\nstruct S {\n  T t() { return {}; }\n};\n"
        )
        self.assertEqual(names(text), ["f", "t"])

    def test_macros_are_skipped(self):
        text = "#define BODY(x) \\\n  void x() { \\\n  }\nTEST(Law, Holds) {\n  EXPECT_TRUE(1);\n}\n"
        self.assertEqual(cpp_scan.functions(text), [cpp_scan.Function("TEST", 4, 6)])


if __name__ == "__main__":
    unittest.main()
