"""Every test of the autotuner has caches of its own, and compiles for the CPU."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
