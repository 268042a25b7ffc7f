"""The tables of targets agree with each other and with what the vendors publish."""

from __future__ import annotations

import pytest

from tilelang.arch import cuda
from tilelang.arch.dtypes import DTYPES
from tilelang.arch.tables import features, first_with, limits, matrix_instructions
from tilelang.arch.target import Target, UnknownTargetError, parse_target

GPUS = [f"cuda:sm_{sm}" for sm in cuda.SHARED_BYTES] + ["hip:gfx90a", "hip:gfx942", "metal"]


@pytest.mark.parametrize("name", GPUS)
def test_a_block_fits_its_processor(name: str):
    target = parse_target(name)
    can, most = features(target), limits(target)
    assert can.spreads_blocks and can.unit
    assert most.shared_bytes is not None
    if can.processor is not None:
        assert most.threads <= can.processor.threads
        assert most.shared_bytes + can.processor.reserved_bytes <= can.processor.shared_bytes
        assert can.processor.registers // most.threads >= 64


@pytest.mark.parametrize("name", GPUS)
def test_what_is_emitted_exists_in_the_hardware(name: str):
    target = parse_target(name)
    for instruction in matrix_instructions(target):
        assert first_with(target, instruction.operand) is None, instruction
        assert instruction.operand in DTYPES
        assert instruction.operand not in features(target).lacks


def test_the_cpu_runs_a_block_on_one_thread():
    can = features(parse_target("cpu"))
    assert not can.spreads_blocks and not can.unit and not can.async_copies
    assert can.registers_per_thread is None and can.processor is None


@pytest.mark.parametrize(
    ("name", "operand", "first"),
    [
        ("cuda:sm_75", "bfloat16", "sm_80"),
        ("cuda:sm_86", "float8_e4m3fn", "sm_89"),
        ("cuda:sm_75", "int8", None),
        ("cuda:sm_90", "bfloat16", None),
        ("cuda:sm_90", "int32", None),
        ("metal", "int8", None),
    ],
)
def test_the_first_architecture_that_has_an_instruction(name: str, operand: str, first: str | None):
    assert first_with(parse_target(name), operand) == first


@pytest.mark.parametrize(("name", "ahead"), [("cuda:sm_75", False), ("cuda:sm_80", True), ("metal", False)])
def test_copies_that_run_ahead(name: str, ahead: bool):
    assert features(parse_target(name)).async_copies is ahead


def test_a_target_is_read_from_json_as_tvm_shows_it() -> None:
    assert parse_target('{"kind": "cuda", "arch": "sm_80", "tag": ""}') == Target("cuda", "sm_80")
    with pytest.raises(UnknownTargetError, match="unknown target"):
        parse_target('{"kind": ')
