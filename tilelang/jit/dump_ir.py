"""What lowering was given and what it made, as files: the pass configurations `tl.enable_dump_ir` and
`tl.dump_ir_path`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm import tirx as X

from tilelang.arch.pass_config_keys import PassConfigKey
from tilelang.targets.lowered import LoweredKernel

_FOLDER = "dump_ir"  # of the working directory, where no other was asked for


def asks_for_dump(pass_configs: Mapping[str, Any]) -> bool:
    """Whether the pass configurations ask for files."""
    return bool(pass_configs.get(PassConfigKey.TL_ENABLE_DUMP_IR.value))


def dump_ir(func: X.PrimFunc, lowered: LoweredKernel, pass_configs: Mapping[str, Any]) -> None:
    """Write the tile function, the thread-level function of each launch and the source, numbered in that
    order, if the pass configurations ask for it.
    """
    if not asks_for_dump(pass_configs):
        return
    folder = Path(os.path.expanduser(pass_configs.get(PassConfigKey.TL_DUMP_IR_DIR.value) or _FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    texts = [("tile_function.py", func.script())]
    texts += [("thread_level.py", part.func.script()) for part in lowered.parts or (lowered,)]
    texts.append((f"source.{lowered.source.language}", lowered.source.text))
    for number, (name, text) in enumerate(texts):
        (folder / f"{number:03d}_{lowered.name}.{name}").write_text(text, encoding="utf-8")
