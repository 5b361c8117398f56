# SPDX-License-Identifier: Apache-2.0
"""python -m tilegate report: from result files, one written by the program itself, to a page."""

import copy
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")
from tilegate import __main__ as program  # noqa: E402
from tilegate._report import page, read, tables  # noqa: E402


def entry(backend, median, **changes):
    """An entry as the program writes it."""
    return {
        "name": "decode B1 Q1 KV8192 32/8 D128 bfloat16",
        "backend": backend,
        "peer": False,
        "kernel": "cuda.decode",
        "pass": 1,
        "op": "decode",
        "timing": "graph",
        "l2": "warm",
        "median_ms": median,
        "p20_ms": median * 0.9,
        "p80_ms": median * 1.1,
        "tflop_per_s": 1.0,
        "gb_per_s": 2.0,
        "ceiling_share": 0.5,
        "bound_by": "memory",
        "goal_ms": 0.5,
        "goal_peer_ms": 1.0,
        "samples_ms": [median],
    } | changes


DOCUMENT = {
    "environment": {"machine": "a <machine>", "backends": {"cpu": "AVX2"}},
    "timing_scope": "graph",
    "warmups": 1,
    "repeats": 2,
    "peers": [{"name": "one", "versions": {"one": "1.0"}}, {"name": "two", "reason": "absent"}],
    "declined": [{"name": "row", "backend": "cudnn", "reason": "no & never"}],
    "complete": True,
    "results": [
        entry("auto", 2.0),
        entry("one.a", 4.0, peer=True, kernel=None),
        entry("one.b", 5.0, peer=True, kernel=None),
        entry("auto", 2.2, **{"pass": 2}),
    ],
}


@pytest.fixture
def write(tmp_path):
    def write_document(document, name="result.json"):
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return str(path)

    return write_document


def test_rows_know_peers_passes_and_goals(write):
    (row,) = read(write(DOCUMENT)).rows
    assert row.best_peer()["backend"] == "one.a"
    (ours,) = row.ours()
    assert ours["median_ms"] == pytest.approx(2.1)  # over the samples of both passes
    assert ours["gb_per_s"] == pytest.approx(2.0 * 2.0 / 2.1)
    assert row.drift("auto") == pytest.approx(0.1)
    assert row.goal_ms() == pytest.approx(2.0)  # half of the best peer's 4 ms
    alone = copy.deepcopy(DOCUMENT)
    alone["results"] = alone["results"][:1]
    (row,) = read(write(alone)).rows
    assert row.goal_ms() == 0.5  # no peer in the run: the time as set
    assert row.drift("auto") is None


def test_passes_of_ours_and_peers_count_alike(write):
    document = copy.deepcopy(DOCUMENT)
    document["results"] = [
        entry("auto", 2.0, samples_ms=[1.0, 2.0, 9.0]),
        entry("one.a", 4.0, peer=True, kernel=None, samples_ms=[3.0, 4.0, 5.0]),
        entry("one.a", 1.0, peer=True, kernel=None, samples_ms=[1.0, 1.0, 1.0], **{"pass": 2}),
        entry("auto", 1.0, samples_ms=[1.0, 1.0, 1.0], **{"pass": 2}),
    ]
    (row,) = read(write(document)).rows
    (ours,), (peer,) = row.ours(), row.peers()
    assert (ours["median_ms"], ours["p20_ms"], ours["p80_ms"]) == (1.0, 1.0, 2.0)
    assert (peer["median_ms"], peer["p20_ms"], peer["p80_ms"]) == (2.0, 1.0, 4.0)
    assert peer["ceiling_share"] == pytest.approx(0.5 * 4.0 / 2.0)
    assert row.drift("one.a") == pytest.approx(3.0)


