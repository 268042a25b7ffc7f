"""The disk cache: what is found again, what is not, what happens to damaged and concurrent folders."""

from __future__ import annotations

import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tilelang
from tests.ir.hand_made import gemm_relu, vector_add
from tilelang.jit import cache, compiling
from tilelang.jit.compiling import compile_func
from tilelang.jit.options import CompileOptions

OPTIONS = CompileOptions.read(target="cpu", out_idx=-1)


@pytest.fixture
def builds(monkeypatch):
    """How often something was really compiled."""
    made = []
    build = compiling._build
    monkeypatch.setattr(compiling, "_build", lambda *args: made.append(args) or build(*args))
    return made


def test_the_second_time_comes_from_disk(builds):
    first, second = compile_func(vector_add(100), OPTIONS), compile_func(vector_add(100), OPTIONS)
    assert len(builds) == 1
    assert second.get_kernel_source() == first.get_kernel_source()
    a = torch.randn(100)
    torch.testing.assert_close(second(a, a), a + a)


def test_everything_that_matters_is_in_the_key(builds):
    compile_func(vector_add(100), OPTIONS)
    compile_func(vector_add(101), OPTIONS)
    compile_func(vector_add(100, threads=64), OPTIONS)
    compile_func(vector_add(100), CompileOptions.read(target="cpu", out_idx=[0, 2]))
    compile_func(
        vector_add(100), dataclasses.replace(OPTIONS, pass_configs={"tl.cpu_poison_allocations": True})
    )
    compile_func(vector_add(100), CompileOptions.read(target="hip:gfx942", out_idx=-1))
    assert len(builds) == 6


def test_constants_that_print_alike_are_different(builds):
    from tvm import tirx as X

    texts = {
        cache.canonical_text(_storing(X.const(v, "float32"))) for v in (0.1, 0.1 + 1e-8, 1e30, float("inf"))
    }
    assert len(texts) == 4


def _storing(value):
    from tvm import tirx as X

    from tests.ir.hand_made import Context, Launch, Store, _program, at, buffer

    c = buffer("C", (4,), "float32", "global", 5, "parameter")
    bx, tx = X.Var("bx", "int32"), X.Var("tx", "int32")
    return _program(
        "k", [c], [Launch((1,), (32,), (bx,), (tx,), [Store(c, (0,), value, at(9), Context())], at(7))]
    )


def test_switching_it_off(builds, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    compile_func(vector_add(100), OPTIONS)
    monkeypatch.delenv("TILELANG_DISABLE_CACHE")
    tilelang.disable_cache()
    try:
        compile_func(vector_add(100), OPTIONS)
    finally:
        tilelang.enable_cache()
    assert len(builds) == 2
    assert not cache.cache_dir().exists()


def test_a_damaged_entry_is_compiled_again(builds, caplog):
    compile_func(vector_add(100), OPTIONS)
    (folder,) = cache.cache_dir().iterdir()
    (folder / "plan.json").write_text("{")
    with caplog.at_level(logging.WARNING, "tilelang"):
        kernel = compile_func(vector_add(100), OPTIONS)
    assert len(builds) == 2
    assert "ignoring a cached kernel" in caplog.text
    a = torch.randn(100)
    torch.testing.assert_close(kernel(a, a), a + a)


def test_a_folder_that_cannot_be_written_is_a_warning(builds, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING, "tilelang"):
        compile_func(vector_add(100), OPTIONS)
    assert "could not be cached" in caplog.text


def test_concurrent_writers_leave_one_whole_entry():
    with ThreadPoolExecutor(4) as pool:
        kernels = list(pool.map(lambda _: compile_func(vector_add(200), OPTIONS), range(4)))
    a = torch.randn(200)
    for kernel in kernels:
        torch.testing.assert_close(kernel(a, a), a + a)
    assert len(list(cache.cache_dir().iterdir())) == 1


def test_a_kernel_that_moved_is_found_and_its_lines_move_with_it(builds):
    func = gemm_relu()
    artifact = dataclasses.replace(compile_func(func, OPTIONS).artifact, line_map=(0, 10, 12))
    cache.keep("k" * 64, artifact, line=4)
    assert cache.find("k" * 64, line=24).line_map == (0, 30, 32)


def test_save_and_load(tmp_path):
    kernel = compile_func(vector_add(100), OPTIONS)
    loaded = tilelang.load(kernel.save(tmp_path / "add"))
    a = torch.randn(100)
    torch.testing.assert_close(loaded(a, a), a + a)
    assert loaded.get_kernel_source() == kernel.get_kernel_source()
