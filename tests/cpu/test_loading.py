"""The three ways to load a CPU kernel: the object loader's wheel, a linker, the process that compiled it."""

from __future__ import annotations

import dataclasses
import os
import signal
import time

import numpy as np
import pytest
import torch

from tests.ir.hand_made import vector_add
from tilelang.arch.target import parse_target
from tilelang.runtime import cpu
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.launch import LoadedKernel
from tilelang.targets import driver


def built() -> Artifact:
    return driver.build(driver.lower(vector_add(1000), parse_target("cpu")))


def check(artifact: Artifact) -> None:
    a, c = torch.randn(1000), torch.zeros(1000)
    LoadedKernel(artifact)(a, a, c)
    torch.testing.assert_close(c, a + a)


def test_by_the_object_loader():
    pytest.importorskip("tvm_ffi_orcjit", reason="needs the wheel apache-tvm-ffi-orcjit")
    artifact = built()
    assert artifact.binary_format == "o"
    check(artifact)


def test_by_a_linker(monkeypatch):
    if cpu.linker() is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setattr(cpu, "has_object_loader", lambda: False)
    artifact = built()
    assert artifact.binary_format == "so"
    check(artifact)
    # An object file saved where the loader was is linked where it is not.
    monkeypatch.undo()
    saved = dataclasses.replace(built(), loaded=None)
    monkeypatch.setattr(cpu, "has_object_loader", lambda: False)
    check(saved)


def test_in_the_process_that_compiled_it(monkeypatch):
    monkeypatch.setattr(cpu, "has_object_loader", lambda: False)
    monkeypatch.setattr(cpu, "linker", lambda: None)
    artifact = built()
    check(artifact)
    with pytest.raises(cpu.LoadError, match="install apache-tvm-ffi-orcjit, or a C compiler"):
        check(dataclasses.replace(artifact, loaded=None))


def test_one_thread_and_many_give_the_same(monkeypatch):
    artifact = driver.build(driver.lower(vector_add(1_000_000), parse_target("cpu")))
    monkeypatch.setattr(cpu, "_WORTH_WAKING", 0.0)
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("TILELANG_CPU_THREADS", threads)
        a = torch.arange(1_000_000, dtype=torch.float32)
        c = torch.full((1_000_000,), float("nan"))
        LoadedKernel(artifact)(a, a, c)
        results.append(c)
    assert all(torch.equal(r, 2 * a) for r in results)


def test_a_forked_child_runs_kernels_too(monkeypatch):
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    monkeypatch.setattr(cpu, "_WORTH_WAKING", 0.0)
    monkeypatch.setenv("TILELANG_CPU_THREADS", "2")
    kernel = LoadedKernel(built())
    a, c = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    kernel(a, a, c)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            kernel(a, a, c)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child waits for threads it does not have")
