"""How a CUDA launch is packed, seen by a driver that only notes it; the real one is met by the tests on a
GPU.
"""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import torch

from tests.runtime.plans import plan, tensor
from tilelang.runtime import cuda
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.bind import ArgumentError, BoundCall
from tilelang.runtime.driver import CudaError, Driver
from tilelang.runtime.plan import ScalarParam

PLAN = plan(
    tensor("A", "M"),
    ScalarParam("scale", "float32"),
    ScalarParam("offset", "int32"),
    tensor("B", "M"),
    kind="cuda",
    entry="scale_kernel",
    threads=(128,),
    shared_bytes=100_000,
)
BOUND = BoundCall({"M": 7}, (3, 2), (), (), "cuda:0")


class Record(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("kernel", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("words", ctypes.c_ulonglong * 8),
        ("launches", ctypes.c_int),
        ("cooperative", ctypes.c_int),
        ("contexts", ctypes.c_int),
        ("allowed_shared", ctypes.c_int),
        ("next_status", ctypes.c_int),
        ("entry", ctypes.c_char * 64),
    ]


@pytest.fixture
def record(monkeypatch, tmp_path):
    """What the driver was asked."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the driver that only notes")
    library = tmp_path / "libfake.so"
    source = Path(__file__).with_name("fake_driver.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    monkeypatch.setattr(cuda, "driver", lambda: Driver(loaded))
    monkeypatch.setattr(cuda, "_current_device", lambda: 0)
    monkeypatch.setattr(cuda, "_current_stream", lambda: lambda device: 0x5000 + device)
    return Record.in_dll(loaded, "record")


def artifact(**changes):
    fields = {"plan": PLAN, "binary": b"cubin", "binary_format": "cubin"} | changes
    return Artifact("scale", "cuda:sm_90", source="", language="cuda", **fields)


def test_everything_reaches_the_driver(record):
    a, b = torch.zeros(7), torch.zeros(7)
    cuda.CudaFunction(artifact()).launch([a, 0.5, -2, b], [7], BOUND)
    assert record.entry == b"scale_kernel"
    assert (list(record.grid), list(record.block), record.shared) == ([3, 2, 1], [128, 1, 1], 100_000)
    assert record.kernel == 0x7766554433221100  # a handle wider than an int
    assert record.stream == 0x5000
    assert record.allowed_shared == 100_000
    assert record.words[0] == a.data_ptr()
    assert struct.pack("<Q", record.words[1])[:4] == struct.pack("<f", 0.5)
    assert struct.pack("<Q", record.words[2])[:4] == struct.pack("<i", -2)
    assert record.words[3] == b.data_ptr()
    assert record.words[4] == 7
    assert (record.launches, record.cooperative) == (1, 0)


def test_blocks_that_wait_for_each_other_are_launched_together(record):
    together = dataclasses.replace(PLAN, cooperative=True)
    a, b = torch.zeros(7), torch.zeros(7)
    cuda.CudaFunction(artifact(plan=together)).launch([a, 0.5, -2, b], [7], BOUND)
    assert (record.launches, record.cooperative) == (1, 1)
    assert (list(record.grid), list(record.block), record.shared) == ([3, 2, 1], [128, 1, 1], 100_000)
    assert (record.stream, record.words[3], record.words[4]) == (0x5000, b.data_ptr(), 7)


def test_a_tensor_that_begins_where_wide_moves_cannot_is_refused(record):
    a, *others, b = PLAN.params
    wide = dataclasses.replace(
        PLAN, params=(dataclasses.replace(a, alignment=16), *others, dataclasses.replace(b, alignment=4))
    )
    function = cuda.CudaFunction(artifact(plan=wide))
    whole = torch.zeros(11)
    assert whole.data_ptr() % 16 == 0
    with pytest.raises(
        ArgumentError, match=r"A begins at .* aligned to 8 bytes, .* needs 16; .* pass A\.clone\(\)"
    ):
        function.launch([whole[2:9], 0.5, 1, whole[:7]], [7], BOUND)
    assert record.launches == 0
    function.launch([whole[4:], 0.5, 1, whole[1:8]], [7], BOUND)
    function.launch([whole[2:9].clone(), 0.5, 1, whole[1:8]], [7], BOUND)
    assert record.launches == 2


def test_a_thread_without_a_context_gets_the_device_s(record):
    function = cuda.CudaFunction(artifact())
    record.next_status = 201
    function.launch([torch.zeros(7), 0.5, 1, torch.zeros(7)], [7], BOUND)
    assert (record.contexts, record.launches) == (1, 1)


def test_a_refused_launch_says_what_was_launched(record):
    function = cuda.CudaFunction(artifact())
    record.next_status = 1
    with pytest.raises(CudaError) as raised:
        function.launch([torch.zeros(7), 0.5, 1, torch.zeros(7)], [7], BOUND)
    assert str(raised.value).startswith(
        "launching scale_kernel with grid (3, 2, 1), (128, 1, 1) threads and 100000 bytes of shared memory "
        "failed: invalid argument (CUDA_ERROR_INVALID_VALUE)"
    )


def test_too_much_shared_memory_names_the_limit(record):
    greedy = dataclasses.replace(PLAN, shared_bytes=300_000)
    with pytest.raises(
        CudaError, match="needs 300000 bytes of shared memory, this device has 232448 per block"
    ):
        cuda.CudaFunction(artifact(plan=greedy)).launch([torch.zeros(7), 0.5, 1, torch.zeros(7)], [7], BOUND)


def test_a_damaged_or_missing_binary(record):
    with pytest.raises(CudaError, match="loading scale_kernel failed"):
        cuda.CudaFunction(artifact(binary=b"other"))
    with pytest.raises(CudaError, match="saved without a binary for cuda:sm_90"):
        cuda.CudaFunction(artifact(binary=b"", binary_format=""))
