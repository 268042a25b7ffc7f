"""Thread-level TIRX -> source text for CUDA, HIP or Metal, with the Python line of every emitted line.

In:  the function described in `targets.lowered`, a `Dialect`, and the byte offsets of shared buffers in their
     arena.
Out: text for reading (kernel first, below it only the helpers it calls) and its line map.
Not: any change of meaning; what has no words in the language is an `EmitError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import UNROLL
from tilelang.targets.emit.dialect import Dialect, KernelHead, PairConversion
from tilelang.targets.emit.expressions import TERNARY, EmitError, Expressions, Storage, paren
from tilelang.targets.emit.names import Names, entry_name
from tilelang.targets.emit.pair_conversions import converted_in_pairs, pair_store
from tilelang.targets.emit.source_file import Line, file_head, helper_definitions, with_line_directives
from tilelang.targets.emit.vectors import Vectors
from tilelang.targets.emit.wrap import WIDTH, wrap
from tilelang.targets.launch_plan import free_sizes

_INT32_END = 2**31
# Attribute of the function: text of the language that stands before the kernel.
IMPORTED = "tl.import_source"
CLUSTER = "tl.cluster_dims"  # blocks of a cluster along x, y, z: "2, 1, 1"
MIN_BLOCKS = "tl.min_blocks_per_sm"  # blocks that a multiprocessor should hold at once

ALIASED = "tl.aliased"  # attribute of the function: names of tensors, comma-separated


@dataclass(frozen=True)
class Printed:
    """Source text; `line_map[i]` is the Python line that line i came from, 0 where there is none."""

    text: str
    line_map: tuple[int, ...]


def print_kernel(
    func: X.PrimFunc,
    dialect: Dialect,
    *,
    shared_offsets: Mapping[Any, int] | None = None,
    shared_bytes: int = 0,
    arguments: Sequence[str] | None = None,
    title: str | None = None,
    min_blocks: int | None = None,
    line_directives: str | None = None,
) -> Printed:
    """Print `func`.

    Args:
        shared_offsets: shared buffer -> byte offset in the arena; buffers not in it become arrays of their
            own.
        shared_bytes: size of the arena, for languages that declare it.
        arguments: what the device function takes, in order (`LaunchPlan.arguments`); None: the parameters,
            then every free variable in order of appearance.
        title: a comment for the first line.
        min_blocks: blocks per multiprocessor to be guaranteed by the register allocation.
        line_directives: path of the Python file, to print `#line` directives for the vendors' tools.

    Raises:
        EmitError: something in `func` has no words in the language; the message names it.
    """
    printer = _KernelPrinter(func, dialect, dict(shared_offsets or {}), shared_bytes, arguments, min_blocks)
    body = printer.run()
    lines = [*file_head(printer.e, printer.imported, title), *body, *helper_definitions(printer.e)]
    if line_directives is not None and dialect.line_directives:
        lines = with_line_directives(lines, line_directives)
    return Printed("\n".join(text for text, _ in lines) + "\n", tuple(line for _, line in lines))


class _KernelPrinter:
    """Statements. Signature and declarations are completed at the end, when all uses are known."""

    def __init__(
        self,
        func: Any,
        dialect: Dialect,
        shared_offsets: dict[Any, int],
        shared_bytes: int,
        arguments: Sequence[str] | None,
        min_blocks: int | None,
    ) -> None:
        self.func, self.dialect = func, dialect
        self.e = Expressions(dialect)
        self._offsets = {buffer.__chandle__(): at for buffer, at in shared_offsets.items()}
        self._shared_bytes = shared_bytes
        self._arguments = arguments
        self._cluster = str(func.attrs[CLUSTER]) if CLUSTER in func.attrs else ""
        asked = int(func.attrs[MIN_BLOCKS]) if MIN_BLOCKS in func.attrs else None
        self._min_blocks = min_blocks if min_blocks is not None else asked
        self._lines: list[Line] = []
        self._indent = "  "
        self._line = func.span.line if func.span is not None else 0
        self.name = entry_name(func)
        self._names = Names({self.name, *dialect.intrinsics})
        self._vectors = Vectors(self.e, self._names, self._emit)
        self._threads = 1
        self._launch_line = 0
        self._written: set[str] = set()
        self._declared: list[tuple[Storage, int]] = []  # local arrays and their lines, completed at the end
        self._axes: dict[str, str] = {}  # launch axis -> name of its variable
        self._arena_used = False
        self.imported = str(func.attrs[IMPORTED]).splitlines() if IMPORTED in func.attrs else []
        self._statements: dict[type, Callable[[Any], None]] = {
            X.SeqStmt: self._seq,
            X.AttrStmt: self._attribute,
            X.AllocBuffer: self._alloc,
            X.DeclBuffer: self._view,
            X.Bind: self._bind,
            X.BufferStore: self._store,
            X.Evaluate: self._evaluate,
            X.For: self._for,
            X.While: self._while,
            X.IfThenElse: self._if,
            X.Break: lambda s: self._emit("break;"),
            X.Continue: lambda s: self._emit("continue;"),
        }

    # The parts of the file

    def run(self) -> list[Line]:
        """The kernel, from its signature to the closing brace."""
        params = self._declare_params()
        self._statement(self.func.body)
        self._finish_declarations()
        start = self._line or self._launch_line
        used = self._used_axes()
        axes = [
            (f"  const int {name} = {self.dialect.axes[axis]};", start)
            for axis, name in sorted(used.items(), key=lambda item: item[0])
        ]
        head = KernelHead(
            self.name,
            tuple(self._param(p) for p in params),
            self._threads,
            self._min_blocks,
            frozenset(used) | self.e.used_axes,
            self._aliased(params),
            cluster=self._cluster,
        )
        arena = []
        if self._arena_used:
            text = self.dialect.arena.format(bytes=self._shared_bytes, align=self.dialect.align.format(1024))
            arena = [(f"  {text}", start)]
        signature = [(text, start) for text in self.dialect.kernel(head)]
        return [*signature, *axes, *arena, *self._lines, ("}", start)]

    # Parameters and the launch

    def _declare_params(self) -> list[Any]:
        by_name = {str(p.name): p for p in self.func.params}
        if self._arguments is not None:
            free = {str(v.name): v for v in free_sizes(self.func)}
            known = {**free, **by_name}
            missing = next((name for name in self._arguments if name not in known), None)
            if missing is not None:
                raise EmitError(
                    f"{self.name} takes {missing}, which is neither a parameter nor a size of one"
                )
            params = [known[name] for name in self._arguments]
        else:
            params = [*self.func.params, *free_sizes(self.func)]
        for p in params:
            name = self._names.new(str(p.name))
            if X.is_buffer_var(p):
                dtype = str(p.dtype)
                wide, row = _width(p.shape)
                self.e.storages[p.__chandle__()] = Storage(name, dtype, "global", wide=wide, row=row)
            else:
                self.e.names[p.__chandle__()] = name
        for size in _size_variables(params):  # sizes are not negative
            self.e.bounds.set(size, (0, math.inf))
            self.e.sizes.add(size.__chandle__())
        return params

    def _aliased(self, params: list[Any]) -> frozenset[str]:
        """C names of the tensors that the author says are no sole names of their memory."""
        if not self.func.attrs or ALIASED not in self.func.attrs:
            return frozenset()
        named = set(str(self.func.attrs[ALIASED]).split(","))
        chosen = [p.__chandle__() for p in params if X.is_buffer_var(p) and str(p.name) in named]
        return frozenset(self.e.storages[h].name for h in chosen)

    def _param(self, p: Any) -> tuple[str, str, bool]:
        key = p.__chandle__()
        if key in self.e.storages:
            s = self.e.storages[key]
            const = s.name not in self._written | self.e.passed
            return self.e.pointer(s.dtype, "global", const=const), s.name, True
        dtype = str(getattr(p.ty, "dtype", "handle"))  # a descriptor has no dtype
        return self.e.type_name(dtype), self.e.names[key], False

    def _used_axes(self) -> dict[str, str]:
        """Launch axes whose variable the body reads."""
        words = set(re.findall(r"\w+", "\n".join(line for line, _ in self._lines)))
        return {axis: name for axis, name in self._axes.items() if name in words}

    def _attribute(self, s: Any) -> None:
        if s.attr_key != "thread_extent":
            raise EmitError(f"an attribute {s.attr_key} is left in the thread-level function")
        axis, var = str(s.node.thread_tag), s.node.var
        self._launch_line = self._launch_line or self._line
        extent = s.value
        known = type(extent) is X.IntImm
        if axis.startswith("threadIdx"):
            if not known:
                raise EmitError(f"the number of threads along {axis} is not a constant")
            self._threads *= int(extent.value)
        name = self._names.new(str(var.name))
        self._axes[axis] = name
        self.e.names[var.__chandle__()] = name
        self.e.bounds.set(var, (0, int(extent.value) - 1 if known else _INT32_END - 1))
        self._statement(s.body)

    # Statements

    def _emit(self, text: str) -> None:
        line = self._indent + text
        if len(line) <= WIDTH:
            self._lines.append((line, self._line))
        else:
            self._lines += [(part, self._line) for part in wrap(line)]

    def _statement(self, s: Any) -> None:
        printer = self._statements.get(type(s))
        if printer is None:
            raise EmitError(f"{self.dialect.name} has no words for a {type(s).__name__}")
        span = s.span
        if span is not None:
            outer, self._line = self._line, span.line
            printer(s)
            self._line = outer
        else:
            printer(s)

    def _block(self, s: Any) -> None:
        self._names.enter()
        outer, self._indent = self._indent, self._indent + "  "
        self._statement(s)
        self._indent = outer
        self._names.leave()

    def _seq(self, s: Any) -> None:
        parts = list(s.seq)
        k = 0
        while k < len(parts):
            part, following = parts[k], parts[k + 1] if k + 1 < len(parts) else None
            if self._is_initialised_scalar(part, following):
                self._scalar_with_value(part, following)
                k += 2
            else:
                self._statement(part)
                k += 1

    def _is_initialised_scalar(self, part: Any, following: Any) -> bool:
        return (
            type(part) is X.AllocBuffer
            and type(following) is X.BufferStore
            and self._is_scalar(part.buffer)
            and following.buffer.same_as(part.buffer)
        )

    def _is_scalar(self, buffer: Any) -> bool:
        shape = buffer.shape
        return (
            buffer.scope().startswith("local")
            and len(shape) == 1
            and type(shape[0]) is X.IntImm
            and shape[0].value == 1
        )

    def _scalar_with_value(self, alloc: Any, store: Any) -> None:
        value = self.e.show(store.value)  # before the name exists: the value cannot mean the new variable
        if alloc.span is not None:
            self._line, outer = alloc.span.line, self._line
        else:
            outer = self._line
        storage = self._new_storage(alloc.buffer, scalar=True)
        self._emit(f"{self.e.type_name(storage.dtype)} {storage.name} = {value};")
        self._line = outer

    def _new_storage(self, buffer: Any, scalar: bool = False) -> Storage:
        name = self._names.new(str(buffer.name))
        storage = Storage(name, str(buffer.dtype), buffer.scope(), scalar)
        self.e.storages[buffer.__chandle__()] = storage
        return storage

    def _alloc(self, s: Any) -> None:
        buffer = s.buffer
        scope = buffer.scope()
        if scope.startswith("shared"):
            self._alloc_shared(buffer)
            return
        storage = self._new_storage(buffer, scalar=self._is_scalar(buffer))
        if scope in self.dialect.opaque_types:
            type_name = self.dialect.opaque_types[scope].format(type=self.e.type_name(storage.dtype))
            storage.opaque = True
        else:
            type_name = self.e.type_name(storage.dtype)
        if storage.scalar:
            self._emit(f"{type_name} {storage.name};")
            return
        if not storage.opaque:
            self._declared.append((storage, len(self._lines)))
        self._emit(f"{type_name} {storage.name}[{self._extent(buffer)}];")

    def _extent(self, buffer: Any) -> int:
        total = 1
        for n in buffer.shape:
            if type(n) is not X.IntImm:
                raise EmitError(f"{buffer.name} has the size {n}, which is no constant")
            total *= int(n.value)
        return total

    def _alloc_shared(self, buffer: Any) -> None:
        storage = self._new_storage(buffer)
        offset = self._offsets.get(buffer.__chandle__())
        if offset is None:
            align = self.dialect.align.format(16)
            self._emit(
                f"{align} {self.dialect.shared_array} {self.e.type_name(storage.dtype)} "
                f"{storage.name}[{self._extent(buffer)}];"
            )
            return
        self._arena_used = True
        pointer = self.e.pointer(storage.dtype, "shared")
        at = f"(smem + {offset})" if offset else "smem"
        self._emit(f"{pointer} {storage.name} = ({pointer}){at};")

    def _view(self, s: Any) -> None:
        at_address = tile_ops.is_call(s.data, tile_ops.MEMORY_AT)
        base = self.e.show(s.data.args[0] if at_address else s.data)
        storage = self._new_storage(s.buffer)
        storage.wide, storage.row = _width(s.buffer.shape)
        self._written.add(base)
        source = next((x for x in self.e.storages.values() if x.name == base), None)
        if source is not None and source.scalar:
            base = f"&{base}"
        if source is not None:
            source.vector = True
        pointer = self.e.pointer(storage.dtype, storage.scope)
        offset = self.e.text(s.buffer.elem_offset) if s.buffer.elem_offset is not None else ("0", 0)
        at = "" if offset[0] == "0" else f" + {paren(offset, TERNARY + 1)}"
        self._emit(f"{pointer} {storage.name} = ({pointer}){base}{at};")

    def _bind(self, s: Any) -> None:
        value = self.e.show(s.value)
        ty: Any = s.var.ty
        kind = type(ty)
        if kind is ir.PointerType:
            type_name = self.e.pointer(str(ty.element_type.dtype), str(ty.storage_scope))
        else:
            type_name = f"const {self.e.type_name(str(ty.dtype))}"
        interval = self.e.bounds.interval(s.value)
        name = self._names.new(str(s.var.name))
        self.e.names[s.var.__chandle__()] = name
        self.e.bounds.set(s.var, interval)
        self._emit(f"{type_name} {name} = {value};")

    def _store(self, s: Any) -> None:
        buffer, indices = s.buffer, s.indices
        if len(indices) != 1:
            raise EmitError(f"{buffer.name} is accessed with {len(indices)} indices; buffers are flat here")
        index = indices[0]
        storage = self.e.storage(buffer)
        self._written.add(storage.name)
        if type(index) is X.Ramp:
            self._vectors.store(storage, index, s.value)
            return
        self._emit(f"{self.e.element(buffer, index)} = {self.e.show(s.value)};")

    def _evaluate(self, s: Any) -> None:
        value = s.value
        if type(value) is X.IntImm:
            return
        self._emit(f"{self.e.show(value)};")

    def _for(self, s: Any) -> None:
        kind = int(s.kind)
        if kind not in (X.ForKind.SERIAL, X.ForKind.UNROLLED, X.ForKind.VECTORIZED):
            raise EmitError(f"a loop over {s.loop_var.name} of kind {X.ForKind(kind).name} is left")
        start, step = self.e.text(s.min), s.step
        stop = s.extent if start[0] == "0" else s.min + s.extent
        end = self.e.text(stop)
        low, high = self.e.bounds.interval(s.min)[0], self.e.bounds.interval(stop)[1] - 1
        self._names.enter()
        name = self._names.new(str(s.loop_var.name))
        self.e.names[s.loop_var.__chandle__()] = name
        by_one = step is None or (type(step) is X.IntImm and step.value == 1)
        pair = converted_in_pairs(self.e, s)
        increment = f"++{name}" if by_one else f"{name} += {self.e.show(step)}"
        increment = increment if pair is None else f"{name} += 2"
        self.e.bounds.set(s.loop_var, (low, high))
        if (factor := s.annotations.get(UNROLL)) is not None:
            self._emit(f"#pragma unroll {int(factor)}")
        elif kind in (X.ForKind.UNROLLED, X.ForKind.VECTORIZED):
            self._emit("#pragma unroll")
        type_name, limit = self.e.type_name(str(s.loop_var.ty.dtype)), paren(end, TERNARY + 1)
        self._emit(f"for ({type_name} {name} = {start[0]}; {name} < {limit}; {increment}) {{")
        if pair is None:
            self._block(s.body)
        else:
            self._converted_pair(s.body, pair)
        self._emit("}")
        self._names.leave()

    def _converted_pair(self, s: Any, pair: PairConversion) -> None:
        load = s.value.value
        self._written.add(self.e.storage(s.buffer).name)
        target, source = self.e.element(s.buffer, s.indices[0]), self.e.element(load.source, load.indices[0])
        self._emit(f"  {pair_store(pair, target, source)}")

    def _while(self, s: Any) -> None:
        self._emit(f"while ({self.e.show(s.condition)}) {{")
        self._block(s.body)
        self._emit("}")

    def _if(self, s: Any, word: str = "if") -> None:
        self._emit(f"{word} ({self.e.show(s.condition)}) {{")
        self._block(s.then_case)
        orelse = s.else_case
        if orelse is None:
            self._emit("}")
        elif type(orelse) is X.IfThenElse:
            self._if(orelse, "} else if")
        else:
            self._emit("} else {")
            self._block(orelse)
            self._emit("}")

    def _finish_declarations(self) -> None:
        for storage, k in self._declared:
            if storage.vector:
                text, line = self._lines[k]
                body = text.lstrip()
                self._lines[k] = (
                    f"{text[: len(text) - len(body)]}{self.dialect.align.format(16)} {body}",
                    line,
                )


def _size_variables(params: Sequence[Any]) -> list[Any]:
    """The variables in the shapes of the buffers among `params`."""
    found: list[Any] = []
    for p in params:
        if X.is_buffer_var(p):
            for n in p.shape:
                tvm_ffi.structural_walk(n, (ir.Var, found.append))
    return found


def _width(shape: Any) -> tuple[bool, int]:
    """(whether a flat index can pass 2^31, the constant part of the size).

    It can where the size is too large, or where it is a product of an unknown size with anything.
    """
    constant, unknown = 1, 0

    def count(n: Any) -> None:
        nonlocal constant, unknown
        if type(n) is X.IntImm:
            constant *= int(n.value)
        elif type(n) is X.Mul:
            count(n.a)
            count(n.b)
        elif type(n) is X.FloorDiv:  # bytes of elements that share them
            count(n.a)
        else:
            unknown += 1 if type(n) is ir.Var else 2

    for n in shape:
        count(n)
    return (constant >= _INT32_END if not unknown else constant > 1 or unknown > 1), constant
