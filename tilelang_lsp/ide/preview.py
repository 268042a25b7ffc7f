"""Previews of generated source: their addresses, and texts that say what they were generated for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from tilelang.diagnostics.problem import Problem
from tilelang.facts.reports import GeneratedSource

_SUFFIXES = {"cuda": ".cu", "hip": ".hip", "metal": ".metal", "cpu": ".ll"}
# What editors call the languages: HIP and Metal are C++ to them; what LLVM compiles is shown as TVMScript.
_LANGUAGES = {"cuda": "cuda-cpp", "hip": "cpp", "metal": "cpp", "cpu": "python"}
_SCHEME = "tilelang-"

TARGETS = tuple(_SUFFIXES)
SCHEMES = tuple(_SCHEME + target for target in TARGETS)


@dataclass(frozen=True)
class PreviewAddress:
    """Which generated document is meant: the Python file, the kernel, the kind of target."""

    path: str
    kernel: str
    target: str

    @property
    def uri(self) -> str:
        """`tilelang-cuda:///home/me/kernels.py/matmul.cu`."""
        path = self.path.replace("\\", "/")
        path = path if path.startswith("/") else f"/{path}"
        return f"{_SCHEME}{self.target}://{quote(path)}/{quote(self.kernel)}{_SUFFIXES[self.target]}"


def parse_preview_uri(uri: str) -> PreviewAddress:
    """The address behind a URI. Raises ValueError that shows the expected form."""
    parts = urlsplit(uri)
    target = parts.scheme.removeprefix(_SCHEME)
    path, _, name = unquote(parts.path).rpartition("/")
    if parts.scheme not in SCHEMES or not path or not name.endswith(_SUFFIXES[target]):
        raise ValueError(f"{uri} is no preview: expected {PreviewAddress('/file.py', 'kernel', 'cuda').uri}")
    if len(path) > 2 and path[0] == "/" and path[2] == ":":  # /C:/kernels.py
        path = path[1:]
    return PreviewAddress(path, name.removesuffix(_SUFFIXES[target]), target)


def language_id(target: str) -> str:
    return _LANGUAGES[target]


def target_spec(kind: str, configured: str) -> str:
    """The target to generate for: the configured architecture if it is of this kind, else the default one."""
    return configured if configured.split(":")[0] == kind else kind


@dataclass(frozen=True)
class Preview:
    """A text to show, and for each of its lines the Python line it came from, 0 for none."""

    text: str
    line_map: tuple[int, ...]


def preview(source: GeneratedSource) -> Preview:
    """`source` with one entry of the line map for every line."""
    text = source.text.rstrip("\n") + "\n"
    n_lines = text.count("\n")
    return Preview(text, (*source.line_map, *([0] * n_lines))[:n_lines])


def failed_preview(address: PreviewAddress, message: str) -> Preview:
    """A text for a document that cannot be generated: why, as comments."""
    comment = _comment(address.target)
    lines = [f"{comment} {address.kernel} cannot be generated for {address.target}:", *message.splitlines()]
    text = "".join(f"{line}\n" if i == 0 else f"{comment}   {line}\n" for i, line in enumerate(lines))
    return Preview(text, (0,) * len(lines))


def outdated_preview(last: Preview, address: PreviewAddress, reason: str) -> Preview:
    """The last good text while the Python text cannot be compiled. Lines may have moved: none is mapped."""
    comment = _comment(address.target)
    return Preview(f"{comment} out of date: {reason}\n{last.text}", (0,) * (last.text.count("\n") + 1))


def problems_text(problems: Iterable[Problem]) -> str:
    """One line per problem, errors first."""
    ordered = sorted(problems, key=lambda p: (p.severity.rank, p.span))
    return "\n".join(f"line {p.span.line}: {p.message} [{p.rule}]" for p in ordered)


def _comment(target: str) -> str:
    return "#" if target == "cpu" else "//"
