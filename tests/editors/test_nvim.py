"""A real Neovim with the plugin of editors/nvim: diagnostics, hover, hints, lenses, preview, a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import RIGHT, WRONG, require
from tests.editors.editor_rig import find_nvim
from tests.editors.nvim_session import Nvim, nvim

pytestmark = [pytest.mark.editor, pytest.mark.slow]


@pytest.fixture(scope="module")
def editor(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nvim]:
    command = [sys.executable, "-m", "tilelang_lsp.server"]
    with nvim(require(find_nvim), tmp_path_factory.mktemp("nvim"), command, sys.executable) as session:
        yield session


@pytest.fixture
def mistake(editor: Nvim, workspace: Path) -> str:
    return opened(editor, workspace / "mistake.py")


@pytest.fixture
def quickstart(editor: Nvim, workspace: Path) -> str:
    return opened(editor, workspace / "quickstart.py")


def opened(editor: Nvim, path: Path) -> str:
    """Opens a file as it stands on disk, alone, and waits for the server."""
    editor.ask(f"vim.cmd('silent! %bwipeout!') vim.cmd.edit('{path}') _G.messages = {{}}")
    editor.until("client", lambda: editor.ask("return #vim.lsp.get_clients({ bufnr = 0 }) > 0"))
    return str(path)


def errors(editor: Nvim) -> list[dict]:
    return editor.ask("return vim.diagnostic.get(0, { severity = vim.diagnostic.severity.ERROR })")


def line_of(path: str, text: str) -> int:
    """Line of the first occurrence, from 0, as Neovim's API counts."""
    return next(i for i, line in enumerate(Path(path).read_text().splitlines()) if text in line)


def go_to(editor: Nvim, line: int, column: int = 0) -> None:
    """Line from 0. The event is what a key press would trigger."""
    editor.ask(f"vim.api.nvim_win_set_cursor(0, {{ {line + 1}, {column} }}) vim.cmd.doautocmd('CursorMoved')")


def preview_text(editor: Nvim) -> list[str]:
    """The lines of the window beside, empty if there is none."""
    return editor.ask(
        "for _, window in ipairs(vim.api.nvim_list_wins()) do"
        "  local buffer = vim.api.nvim_win_get_buf(window)"
        "  if vim.api.nvim_buf_get_name(buffer):match('^tilelang%-') then"
        "    return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)"
        "  end "
        "end "
        "return {}"
    )


def test_the_mistake_is_a_diagnostic(editor: Nvim, mistake: str) -> None:
    (error,) = editor.until("error", lambda: errors(editor))
    assert (error["code"], error["source"]) == ("gemm-shape", "tilelang")
    assert "B_shared" in error["message"]
    assert error["lnum"] == line_of(mistake, "T.gemm(")


def test_the_error_goes_when_the_text_is_mended(editor: Nvim, mistake: str) -> None:
    editor.until("error", lambda: errors(editor))
    editor.ask(f"vim.cmd([[%s/{WRONG}/{RIGHT}/]])")
    editor.until("end of the error", lambda: not errors(editor))


def test_hover_on_a_buffer(editor: Nvim, quickstart: str) -> None:
    line = line_of(quickstart, "T.gemm(")
    column = Path(quickstart).read_text().splitlines()[line].index("A_shared")
    go_to(editor, line, column)
    answer = editor.ask(
        "local params = vim.lsp.util.make_position_params(0, 'utf-8') "
        "local answer = vim.lsp.buf_request_sync(0, 'textDocument/hover', params, 10000) "
        "for _, one in pairs(answer) do return one.result end"
    )
    shown = answer["contents"]["value"]
    assert "float16" in shown
    assert "shared" in shown
    assert "32" in shown


def test_hints_are_on_and_stand_at_the_allocations(editor: Nvim, quickstart: str) -> None:
    def labels() -> list[str]:
        hints = editor.ask("return vim.lsp.inlay_hint.get({ bufnr = 0 })")
        line = line_of(quickstart, "C_local = T.alloc_fragment")
        here = [one["inlay_hint"] for one in hints if one["inlay_hint"]["position"]["line"] == line]
        return [one["label"] if isinstance(one["label"], str) else one["label"][0]["value"] for one in here]

    assert editor.ask("return vim.lsp.inlay_hint.is_enabled({ bufnr = 0 })")
    found = editor.until("inlay hint", labels)
    assert any("128" in label for label in found), found


def test_lenses_appear_by_themselves(editor: Nvim, quickstart: str) -> None:
    lenses = editor.until("lens", lambda: editor.ask("return vim.lsp.codelens.get(0)"))
    assert {lens["range"]["start"]["line"] for lens in lenses} == {line_of(quickstart, "@tilelang.jit")}
    commands = [lens["command"]["command"] for lens in lenses]
    assert commands.count("tilelang.preview") == 3
    assert "tilelang.runAndAssert" in commands


