"""The workspace that real editors open; what happens where an editor is missing: skip and say so, or fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.editors.editor_rig import REPOSITORY, Missing

T = TypeVar("T")

# The second tile gets the rows of the first one's M instead of its K: an error of rule gemm-shape.
RIGHT = "B_shared = T.alloc_shared((block_K, block_N)"
WRONG = "B_shared = T.alloc_shared((block_M, block_N)"


def require(find: Callable[[], T]) -> T:
    """What `find` finds. Where it is missing the tests are skipped, unless TILELANG_REQUIRE_EDITORS=1."""
    try:
        return find()
    except Missing as missing:
        if os.environ.get("TILELANG_REQUIRE_EDITORS") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the quickstart, and `mistake.py`, the same with a mistake in it."""
    folder = tmp_path_factory.mktemp("workspace")
    text = (REPOSITORY / "examples" / "quickstart.py").read_text()
    assert RIGHT in text, "examples/quickstart.py changed: give the mistake here its new text"
    (folder / "quickstart.py").write_text(text)
    (folder / "mistake.py").write_text(text.replace(RIGHT, WRONG))
    return folder
