"""Problems as a person and a machine read them: excerpts, JSON, SARIF, ignore comments."""

from __future__ import annotations

import io
import json

import pytest

from tilelang.diagnostics.json import to_json
from tilelang.diagnostics.problem import Edit, Fix, Problem, Related, Severity
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.render import cells, summary, to_text
from tilelang.diagnostics.render_terminal import print_problems
from tilelang.diagnostics.sarif import to_sarif
from tilelang.diagnostics.span import Span
from tilelang.diagnostics.suppress import apply_ignores


def place(text: str, marked: str, path: str = "k.py") -> Span:
    """The span of the first occurrence of `marked`."""
    before = text[: text.index(marked)]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    end = before + marked
    return Span(path, line, column, end.count("\n") + 1, len(end) - (end.rfind("\n") + 1) + 1)


def problem(text: str, marked: str, rule: str = "gemm-shape", **more: object) -> Problem:
    return Problem(rule, Severity.ERROR, "K of A_s is 32, K of B_s is 128", place(text, marked), **more)


def shown(text: str, *problems: Problem, width: int = 100) -> str:
    return to_text(problems, lambda path: text.splitlines() if path == "k.py" else None, width)


KERNEL = """\
def k(A, B):
    B_s = T.alloc_shared((BM, BN), T.float16)
    T.gemm(A_s, B_s, acc)
"""


def test_excerpt_with_related_place_and_fix():
    fix = Fix("Allocate B_s with BK rows", (Edit(place(KERNEL, "BM"), "BK"),))
    related = Related(place(KERNEL, "B_s"), "B_s is allocated here")
    found = shown(KERNEL, problem(KERNEL, "B_s, acc", related=(related,), fixes=(fix,)))
    assert (
        found
        == """\
error[gemm-shape]: K of A_s is 32, K of B_s is 128
 --> k.py:3:17
  |
3 |     T.gemm(A_s, B_s, acc)
  |                 ^^^^^^^^
note: B_s is allocated here
 --> k.py:2:5
  |
2 |     B_s = T.alloc_shared((BM, BN), T.float16)
  |     ---
help: Allocate B_s with BK rows
  -     B_s = T.alloc_shared((BM, BN), T.float16)
  +     B_s = T.alloc_shared((BK, BN), T.float16)"""
    )


def test_a_fix_with_two_edits_in_a_line_shows_the_line_with_both():
    edits = (
        Edit(place(KERNEL, "BN"), "BK"),
        Edit(place(KERNEL, "BM"), "BK"),
        Edit(place(KERNEL, "acc"), "C"),
    )
    found = shown(KERNEL, problem(KERNEL, "B_s, acc", fixes=(Fix("Say it all", edits),)))
    assert (
        found.partition("help: ")[2]
        == """\
Say it all
  -     B_s = T.alloc_shared((BM, BN), T.float16)
  +     B_s = T.alloc_shared((BK, BK), T.float16)
  -     T.gemm(A_s, B_s, acc)
  +     T.gemm(A_s, B_s, C)"""
    )


@pytest.mark.parametrize(
    ("line", "marked", "cell"),
    [
        ("x = B_s", "B_s", 4),
        ("\tx = B_s", "B_s", 8),
        ("ab\tx = B_s", "B_s", 8),
        ("名前 = B_s", "B_s", 7),
        ("e\u0301 = B_s", "B_s", 4),  # e and a combining accent: one cell
        ("'😀' + B_s", "B_s", 7),
    ],
)
def test_carets_stand_below_the_marked_text(line: str, marked: str, cell: int):
    caret_line = shown(line, problem(line, marked)).splitlines()[-1]
    assert caret_line == "  | " + " " * cell + "^^^"


def test_carets_below_wide_characters_are_as_wide():
    line = "x = 名前"
    assert shown(line, problem(line, "名前")).splitlines()[-1] == "  |     ^^^^"


def test_long_line_is_cut_around_the_marked_text():
    line = "x = " + "a + " * 100 + "MARKED + " + "b + " * 100 + "1"
    *_, source, carets = shown(line, problem(line, "MARKED"), width=60).splitlines()
    assert len(source) <= 60 and "…" in source
    assert source[carets.index("^") : carets.rindex("^") + 1] == "MARKED"


