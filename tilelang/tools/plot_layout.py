"""`plot_layout`: the picture of a layout, each cell an element with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.language.layouts import Fragment, Layout
from tilelang.tools.grid_pictures import Cell, as_pdf, as_svg

_FORMATS = ("pdf", "png", "svg")


def plot_layout(
    layout: Layout | Fragment,
    save_directory: str = "./tmp",
    name: str = "layout",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
    view: str = "input",
    grid_shape: tuple[int, int] | None = None,
) -> None:
    """Write the picture of a layout into `save_directory`, as `<name>.<format>` for each format.

    layout: a `T.Layout` or `T.Fragment`. formats: "pdf", "png", "svg", several with commas, or "all"; png
    needs matplotlib, with `colormap` one of its. view: the cells are elements ("input") that show their
    place, or places ("output") that show their element; fragments have the first only, thread and register of
    each copy. grid_shape: rows and columns of the picture for "input", whose product is the number of
    elements; the last dimension makes a row if it is None. Raises ValueError for other arguments.
    """
    wanted = _formats(formats)
    if view not in ("input", "output"):
        raise ValueError(f'view is "input" or "output", not {view!r}')
    if not isinstance(layout, Layout | Fragment):
        raise TypeError(f"a T.Layout or T.Fragment is expected, not {type(layout).__name__}")
    shape = tuple(int(n) for n in layout.get_input_shape())
    if isinstance(layout, Fragment):
        if view == "output":
            raise ValueError("a fragment is shown by its elements: view must be 'input'")
        cells = [_of_fragment(layout, index) for index in np.ndindex(shape)]
    else:
        places = _flat_places(layout, shape)
        cells = _by_place(places, shape) if view == "output" else [Cell((str(p),), p) for p in places]
    columns = shape[-1] if len(shape) > 1 else len(cells)
    if view == "input" and grid_shape is not None:
        if math.prod(grid_shape) != math.prod(shape):
            raise ValueError(f"grid_shape {tuple(grid_shape)} does not hold {math.prod(shape)} elements")
        columns = int(grid_shape[1])
    rows = [cells[k : k + columns] for k in range(0, len(cells), columns)]
    if verbose:
        for index, cell in zip(np.ndindex(shape), cells, strict=False):
            print(f"{index} -> {', '.join(cell.lines)}")
    title = f"{name}: {type(layout).__name__} of {' x '.join(map(str, shape))}"
    _write(Path(save_directory), name, title, rows, wanted, colormap)


def plot_fragment_tv(
    frag: Fragment,
    save_directory: str | None = None,
    name: str = "layout",
    apply_idx_fn: Callable[..., Any] = lambda *index: index,
    colormap: str | None = None,
    item_scale: float = 0.75,
    formats: str | Sequence[str] = "pdf",
    dpi: int = 80,
) -> None:
    """Write the picture of a fragment by thread (rows) and register (columns): each cell its elements.

    apply_idx_fn: what to write for an element, given its indices. save_directory: "./tmp" if None.
    item_scale, dpi: accepted; the size follows from the number of cells. Raises as `plot_layout` does.
    """
    if not isinstance(frag, Fragment):
        raise TypeError(f"a T.Fragment is expected, not {type(frag).__name__}")
    shape = tuple(int(n) for n in frag.get_input_shape())
    held: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    registers = 1
    for index in np.ndindex(shape):
        threads, register = _owners(frag, index)
        registers = max(registers, register + 1)
        for thread in threads:
            held.setdefault((thread, max(register, 0)), []).append(index)
    rows = []
    for thread in range(max(thread for thread, _ in held) + 1):
        elements = [held.get((thread, register), []) for register in range(registers)]
        words = [tuple(str(_plain(apply_idx_fn(*e))) for e in of) for of in elements]
        rows.append([Cell(text or ("",), thread if text else -1) for text in words])
    _write(
        Path(save_directory or "./tmp"),
        name,
        f"{name}: threads by registers",
        rows,
        _formats(formats),
        colormap,
    )


def _plain(value: Any) -> Any:
    """An index as it is written: a number alone without brackets."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def _formats(given: str | Sequence[str]) -> list[str]:
    names = given.split(",") if isinstance(given, str) else list(given)
    names = [n.strip().lower() for n in names]
    if names == ["all"]:
        return list(_FORMATS)
    wrong = next((n for n in names if n not in _FORMATS), None)
    if wrong is not None or not names:
        raise ValueError(f"formats are {', '.join(_FORMATS)} or all, not {wrong!r}")
    return names


def _write(
    folder: Path, name: str, title: str, rows: list[list[Cell]], formats: Sequence[str], colormap: str | None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for format in formats:
        path = folder / f"{name}.{format}"
        if format == "svg":
            path.write_text(as_svg(title, rows), encoding="utf-8")
        elif format == "pdf":
            path.write_bytes(as_pdf(title, rows))
        else:
            _write_png(path, title, rows, colormap)


def _of_fragment(layout: Fragment, index: tuple[int, ...]) -> Cell:
    threads, register = _owners(layout, index)
    text = ",".join(f"T{t}" for t in threads[:2]) + (",..." if len(threads) > 2 else "")
    return Cell((text, f"L{register}") if register >= 0 else (text,), threads[0])


def _owners(layout: Fragment, index: tuple[int, ...]) -> tuple[list[int], int]:
    """The threads that hold an element, and in which register; -1 where the fragment does not say."""
    given, threads, register = layout.given, [], 0
    copies = int(given["replicate"])
    for copy in range(copies):
        at = (*index, copy) if copies > 1 else index
        if given["forward_fn"] is not None:
            thread, register = (int(v) for v in given["forward_fn"](*at))
        elif given["forward_thread_fn"] is not None:
            thread = int(given["forward_thread_fn"](*at))
            register = int(given["forward_index_fn"](*index)) if given["forward_index_fn"] else -1
        else:
            raise ValueError("the fragment has neither forward_fn nor forward_thread_fn")
        threads.append(thread)
    return threads, register


def _flat_places(layout: Layout, shape: tuple[int, ...]) -> list[int]:
    """The place of each element; places of several dimensions count row by row."""
    found = np.array([[int(p) for p in layout.map_forward_index(i)] for i in np.ndindex(shape)])
    extents = found.max(axis=0) + 1
    flat = np.asarray(np.ravel_multi_index(tuple(found.T), tuple(int(n) for n in extents)))
    return [int(p) for p in flat]


def _by_place(places: list[int], shape: tuple[int, ...]) -> list[Cell]:
    held, elements = {p: k for k, p in enumerate(places)}, list(np.ndindex(shape))
    cells = []
    for place in range(max(places) + 1):
        element = held.get(place)
        text = "" if element is None else ",".join(map(str, elements[element]))
        cells.append(Cell((text,), -1 if element is None else element))
    return cells


def _write_png(path: Path, title: str, rows: list[list[Cell]], colormap: str | None) -> None:
    try:
        from matplotlib import pyplot  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            "png pictures need matplotlib, which is not installed; svg and pdf need nothing"
        ) from None
    colours = np.array([[c.colour for c in row] + [-1] * (len(rows[0]) - len(row)) for row in rows])
    figure, axes = pyplot.subplots(figsize=(0.6 * len(rows[0]) + 1, 0.6 * len(rows) + 1))
    axes.imshow(colours, cmap=colormap or "Spectral", alpha=0.6)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            axes.text(j, i, "\n".join(cell.lines), ha="center", va="center", fontsize=7)
    axes.set_title(title)
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)
