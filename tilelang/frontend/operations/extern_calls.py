"""Foreign code: T.call_extern and its kin, addresses, imported sources, pointer arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound, required_region
from tilelang.frontend.constants import unknown_number
from tilelang.frontend.dtypes import read_dtype
from tilelang.frontend.model import BufferData, Late, TensorMapValue
from tilelang.frontend.operators import binary, literal
from tilelang.frontend.parameters import pointer_type
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, as_index, dtype_of_expr, named_type, scalar
from tilelang.frontend.tensors import new_buffer, read_shape
from tilelang.ir.tile_program import Access, Alloc, Bind
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int, show

Mode = Literal["read", "write"]

IMPORTED = "tl.import_source"  # attribute of the function: text that stands before the kernel
MIN_BLOCKS = "tl.min_blocks_per_sm"
COMPILE_FLAGS = "tl.kernel_compile_flags"  # separated by blanks


def import_source(run: Run, text: Any, span: Any, callee: str) -> None:
    """Note text of the target's language that the kernel needs."""
    if text is None:
        return
    if isinstance(text, Unknown):
        run.complete = False
    elif not isinstance(text, str):
        what = f"the source must be a text, not {named_type(text)}"
        run.report(BAD_ARGUMENTS, span, callee=callee, what=what)
    else:
        before = run.attrs.get(IMPORTED)
        run.attrs[IMPORTED] = text if before is None else f"{before}\n{text}"


def _import_source(run: Run, call: Bound) -> None:
    import_source(run, call.value("source"), call.span_of("source"), call.callee)


# Addresses


def address(run: Run, region: Region, offset: Any = 0, modes: tuple[Mode, ...] = ("read", "write")) -> Any:
    """The address of the first element of `region`, `offset` elements further on.

    modes: what is done with the memory there.
    """
    buffer = region.buffer
    somewhere = tuple(
        Index(Unknown("foreign code may go anywhere from this address"), None, region.span)
        for _ in buffer.shape
    )
    for mode in modes:
        run.accesses.append(Access(buffer, somewhere, mode, region.span, run.context))
    starts = list(region.starts)
    lost = any_unknown([*starts, offset])
    if lost is not None or not buffer.known:
        run.complete = False
        return lost if lost is not None else Unknown(f"the shape or dtype of `{buffer.name}` is not known")
    if starts:
        starts[-1] = binary(ast.Add, starts[-1], offset)
    return X.address_of(X.BufferLoad(buffer.var, [as_index(i) for i in starts]))


def _address_of(run: Run, call: Bound) -> Any:
    region = required_region(run, call, "obj", "a buffer or an element of one")
    return region if isinstance(region, Unknown) else address(run, region)


# What "r", "w" and "rw" of T.access_ptr promise, also written as the bits 1 and 2.
_MODES: Mapping[Any, tuple[Mode, ...]] = {"r": ("read",), 1: ("read",), "w": ("write",), 2: ("write",)}


def _access_ptr(run: Run, call: Bound) -> Any:
    region = required_region(run, call, "base", "a buffer or an element of one")
    if isinstance(region, Unknown):
        return region
    kind = call.value("access_type", "r")
    if not isinstance(kind, Unknown) and kind not in ("r", "w", "rw", "wr", 1, 2, 3):
        what = f'`access_type` is "r", "w" or "rw", not {kind!r}'
        return run.report(BAD_ARGUMENTS, call.span_of("access_type"), callee=call.callee, what=what)
    offset = scalar(run, call.value("offset", 0), call.span_of("offset"))
    if region.buffer.shape == () and not isinstance(offset, Unknown) and as_int(offset) != 0:
        what = f"`{region.buffer.name}` is one element, and `offset` would lead out of it"
        return run.report(BAD_ARGUMENTS, call.span_of("offset"), callee=call.callee, what=what)
    return address(run, region, offset, _MODES.get(kind, ("read", "write")))


# Calls


def _arguments(run: Run, call: Bound) -> list[Any] | Unknown:
    found: list[Any] = []
    addresses = [a.value for a in call.items.get("args", []) if isinstance(a.value, BufferData)]
    if addresses:  # of which nothing is lost: foreign code takes them
        run.complete = any(a.was_complete for a in addresses)
    for argument in call.items.get("args", []):
        value = _argument(run, call, argument)
        if isinstance(value, Unknown):
            run.complete = False
            return value
        found.append(value)
    return found