def test_short_span_over_lines_shows_all_of_them_and_a_long_one_its_ends():
    text = "f(\n  a,\n  b)\n" + "x\n" * 20 + "end()"
    assert [ln.strip() for ln in shown(text, problem(text, "f(\n  a,\n  b)")).splitlines()[3::2]] == [
        "1 | f(",
        "2 |   a,",
        "3 |   b)",
    ]
    long = shown(text, problem(text, text))
    assert "...\n" not in long and ".. |" in long and "24 | end()" in long and " 5 |" not in long


def test_span_that_ends_at_the_start_of_a_line_does_not_mark_that_line():
    text = "first()\nsecond()\n"
    assert "second" not in shown(text, problem(text, "first()\n"))


def test_unreadable_file_and_line_past_the_end_still_name_the_place():
    far = Problem("gemm-shape", Severity.ERROR, "m", Span("k.py", 99, 1, 99, 2))
    other = Problem("gemm-shape", Severity.ERROR, "m", Span("gone.py", 1, 1, 1, 2))
    assert shown("x", far, other).splitlines()[1].endswith("--> k.py:99:1")
    assert "--> gone.py:1:1" in shown("x", far, other)


def test_terminal_output_is_the_plain_text_and_coloured_only_where_wanted(monkeypatch):
    lines = KERNEL.splitlines()
    found = problem(KERNEL, "B_s, acc")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "90")
    coloured = io.StringIO()
    print_problems([found], lambda _: lines, coloured)
    assert "\x1b[" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR")
    uncoloured = io.StringIO()
    print_problems([found], lambda _: lines, uncoloured)
    assert [ln.rstrip() for ln in uncoloured.getvalue().rstrip().splitlines()] == shown(
        KERNEL, found, width=90
    ).splitlines()


def test_square_brackets_in_source_are_no_markup():
    text = "A[by * 128, 0]"
    out = io.StringIO()
    print_problems([problem(text, "[by * 128, 0]")], lambda _: [text], out)
    assert "A[by * 128, 0]" in out.getvalue()


def test_summary_counts():
    def of(severity: Severity) -> Problem:
        return problem(KERNEL, "B_s").with_severity(severity)

    assert summary([], 1) == "no problems in 1 file"
    assert summary([of(Severity.ERROR)] * 2, 3) == "2 errors in 3 files"
    found = [of(Severity.ERROR), of(Severity.WARNING), of(Severity.INFO), of(Severity.INFO)]
    assert summary(found, 1) == "1 error, 1 warning and 2 info in 1 file"


def test_cells():
    assert [cells(c) for c in "a名\u0301\u200d"] == [1, 2, 0, 0]


def test_json_is_a_list_of_flat_objects_with_code_points_from_one():
    text = "名前 = B_s"
    assert json.loads(to_json([problem(text, "B_s")])) == [
        {
            "path": "k.py",
            "line": 1,
            "column": 6,
            "end_line": 1,
            "end_column": 9,
            "severity": "error",
            "code": "gemm-shape",
            "message": "K of A_s is 32, K of B_s is 128",
        }
    ]


def test_sarif_names_rule_place_and_fix():
    fix = Fix("Allocate B_s with BK rows", (Edit(place(KERNEL, "BM"), "BK"),))
    related = Related(place(KERNEL, "B_s"), "B_s is allocated here")
    found = problem(KERNEL, "B_s, acc", related=(related,), fixes=(fix,))
    log = json.loads(to_sarif([found, found.with_severity(Severity.HINT)], RULES, "0.1.0"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    driver = run["tool"]["driver"]
    assert [r["id"] for r in driver["rules"]] == ["gemm-shape"]
    assert driver["rules"][0]["defaultConfiguration"]["level"] == "error"
    error, hint = run["results"]
    assert (error["ruleId"], error["ruleIndex"], error["level"], hint["level"]) == (
        "gemm-shape",
        0,
        "error",
        "note",
    )
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "k.py"},
        "region": {"startLine": 3, "startColumn": 17, "endLine": 3, "endColumn": 25},
    }
    assert error["relatedLocations"][0]["message"]["text"] == "B_s is allocated here"
    (change,) = error["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == "BK"


def test_sarif_quotes_paths():
    spaced = Problem("gemm-shape", Severity.ERROR, "m", Span("/a b/k.py", 1, 1, 1, 2))
    relative = Problem("gemm-shape", Severity.ERROR, "m", Span("a b/k.py", 1, 1, 1, 2))
    results = json.loads(to_sarif([spaced, relative], RULES, "0"))["runs"][0]["results"]
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results]
    assert uris == ["file:///a%20b/k.py", "a%20b/k.py"]


