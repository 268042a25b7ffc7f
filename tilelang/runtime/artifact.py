"""A compiled kernel as data: plan, source, binary. Saved to a folder and loaded again without any compiler.

The folder:

    meta.json       format version, kernel name, target, language and file names below, size of the binary
    plan.json       the launch plan (`runtime.plan.LaunchPlan.to_json`)
    source.<ext>    the generated source: cu, hip.cpp, metal, or tirx.py for the CPU
    line_map.json   for each line of the source the Python line it came from (0: none)
    kernel.<fmt>    the binary: cubin, hsaco, o (object file of the CPU target), so (linked); absent where
                    the target has none

A folder is written beside its final place and renamed, so that a reader never sees half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilelang.runtime.plan import LaunchPlan

ARTIFACT_VERSION = 1

_EXTENSION = {"cuda": "cu", "hip": "hip.cpp", "metal": "metal", "tirx": "tirx.py", "llvm": "ll", "c": "c"}


@dataclass(frozen=True)
class Artifact:
    """One compiled kernel. `loaded` holds its entry points by name if this process compiled it and needs no
    loading.
    """

    name: str
    target: str  # canonical, "cuda:sm_90"
    plan: LaunchPlan
    source: str
    language: str
    line_map: tuple[int, ...] = ()
    binary: bytes = b""
    binary_format: str = ""  # "cubin", "hsaco", "o", "so"; empty where there is only source
    loaded: Mapping[str, Callable[..., Any]] | None = field(default=None, compare=False, repr=False)

    @property
    def extension(self) -> str:
        """What files of this source end with, without the dot."""
        return _EXTENSION.get(self.language, "txt")

    @property
    def kernel_source(self) -> str:
        """The generated source, as `source`."""
        return self.source

    def __getstate__(self) -> dict[str, Any]:
        """All but the entry points, which live in this process."""
        return vars(self) | {"loaded": None}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the folder `path`, replacing an older one. Returns its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            self._write(work)
            if target.exists():
                old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
                os.rename(target, old / "old")
                os.rename(work, target)
                shutil.rmtree(old, ignore_errors=True)
            else:
                os.rename(work, target)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return target

    def _write(self, folder: Path) -> None:
        source = f"source.{self.extension}"
        binary = f"kernel.{self.binary_format}" if self.binary else None
        meta = {
            "version": ARTIFACT_VERSION,
            "name": self.name,
            "target": self.target,
            "language": self.language,
            "source": source,
            "binary": binary,
            "binary_bytes": len(self.binary),
        }
        (folder / source).write_text(self.source, encoding="utf-8")
        (folder / "line_map.json").write_text(json.dumps(list(self.line_map)))
        (folder / "plan.json").write_text(json.dumps(self.plan.to_json(), indent=2))
        if binary:
            (folder / binary).write_bytes(self.binary)
        (folder / "meta.json").write_text(json.dumps(meta, indent=2))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Artifact:
        """Read a folder that `save` wrote.

        Raises FileNotFoundError if there is none, ValueError for another version or a damaged folder.
        """
        folder = Path(path)
        if not (folder / "meta.json").is_file():
            raise FileNotFoundError(f"{folder} holds no saved kernel (no meta.json)")
        with _damage_named(folder):
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            if meta["version"] != ARTIFACT_VERSION:
                raise ValueError(f"format version {meta['version']}, this tilelang reads {ARTIFACT_VERSION}")
            binary = (folder / meta["binary"]).read_bytes() if meta["binary"] else b""
            if len(binary) != meta["binary_bytes"]:
                raise ValueError(f"the binary has {len(binary)} bytes, expected {meta['binary_bytes']}")
            return Artifact(
                name=meta["name"],
                target=meta["target"],
                plan=LaunchPlan.from_json(json.loads((folder / "plan.json").read_text(encoding="utf-8"))),
                source=(folder / meta["source"]).read_text(encoding="utf-8"),
                language=meta["language"],
                line_map=tuple(json.loads((folder / "line_map.json").read_text())),
                binary=binary,
                binary_format=meta["binary"].rpartition(".")[2] if meta["binary"] else "",
            )


@contextlib.contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """What goes wrong inside is told as damage of `folder`."""
    try:
        yield
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the saved kernel in {folder} cannot be read: {error}") from error
