"""Artifacts on disk: what is written is read back, damage and versions are named, a reader never sees half of
one.
"""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.runtime.plans import plan, tensor
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.plan import ScalarParam

PLAN = plan(
    tensor("A", "M", 4, strides=("S", 1)),
    ScalarParam("n", "int32"),
    tensor("B", "M"),
    outputs=(2,),
    workspace=(64, "M * 4"),
)
ARTIFACT = Artifact("kernel", "cuda:sm_90", PLAN, "// text é\n", "cuda", (0, 12), b"\x7fELF", "cubin")


def test_round_trip(tmp_path):
    path = ARTIFACT.save(tmp_path / "deep" / "kernel")
    assert Artifact.load(path) == ARTIFACT
    assert {p.name for p in path.iterdir()} == {
        "meta.json",
        "plan.json",
        "source.cu",
        "line_map.json",
        "kernel.cubin",
    }


def test_saving_again_replaces(tmp_path):
    ARTIFACT.save(tmp_path / "k")
    newer = dataclasses.replace(ARTIFACT, source="// newer\n")
    newer.save(tmp_path / "k")
    assert Artifact.load(tmp_path / "k") == newer
    assert [p.name for p in tmp_path.iterdir()] == ["k"]


def test_source_only(tmp_path):
    bare = dataclasses.replace(ARTIFACT, binary=b"", binary_format="", language="hip")
    assert Artifact.load(bare.save(tmp_path / "k")) == bare


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no saved kernel"):
        Artifact.load(tmp_path)


def test_damage_is_named(tmp_path):
    path = ARTIFACT.save(tmp_path / "k")
    (path / "kernel.cubin").write_bytes(b"\x7f")
    with pytest.raises(ValueError, match="the binary has 1 bytes, expected 4"):
        Artifact.load(path)
    (path / "plan.json").unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        Artifact.load(path)


@pytest.mark.parametrize("file", ["meta.json", "plan.json"])
def test_another_version(tmp_path, file):
    path = ARTIFACT.save(tmp_path / "k")
    data = json.loads((path / file).read_text())
    (path / file).write_text(json.dumps(data | {"version": 99}))
    with pytest.raises(ValueError, match="version 99"):
        Artifact.load(path)
