"""A real VS Code in headless Chromium: squiggle, hover, hints, lenses, preview, a run; what goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import RIGHT, WRONG, require
from tests.editors.editor_rig import VSCodeRig, find_vscode
from tests.editors.vscode_session import Session, build_extension, npm_run, pack, vscode

# Line decorations of extensions; ours are the only ones.
LINKED = ".view-overlays .cdr[class*='ced-']"
MESSAGE = ".notification-list-item-message"

REFERENCE = "def ref_program(A, B):"

pytestmark = [pytest.mark.editor, pytest.mark.slow]


@pytest.fixture(scope="module")
def rig() -> VSCodeRig:
    return require(find_vscode)


@pytest.fixture(scope="module")
def extensions(rig: VSCodeRig, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Our extension, built from source, and the tests' door into the editor."""
    return [build_extension(rig), pack(rig, "tester", tmp_path_factory.mktemp("vsix"))]


@pytest.fixture(scope="module")
def window(
    rig: VSCodeRig, extensions: list[Path], workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    """A window without the Python extension; the interpreter comes from the setting."""
    settings = {"tilelang.interpreter": sys.executable}
    with vscode(rig, tmp_path_factory.mktemp("vscode"), workspace, extensions, settings) as session:
        yield session


@pytest.fixture
def mistake(window: Session, workspace: Path) -> str:
    """The file with the mistake, open and in front."""
    window.ask("reset")
    path = str(workspace / "mistake.py")
    window.ask("open", path=path)
    return path


@pytest.fixture
def quickstart(window: Session, workspace: Path) -> str:
    """The right file, open and in front."""
    window.ask("reset")
    path = str(workspace / "quickstart.py")
    window.ask("open", path=path)
    return path


def line_of(path: str, text: str) -> int:
    """Line of the first occurrence, from 0, as the editor counts."""
    return next(i for i, line in enumerate(Path(path).read_text().splitlines()) if text in line)


def errors(window: Session, path: str) -> list[dict]:
    return [one for one in window.ask("diagnostics", path=path) if one["severity"] == "error"]


def test_the_parts_that_need_no_editor(rig: VSCodeRig, extensions: list[Path]) -> None:
    npm_run(rig, "test")


def test_the_mistake_is_underlined_and_explained(window: Session, mistake: str) -> None:
    (error,) = window.until("error", lambda: errors(window, mistake))
    assert not window.drive("texts", selector=MESSAGE)  # nothing to complain about at start-up
    assert (error["code"], error["source"]) == ("gemm-shape", "tilelang")
    assert "B_shared" in error["message"]
    window.drive("wait", selector=".squiggly-error")
    assert error["range"][0] == line_of(mistake, "T.gemm(")


def test_the_error_goes_when_the_text_is_mended(window: Session, mistake: str) -> None:
    window.until("error", lambda: errors(window, mistake))
    window.ask("replace", path=mistake, find=WRONG, by=RIGHT)
    window.until("end of the error", lambda: not errors(window, mistake))


def test_a_right_kernel_has_no_problem(window: Session, quickstart: str) -> None:
    window.until("lens", lambda: window.ask("lenses", path=quickstart))
    found = window.ask("diagnostics", path=quickstart)
    assert {d["severity"] for d in found} <= {"hint"}  # such as: the last tiles are guarded


def test_hover_on_a_buffer(window: Session, quickstart: str) -> None:
    window.drive("wait", selector=".codelens-decoration")
    window.drive("point", text="A_shared")
    window.drive("wait", selector=".monaco-hover .hover-contents", text="float16")
    shown = " ".join(window.drive("texts", selector=".monaco-hover .hover-contents"))
    assert re.search(r"float16.*128.*32", shown, re.DOTALL), shown
    assert "shared" in shown
    window.drive("aside")


def test_hints_stand_at_the_allocations(window: Session, quickstart: str) -> None:
    def at_allocation() -> list[str]:
        line = line_of(quickstart, "C_local = T.alloc_fragment")
        return [hint["label"] for hint in window.ask("inlayHints", path=quickstart) if hint["line"] == line]

    labels = window.until("inlay hint", at_allocation)
    assert any("128" in label for label in labels), labels


def test_lenses_stand_over_the_kernel(window: Session, quickstart: str) -> None:
    lenses = window.until("lens", lambda: window.ask("lenses", path=quickstart))
    commands = [lens["command"] for lens in lenses]
    targets = [lens["arguments"][0]["target"] for lens in lenses if lens["command"] == "tilelang.preview"]
    assert "tilelang.runAndAssert" in commands
    assert targets == ["cuda", "hip", "metal"]
    assert {lens["line"] for lens in lenses} == {line_of(quickstart, "@tilelang.jit")}
    window.drive("wait", selector=".codelens-decoration a", text="assert vs torch")


def test_preview_opens_beside_and_follows_the_cursor(window: Session, quickstart: str) -> None:
    window.drive("click", selector=".codelens-decoration a", text=cuda_title(window, quickstart))
    (document,) = window.until("preview", lambda: window.ask("documents", scheme="tilelang-cuda"))
    assert document["path"] == f"{quickstart}/matmul_relu.cu"
    assert document["languageId"] == "cuda-cpp"
    assert "__global__" in document["text"]
    window.until("visible preview", lambda: "tilelang-cuda" in columns(window))
    assert columns(window) == {"file": 1, "tilelang-cuda": 2}
    window.ask("cursor", path=quickstart, line=line_of(quickstart, "T.gemm("))
    window.until("linked lines", lambda: window.drive("count", selector=LINKED))


def test_preview_follows_an_edit(window: Session, quickstart: str) -> None:
    lens = preview_lens(window, quickstart, "cuda")
    window.ask("execute", command="tilelang.preview", args=lens["arguments"])
    (before,) = window.until("preview", lambda: window.ask("documents", scheme="tilelang-cuda"))
    window.ask("replace", path=quickstart, find="C_local[i, j], 0)", by="C_local[i, j], 7)")

    def changed() -> bool:
        (now,) = window.ask("documents", scheme="tilelang-cuda")
        return now["text"] != before["text"] and "7" in now["text"]

    window.until("changed preview", changed)


@pytest.mark.parametrize(("target", "mark"), [("hip", "__global__"), ("metal", "kernel void")])
def test_other_targets(window: Session, quickstart: str, target: str, mark: str) -> None:
    lens = preview_lens(window, quickstart, target)
    window.ask("execute", command="tilelang.preview", args=lens["arguments"])
    scheme = f"tilelang-{target}"
    (document,) = window.until("preview", lambda: window.ask("documents", scheme=scheme))
    assert mark in document["text"]
    assert document["languageId"] == "cpp"


def test_a_run_started_by_its_lens_ends_with_a_message(window: Session, quickstart: str) -> None:
    window.drive("click", selector=".codelens-decoration a", text="assert vs torch")
    # "✓ ..." or "✗ ...": the message that says the outcome, not the progress before it.
    window.drive("wait", selector=MESSAGE, text=" matmul_relu", timeout=120_000)
    window.until("end of the run", lambda: not is_running(window), 120)
    (message,) = window.drive("texts", selector=MESSAGE)
    assert "matches ref_program" in message
    window.drive("wait", selector=".statusbar-item", text="matmul_relu")


def test_a_run_that_does_not_end_can_be_cancelled(window: Session, quickstart: str) -> None:
    window.ask("replace", path=quickstart, find=REFERENCE, by=f"{REFERENCE}\n    while True: pass")
    window.until("lens", lambda: window.ask("lenses", path=quickstart))
    window.drive("click", selector=".codelens-decoration a", text="assert vs torch")
    window.drive("click", selector=".notification-list-item a.monaco-button", text="Cancel")
    window.drive("wait", selector=MESSAGE, text="cancelled")


def test_restart_brings_everything_back(window: Session, mistake: str) -> None:
    window.until("error", lambda: errors(window, mistake))
    window.ask("execute", command="tilelang.restart")
    window.until("end of the old server's problems", lambda: not errors(window, mistake), 10)
    window.until("error from the new server", lambda: errors(window, mistake))


def test_a_server_that_is_killed_comes_back(window: Session, mistake: str) -> None:
    window.until("error", lambda: errors(window, mistake))
    (before,) = window.server_processes()
    os.kill(before, signal.SIGKILL)
    (after,) = window.until("new server", lambda: [p for p in window.server_processes() if p != before])
    window.until("error from the new server", lambda: errors(window, mistake))
    assert window.server_processes() == [after]


def test_a_server_that_cannot_start_is_explained_with_a_way_out(window: Session, mistake: str) -> None:
    window.ask("setting", name="path", value="/nowhere/tilelang-lsp")
    window.drive("wait", selector=MESSAGE, text="/nowhere/tilelang-lsp")
    window.drive("wait", selector=".notification-list-item a.monaco-button", text="Open Settings")
    window.ask("execute", command="notifications.clearAll")
    window.ask("setting", name="path", value=None)
    window.until("error", lambda: errors(window, mistake))


def test_the_python_extension_gives_the_interpreter(
    rig: VSCodeRig,
    extensions: list[Path],
    workspace: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stub = pack(rig, "python_stub", tmp_path_factory.mktemp("stub"))
    folder = tmp_path_factory.mktemp("vscode-python")
    environment = {"TILELANG_TEST_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    with vscode(rig, folder, workspace, [*extensions, stub], {}, environment) as session:
        path = str(workspace / "mistake.py")
        session.ask("open", path=path)
        session.until("error", lambda: errors(session, path))
        started = f"starting {sys.executable} -m tilelang_lsp.server"
        session.until("log of the start", lambda: started in session.server_log())


def test_an_untrusted_workspace_starts_nothing_of_its_own(
    rig: VSCodeRig,
    extensions: list[Path],
    workspace: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Its kernels are analysed, but its settings choose no program, and a run is refused with the reason."""
    folder = tmp_path_factory.mktemp("untrusted")
    mark, program, project = folder / "was-here", folder / "program", folder / "project"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    (project / ".vscode").mkdir(parents=True)
    evil = {"tilelang.path": str(program), "tilelang.interpreter": str(program)}
    (project / ".vscode" / "settings.json").write_text(json.dumps(evil))
    path = project / "mistake.py"
    path.write_text((workspace / "mistake.py").read_text())
    settings = {"tilelang.interpreter": sys.executable}
    with vscode(rig, folder / "vscode", project, extensions, settings, trusted=False) as session:
        assert session.ask("trusted") is False
        session.ask("open", path=str(path))
        session.until("error", lambda: errors(session, str(path)))
        run = {"uri": path.as_uri(), "kernel": "matmul_relu"}
        result = session.ask("execute", command="tilelang.runAndAssert", args=[run])
        assert "not trusted" in result["error"]
        session.drive("wait", selector=MESSAGE, text="not trusted")
    assert not mark.exists()


def test_the_whole_scene(window: Session, quickstart: str, tmp_path: Path) -> None:
    """Lenses, hints, hover, and the preview with the lines of one statement marked, all on one screen.

    TILELANG_SCREENSHOT=docs/images/vscode.png renews the README's picture; with `-k "scene or by_its_lens"`
    its status bar shows a run.
    """
    window.ask("execute", command="workbench.action.closeSidebar")
    window.ask(
        "execute", command="tilelang.preview", args=preview_lens(window, quickstart, "cuda")["arguments"]
    )
    window.until("preview", lambda: "tilelang-cuda" in columns(window))
    window.ask("cursor", path=quickstart, line=line_of(quickstart, "T.gemm("))
    window.until("linked lines", lambda: window.drive("count", selector=LINKED))
    window.drive("wait", selector=".codelens-decoration a", text="preview CUDA")
    window.drive("point", text="B_shared", within="T.copy(B[")
    window.drive("wait", selector=".monaco-hover .hover-contents", text="float16")
    picture = Path(os.environ.get("TILELANG_SCREENSHOT") or tmp_path / "vscode.png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    window.drive("screenshot", path=str(picture.resolve()))
    assert picture.stat().st_size > 20_000
    window.drive("aside")


def test_the_settings_of_type_checkers_are_offered_once(
    window: Session, quickstart: str, workspace: Path
) -> None:
    """When another extension reports a kernel's annotation, and not for reports of anything else."""
    line = line_of(quickstart, "A: T.Tensor((M, K), T.float16)")
    other = {
        "path": quickstart,
        "line": line,
        "source": "Pylance",
        "code": "reportMissingImports",
        "message": "m",
    }
    window.ask("report", **other)
    report = other | {
        "code": "reportInvalidTypeForm",
        "message": "Call expression not allowed in type expression",
    }
    window.ask("report", **report)
    window.drive("wait", selector=MESSAGE, text="reportInvalidTypeForm and reportRedeclaration")
    assert len(window.drive("texts", selector=MESSAGE)) == 1
    window.drive("click", selector=".notification-list-item a.monaco-button", text="Add settings")
    section = {"section": "python.analysis", "name": "diagnosticSeverityOverrides"}
    written = window.until("the settings", lambda: window.ask("workspaceSetting", **section))
    assert written == {"reportInvalidTypeForm": "none", "reportRedeclaration": "none"}
    # The next report is not asked about: the answer is remembered.
    window.ask("report", **other)
    window.ask("report", **report)
    window.until("the errors of the editor", lambda: window.ask("diagnostics", path=quickstart))
    assert not window.drive("texts", selector=MESSAGE)
    (workspace / ".vscode" / "settings.json").unlink(missing_ok=True)


def is_running(window: Session) -> bool:
    return any("Running" in text for text in window.drive("texts", selector=MESSAGE))


def columns(window: Session) -> dict[str, int]:
    """Scheme of each visible document, and the editor column it stands in."""
    return {one["scheme"]: one["column"] for one in window.ask("visible")}


def preview_lens(window: Session, path: str, target: str) -> dict:
    def lens() -> list[dict]:
        return [
            one
            for one in window.ask("lenses", path=path)
            if one["command"] == "tilelang.preview" and one["arguments"][0]["target"] == target
        ]

    return window.until(f"lens for {target}", lens)[0]


def cuda_title(window: Session, path: str) -> str:
    """The title of the lens that opens the CUDA preview."""
    return preview_lens(window, path, "cuda")["title"]
