"""A real Neovim without a terminal, asked step by step from tests: Lua in, JSON out, by its remote door."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.editors.editor_rig import REPOSITORY

T = TypeVar("T")

# What the README tells people to write, plus the server of this checkout and a record of the messages.
INIT = """
vim.opt.runtimepath:append({plugin!r})
vim.lsp.config('tilelang', {{ cmd = {command}, init_options = {options} }})
vim.lsp.enable('tilelang')
_G.messages = {{}}
vim.notify = function(text) table.insert(_G.messages, text) end
"""


class Nvim:
    """One running Neovim."""

    def __init__(self, binary: Path, socket: Path, folder: Path):
        self._binary = binary
        self._socket = socket
        self._folder = folder

    def ask(self, code: str) -> Any:
        """Runs Lua and returns its value. Raises AssertionError with Neovim's error."""
        script = self._folder / "ask.lua"
        script.write_text(code)
        done = subprocess.run(
            [
                *(str(self._binary), "--server", str(self._socket)),
                *("--remote-expr", f"json_encode(luaeval('dofile(_A)', '{script}'))"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
        # Some releases print the value to the error stream.
        return json.loads(done.stdout or done.stderr)

    def until(self, what: str, attempt: Callable[[], T], seconds: float = 30) -> T:
        """Repeats `attempt` until it gives something true. Raises AssertionError naming `what`."""
        end = time.monotonic() + seconds
        while True:
            found = attempt()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"no {what} within {seconds} s; last answer: {found!r}; {self._log()}")
            time.sleep(0.05)

    def _log(self) -> str:
        messages = self.ask("return _G.messages")
        log = self._folder / "state" / "nvim" / "lsp.log"
        return f"messages: {messages}\n{log.read_text()[-3000:] if log.exists() else 'no log'}"


@contextmanager
def nvim(binary: Path, folder: Path, command: list[str], interpreter: str) -> Iterator[Nvim]:
    """Starts Neovim with the plugin folder and the server `command`. `folder` takes its state and is new."""
    init = folder / "init.lua"
    lua_command = "{" + ", ".join(map(repr, command)) + "}"
    options = f"{{ interpreter = {interpreter!r} }}"
    plugin = str(REPOSITORY / "editors" / "nvim")
    init.write_text(INIT.format(plugin=plugin, command=lua_command, options=options))
    socket = folder / "socket"
    homes = {f"XDG_{name.upper()}_HOME": str(folder / name) for name in ("config", "data", "state", "cache")}
    with (folder / "nvim.log").open("w") as log:
        process = subprocess.Popen(
            [str(binary), "--headless", "-u", str(init), "--listen", str(socket)],
            cwd=folder,
            env=dict(os.environ) | homes,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        end = time.monotonic() + 20
        while not socket.exists():
            assert time.monotonic() < end, f"neovim did not start:\n{(folder / 'nvim.log').read_text()}"
            time.sleep(0.02)
        yield Nvim(binary, socket, folder)
    finally:
        process.terminate()
        process.wait(timeout=20)
