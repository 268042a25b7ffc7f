"""A real VS Code without a desktop: starts it, and asks and drives it from tests.

Two doors lead in. `Session.ask` reaches VS Code's own extension API through the tester extension;
`Session.drive` does in headless Chromium what a person does and sees.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.editors.editor_rig import REPOSITORY, VSCodeRig

HERE = Path(__file__).parent / "vscode"
T = TypeVar("T")


class Session:
    """One window of VS Code."""

    def __init__(self, tester_port: int, driver: subprocess.Popen[str], profile: Path):
        self._tester = f"http://127.0.0.1:{tester_port}/"
        self._driver = driver
        self.profile = profile

    def ask(self, method: str, **params: Any) -> Any:
        """Calls a method of the tester extension. Raises AssertionError with the editor's error."""
        request = urllib.request.Request(
            self._tester, data=json.dumps({"method": method, "params": params}).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return _result(json.load(response), f"{method} {params}")

    def drive(self, action: str, **params: Any) -> Any:
        """Does something on the page. Raises AssertionError when it cannot be done."""
        assert self._driver.stdin and self._driver.stdout
        self._driver.stdin.write(json.dumps({"do": action, **params}) + "\n")
        self._driver.stdin.flush()
        line = self._driver.stdout.readline()
        assert line, "the browser ended"
        return _result(json.loads(line), f"{action} {params}")

    def until(self, what: str, attempt: Callable[[], T], seconds: float = 30) -> T:
        """Repeats `attempt` until it gives something true. Raises AssertionError naming `what`."""
        end = time.monotonic() + seconds
        while True:
            found = attempt()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(
                    f"no {what} within {seconds} s; last answer: {found!r}; {self.server_log()}"
                )
            time.sleep(0.1)

    def server_processes(self) -> list[int]:
        """Process ids of this window's language server."""
        return [
            int(process.name)
            for process in Path("/proc").iterdir()
            if process.name.isdigit()
            and b"tilelang_lsp.server" in _read(process / "cmdline")
            and str(self.profile).encode() in _read(process / "environ")
        ]

    def server_log(self) -> str:
        """The end of the TileLang output channel, for failure messages."""
        logs = sorted(self.profile.rglob("*TileLang.log"))
        return (
            f"output of the extension:\n{logs[-1].read_text()[-3000:]}"
            if logs
            else "the extension wrote no log"
        )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


def _result(answer: dict[str, Any], what: str) -> Any:
    if "error" in answer:
        raise AssertionError(f"{what}: {answer['error']}")
    return answer["result"]


def build_extension(rig: VSCodeRig) -> Path:
    """Builds vscode-extension/; returns the .vsix. Raises AssertionError with npm's output."""
    folder = REPOSITORY / "vscode-extension"
    installed = folder / "node_modules" / ".package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < (folder / "package-lock.json").stat().st_mtime:
        _run([rig.node, rig.npm_cli, "ci", "--no-audit", "--no-fund"], rig, folder)
    npm_run(rig, "package")
    return folder / "tilelang.vsix"


def npm_run(rig: VSCodeRig, script: str) -> None:
    """Runs a script of the extension's package.json. Raises AssertionError with its output."""
    _run([rig.node, rig.npm_cli, "run", script], rig, REPOSITORY / "vscode-extension")


def pack(rig: VSCodeRig, name: str, into: Path) -> Path:
    """Packs one of the small extensions beside this file."""
    vsce = REPOSITORY / "vscode-extension/node_modules/@vscode/vsce/vsce"
    vsix = into / f"{name}.vsix"
    flags = ["--no-dependencies", "--allow-missing-repository", "--skip-license"]
    _run([rig.node, vsce, "package", *flags, "--out", vsix], rig, HERE / name)
    return vsix


@contextmanager
def vscode(
    rig: VSCodeRig,
    folder: Path,
    workspace: Path,
    extensions: list[Path],
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    trusted: bool = True,
) -> Iterator[Session]:
    """Opens `workspace` with the extensions installed. `folder` takes profile and logs and must be new."""
    user_data, installed, port_file = folder / "user", folder / "extensions", folder / "tester-port"
    # Settings about the machine, such as an interpreter, are not read from the user's file in a browser.
    for place, values in (("User", QUIET), ("Machine", settings)):
        (user_data / place).mkdir(parents=True)
        (user_data / place / "settings.json").write_text(json.dumps(dict(values)))
    env = dict(os.environ) | {
        "TILELANG_TESTER_PORT": str(port_file),
        "TILELANG_TESTER_PROFILE": str(user_data),  # by which this window's processes are known
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        **(environment or {}),
    }
    server = [rig.node, rig.code_server, "--extensions-dir", installed, "--user-data-dir", user_data]
    for vsix in extensions:
        _run([*server, "--install-extension", vsix], rig, folder, env)
    port = _free_port()
    flags = ["--auth", "none", "--bind-addr", f"127.0.0.1:{port}"]
    flags += ["--disable-telemetry", "--disable-update-check"]
    flags += ["--disable-workspace-trust"] if trusted else []
    with ExitStack() as stack:
        log = stack.enter_context((folder / "code-server.log").open("w"))
        started = subprocess.Popen(
            [*map(str, server), *flags, str(workspace)],
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_end_group, started)
        _wait_for_port(port, started, folder / "code-server.log")
        driver = subprocess.Popen(
            [
                *(rig.node, HERE / "driver.mjs", rig.playwright, rig.chromium),
                f"http://127.0.0.1:{port}/?folder={workspace}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context((folder / "driver.log").open("w")),
            text=True,
            start_new_session=True,
        )
        stack.callback(_end_group, driver)
        assert driver.stdout
        assert "ready" in driver.stdout.readline(), "the workbench did not appear in the browser"
        yield Session(_tester_port(port_file), driver, user_data)


# Nothing that moves, asks or takes the place of the editors.
QUIET = {
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.activityBar.location": "hidden",
    "workbench.layoutControl.enabled": False,
    "workbench.editor.empty.hint": "hidden",
    "workbench.editor.restoreViewState": False,
    "window.commandCenter": False,
    "chat.disableAIFeatures": True,
    "editor.minimap.enabled": False,
    "editor.stickyScroll.enabled": False,
    "breadcrumbs.enabled": False,
    "editor.fontSize": 13,
    "files.autoSave": "off",
    "extensions.ignoreRecommendations": True,
    "git.enabled": False,
    "telemetry.telemetryLevel": "off",
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
}


def _run(command: list[Any], rig: VSCodeRig, folder: Path, env: Mapping[str, str] | None = None) -> None:
    path = os.pathsep.join([str(rig.node.parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=dict(env or os.environ) | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for_port(port: int, process: subprocess.Popen[Any], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"code-server does not listen:\n{log.read_text()}")


def _tester_port(file: Path) -> int:
    end = time.monotonic() + 90
    while not file.exists():
        assert time.monotonic() < end, "the tester extension did not start"
        time.sleep(0.1)
    return int(file.read_text())


def _end_group(process: subprocess.Popen[Any]) -> None:
    """Ends a process and what it started: code-server and the browser have children of their own."""
    if process.stdin:
        process.stdin.close()
    for signal in (15, 9):
        try:
            os.killpg(process.pid, signal)
            process.wait(timeout=10)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
