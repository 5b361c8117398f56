# SPDX-License-Identifier: Apache-2.0
"""What tools/check_ptxas.py reads from ptxas's report, and when it refuses a build."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_ptxas  # noqa: E402
from check_ptxas import Key, Row  # noqa: E402

CLEAN = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'void k<3>(float*)' for 'sm_80'
ptxas info    : Function properties for void k<3>(float*)
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 512 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 15.3 ms
ptxas info    : Compiling entry function 'void k<3>(float*)' for 'sm_90a'
ptxas info    : Function properties for void k<3>(float*)
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
"""
SPILL = CLEAN.replace("16 bytes stack frame, 0 bytes spill stores", "16 bytes stack frame, 8 bytes spill stores")
SERIALISED = CLEAN + (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
    "serialized due to insufficient register resources in function 'k'\n"
)
K80 = Key("13.0.88", "sm_80", "a.cu", "void k<3>(float*)")
K90 = K80._replace(arch="sm_90a")
ROWS = {K80: Row(32, 0, 512, 2.0), K90: Row(40, 16, 0, 2.0)}


def parse(text):
    return check_ptxas.parse(text, "a.cu", "13.0.88", 2.0)


class Parse(unittest.TestCase):
    def test_reads_registers_stack_and_shared_memory(self):
        self.assertEqual(parse(CLEAN), check_ptxas.Report(ROWS, []))

    def test_a_spill_is_an_error(self):
        errors = parse(SPILL).errors
        self.assertEqual(len(errors), 1)
        self.assertIn("a.cu sm_90a void k<3>(float*): spills 8 bytes of stores", errors[0])

    def test_a_spill_of_a_called_function_is_an_error_too(self):
        called = CLEAN + (
            "ptxas info    : Function properties for helper(int)\n"
            "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        )
        self.assertIn("helper(int): spills", parse(called).errors[0])
        self.assertEqual(parse(called).rows, ROWS)

    def test_serialised_wgmma_and_warnings_are_errors(self):
        self.assertIn("C7510", parse(SERIALISED).errors[0])
        self.assertEqual(len(parse(CLEAN + "ptxas warning : stack size unknown\n").errors), 1)


class Compare(unittest.TestCase):
    def problems(self, table, rows=None, errors=()):
        report = check_ptxas.Report(ROWS if rows is None else rows, list(errors))
        return check_ptxas.check(report, table)[0]

    def test_equal_rows_pass_whatever_the_seconds(self):
        table = {key: row._replace(build_s=9.0) for key, row in ROWS.items()}
        self.assertEqual(self.problems(table), [])

    def test_changed_missing_and_stale_rows_fail(self):
        self.assertIn("got (32, 0, 512)", self.problems({**ROWS, K80: Row(33, 0, 512, 2.0)})[0])
        self.assertIn("has no row", self.problems({K80: ROWS[K80], K90._replace(kernel="x"): ROWS[K90]})[0])
        stale = {**ROWS, K80._replace(kernel="old"): ROWS[K80]}
        self.assertIn("was not built", self.problems(stale)[0])

    def test_other_architectures_of_the_table_are_left_alone(self):
        table = {**ROWS, K80._replace(arch="sm_120"): ROWS[K80]}
        self.assertEqual(self.problems(table), [])
        self.assertEqual(check_ptxas.merged(table, ROWS), table)

    def test_an_unknown_nvcc_is_only_held_to_the_errors(self):
        table = {key._replace(nvcc="12.8.61"): row for key, row in ROWS.items()}
        problems, note = check_ptxas.check(check_ptxas.Report(ROWS, []), table)
        self.assertEqual(problems, [])
        self.assertIn("no rows for nvcc 13.0.88", note)
        self.assertEqual(self.problems(table, errors=["spills"]), ["spills"])

    def test_a_build_without_kernels_fails(self):
        self.assertEqual(len(self.problems(ROWS, rows={})), 1)

    def test_update_replaces_rows_and_keeps_close_seconds(self):
        rows = {K80: Row(64, 0, 0, 2.2)}
        self.assertEqual(
            check_ptxas.merged(ROWS, rows), {K90: ROWS[K90], K80: Row(64, 0, 0, 2.0)}
        )
        slow = check_ptxas.merged(ROWS, {K80: Row(64, 0, 0, 20.0)})
        self.assertEqual(slow[K80].build_s, 20.0)
        cached = check_ptxas.merged(ROWS, {K80: Row(64, 0, 0, 0.0)})
        self.assertEqual(cached[K80], Row(64, 0, 0, 2.0))


class Files(unittest.TestCase):
    def test_table_round_trip(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ptxas.tsv"
            check_ptxas.write_table(path, ROWS)
            self.assertEqual(check_ptxas.read_table(path), ROWS)

    def test_reads_reports_of_objects_that_still_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.cu").write_text("")
            for name, source in (("a", root / "a.cu"), ("gone", root / "gone.cu")):
                (root / f"{name}.o").write_text("")
                (root / f"{name}.o.ptxas").write_text(f"# {source} 2.0\n{CLEAN}")
            self.assertEqual(check_ptxas.read_build(root, root, "13.0.88").rows, ROWS)


if __name__ == "__main__":
    unittest.main()
