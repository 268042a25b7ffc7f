"""A grid of coloured cells with text, as SVG or PDF; written here, so that pictures need no library."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_CELL, _MARGIN, _TITLE = 44, 26, 30  # points


@dataclass(frozen=True)
class Cell:
    """One cell: its lines of text, and the number that its colour stands for."""

    lines: tuple[str, ...]
    colour: int


def as_svg(title: str, rows: Sequence[Sequence[Cell]]) -> str:
    """The grid as an SVG document."""
    width, height = _size(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="9" text-anchor="middle">',
        f'<text x="{width / 2}" y="18" font-size="12">{escape(title)}</text>',
    ]
    colours = _colours(rows)
    for i, row in enumerate(rows):
        y = _TITLE + _MARGIN + i * _CELL
        parts.append(f'<text x="{_MARGIN / 2}" y="{y + _CELL / 2 + 3}">{i}</text>')
        for j, cell in enumerate(row):
            x = _MARGIN + j * _CELL
            if i == 0:
                parts.append(f'<text x="{x + _CELL / 2}" y="{_TITLE + _MARGIN - 6}">{j}</text>')
            red, green, blue = (round(c * 255) for c in colours[cell.colour])
            parts.append(
                f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" '
                f'fill="rgb({red},{green},{blue})" stroke="#555" stroke-width="0.5"/>'
            )
            for k, text in enumerate(cell.lines):
                at = y + _CELL / 2 + 3 + (k - (len(cell.lines) - 1) / 2) * 11
                parts.append(f'<text x="{x + _CELL / 2}" y="{at}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def as_pdf(title: str, rows: Sequence[Sequence[Cell]]) -> bytes:
    """The grid as a PDF document of one page (ISO 32000-1: a content stream of rectangles and text)."""
    width, height = _size(rows)
    colours = _colours(rows)
    drawn = [_pdf_text(title, width / 2, height - 18, 12)]
    for i, row in enumerate(rows):
        y = height - (_TITLE + _MARGIN + (i + 1) * _CELL)
        drawn.append(_pdf_text(str(i), _MARGIN / 2, y + _CELL / 2 - 3))
        for j, cell in enumerate(row):
            x = _MARGIN + j * _CELL
            if i == 0:
                drawn.append(_pdf_text(str(j), x + _CELL / 2, y + _CELL + 6))
            fill = " ".join(f"{c:.3f}" for c in colours[cell.colour])
            drawn.append(f"{fill} rg 0.35 G 0.5 w {x} {y} {_CELL} {_CELL} re B 0 g")
            for k, text in enumerate(cell.lines):
                at = y + _CELL / 2 - 3 - (k - (len(cell.lines) - 1) / 2) * 11
                drawn.append(_pdf_text(text, x + _CELL / 2, at))
    content = "\n".join(drawn).encode("latin-1", "replace")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>".encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for k, body in enumerate(objects):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (k + 1, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def _pdf_text(text: str, x: float, y: float, size: int = 9) -> str:
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    left = x - len(text) * size * 0.26  # Helvetica's digits are 0.556 em wide
    return f"BT /F1 {size} Tf {left:.1f} {y:.1f} Td ({escaped}) Tj ET"


def _size(rows: Sequence[Sequence[Cell]]) -> tuple[int, int]:
    columns = max(len(row) for row in rows)
    return 2 * _MARGIN + columns * _CELL, _TITLE + 2 * _MARGIN + len(rows) * _CELL


def _colours(rows: Sequence[Sequence[Cell]]) -> dict[int, tuple[float, float, float]]:
    """Light colours, neighbours far apart by the golden ratio."""
    numbers = {cell.colour for row in rows for cell in row}
    return {n: colorsys.hls_to_rgb(n * 0.618034 % 1, 0.82, 0.65) for n in numbers}
