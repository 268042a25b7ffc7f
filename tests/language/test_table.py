"""docs/language.md tells the truth: it is fresh, and a name it calls not supported is reported as that."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.frontend.programs import static
from tilelang.language.released import RELEASED_NAMES, instead_of

ROOT = Path(__file__).resolve().parents[2]


def table():
    spec = importlib.util.spec_from_file_location("language_table", ROOT / "scripts" / "language_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_fresh():
    module = table()
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run python scripts/language_table.py"


@pytest.mark.parametrize("part", range(4))
def test_a_name_that_is_not_supported_is_no_spelling_mistake(part):
    """One kernel with many of them: each is reported where it stands, older names with what replaced them."""
    missing = sorted(n for n in RELEASED_NAMES if not table().supported(n))[part::4]
    uses = "".join(f"        T.{name}\n" for name in missing)
    program = static(f"@tilelang.jit\ndef k():\n    with T.Kernel(1, threads=32):\n{uses}")
    assert {p.rule for p in program.problems} <= {"unsupported-language-name", "deprecated-name"}
    assert [p.span.line for p in program.problems] == [3 + 3 + i for i in range(len(missing))]


INSTEAD = {
    "tcgen05_gemm_sp": "T.gemm_sp",
    "tvm_mma_sync": "T.ptx_mma",
}


@pytest.mark.parametrize(("name", "other"), INSTEAD.items())
def test_a_name_that_is_not_supported_says_what_does_the_same(name: str, other: str):
    program = static(f"@tilelang.jit\ndef k():\n    with T.Kernel(1, threads=32):\n        T.{name}\n")
    assert [other in p.message for p in program.problems] == [True]


def test_what_does_the_same_is_said_of_released_names_and_is_there():
    said = {n: instead_of(n) for n in RELEASED_NAMES if not table().supported(n)}
    named = {m for text in said.values() for m in re.findall(r"T\.(\w+)", text)}
    assert all(table().supported(m) for m in named)
    assert not any(instead_of(n) for n in ("copy_later", "alloc_tmem", "T"))
