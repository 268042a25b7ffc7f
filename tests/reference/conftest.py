"""Every test of the reference compiles for the CPU, with a cache of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
