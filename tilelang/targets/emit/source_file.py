"""What stands around a kernel in its source file: includes, declarations, the helpers that it calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilelang.arch.float_formats import FORMATS
from tilelang.targets.emit import narrow_floats
from tilelang.targets.emit.expressions import Expressions
from tilelang.targets.emit.wrap import WIDTH

Line = tuple[str, int]  # text, and the Python line that it came from, 0 where there is none


def file_head(e: Expressions, imported: Sequence[str], title: str | None) -> list[Line]:
    """Title, includes, prelude, the author's `imported` text, and forward declarations of what `e` used."""
    d = e.dialect
    includes = set(d.includes) | e.used_includes
    includes.update(d.type_includes[t] for t in e.used_dtypes if t in d.type_includes)
    lines = [f"// {title}"] if title else []
    lines += [f"#include <{name}>" for name in sorted(includes)]
    lines += d.prelude
    lines += imported
    lines += [text for name, text in d.declarations.items() if name in e.used_types]
    lines += [narrow_floats.declaration(name) for name in FORMATS if name in e.used_types]
    for helper in e.used_helpers.values():
        if helper.unless_known is not None:
            text = _linked(helper.source or "", d.helper_linkage)
            lines += [f"#ifdef {helper.unless_known}", *text.splitlines(), "#endif"]
    if lines:
        lines.append("")
    for helper in e.used_helpers.values():
        declaration = f"{_linked(helper.declaration, d.helper_linkage)};"
        if helper.unless_known is not None:
            continue  # defined above
        if len(declaration) <= WIDTH:
            lines.append(declaration)
        else:
            head, _, parameters = declaration.partition(f"{helper.function}(")
            lines += [f"{head}{helper.function}(", f"    {parameters}"]
    if any(helper.unless_known is None for helper in e.used_helpers.values()):
        lines.append("")
    return [(text, 0) for text in lines]


def helper_definitions(e: Expressions) -> list[Line]:
    """The definitions of the helpers that the kernel calls."""
    lines: list[str] = []
    for helper in e.used_helpers.values():
        if helper.unless_known is None:
            lines += ["", *_linked(helper.source or "", e.dialect.helper_linkage).splitlines()]
    return [(text, 0) for text in lines]


def _linked(definition: str, linkage: str) -> str:
    """The definition with the target's linkage words, after a template head if there is one."""
    template = re.match(r"template\s*<[^>]*>\s*", definition)
    if template is None:
        return f"{linkage} {definition}"
    return f"{template.group().strip()} {linkage} {definition[template.end() :]}"


def with_line_directives(lines: list[Line], path: str) -> list[Line]:
    """The lines with `#line` wherever the Python line is not the one a compiler would count on its own."""
    out: list[Line] = []
    expected = 0
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    for text, line in lines:
        if line and line != expected:
            out.append((f'#line {line} "{quoted}"', line))
            expected = line
        out.append((text, line))
        expected += 1
    return out