def _argument(run: Run, call: Bound, argument: Argument) -> Any:
    value = argument.value
    if isinstance(value, BufferData):
        value = value.buffer
    if isinstance(value, Buffer) and value.scope != "local.var":
        return address(run, Region(value, None, argument.span))
    if isinstance(value, str):
        return ir.StringImm(value)
    if isinstance(value, TensorMapValue):
        return value.call
    value = scalar(run, value, argument.span)
    if isinstance(value, bool | int | float):
        return literal(value)
    if isinstance(value, ir.Expr | Unknown):
        return value
    what = f"{named_type(value)} cannot be passed to foreign code"
    return run.report(BAD_ARGUMENTS, argument.span, callee=call.callee, what=what)


def _result(run: Run, call: Bound) -> str | Unknown:
    given = call.value("dtype")
    if given in ("handle", "void", None):
        return "void"
    return read_dtype(run, given, call.span_of("dtype"))


def _extern(make: Callable[..., Any]) -> Callable[[Run, Bound], Any]:
    def call_it(run: Run, call: Bound) -> Any:
        dtype, args = _result(run, call), _arguments(run, call)
        name = call.value("func_name")
        lost = any_unknown([dtype, name])
        if isinstance(args, Unknown) or lost is not None:
            run.complete = False
            return args if isinstance(args, Unknown) else lost
        if not isinstance(name, str) or not name:
            what = f"`func_name` must be the name of a function, not {named_type(name)}"
            return run.report(BAD_ARGUMENTS, call.span_of("func_name"), callee=call.callee, what=what)
        return make(dtype, name, *args)

    return call_it


def intrinsic_by_name(run: Run, call: Bound, name: Any) -> Any:
    """A scalar function of TIRX, `tirx.exp2`, `tir.exp2` or `exp2`."""
    dtype, args = _result(run, call), _arguments(run, call)
    lost = any_unknown([dtype, name])
    if isinstance(args, Unknown) or lost is not None:
        run.complete = False
        return args if isinstance(args, Unknown) else lost
    full = f"tirx.{str(name).rpartition('.')[2]}"
    try:
        ir.Op.get(full)
    except AttributeError:
        what = f"the compiler has no function {name!r}"
        return run.report(BAD_ARGUMENTS, call.span_of("func_name"), callee=call.callee, what=what)
    return X.call_intrin(dtype, full, *args)


# Pointer arguments


def _make_tensor(run: Run, call: Bound) -> Any:
    pointer = call.value("ptr")
    if isinstance(pointer, Unknown):
        return pointer
    if isinstance(pointer, Region) and isinstance(pointer.buffer.dtype, Unknown):
        return pointer.buffer.dtype
    if isinstance(pointer, Late) or (isinstance(pointer, Region) and pointer.is_point):
        return _tensor_at(run, call, "ptr")
    if not isinstance(pointer, Buffer) or not pointer.is_pointer:
        what = "`ptr` must be a parameter annotated with T.ptr, or an element of a T.Tensor(n, T.ptr)"
        return run.report(BAD_ARGUMENTS, call.span_of("ptr"), callee=call.callee, what=what)
    given = _tensor_form(run, call)
    if isinstance(given, Unknown):
        return given
    dims, dtype, strides = given
    if not pointer.made:
        # The parameter itself becomes this tensor: its memory has no other shape.
        pointer.shape, pointer.dtype, pointer.strides, pointer.made = dims, dtype, strides, True
        pointer.name_span = (run.binding_name or ("", pointer.name_span))[1]
        if not pointer.known:
            run.complete = False
        return pointer
    view = new_buffer(
        run, "global", dims, dtype, call.span, fallback=pointer.name, view_of=pointer, strides=strides
    )
    run.emit(Alloc(view, call.span))
    return view


