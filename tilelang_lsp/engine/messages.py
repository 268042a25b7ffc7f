"""What the server and the analysis process say to each other: length-prefixed JSON, and the records in it.

A frame is four bytes (big-endian length) and that many bytes of JSON. Requests carry an `id`.

    server -> analysis   {"id", "method": "check", ...CheckRequest} | {"id", "method": "generate", ...}
                         {"id", "method": "details", ...DetailsRequest}
                         {"method": "cancel", "id"}
    analysis -> server   {"event": "ready", "pid", "seconds"} | {"event": "unusable", "message"}   at start
                         {"event": "step", "id", "kernel", "memo_key"}      before anything that may take long
                         {"event": "answer", "id", "result"} | {"event": "failure", "id", "message"}
                         {"event": "cancelled", "id"}
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tilelang.diagnostics.problem import Problem
from tilelang.facts.reports import GeneratedSource, KernelReport

_HEADER = struct.Struct(">I")
HEADER_BYTES = _HEADER.size

Choice = Mapping[str, str]  # parameter -> value as written, "128"


def encode_frame(message: Mapping[str, Any]) -> bytes:
    # ASCII with escapes: a lone surrogate, which an editor may send, survives that; UTF-8 has no form for it.
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return _HEADER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    return _HEADER.unpack(header)[0]


def decode_body(body: bytes) -> dict[str, Any]:
    return json.loads(body)


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message of a blocking stream; None at its end."""
    header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    body = stream.read(body_length(header))
    return decode_body(body) if len(body) == body_length(header) else None


@dataclass(frozen=True)
class CheckRequest:
    """Analyse a whole text. `choices` maps a kernel's name to the specialisation chosen for it."""

    path: str
    text: str
    target: str
    choices: Mapping[str, Choice] = field(default_factory=dict)
    known: tuple[str, ...] = ()  # memo keys whose reports the server still holds: not sent again
    skip: tuple[str, ...] = ()  # memo keys that ended an analysis process before

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "text": self.text,
            "target": self.target,
            "choices": {name: dict(choice) for name, choice in self.choices.items()},
            "known": list(self.known),
            "skip": list(self.skip),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CheckRequest:
        return CheckRequest(
            data["path"],
            data["text"],
            data["target"],
            data["choices"],
            tuple(data["known"]),
            tuple(data["skip"]),
        )


@dataclass(frozen=True)
class DetailsRequest:
    """What only lowering knows of some kernels of a checked text: those with these memo keys."""

    path: str
    text: str
    target: str
    choices: Mapping[str, Choice]
    wanted: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "text": self.text,
            "target": self.target,
            "choices": {name: dict(choice) for name, choice in self.choices.items()},
            "wanted": list(self.wanted),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DetailsRequest:
        return DetailsRequest(
            data["path"], data["text"], data["target"], data["choices"], tuple(data["wanted"])
        )


@dataclass(frozen=True)
class GenerateRequest:
    """Lower one kernel to the source of `target`."""

    path: str
    text: str
    kernel: str
    target: str
    choice: Choice = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "text": self.text,
            "kernel": self.kernel,
            "target": self.target,
            "choice": dict(self.choice),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> GenerateRequest:
        return GenerateRequest(**{k: data[k] for k in ("path", "text", "kernel", "target", "choice")})


@dataclass(frozen=True)
class CheckedKernel:
    """One kernel of a checked text. `report` has the spans of a text where it began at `report_line`."""

    qualified_name: str
    memo_key: str
    line: int  # where the kernel begins in the text of the request, from 1
    report_line: int
    report: KernelReport | None  # None: the server holds it under `memo_key`, or analysis failed
    failure: str | None = (
        None  # why there is no report: an internal error, or a kernel that ended the process
    )

    def to_json(self) -> dict[str, Any]:
        return {
            "qualified_name": self.qualified_name,
            "memo_key": self.memo_key,
            "line": self.line,
            "report_line": self.report_line,
            "report": self.report.to_json() if self.report else None,
            "failure": self.failure,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CheckedKernel:
        report = KernelReport.from_json(data["report"]) if data["report"] else None
        return CheckedKernel(
            data["qualified_name"],
            data["memo_key"],
            data["line"],
            data["report_line"],
            report,
            data["failure"],
        )


@dataclass(frozen=True)
class CheckAnswer:
    """All kernels of a text, and the problems outside them. `broken`: the text does not parse."""

    kernels: tuple[CheckedKernel, ...]
    problems: tuple[Problem, ...]
    broken: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "kernels": [k.to_json() for k in self.kernels],
            "problems": [p.to_json() for p in self.problems],
            "broken": self.broken,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CheckAnswer:
        return CheckAnswer(
            tuple(CheckedKernel.from_json(k) for k in data["kernels"]),
            tuple(Problem.from_json(p) for p in data["problems"]),
            data["broken"],
        )


@dataclass(frozen=True)
class DetailsAnswer:
    """The kernels that were wanted, with their whole reports; one that lowering has a bug at is left out."""

    kernels: tuple[CheckedKernel, ...]

    def to_json(self) -> dict[str, Any]:
        return {"kernels": [k.to_json() for k in self.kernels]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DetailsAnswer:
        return DetailsAnswer(tuple(CheckedKernel.from_json(k) for k in data["kernels"]))


@dataclass(frozen=True)
class GenerateAnswer:
    """The source, or the problems that prevent it."""

    source: GeneratedSource | None
    problems: tuple[Problem, ...] = ()
    message: str | None = None  # where no problem says it: an unknown kernel name, an internal error

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source.to_json() if self.source else None,
            "problems": [p.to_json() for p in self.problems],
            "message": self.message,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> GenerateAnswer:
        source = GeneratedSource.from_json(data["source"]) if data["source"] else None
        return GenerateAnswer(source, tuple(Problem.from_json(p) for p in data["problems"]), data["message"])
