"""Fixes made in the joined text of a notebook's cells, written back into the cells they stand in.

Only the text of cells that changed is written anew in the file's JSON; outputs, metadata and spacing stay as
they were. What fixes change is Python, so a change that touches a line with a magic is not written.
"""

from __future__ import annotations

import difflib
import json

from tilelang.cli.notebook_places import sources_of
from tilelang.cli.notebooks import Notebook


def fixed_notebook(source: str, notebook: Notebook, fixed: str) -> str | None:
    """The JSON of the notebook `source` with the changes that make `fixed` of its joined text; None where
    they do not fit into cells.
    """
    cells = _fixed_cells(notebook, fixed)
    if cells is None:
        return None
    text = source
    for number, (start, end) in sorted(
        sources_of(source).items(), reverse=True
    ):  # those before stay in place
        if number in cells:
            text = text[:start] + _written(source[start:end], cells[number]) + text[end:]
    return text


def _fixed_cells(notebook: Notebook, fixed: str) -> dict[int, str] | None:
    """Number -> new text, of the cells that change."""
    read, new = notebook.text.split("\n"), fixed.split("\n")
    own = [line for cell in notebook.cells for line in cell.text.split("\n")]
    owner = [cell for cell in notebook.cells for _ in cell.text.split("\n")]
    lines: dict[int, list[str]] = {cell.number: [] for cell in notebook.cells}
    changed: set[int] = set()
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, read, new, autojunk=False).get_opcodes():
        if kind == "equal":
            for k in range(i1, i2):
                lines[owner[k].number].append(own[k])
            continue
        at = owner[min(i1, len(owner) - 1)]
        if any(owner[k] is not at or own[k] != read[k] for k in range(i1, i2)):
            return None
        lines[at.number] += new[j1:j2]
        changed.add(at.number)
    return {number: "\n".join(lines[number]) for number in changed}


def _written(old: str, text: str) -> str:
    """A cell's source as JSON, a list of lines or one string as it was, in its spacing."""
    if not old.startswith("["):
        return json.dumps(text, ensure_ascii=False)
    opening = old[1 : len(old) - len(old[1:].lstrip())]
    closing = old[len(old[:-1].rstrip()) : -1]
    parts = [json.dumps(line, ensure_ascii=False) for line in text.splitlines(keepends=True)]
    between = f",{opening or ' '}"
    return f"[{opening}{between.join(parts)}{closing}]"
