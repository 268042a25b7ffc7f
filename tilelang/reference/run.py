"""From a kernel and its arguments to its outputs, by the meaning of its tile program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import element_bits
from tilelang.arch.features import PACKED_DTYPES
from tilelang.ir.build import OUTPUTS, POINTERS, UNNAMED_THREADS, WORKSPACES
from tilelang.ir.safe_values import safe_values
from tilelang.language.dtypes import DType
from tilelang.reference.errors import NoMeaning, ReferenceFailure
from tilelang.reference.machine import ONE, Machine
from tilelang.reference.memory import Storage, Tensor, numpy_dtype, row_major
from tilelang.reference.statements import uses

if TYPE_CHECKING:
    import torch


def run(kernel: Any, *args: Any, **choice: Any) -> Any:
    """What `kernel(*args, **choice)` should return, and do to tensors it writes in place.

    kernel: a compiled kernel, its tile function, or a function under `@tilelang.jit`, and `choice` the values
    that it is to be compiled for. args: its inputs in call order, torch tensors (copied to the CPU) and
    numbers; None for a tensor that the program does not touch. Returns the output, a tuple of several, or
    None; outputs are torch tensors on the CPU. Raises ReferenceFailure where the program does what the
    language forbids, NoMeaning (a NotImplementedError) for an operation that the reference cannot run,
    TypeError for a wrong number of arguments, or for None in the place of one that is used.
    """
    func = _tile_function(kernel, args, choice)
    if not isinstance(func, X.PrimFunc):
        raise TypeError(f"{kernel!r} has no tile function: a loaded kernel is compiled code only")
    outputs = [int(i) for i in func.attrs.get(OUTPUTS, [])]
    hidden = len(func.params) - int(func.attrs.get(WORKSPACES, 0))  # behind this the caller sees none
    inputs = [i for i in range(hidden) if i not in outputs]
    if len(args) != len(inputs):
        raise TypeError(f"{func.attrs['global_symbol']} takes {len(inputs)} arguments, got {len(args)}")
    safe = safe_values(func)
    machine = Machine(unnamed=UNNAMED_THREADS in func.attrs)
    given = dict(zip(inputs, args, strict=True))
    absent = {index for index, value in given.items() if value is None}
    _check_absent(func, absent)
    given = {index: value for index, value in given.items() if index not in absent}
    addresses = str(func.attrs.get(POINTERS, "")).split()
    for index, param in enumerate(func.params):
        if index in given and X.is_buffer_var(param) and str(param.name) in addresses:
            given[index] = _memory_from(str(param.name), given[index])
    _bind_sizes(machine, func, given)
    for index, value in given.items():
        if not X.is_buffer_var(func.params[index]):
            kind = numpy_dtype(str(func.params[index].ty))
            machine.expressions.values[func.params[index].__chandle__()] = np.asarray(value).astype(kind)
    for index, param in enumerate(func.params):
        if X.is_buffer_var(param) and index not in absent:
            machine.tensors[param.__chandle__()] = _tensor(machine, param, given.get(index), safe)
    machine.run(func.body, ONE)
    for index in given:
        if X.is_buffer_var(func.params[index]):
            _write_back(machine.tensors[func.params[index].__chandle__()], given[index])
    made = [_to_torch(machine.tensors[func.params[i].__chandle__()]) for i in outputs]
    return made[0] if len(made) == 1 else tuple(made) or None


def _tile_function(kernel: Any, args: tuple[Any, ...], choice: dict[str, Any]) -> Any:
    if isinstance(kernel, X.PrimFunc):
        return kernel
    get_tir = getattr(kernel, "get_tir", None)
    return getattr(kernel, "prim_func", None) if get_tir is None else get_tir(*args, **choice)


def _check_absent(func: X.PrimFunc, absent: set[int]) -> None:
    """As at a launch, only tensors that the program does not touch may be left out."""
    for param in (func.params[index] for index in absent):
        if not X.is_buffer_var(param) or uses(func.body, [param]):
            raise TypeError(f"{param.name} is None, but {func.attrs['global_symbol']} uses it")


def _bind_sizes(machine: Machine, func: X.PrimFunc, given: dict[int, Any]) -> None:
    """Symbols take their values from the shapes and strides in which they stand alone."""
    for index, value in given.items():
        param = func.params[index]
        if not X.is_buffer_var(param) or isinstance(value, _Memory):
            continue
        if len(param.shape) != len(value.shape):
            raise TypeError(f"{param.name} has {len(param.shape)} dimensions, got {len(value.shape)}")
        sizes = [*zip(param.shape, _shape(value, str(param.dtype)), strict=True)]
        if len(param.strides):
            steps = value.stride()
            outer = [2 * s for s in steps[:-1]] if str(param.dtype) in PACKED_DTYPES else steps[:-1]
            sizes += zip(param.strides, (*outer, steps[-1]), strict=True)
        for expr, size in sizes:
            if isinstance(expr, ir.Var):
                machine.expressions.values.setdefault(expr.__chandle__(), np.asarray(size, np.int64))


def _tensor(machine: Machine, param: Any, value: Any, safe: Mapping[str, float]) -> Tensor:
    """Memory for a parameter: the elements of its argument, or poison for an output.

    safe: what a read outside gives, by name, where it is not 0.
    """
    shape = tuple(machine.expressions.integer(e, ONE) for e in param.shape)
    name, dtype = str(param.name), str(param.dtype)
    strides = row_major(shape)
    if value is None:
        storage = Storage.fresh(name, dtype, int(np.prod(shape, dtype=np.int64)))
    elif isinstance(value, _Memory):
        strides = tuple(machine.expressions.integer(e, ONE) for e in param.strides) or strides
        storage = Storage(name, value.elements(name, dtype, _reach(shape, strides)))
    else:
        if _shape(value, dtype) != shape:
            raise ReferenceFailure(f"{name} must have shape {shape}, got {_shape(value, dtype)}")
        storage = Storage(name, _bits(value, dtype).reshape(1, -1))
    return Tensor(name, "global", dtype, shape, strides, storage, safe.get(name, 0))


@dataclass(frozen=True)
class _Memory:
    """What a pointer argument leads to: the bytes from its first element to the end of its storage."""

    bytes: torch.Tensor

    def elements(self, name: str, dtype: str, needed: int) -> np.ndarray:
        """[1, needed]: a copy as elements of `dtype`. Raises ReferenceFailure if there are not so many."""
        bits = element_bits(dtype)
        there = 8 * self.bytes.numel() // bits
        if there < needed:
            raise ReferenceFailure(f"{name} must lead to {needed} elements of {dtype}, there are {there}")
        return _bits(self.bytes[: -(-needed * bits // 8)], dtype).reshape(1, -1)

    def write(self, tensor: Tensor) -> None:
        """Let the memory have what the program left in its copy."""
        import torch

        elements = tensor.elements()[0]
        packed = _packed(elements, tensor.dtype) if tensor.dtype in PACKED_DTYPES else elements
        found = np.ascontiguousarray(packed).view(np.uint8)

        self.bytes[: len(found)] = torch.from_numpy(found).to(self.bytes.device)


def _memory_from(name: str, value: Any) -> _Memory:
    """The memory of a tensor that is given for an address. Raises NoMeaning for an address as a number."""
    import torch

    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if not isinstance(value, torch.Tensor):
        raise NoMeaning(f"{name} is an address: the reference needs the tensor that begins there")
    whole = torch.empty(0, dtype=torch.uint8, device=value.device).set_(value.untyped_storage())
    return _Memory(whole[value.storage_offset() * value.element_size() :])


def _reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements of memory that a tensor of these strides spans."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0


def _shape(value: Any, dtype: str) -> tuple[int, ...]:
    """The shape of an argument in elements; two of 4 bits share each of its bytes."""
    if dtype not in PACKED_DTYPES or not len(value.shape):
        return tuple(value.shape)
    return (*value.shape[:-1], 2 * value.shape[-1])


def _unpacked(bytes_: np.ndarray, dtype: str) -> np.ndarray:
    """The elements in bytes of two, the first in the low half."""
    codes = np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(-1)
    kind = numpy_dtype(dtype)
    return codes.view(kind) if dtype.startswith("float") else codes.astype(np.int32).astype(kind)


def _packed(elements: np.ndarray, dtype: str) -> np.ndarray:
    """The bytes of elements, two in each."""
    found = np.ascontiguousarray(elements)
    codes = (found.view(np.uint8) if dtype.startswith("float") else found.astype(np.int32)) & 15
    return (codes[::2] | codes[1::2] << 4).astype(np.uint8)


def _bits(value: torch.Tensor, dtype: str) -> np.ndarray:
    """A copy of a torch tensor's (or numpy array's) elements in the numpy dtype for `dtype`."""
    if dtype in PACKED_DTYPES:
        flat = value if isinstance(value, np.ndarray) else _bits(value, "uint8")
        return _unpacked(np.ascontiguousarray(flat).view(np.uint8).reshape(-1), dtype)
    if isinstance(value, np.ndarray):
        return np.array(value).view(numpy_dtype(dtype))
    import torch

    dense = value.detach().cpu().contiguous()
    if dense.dtype is torch.bool:
        return dense.numpy().astype(numpy_dtype(dtype))
    return np.array(dense.reshape(-1).view(torch.uint8).numpy()).view(numpy_dtype(dtype))


def _write_back(tensor: Tensor, value: Any) -> None:
    """What the program wrote to a tensor it was given."""
    if isinstance(value, _Memory):
        value.write(tensor)
    elif isinstance(value, np.ndarray) and tensor.dtype in PACKED_DTYPES:
        value[...] = _packed(tensor.elements()[0], tensor.dtype).reshape(value.shape).view(value.dtype)
    elif isinstance(value, np.ndarray):
        value[...] = tensor.elements().reshape(value.shape).view(value.dtype)
    else:
        value.copy_(_to_torch(tensor).view(value.dtype).view(value.shape).to(value.device))


def _to_torch(tensor: Tensor) -> torch.Tensor:
    import torch

    bits = np.ascontiguousarray(tensor.elements()[0])
    if tensor.dtype in PACKED_DTYPES:
        held = DType(tensor.dtype).with_lanes(1).as_torch()
        shape = (*tensor.shape[:-1], -(-tensor.shape[-1] // 2))
        return torch.from_numpy(_packed(bits, tensor.dtype)).view(held).reshape(shape)
    found = getattr(torch, tensor.dtype, None)
    if not isinstance(found, torch.dtype):
        raise ReferenceFailure(f"torch has no dtype {tensor.dtype} for {tensor.name}")
    return torch.from_numpy(bits.view(np.uint8).copy()).view(found).reshape(tensor.shape)
