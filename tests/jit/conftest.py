"""Every test of the JIT has a cache of its own, on disk and in memory, and compiles for the CPU."""

from __future__ import annotations

import pytest

from tilelang.jit import cache


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    cache.forget_loaded()  # a kernel of an earlier test lives on where its frames are in cycles