def _tensor_at(run: Run, call: Bound, name: str = "addr") -> Any:
    """`T.make_tensor_from_addr(addr, shape, dtype)`, `T.make_tensor(table[i], shape, dtype)`."""
    address = scalar(run, call.value(name), call.span_of(name))
    if isinstance(address, Unknown):
        run.complete = False
        return address
    if not isinstance(address, ir.Expr) or dtype_of_expr(address) not in ("int64", "uint64"):
        kind = dtype_of_expr(address) if isinstance(address, ir.Expr) else named_type(address)
        what = f"`{name}` must be an address, a number of 64 bits, not {kind}"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    if run.launch is None:
        what = "stands outside `with T.Kernel(...)`, where nothing reads addresses"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    given = _tensor_form(run, call)
    if isinstance(given, Unknown):
        return given
    dims, dtype, strides = given
    tensor = new_buffer(run, "global", dims, dtype, call.span, strides=strides)
    tensor.address = run.fresh(f"{tensor.name}_address", "int64")
    run.emit(Bind(tensor.address, address.astype("int64"), call.span))
    run.emit(Alloc(tensor, call.span))
    return tensor


def _tensor_form(run: Run, call: Bound) -> Any:
    """(shape, dtype, strides or None) of a tensor made of an address."""
    dims = read_shape(run, call.value("shape"), call.span_of("shape"))
    dtype = read_dtype(run, call.value("dtype", "float32"), call.span_of("dtype"))
    steps = call.value("strides")
    strides = None if steps is None else read_shape(run, steps, call.span_of("strides"), 2**63)
    if isinstance(dims, Unknown) or isinstance(strides, Unknown):
        return dims if isinstance(dims, Unknown) else strides
    if strides is not None and len(strides) != len(dims):
        what = f"the shape has {len(dims)} dimensions but there are {len(strides)} strides"
        return run.report(BAD_ARGUMENTS, call.span_of("strides"), callee=call.callee, what=what)
    return dims, dtype, strides


def pointer(run: Run, call: Bound) -> Any:
    """`T.ptr(dtype)` as an annotation."""
    given = call.value("dtype")
    dtype = "uint8" if given is None else read_dtype(run, given, call.span_of("dtype"))
    return pointer_type(dtype, call.span)


# Requests


def _min_blocks(run: Run, call: Bound) -> None:
    if unknown_number(run, [call.value("n")]) is not None:
        run.complete = False
        return
    number = as_int(call.value("n"))
    if number is None or number <= 0:
        what = f"`n` must be a positive number known at compile time, not {show(call.value('n'))}"
        run.report(BAD_ARGUMENTS, call.span_of("n"), callee=call.callee, what=what)
        return
    run.attrs[MIN_BLOCKS] = number


def _compile_flags(run: Run, call: Bound) -> None:
    given = call.value("flags")
    if unknown_number(run, given if isinstance(given, list | tuple) else [given]) is not None:
        run.complete = False
        return
    flags = given.split() if isinstance(given, str) else given
    if not isinstance(flags, list | tuple) or not all(isinstance(f, str) for f in flags):
        what = "`flags` must be a text or a list of texts"
        run.report(BAD_ARGUMENTS, call.span_of("flags"), callee=call.callee, what=what)
        return
    before = run.attrs.get(COMPILE_FLAGS)
    run.attrs[COMPILE_FLAGS] = " ".join([*([before] if before else []), *flags])


def _pass_configs(run: Run, call: Bound) -> None:
    configs = call.value("configs")
    if isinstance(configs, Unknown):
        run.complete = False
        return
    if not isinstance(configs, dict):
        what = f"`configs` must be a dict of names and values, not {named_type(configs)}"
        run.report(BAD_ARGUMENTS, call.span_of("configs"), callee=call.callee, what=what)
        return
    for key, value in configs.items():
        name = str(getattr(key, "value", key))
        if isinstance(value, bool | int | str):
            run.attrs[name] = value


EXTERN_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {
    "import_source": _import_source,
    "call_extern": _extern(X.call_extern),
    "call_pure_extern": _extern(X.call_pure_extern),
    "address_of": _address_of,
    "access_ptr": _access_ptr,
    "make_tensor": _make_tensor,
    "make_tensor_from_addr": _tensor_at,
    "ptr": pointer,
    "annotate_min_blocks_per_sm": _min_blocks,
    "annotate_compile_flags": _compile_flags,
    "annotate_pass_configs": _pass_configs,
}
