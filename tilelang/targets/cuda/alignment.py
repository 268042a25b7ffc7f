"""How each parameter of a CUDA kernel must be aligned: as wide as the widest move between it and registers or
shared memory.

In:  the thread-level function, flat.
Out: bytes by parameter, 1 where elements move one by one. Torch aligns what it allocates, but a slice such as
     `x[1:]` begins anywhere; the runtime refuses it, where the GPU would stop with an error that names
     nothing (PTX ISA 6.4.1, "Addresses as Operands": an address is a
     multiple of the size of the access).
"""

from __future__ import annotations

import re
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.passes.accesses import storages
from tilelang.passes.walk import bits_of

_WIDEST = 16  # bytes of one access of a thread
_ATOMIC = re.compile(r"tl\.cuda\.atomic_add_")
_ASYNC = re.compile(r"tl\.cuda\.cp_async_(\d+)(_guarded)?")


def parameter_alignment(func: X.PrimFunc) -> dict[str, int]:
    """Parameter name -> bytes that its address must be a multiple of."""
    names = {p.__chandle__(): str(p.name) for p in func.params if X.is_buffer_var(p)}
    needed = dict.fromkeys(names.values(), 1)
    base_of = storages(func.body)

    def need(buffer: Any, bytes_: int) -> None:
        handle = buffer.__chandle__()
        name = names.get(base_of.get(handle, handle))
        if name is not None:
            needed[name] = max(needed[name], min(bytes_, _WIDEST))

    def moved(buffer: Any, indices: Any) -> None:
        if len(indices) == 1 and type(indices[0]) is X.Ramp:
            need(buffer, int(indices[0].lanes) * bits_of(str(buffer.dtype)) // 8)

    def called(call: Any) -> None:
        match = _ASYNC.fullmatch(str(getattr(call.op, "name", "")))
        if match is not None:
            need(call.args[1].args[0].source, int(match.group(1)))
        if _ATOMIC.match(str(getattr(call.op, "name", ""))) and len(call.args) > 2:
            dst = call.args[0].args[0].source
            need(dst, (len(call.args) - 1) * bits_of(str(dst.dtype)) // 8)

    tvm_ffi.structural_walk(
        func.body,
        (
            (X.BufferStore, lambda s: moved(s.buffer, s.indices)),
            (ir.TensorLoad, lambda e: moved(e.source, e.indices)),
            (ir.Call, called),
        ),
    )
    return needed
