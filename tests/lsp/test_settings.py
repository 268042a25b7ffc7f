"""Settings: names as clients write them, defaults, and what cannot be read."""

from __future__ import annotations

import sys

import pytest

from tilelang_lsp.settings import Settings


def test_defaults():
    settings = Settings()
    assert (settings.target, settings.interpreter, settings.run_timeout_s) == (
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


def test_absent_null_and_empty_keep_what_was_there():
    before = Settings(target="metal:metal3", interpreter="/a/python")
    assert before.updated({"target": None, "interpreter": ""}) == (before, [])
    assert before.updated(None) == (before, [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "fpga"}, "tilelang.target: unknown target 'fpga'"),
        ({"runTimeout": -1}, "tilelang.runTimeout: expected a positive number"),
        ({"trusted": "yes"}, "tilelang.trusted: expected true or false"),
        ({"specialize": ["block_M"]}, "tilelang.specialize: expected"),
    ],
)
def test_what_cannot_be_read_is_told_and_left_out(options, said):
    settings, (complaint,) = Settings().updated(options)
    assert complaint.startswith(said)
    assert settings == Settings()


def test_a_choice_is_found_under_any_name_of_the_kernel():
    settings, _ = Settings().updated({"specialize": {"gemm": {"block_M": 64}}})
    assert settings.choice("Ops.gemm", "gemm") == {"block_M": "64"}
    assert settings.choice("other") == {}