def test_peers_of_other_work_are_shown_beside_the_ratio(write):
    document = copy.deepcopy(DOCUMENT)
    document["results"].append(
        entry("two.dense", 1.0, peer=True, kernel=None, differs="dense keys")
    )
    results = read(write(document))
    (row,) = results.rows
    assert row.best_peer()["backend"] == "one.a"
    assert row.goal_ms() == pytest.approx(2.0)
    lines = tables([results]).splitlines()
    head = ("| shape | auto | one.a | one.b | ratio | goal | to goal | auto is | auto / best "
            "| two.dense (dense keys) |")
    assert lines[lines.index(head) + 2] == (
        "| decode B1 Q1 KV8192 32/8 D128 bfloat16 | 2100.0 | 4000.0 | 5000.0 | 0.525 | 2000.0"
        " | 1.050 | cuda.decode |  | 1000.0 |"
    )
    assert "two.dense (dense keys)" in page([results])
    document["results"] = [document["results"][0], document["results"][-1]]
    results = read(write(document))
    assert results.rows[0].best_peer() is None and results.rows[0].goal_ms() == 0.5
    assert "ratio |" not in tables([results])


def test_page_is_self_contained_and_escaped(write):
    text = page([read(write(DOCUMENT)), read(write(DOCUMENT, "again.json"))])
    assert text.count("<svg") == 4  # two plots a file
    assert "a &lt;machine&gt;" in text and "no &amp; never" in text
    assert "off: absent" in text
    assert '<td class="good">0.525</td>' in text  # 2.1 ms of ours over 4 ms of the best peer
    assert not re.search(r'(src|href)="(?!#)', text.replace('xlink:href="#', "#"))


def test_tables_compare_with_peers_and_goals(write):
    document = copy.deepcopy(DOCUMENT)
    document["results"].insert(1, entry("cuda", 1.6))
    lines = tables([read(write(document))]).splitlines()
    head = ("| shape | auto | cuda | one.a | one.b | ratio | goal | to goal | auto is "
            "| auto / best |")
    assert lines[lines.index(head) + 2] == (
        "| decode B1 Q1 KV8192 32/8 D128 bfloat16 | 2100.0 | 1600.0 | 4000.0 | 5000.0 | 0.400"
        " | 2000.0 | 0.800 | cuda.decode | 1.312 |"
    )
    assert "- Peer two: off: absent." in lines
    assert "- a pass: 2 samples after 1 warm-ups; graph." in lines
    document["scope_seconds"] = 0.25
    assert "fewer once a scope took 0.25 s; graph." in tables([read(write(document))])
    assert "- cudnn, rows 1: no & never" in lines


def test_tables_of_a_recorded_run(tmp_path):
    recorded = pathlib.Path(__file__).parents[1] / "data" / "bench_small.json"
    output = tmp_path / "tables.md"
    assert program.main(["report", str(recorded), "-o", str(output)]) == 0
    lines = output.read_text().splitlines()
    first = lines.index("### prefill, wall, warm") + 4
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[first:first + 2]]
    entries = json.loads(recorded.read_text())["results"]
    for (name, auto, cpu, reference, peer, ratio, chosen, over), batch in zip(
        cells, (1, 2), strict=True
    ):
        assert name == f"prefill B{batch} Q32 KV64 4/2 D128 bfloat16"
        medians = {
            backend: statistics.median(sample for e in entries for sample in e["samples_ms"]
                                       if e["name"] == name and e["backend"] == backend)
            for backend in ("auto", "cpu", "reference", "torch.sdpa")
        }
        for shown, backend in ((auto, "auto"), (cpu, "cpu"), (reference, "reference"),
                               (peer, "torch.sdpa")):
            assert float(shown) == pytest.approx(1e3 * medians[backend], rel=1e-3)
        ours = min(medians["auto"], medians["cpu"])
        assert float(ratio) == pytest.approx(ours / medians["torch.sdpa"], abs=5e-4)
        assert chosen == "cpu.flash"
        assert float(over) == pytest.approx(medians["auto"] / medians["cpu"], abs=5e-4)


