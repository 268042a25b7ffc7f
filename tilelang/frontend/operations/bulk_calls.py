"""T.create_tma_descriptor, T.tma_load and the other bulk copies that an author writes instruction by
instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.cuda import L2_POLICIES
from tilelang.arch.tensor_maps import DATA_TYPES, MOST_BOX, MOST_DIMENSIONS, SWIZZLE_BYTES
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.model import BufferData, TensorMapValue
from tilelang.frontend.operations.allocations import changing_parts
from tilelang.frontend.operations.barriers import barrier_address
from tilelang.frontend.operations.extern_calls import address
from tilelang.frontend.operations.matrix_calls import address_argument, complete_as_before
from tilelang.frontend.operators import cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, scalar
from tilelang.ir import tile_ops
from tilelang.ir.tile_program import Evaluate
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show

_UNIT = 16  # bytes
_EVICTION = {0: None, 1: "evict_first", 2: "evict_last"}


@dataclass(frozen=True)
class _Given:
    """The arguments of `T.create_tma_descriptor` after the tensor, `rank` of each."""

    shape: list[Argument]
    strides: list[Argument]
    box: list[Argument]
    steps: list[Argument]
    rest: list[Argument]


def _wrong(run: Run, call: Bound, at: Argument | None, what: str) -> Unknown:
    span = call.span if at is None else at.span
    return run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)


def _descriptor(run: Run, call: Bound) -> Any:
    items = call.items.get("args", [])
    data = next((a.value for a in items if isinstance(a.value, BufferData)), None)
    if data is not None:
        run.complete = data.was_complete
    values = [a.value for a in items]
    lost = any_unknown([v for v in values if not isinstance(v, BufferData)])
    if lost is not None:
        run.complete = False
        return lost
    rank = as_int(values[1]) if len(values) > 1 else None
    if rank is None or not 1 <= rank <= MOST_DIMENSIONS or len(items) != 7 + 4 * rank:
        what = (
            f"takes a data type, a rank from 1 to {MOST_DIMENSIONS}, a tensor as X.data, four numbers per "
            f"dimension and four more; {len(items)} arguments are given"
        )
        return _wrong(run, call, None, what)
    tensor = values[2].buffer if isinstance(values[2], BufferData) else values[2]
    if not isinstance(tensor, Buffer) or tensor.scope != "global":
        return _wrong(run, call, items[2], f"the tensor must be given as X.data, not {named_type(values[2])}")
    shape, strides, box, steps = (items[3 + k * rank : 3 + (k + 1) * rank] for k in range(4))
    return _described(run, call, tensor, items[0], _Given(shape, strides, box, steps, items[3 + 4 * rank :]))


def _described(run: Run, call: Bound, tensor: Buffer, dtype: Argument, given: _Given) -> Any:
    kind = DATA_TYPES.get(as_int(dtype.value))
    if kind is None:
        known = ", ".join(f"{k} {v[0]}" for k, v in DATA_TYPES.items())
        return _wrong(run, call, dtype, f"the data type is one of {known}, not {show(dtype.value)}")
    box = _constants(run, call, given.box, 1, MOST_BOX, "an extent of the box")
    steps = _constants(run, call, given.steps, 1, 1, "a step between elements")
    limits = (("interleaving", 0), ("the swizzle", 3), ("the L2 promotion", 3), ("what is read outside", 1))
    rest = [
        _constants(run, call, [item], 0, most, name)
        for item, (name, most) in zip(given.rest, limits, strict=True)
    ]
    sizes = [_size(run, call, a) for a in (*given.shape, *given.strides[1:])]
    lost = any_unknown([box, steps, *rest, *sizes])
    if lost is not None:
        run.complete = False
        return lost
    swizzle = SWIZZLE_BYTES[rest[1][0]]
    inner = box[0] * kind[1] // 8
    if inner % _UNIT or (swizzle and inner > swizzle):
        most = f" and at most the {swizzle} of the swizzle" if swizzle else ""
        what = (
            f"the box's inner extent is a multiple of {_UNIT} bytes{most}, but {box[0]} elements are {inner}"
        )
        return _wrong(run, call, given.box[0], what)
    for item, stride in zip(given.strides[1:], sizes[len(box) :], strict=True):
        number = as_int(stride)
        if number is not None and number % _UNIT:
            return _wrong(run, call, item, f"distances are multiples of {_UNIT} bytes, not {number}")
    start = address(run, Region(tensor.storage, None, call.span))
    if isinstance(start, Unknown):
        return start
    attrs = {
        "dtype": kind[0],
        "box": ",".join(map(str, box)),
        "swizzle": swizzle,
        "promotion": rest[2][0],
        "fill": rest[3][0],
    }
    made = tile_ops.call(
        tile_ops.TMA_DESCRIPTOR, [start, *map(_wide, sizes)], attrs, dtype="handle", span=call.span
    )
    return TensorMapValue(made, len(box), tensor.name)


def _wide(size: Any) -> Any:
    number = as_int(size)
    return size if number is None else X.const(number, "int64")


def _constants(run: Run, call: Bound, given: list[Argument], low: int, high: int, what: str) -> Any:
    found = []
    for item in given:
        number = as_int(item.value)
        if number is None or not low <= number <= high:
            says = f"{low}" if low == high else f"a number from {low} to {high}"
            return _wrong(run, call, item, f"{what} must be {says}, not {show(item.value)}")
        found.append(number)
    return found


def _size(run: Run, call: Bound, item: Argument) -> Any:
    value = scalar(run, item.value, item.span)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, ir.Expr | int):
        return _wrong(run, call, item, f"a size must be an integer, not {named_type(value)}")
    inside = changing_parts(run, value)
    if inside:
        what = f"descriptors are made at the launch, but `{inside[0]}` is known only in the kernel"
        return _wrong(run, call, item, what)
    return value


def _named(call: Bound, **items: Argument) -> Bound:
    """The call with positional arguments under names."""
    return replace(call, arguments={**call.arguments, **items})


def _load(run: Run, call: Bound) -> None:
    items = call.items.get("args", [])
    if items and isinstance(items[0].value, Unknown):
        run.complete = False
        return
    if not items or not isinstance(items[0].value, TensorMapValue):
        _plain_load(run, call, items)
        return
    made = items[0].value
    if len(items) != 4 + made.rank:
        what = (
            f"takes a descriptor, a barrier, an address, {made.rank} coordinates and a policy; "
            f"{len(items)} arguments are given"
        )
        _wrong(run, call, None, what)
        return
    named = _named(call, mbar=items[1], smem_addr=items[2])
    barrier, target = barrier_address(run, named, "mbar"), address_argument(run, named, "smem_addr")
    corner, policy = _corner(run, call, items[3:-1]), _policy(run, call, items[-1])
    if any_unknown([barrier, target, *corner, policy]) is not None:
        run.complete = False
        return
    hint = "_hint" if policy else ""
    _emit(run, call, f"tma_load_{made.rank}d{hint}", [target, barrier, made.call, *corner, *policy])


def store(run: Run, call: Bound) -> None:
    """`tl.tma_store`: a descriptor, an address in shared memory, coordinates, whether it adds, a policy."""
    items = call.items.get("args", [])
    made = items[0].value if items else None
    if isinstance(made, Unknown):
        run.complete = False
        return
    if not isinstance(made, TensorMapValue) or len(items) != 4 + made.rank:
        _wrong(run, call, None, "tl.tma_store takes a descriptor, an address, coordinates and two numbers")
        return
    source = address_argument(run, _named(call, smem_addr=items[1]), "smem_addr")
    corner, policy = _corner(run, call, items[2:-2]), _policy(run, call, items[-1])
    if as_int(items[-2].value) != 0 and not isinstance(items[-2].value, Unknown):
        _wrong(run, call, items[-2], "bulk stores that add are T.atomic_add(..., use_tma=True)")
        return
    if any_unknown([source, *corner, policy, items[-2].value]) is not None:
        run.complete = False
        return
    hint = "_hint" if policy else ""
    _emit(run, call, f"tma_store_{made.rank}d{hint}", [made.call, source, *corner, *policy])


def _corner(run: Run, call: Bound, items: list[Argument]) -> list[Any]:
    found = []
    for item in items:
        value = scalar(run, item.value, item.span)
        if not isinstance(value, ir.Expr | int | Unknown):
            value = _wrong(run, call, item, f"a coordinate must be an integer, not {named_type(value)}")
        found.append(value if isinstance(value, Unknown) else cast("int32", value))
    return found


def _policy(run: Run, call: Bound, item: Argument) -> Any:
    """The constant of an eviction policy in a list, which is empty for the normal one."""
    number = as_int(item.value)
    if isinstance(item.value, Unknown):
        return item.value
    if number not in _EVICTION:
        return _wrong(run, call, item, f"the eviction policy is 0, 1 or 2, not {show(item.value)}")
    name = _EVICTION[number]
    return [] if name is None else [X.const(L2_POLICIES[name], "uint64")]


def _plain_load(run: Run, call: Bound, items: list[Argument]) -> None:
    """Without a descriptor."""
    if len(items) not in (4, 5):
        what = "takes a descriptor of T.create_tma_descriptor first, or two addresses, a barrier and bytes"
        _wrong(run, call, items[0] if items else None, what)
        return
    named = _named(call, smem_addr=items[0], gmem_addr=items[1], mbar=items[2])
    _bulk(run, named, items[3], "mbar", [address_argument(run, named, n) for n in ("smem_addr", "gmem_addr")])


def _cp_async_bulk(run: Run, call: Bound) -> None:
    complete_as_before(run, call, ("shared_ptr", "global_ptr"))
    places = [_moved(run, call, kind) for kind in ("shared", "global")]
    _bulk(run, call, call.arguments["bytes"], "barrier_id", places)


def _moved(run: Run, call: Bound, kind: str) -> Any:
    value = call.value(f"{kind}_ptr")
    if isinstance(value, BufferData):
        value = value.buffer
    offset = scalar(run, call.value(f"{kind}_offset"), call.span_of(f"{kind}_offset"))
    lost = any_unknown([value, offset])
    if lost is not None:
        return lost
    if isinstance(value, Buffer):
        return address(run, Region(value, None, call.span_of(f"{kind}_ptr")), offset)
    what = f"`{kind}_ptr` must be memory, as X.data, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(f"{kind}_ptr"), callee=call.callee, what=what)


def _bulk(run: Run, call: Bound, count: Argument, barrier_name: str, places: list[Any]) -> None:
    barrier, size = barrier_address(run, call, barrier_name), scalar(run, count.value, count.span)
    lost = any_unknown([barrier, size, *places])
    if lost is not None:
        run.complete = False
        return
    number = as_int(size)
    if not isinstance(size, ir.Expr | int) or (number is not None and (number % _UNIT or number <= 0)):
        _wrong(run, call, count, f"the bytes must be a positive multiple of {_UNIT}, not {show(size)}")
        return
    for place, scope, what in zip(places, ("shared", "global"), ("first", "second"), strict=True):
        found = str(place.args[0].source.scope())
        if not found.startswith(scope):
            _wrong(run, call, None, f"the {what} address must lie in {scope} memory, not in {found}")
            return
    _emit(run, call, "bulk_load", [places[0], places[1], cast("uint32", size), barrier])


def _emit(run: Run, call: Bound, name: str, args: list[Any]) -> None:
    if run.launch is not None:
        run.emit(Evaluate(tile_ops.call(f"tl.{name}", args, span=call.span), call.span))


BULK_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {
    "create_tma_descriptor": _descriptor,
    "tma_load": _load,
    "ptx_cp_async_bulk": _cp_async_bulk,
}