def after_ignores(text: str, *problems: Problem, **more: object) -> list[tuple[str, int, str]]:
    return [(p.rule, p.span.line, p.message) for p in apply_ignores("k.py", text, problems, **more)]


def test_ignore_silences_its_rule_on_its_line_only():
    text = "a()  # tilelang: ignore[gemm-shape]\nb()\n"
    assert after_ignores(text, problem(text, "a()")) == []
    assert [f[:2] for f in after_ignores(text, problem(text, "a()"), problem(text, "b()"))] == [
        ("gemm-shape", 2)
    ]


def test_other_rules_stay_and_the_unused_ignore_is_reported_at_its_rule():
    text = "a()  # tilelang: ignore[copy-shape]\n"
    found = apply_ignores("k.py", text, [problem(text, "a()")])
    assert [p.rule for p in found] == ["gemm-shape", "unused-ignore"]
    assert found[1].span == place(text, "copy-shape")
    (edit,) = found[1].fixes[0].edits
    assert text[: edit.span.column - 1] + text[edit.span.end_column - 1 :] == "a()\n"


def test_one_of_two_rules_unused_offers_no_removal_of_the_whole_comment():
    text = "a()  # tilelang: ignore[gemm-shape, copy-shape]\n"
    (unused,) = apply_ignores("k.py", text, [problem(text, "a()")])
    assert (unused.rule, unused.span, unused.fixes) == ("unused-ignore", place(text, "copy-shape"), ())


def test_bare_ignore_silences_every_rule():
    text = "a()  # tilelang: ignore\nb()  # tilelang: ignore\n"
    assert after_ignores(text, problem(text, "a()"), problem(text, "a()", rule="copy-shape")) == [
        ("unused-ignore", 2, "nothing to silence: this line has no problem")
    ]


def test_comment_alone_on_a_line_is_for_the_next_line_of_code():
    text = "# tilelang: ignore[gemm-shape]\n# words\n\na()\n"
    assert after_ignores(text, problem(text, "a()")) == []


def test_misspelt_rule_is_named_with_the_nearest():
    text = "a()  # tilelang: ignore[gemm-shap]\n"
    assert after_ignores(text) == [
        ("unused-ignore", 1, "there is no rule called gemm-shap; did you mean gemm-shape?")
    ]


def test_problem_over_lines_is_silenced_at_its_first_and_last_line():
    for text in ("f(  # tilelang: ignore[gemm-shape]\n a)\n", "f(\n a)  # tilelang: ignore[gemm-shape]\n"):
        whole = Problem("gemm-shape", Severity.ERROR, "m", Span("k.py", 1, 1, 2, 4))
        assert after_ignores(text, whole) == []


def test_ignore_inside_a_string_is_text():
    text = 's = "# tilelang: ignore[gemm-shape]"\n'
    assert [f[0] for f in after_ignores(text, problem(text, "s"))] == ["gemm-shape"]


def test_ignore_in_a_part_not_fully_checked_is_not_called_unused():
    text = "a()  # tilelang: ignore[gemm-shape]\n"
    assert after_ignores(text, unsure=[(1, 3)]) == []


def test_half_typed_file_keeps_the_ignores_before_the_break():
    text = "a()  # tilelang: ignore[gemm-shape]\nb(\n"
    assert after_ignores(text, problem(text, "a()")) == []


def test_kernel_by_kernel_gives_the_same_as_the_whole_file():
    text = "x = 1\n@jit\ndef k():\n    a()  # tilelang: ignore[gemm-shape]\n    b()  # tilelang: ignore\n"
    whole = apply_ignores("k.py", text, [problem(text, "a()")])
    assert [p.span.line for p in whole] == [5]
    assert apply_ignores("k.py", text, [problem(text, "a()")], lines=(2, 5)) == whole
    assert apply_ignores("k.py", text, [], unsure=[(2, 5)]) == []