def test_unreadable_files_are_a_sentence_and_2(write, tmp_path, capsys):
    output = str(tmp_path / "report.html")
    bad = [str(tmp_path / "missing.json"), write({"results": []}, "partial.json"),
           write([1], "list.json")]
    (tmp_path / "text.json").write_text("{")
    bad.append(str(tmp_path / "text.json"))
    for path in bad:
        assert program.main(["report", path, "-o", output]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("suffix", ["html", "md"])
@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("environment",), None, "environment null"),
        (("environment",), {"backends": None}, "backends null"),
        (("environment",), {"backends": []}, "backends []"),
        (("results",), None, "results null"),
        (("results",), {"a": 1}, "results {"),
        (("results", 0), None, "an entry null"),
        (("declined",), None, "declined null"),
        (("declined", 0), "cudnn", 'a declined row "cudnn"'),
        (("declined", 0, "reason"), None, "reason null"),
        (("peers",), None, "peers null"),
        (("peers", 0), None, "a peer null"),
        (("peers", 0, "versions"), None, "versions null"),
        (("ceilings",), None, "ceilings null"),
        (("ceilings",), {"gb_per_s": "fast"}, 'gb_per_s "fast"'),
        (("timing_scope",), 1, "timing_scope 1"),
        (("scope_seconds",), "1", 'scope_seconds "1"'),
        (("results", 0, "name"), None, "name null"),
        (("results", 0, "l2"), ["warm"], 'l2 ["warm"]'),
        (("results", 0, "peer"), None, "peer null"),
        (("results", 0, "median_ms"), "fast", 'median_ms "fast"'),
        (("results", 0, "median_ms"), 0.0, "median_ms 0.0"),
        (("results", 0, "median_ms"), True, "median_ms true"),
        (("results", 0, "p20_ms"), None, "p20_ms null"),
        (("results", 0, "gb_per_s"), None, "gb_per_s null"),
        (("results", 0, "ceiling_share"), "half", 'ceiling_share "half"'),
        (("results", 0, "goal_ms"), 0, "goal_ms 0"),
        (("results", 0, "goal_peer_ms"), 0.0, "goal_peer_ms 0.0"),
        (("results", 0, "samples_ms"), [], "samples_ms []"),
        (("results", 0, "samples_ms"), [None], "samples_ms [null]"),
    ],
)
def test_values_of_another_kind_are_a_sentence_and_2(write, tmp_path, capsys, place, value, words,
                                                     suffix):
    document = copy.deepcopy(DOCUMENT)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = write(document)
    assert program.main(["report", path, "-o", str(tmp_path / f"report.{suffix}")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path} must be a result of tilegate bench, got {words}")
    assert not (tmp_path / f"report.{suffix}").exists()


@pytest.mark.parametrize("suffix", ["html", "md"])
def test_entries_without_a_time_are_skipped(write, tmp_path, suffix):
    document = copy.deepcopy(DOCUMENT)
    unmeasured = {"median_ms": None, "p20_ms": None, "p80_ms": None, "gb_per_s": None,
                  "tflop_per_s": None, "ceiling_share": None, "bound_by": None, "samples_ms": []}
    document["results"] += [entry("cuda", 1.0) | unmeasured,
                            entry("auto", 1.0, name="another row") | unmeasured]
    (row,) = read(write(document)).rows
    assert [e["backend"] for e in row.ours()] == ["auto"]
    output = tmp_path / f"report.{suffix}"
    assert program.main(["report", write(document), "-o", str(output)]) == 0
    assert "another row" not in output.read_text()
    document["results"] = document["results"][-1:]
    assert program.main(["report", write(document), "-o", str(output)]) == 0


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[" * 100000, b"median 1.0 ms\n"])
def test_files_that_are_no_json_are_a_sentence_and_2(tmp_path, capsys, content):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    assert program.main(["report", str(path), "-o", str(tmp_path / "report.md")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path} must be JSON, got ")


def test_report_of_a_real_run(tmp_path):
    tilegate = os.environ.get("TILEGATE_PROGRAM")
    if not tilegate:
        pytest.skip("TILEGATE_PROGRAM names no program")
    result, output = tmp_path / "result.json", tmp_path / "report.html"
    flags = "--device cpu --batch-size 1 --head-size 64 --warmups 1 --repeats 2 --backend auto cpu"
    command = [tilegate, "bench", "attention", *flags.split(), "--query-length", "8", "16",
               "--kv-length", "32", "--output", str(result)]
    subprocess.run(command, check=True, capture_output=True)
    command = [sys.executable, "-m", "tilegate", "report", str(result), "-o", str(output)]
    subprocess.run(command, check=True)
    text = output.read_text()
    assert "prefill B1 Q16 KV32" in text and "cpu.flash" in text and "<svg" in text
