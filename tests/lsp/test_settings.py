"""Settings: names as clients write them, defaults, and what cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tilelang.arch.target import Target
from tilelang.diagnostics.selection import RuleSelection
from tilelang.facts.project import Project
from tilelang_lsp.settings import _READERS, Settings

ROOT = Path(__file__).resolve().parents[2]


def test_defaults():
    settings = Settings()
    assert (settings.over(Project()).target, settings.interpreter, settings.run_timeout_s) == (
        "cuda:sm_90",
        sys.executable,
        60.0,
    )
    assert settings.trusted and settings.preview == "server"


def test_names_are_those_of_the_protocol():
    settings, complaints = Settings().updated(
        {
            "target": "cuda:sm_80",
            "interpreter": "/usr/bin/python3",
            "runTimeout": 5,
            "trusted": False,
            "preview": "client",
            "generatedSourceChanged": True,
            "runFinished": True,
            "unheard": 1,
        }
    )
    assert complaints == []
    assert settings == Settings(
        target="cuda:sm_80",
        interpreter="/usr/bin/python3",
        run_timeout_s=5.0,
        trusted=False,
        preview="client",
        generated_source_changed=True,
        run_finished=True,
    )


def test_absent_keeps_what_was_there_and_null_and_empty_take_the_default():
    before = Settings(target="metal:metal3", interpreter="/a/python")
    assert before.updated({}) == before.updated(None) == (before, [])
    assert before.updated({"target": None, "interpreter": ""}) == (Settings(), [])


def test_the_editor_goes_over_the_project():
    project = Project(
        Target("hip", "gfx942"), RuleSelection(None, frozenset({"shape"})), {"f": {"n": "1"}, "g": {"n": "2"}}
    )
    kept = Settings().over(project)
    assert (kept.target, kept.rules, kept.specialisations) == (
        "hip:gfx942",
        project.rules,
        project.specialisations,
    )
    settings, complaints = Settings().updated(
        {"target": "cpu", "ignore": [], "select": ["dtype"], "specialisations": {"g": {"n": 3}}}
    )
    chosen = settings.over(project)
    assert complaints == [] and chosen.target == "cpu:native"
    assert chosen.rules == RuleSelection(frozenset({"dtype"}), frozenset())
    assert chosen.specialisations == {"f": {"n": "1"}, "g": {"n": "3"}}


def test_every_setting_is_documented():
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert [name for name in _READERS if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "fpga"}, "tilelang.target: unknown target 'fpga'"),
        ({"runTimeout": -1}, "tilelang.runTimeout: expected a positive number"),
        ({"trusted": "yes"}, "tilelang.trusted: expected true or false"),
        ({"specialisations": ["block_M"]}, "tilelang.specialisations: expected"),
        ({"ignore": ["gemm-shap"]}, "tilelang.ignore: 'gemm-shap' is no rule"),
        ({"select": "shape"}, "tilelang.select: expected a list"),
    ],
)
def test_what_cannot_be_read_is_told_and_left_out(options, said):
    settings, (complaint,) = Settings().updated(options)
    assert complaint.startswith(said)
    assert settings == Settings()


def test_a_choice_is_found_under_any_name_of_the_kernel():
    settings, _ = Settings().updated({"specialisations": {"gemm": {"block_M": 64}}})
    chosen = settings.over(Project())
    assert chosen.choice("Ops.gemm", "gemm") == {"block_M": "64"}
    assert chosen.choice("other") == {}
