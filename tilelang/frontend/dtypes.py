"""Dtypes of the kernel: reading them from any spelling with a problem at the place, and where two of them
meet.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from tilelang.arch.dtypes import DTYPES, canonical_dtype, dtype_info, element_bits
from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.rules.python import POINTERS_IN_MEMORY, UNKNOWN_DTYPE
from tilelang.diagnostics.span import Span
from tilelang.frontend.deprecated import note_old_dtype
from tilelang.frontend.model import ModuleName, TensorType
from tilelang.frontend.scalars import named_type
from tilelang.frontend.suggest import replacement
from tilelang.ir.values import Unknown
from tilelang.language import ptr

if TYPE_CHECKING:
    from tilelang.frontend.run import Run


# How the names of dtypes in torch and numpy begin, with the widths there are or may be.
_FAMILIES = re.compile(
    r"q?u?int(\d|16|32|64|128)?(x2|_|c|p|er|$)|b?float(\d|16|32|64|96|128|ing)?(_|$)|half|bfloat16"
    r"|complex|bits|bool|byte|u?(short|long)|char|double|c?single|c?(float|double|half)$|[a-z]$|object|str|void|datetime|timedelta"
)

# Types of the language that hold no numbers.
_NOT_HERE = ("handle", "void", "index")


def dtype_name(value: Any) -> str | None:
    """The canonical name of a dtype in any spelling, None if `value` is none that this compiler knows."""
    if not looks_like_dtype(value):
        return None
    try:
        return canonical_dtype(value)
    except ValueError:
        return None


def looks_like_dtype(value: Any) -> bool:
    """Whether a value is meant as a dtype: a string, a dtype object of torch, numpy or TVM, or a scalar
    type.
    """
    if isinstance(value, str) or value in (bool, int, float) or value is None:
        return value is not None
    home = (value if isinstance(value, type) else type(value)).__module__.partition(".")[0]
    return home in ("torch", "numpy", "ml_dtypes", "tvm", "tvm_ffi") and (
        isinstance(value, type) or "dtype" in type(value).__name__.lower()
    )


def read_dtype(run: Run, value: Any, span: Span) -> str | Unknown:
    """The canonical name; a problem at `span` and Unknown if it is none."""
    if isinstance(value, ModuleName) and _is_misspelt(value):
        near = _near_dtype(value.name)
        at = Span(span.path, span.end_line, span.end_column - len(value.name), span.end_line, span.end_column)
        fixes = replacement(near, at) if run.text_of(at) == value.name else ()
        what = f"{value.module} has no dtype `{value.name}`; did you mean `{value.module}.{near}`?"
        return run.report(UNKNOWN_DTYPE, span, fixes=fixes, what=what)
    if isinstance(value, Unknown):
        return value
    if run.is_unset(value):
        return run.unknown("a dtype without a value")
    if value is ptr or isinstance(value, ptr) or (isinstance(value, TensorType) and value.pointer):
        run.complete = False
        run.report(POINTERS_IN_MEMORY, span)
        return Unknown("pointers in memory are not supported")
    if not looks_like_dtype(value):
        return run.report(UNKNOWN_DTYPE, span, what=f"a dtype is expected here, not {named_type(value)}")
    try:
        name = canonical_dtype(value)
        note_old_dtype(run, value, name, span)
        return name
    except ValueError as error:
        if "did you mean" in str(error) and value not in _NOT_HERE:
            return run.report(UNKNOWN_DTYPE, span, fixes=_respelt(run, value, span), what=str(error))
        # The language may have it; only this compiler certainly has not.
        run.complete = False
        with run.guarded(maybe=True):
            return run.report(UNKNOWN_DTYPE, span, what=f"{value!r} is no dtype that this compiler supports")


def _is_misspelt(value: ModuleName) -> bool:
    """Whether a name of torch or numpy that stands for a dtype is surely none of theirs: it is like one, and
    spelt as none of their families are (`torch.float8_e8m0fnu`, `torch.quint4x2` and what may come).
    """
    if value.module not in ("torch", "numpy") or _FAMILIES.match(value.name):
        return False
    return _near_dtype(value.name) is not None


def _near_dtype(name: str) -> str | None:
    found = difflib.get_close_matches(name, sorted(DTYPES), n=1, cutoff=0.75)
    return found[0] if found else None


def _respelt(run: Run, value: Any, span: Span) -> tuple[Fix, ...]:
    """The fixes that write a dtype spelt like `value`, where that is written out as text."""
    written = run.text_of(span)
    if written[1:-1] != value or written[0] not in "'\"":
        return ()
    near = [written[0] + name + written[0] for name in difflib.get_close_matches(value, DTYPES, n=3)]
    return tuple(Fix(f"Change to {new}", (Edit(span, new),)) for new in near)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def element_of(dtype: str) -> str:
    """`float32` of `float32x2`; the dtype itself if it is no vector."""
    info = dtype_info(dtype)
    return info.name.rpartition("x")[0] if info.lanes > 1 else dtype


def promote(a: str, b: str) -> str:
    """The dtype in which two traced operands meet: floats win over integers, then the wider one.

    Two different 16-bit floats meet in float32, signed and unsigned of one width in the unsigned one, as in
    C. A number beside a vector becomes one.
    """
    if a == b:
        return a
    lanes = max(dtype_info(a).lanes, dtype_info(b).lanes)
    if lanes > 1:
        return f"{promote(element_of(a), element_of(b))}x{lanes}"
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    bits_a, bits_b = element_bits(a), element_bits(b)
    if bits_a != bits_b:
        return a if bits_a > bits_b else b
    if is_float(a):
        return "float32"
    return a if a.startswith("uint") else b