def test_preview_command_opens_beside_and_marks_lines(editor: Nvim, quickstart: str) -> None:
    go_to(editor, line_of(quickstart, "T.gemm("))
    editor.ask("vim.cmd.TilelangPreview()")
    text = editor.until("preview", lambda: "\n".join(preview_text(editor)))
    assert "__global__" in text
    assert editor.ask("return vim.api.nvim_buf_get_name(0)") == quickstart  # the cursor stays in the Python
    names = editor.ask("return vim.tbl_map(vim.api.nvim_buf_get_name, vim.api.nvim_list_bufs())")
    assert f"tilelang-cuda://{quickstart}/matmul_relu.cu" in names
    assert editor.until("marked lines", lambda: marked(editor))


def marked(editor: Nvim) -> list[str]:
    """Text of the marked lines in the preview."""
    return editor.ask(
        "local space = vim.api.nvim_create_namespace('tilelang-linked-lines') "
        "local found = {} "
        "for _, buffer in ipairs(vim.api.nvim_list_bufs()) do "
        "  if vim.api.nvim_buf_get_name(buffer):match('^tilelang%-') then "
        "    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, space, 0, -1, {})) do "
        "      table.insert(found, vim.api.nvim_buf_get_lines(buffer, mark[2], mark[2] + 1, false)[1]) "
        "    end "
        "  end "
        "end "
        "return found"
    )


def test_preview_follows_an_edit(editor: Nvim, quickstart: str) -> None:
    editor.ask("vim.cmd.TilelangPreview('cuda')")
    before = editor.until("preview", lambda: preview_text(editor))
    editor.ask(r"vim.cmd([[%s/C_local\[i, j\], 0)/C_local[i, j], 7)/]])")
    after = editor.until("changed preview", lambda: (now := preview_text(editor)) != before and now)
    assert "7" in "\n".join(line for line in after if line not in before)


def test_marks_stay_right_when_lines_are_inserted_above(editor: Nvim, quickstart: str) -> None:
    gemm = line_of(quickstart, "T.gemm(")
    go_to(editor, gemm)
    editor.ask("vim.cmd.TilelangPreview('cuda')")
    before = editor.until("marked lines", lambda: marked(editor))
    editor.ask(
        "vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# one', '# two' }) vim.cmd.doautocmd('TextChanged')"
    )
    go_to(editor, gemm + 2)
    editor.until("the same lines", lambda: marked(editor) == before)
    go_to(editor, gemm + 3)
    editor.until("no marked lines", lambda: not marked(editor))


def test_the_cursor_in_the_preview_leads_to_the_python_line(editor: Nvim, quickstart: str) -> None:
    go_to(editor, line_of(quickstart, "T.clear("))
    editor.ask("vim.cmd.TilelangPreview('cuda')")
    editor.until("marked lines", lambda: marked(editor))
    text = preview_text(editor)
    editor.ask("vim.cmd.wincmd('l')")
    go_to(editor, next(i for i, line in enumerate(text) if "mma" in line and "(" in line and i > 20))
    editor.ask("vim.cmd.wincmd('h')")
    line = editor.ask("return vim.api.nvim_win_get_cursor(0)[1]") - 1
    assert line == line_of(quickstart, "T.gemm(")


@pytest.mark.parametrize(
    ("target", "mark", "filetype"),
    [("cuda", "__global__", "cuda"), ("hip", "__global__", "cpp"), ("metal", "kernel void", "cpp")],
)
def test_an_address_can_be_opened(
    editor: Nvim, quickstart: str, target: str, mark: str, filetype: str
) -> None:
    suffix = {"cuda": "cu"}.get(target, target)
    editor.ask(f"vim.cmd.edit('tilelang-{target}://{quickstart}/matmul_relu.{suffix}')")
    text = editor.until("preview", lambda: [line for line in preview_text(editor) if mark in line])
    assert text
    assert editor.ask("return vim.bo.filetype") == filetype
    assert editor.ask("return vim.bo.modifiable") is False


def test_the_lens_of_the_preview_is_carried_out_by_the_plugin(editor: Nvim, quickstart: str) -> None:
    editor.ask(
        "vim.lsp.commands['tilelang.preview']({ arguments = { "
        f"{{ uri = vim.uri_from_fname('{quickstart}'), kernel = 'matmul_relu', target = 'metal' }} }} }})"
    )
    assert "kernel void" in "\n".join(editor.until("preview", lambda: preview_text(editor)))


def test_a_run_ends_with_a_message(editor: Nvim, quickstart: str) -> None:
    go_to(editor, line_of(quickstart, "T.gemm("))
    editor.ask("vim.cmd.TilelangRun()")
    editor.until("result", lambda: editor.ask("return require('tilelang.run').last ~= nil"), 120)
    result = editor.ask("return require('tilelang.run').last")
    assert result["kernel"] == "matmul_relu"
    assert result["passed"], result
    assert "matches ref_program" in editor.ask("return vim.fn.execute('messages')")


def test_a_file_without_a_kernel_is_told_so(editor: Nvim, workspace: Path) -> None:
    (workspace / "plain.py").write_text("import tilelang\n")
    opened(editor, workspace / "plain.py")
    editor.ask("vim.cmd.TilelangRun()")
    editor.until("message", lambda: any("no kernel" in text for text in editor.ask("return _G.messages")))
