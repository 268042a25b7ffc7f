"""Random tile programs over all kinds of tiles, for the oracle, the CPU target and the emulated CUDA code.

A program is source text, so that a failing one is a kernel that can be read and kept. All buffers hold whole
numbers of at most `LIMIT`, which every dtype has: sums and products of a few of them are exact in all of
them, so that results are compared bit by bit. Each statement brings what it writes back into that range.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hypothesis import strategies as st

LIMIT = 8
FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int32", "int8", "uint8", "int16", "int64")
DTYPES = (*FLOATS, *FLOATS, *INTEGERS, "float8_e4m3fn", "float8_e5m2")
SHAPES = ((4, 8), (5, 7), (8, 16), (16, 16), (16, 32), (6, 4), (1, 8), (3, 40))
HEAD = """
@tilelang.jit
def k(A, I, Z, R: int, C: int):
    {sizes}
    A: T.Tensor((M, N), T.float32)
    I: T.Tensor((L,), T.int32)
    Z: T.Tensor((2, R, C), T.float32)
"""
# How the sizes of the tensors are known: fixed by a compilation, or bound at launch.
SIZES = (
    'M, N, L = T.const("M, N, L")',
    'M, N, L = T.const("M, N, L")',
    'M, N, L = T.dynamic("M, N, L")',
    'M, L = T.const("M, L")\n    N = T.dynamic("N")',
)
ROWS = "T.ceildiv(M, R)"  # blocks


@dataclass(frozen=True)
class Tile:
    """A buffer of the program."""

    name: str
    dtype: str
    scope: str  # shared, fragment
    shape: tuple[str, ...]  # of R and C

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def is_shared(self) -> bool:
        return self.scope == "shared"

    @property
    def unsigned(self) -> bool:
        return self.dtype[0] == "u"

    @property
    def whole(self) -> bool:
        return self.shape == ("R", "C")


@dataclass
class Program:
    """The text of a kernel and what its call needs."""

    text: str
    shape: tuple[int, int]  # of a tile
    outputs: tuple[str, ...]  # names, in the order in which they are returned
    threads: int
    fixed: str  # sizes that a compilation fixes, "M, L"
    workspaces: dict[str, str] = field(default_factory=dict)  # names and dtypes: tiles of all blocks
    axes: tuple[int, ...] = ()  # blocks along the second and third axis of the grid
    made_of: list[str] = field(default_factory=list)  # kinds of statements


class Choices(Protocol):
    """Where a program comes from: `random.Random` is one, hypothesis another one."""

    def choice(self, seq: Any, /) -> Any: ...
    def randint(self, a: int, b: int) -> int: ...


class Drawn:
    """Choices that hypothesis makes, and makes simpler when a program fails."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def choice(self, seq: Any, /) -> Any:
        return self._draw(st.sampled_from(seq))

    def randint(self, a: int, b: int) -> int:
        return self._draw(st.integers(a, b))


class Writer:
    """Writes one program, asking `choices` for everything."""

    def __init__(self, choices: Choices, statements: int = 6) -> None:
        self.choices = choices
        self.count = 0
        self.kinds: list[str] = []
        self.shape = self.pick(SHAPES)
        self.threads = self.pick((32, 64, 96, 128, 256))
        self.tiles = [self._tile(n) for n in range(self.number(2, 5))]
        self.rows = self._vector("r", "R")
        self.columns = self._vector("c", "C")
        self.variables: list[str] = ["bx"]  # the same for the whole block
        self.most = statements

    # Choices

    def pick(self, options: Any) -> Any:
        return self.choices.choice(list(options))

    def number(self, low: int, high: int) -> int:
        return self.choices.randint(low, high)

    def chance(self, one_in: int = 2) -> bool:
        return self.number(1, one_in) == one_in

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _tile(self, number: int) -> Tile:
        scope = self.pick(("shared", "fragment"))
        return Tile(f"{scope[0]}{number}", self.pick(DTYPES), scope, ("R", "C"))

    def _vector(self, name: str, extent: str) -> Tile:
        scope = self.pick(("fragment", "fragment", "shared"))
        return Tile(name, self.pick(("float32", "float16", "int32", "bfloat16", "int16")), scope, (extent,))

    # The program

    def program(self) -> Program:
        sizes = self.pick(SIZES)
        self.axes = self.pick(((), (), (), (2,), (3,), (2, 2)))
        self.workspaces: dict[str, str] = {}
        self.macros: list[str] = []
        self.kept = self.pick(self.tiles) if self.chance(3) else None  # goes on to the next launch
        launches = self.launch("B")
        outputs = [f"B_{b.name}" for b in self.buffers]
        empties = self._outputs("B")
        if self.kept is not None:
            self.workspaces["W"] = self.kept.dtype
        if self.kept is not None or self.chance(4):
            self.kinds.append("second_launch")
            if self.chance():  # into tensors of its own; else over what the first one wrote
                empties += self._outputs("D")
                launches += self.launch("D", after=True)
                outputs += [f"D_{b.name}" for b in self.buffers]
            else:
                launches += self.launch("B", after=True)
        places = ", ".join([*map(str, self.axes), f"{ROWS} * R", "C"])
        empties += [f"{n} = T.alloc_global(({places}), T.{dtype})" for n, dtype in self.workspaces.items()]
        head = HEAD.strip("\n").format(sizes=sizes)
        lines = [*self.macros, head, *(f"    {line}" for line in [*empties, *launches])]
        lines.append(f"    return {', '.join(outputs)}")
        fixed = "".join(re.findall(r'T.const\("(.*?)"\)', sizes))
        return Program(
            "\n".join(lines) + "\n",
            self.shape,
            tuple(outputs),
            self.threads,
            fixed,
            self.workspaces,
            self.axes,
            self.kinds,
        )

    @property
    def buffers(self) -> list[Tile]:
        return [*self.tiles, self.rows, self.columns]

    def _outputs(self, into: str) -> list[str]:
        shapes = [(f"{ROWS} * R", "C") if b.whole else (ROWS, b.shape[0]) for b in self.buffers]
        return [
            f"{into}_{b.name} = T.empty(({', '.join([*map(str, self.axes), *shape])}), T.{b.dtype})"
            for b, shape in zip(self.buffers, shapes, strict=True)
        ]

    def launch(self, into: str, after: bool = False) -> list[str]:
        """One T.Kernel that stores all its buffers to outputs. after: it begins with those of the first."""
        self.variables = ["bx", "by", "bz"][: 1 + len(self.axes)]
        body: list[str] = []
        for b in self.buffers:
            body += [f"T.copy(B_{b.name}[{self._place(b)}], {b.name})"] if after else self._first(b)
        if after and self.kept is not None:
            body.append(f"T.copy(W[{self._place(self.kept)}], {self.kept.name})")
        self.meets = False  # blocks wait for each other
        body += self.block(2, self.most)
        if not after and self.kept is not None:
            body.append(f"T.copy({self.kept.name}, W[{self._place(self.kept)}])")
        body += [f"T.copy({b.name}, {into}_{b.name}[{self._place(b)}])" for b in self.buffers]
        allocations = [self._allocation(b) for b in self.buffers]
        names, extents = ["bx", "by", "bz"][: 1 + len(self.axes)], [ROWS, *map(str, self.axes)]
        if len(names) > 1:
            self.kinds.append("axes")
            if self.chance():
                names, extents = names[::-1], extents[::-1]
        if self.meets or not self.chance(4):
            lines = [*allocations, *body]
            if self.chance(6) and not self.meets:
                lines.insert(0, f"T.use_swizzle({self.number(1, 3)})")
            return [
                f"with T.Kernel({', '.join(extents)}, threads={self.threads}) as {_together(names)}:",
                *(f"    {line}" for line in lines),
            ]
        self.kinds.append("persistent")
        workers, group = self.number(1, 3), self.number(1, 2)
        domain = f"T.Persistent([{', '.join(extents)}], {workers}, worker, group_size={group})"
        lines = [*allocations, f"for {', '.join(names)} in {domain}:"]
        lines += [f"    {line}" for line in body]
        return [
            f"with T.Kernel({workers}, threads={self.threads}) as worker:",
            *(f"    {line}" for line in lines),
        ]

    def _place(self, b: Tile) -> str:
        first = ["by", "bz"][: len(self.axes)]
        return ", ".join([*first, "bx * R" if b.whole else "bx", "0"])

    def _allocation(self, b: Tile) -> str:
        return f"{b.name} = T.alloc_{b.scope}(({', '.join(b.shape)},), T.{b.dtype})"

    def _first(self, b: Tile) -> list[str]:
        how = self.number(0, 2)
        if how == 0 or not b.whole:
            return [f"T.fill({b.name}, {self.constant(b)})"]
        if how == 1 and not b.unsigned:
            return [f"T.copy(A[bx * R, {self.number(0, 3)}], {b.name})"]
        return self.each(b, self.value(b, ["i", "j"], shared_at_will=True))

    def constant(self, b: Tile) -> int:
        return self.number(0 if b.unsigned else -LIMIT, LIMIT)

    def block(self, depth: int, most: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.number(1, most)):
            kinds = [k for k in STATEMENTS if depth or k not in NESTED]
            kind = self.pick(kinds)
            made = getattr(self, f"_{kind}")(depth)
            if made:
                self.kinds.append(kind)
                lines += made
        return lines or [f"T.clear({self.tiles[0].name})"]

    # Values

    def each(self, b: Tile, value: str, place: str = "", guard: str = "") -> list[str]:
        """A parallel loop that stores a value to every element."""
        if b.whole:
            head, at = "for i, j in T.Parallel(R, C):", place or "i, j"
        else:
            head, at = f"for i in T.Parallel({b.shape[0]}):", place or "i"
        if guard:
            return [head, f"    if {guard}:", f"        {b.name}[{at}] = {value}"]
        return [head, f"    {b.name}[{at}] = {value}"]

    def value(self, into: Tile, loops: list[str], shared_at_will: bool = False, avoid: str = "") -> str:
        """An expression over loop variables, tiles, tensors; clamped to what `into` may hold.

        avoid: a shared tile that only the place being written may be read of.
        """
        one = self.leaf(loops, avoid, initial=shared_at_will)
        for _ in range(self.number(0, 2)):
            one = self.combined(one, self.leaf(loops, avoid, initial=shared_at_will))
        return self.held(one, into)

    def held(self, value: str, into: Tile) -> str:
        low = 0 if into.unsigned else -LIMIT
        if self.chance():
            return f"T.clamp({value}, {low}, {LIMIT})"
        return f"T.max(T.min({value}, {LIMIT}), {low})"

    def leaf(self, loops: list[str], avoid: str = "", initial: bool = False) -> str:
        kind = self.pick(
            ("loop", "tensor", "scalar") if initial else ("tile", "tile", "tile", "vector", *KINDS)
        )
        if kind == "tile" and len(loops) == 2:
            return self.read(self.pick(self.tiles), loops, avoid)
        if kind == "vector" or kind == "tile":
            b = self.pick((self.rows, self.columns)) if len(loops) == 2 else None
            if b is None:
                b = self.rows if loops[0] == "i" and self.extent == "R" else self.columns
            return f"{b.name}[{'i' if b is self.rows or len(loops) == 1 else 'j'}]"
        if kind == "tensor" and len(loops) == 2:
            return f"A[bx * R + i + {self.number(-2, 2)}, j + {self.number(-1, 3)}]"
        if kind == "loop":
            return self.pick(loops) + " % 8" if self.chance() else f"{self.pick(loops)} // 5"
        if kind == "scalar":
            return f"I[{self.number(0, 3)}]"
        if self.variables and self.chance():
            return self.pick(self.variables)
        return str(self.number(-LIMIT, LIMIT))

    extent = "R"

    def read(self, b: Tile, loops: list[str], avoid: str) -> str:
        at = "i, j"
        # Of a fragment, other elements than its own are at hand for a thread only with some layouts.
        if b.name != avoid and self.chance(2 if b.is_shared else 8):
            at = self.pick(
                (
                    "R - 1 - i, j",
                    "i, C - 1 - j",
                    "(i + 1) % R, j",
                    "i, (j + 3) % C",
                    "i // 2, j",
                    "j % R, i % C",
                    "i, j // 2",
                    "0, j",
                    "i, 0",
                )
            )
        read = f"{b.name}[{at}]"
        return f"T.cast({read}, T.float32)" if b.dtype.startswith("float8") else read

    def combined(self, a: str, b: str) -> str:
        form = self.pick(
            (
                "{a} + {b}",
                "{a} - {b}",
                "{a} * {b}",
                "T.max({a}, {b})",
                "T.min({a}, {b})",
                "T.if_then_else({a} > {b}, {a}, {b} - 1)",
                "T.if_then_else(i % 2 == 0, {a}, {b})",
                "T.cast({a}, T.int32) // (T.cast({b}, T.int32) % 3 + 1)",
                "T.cast({a}, T.int32) % (T.cast({b}, T.int32) % 3 + 2)",
                "T.cast({a}, T.int32) // {n}",
                "T.cast({a}, T.int32) % {n}",
                "(T.cast({a}, T.int32) & T.cast({b}, T.int32))",
                "(T.cast({a}, T.int32) | T.cast({b}, T.int32))",
                "(T.cast({a}, T.int32) ^ T.cast({b}, T.int32))",
                "(T.cast({a}, T.int32) << (T.cast({b}, T.int32) & 3))",
                "(T.cast({a}, T.int32) >> 1)",
                "T.abs({a}) - {b}",
                "T.floor(T.cast({a}, T.float32) * 0.5) + {b}",
                "T.trunc(T.cast({a}, T.float32) * 0.5) + {b}",
                "T.cast({a} == {b}, T.int32)",
                "T.cast({a}, T.{dtype}) + T.cast({b}, T.{dtype})",
                "-({a}) + {b}",
            )
        )
        dtype = self.pick(("float32", "float16", "int32", "int8", "int64", "bfloat16"))
        return "(" + form.format(a=a, b=b, n=self.number(2, 5), dtype=dtype) + ")"

    def condition(self) -> str:
        return self.pick(
            (
                "bx == 0",
                "bx > 0",
                f"I[{self.number(0, 3)}] > {self.number(-2, 2)}",
                "M > 7",
                *(f"{v} % 2 == 0" for v in self.variables),
            )
        )

    # Statements

    def _copy(self, _: int) -> list[str]:
        a, b = self.pick(self.tiles), self.pick(self.tiles)
        return [] if a is b or (b.unsigned and not a.unsigned) else [f"T.copy({a.name}, {b.name})"]

    def _part(self, _: int) -> list[str]:
        """A rectangle of one tile into another one."""
        a, b = self.pick(self.tiles), self.pick(self.tiles)
        if a is b or (b.unsigned and not a.unsigned):
            return []
        (rows, columns), (h, w) = self.shape, (self.number(1, self.shape[0]), self.number(1, self.shape[1]))
        top, left = self.number(0, rows - h), self.number(0, columns - w)
        y, x = self.number(0, rows - h), self.number(0, columns - w)
        return [f"T.copy({a.name}[{top}:{top + h}, {left}:{left + w}], {b.name}[{y}:{y + h}, {x}:{x + w}])"]

    def _fill(self, _: int) -> list[str]:
        b = self.pick([*self.tiles, self.rows, self.columns])
        if b.whole and b.is_shared and self.chance():
            h = self.number(1, self.shape[0])
            return [f"T.fill({b.name}[{self.number(0, h - 1)}:{h}, :], {self.constant(b)})"]
        return [f"T.fill({b.name}, {self.constant(b)})" if self.chance() else f"T.clear({b.name})"]

    def _load(self, _: int) -> list[str]:
        b = self.pick(self.tiles)
        return (
            [] if b.unsigned else [f"T.copy(A[bx * R + {self.number(-3, 3)}, {self.number(0, 5)}], {b.name})"]
        )

    def _map(self, _: int) -> list[str]:
        b = self.pick(self.tiles)
        place = ""
        if b.is_shared and self.chance(3):
            place = self.pick(("R - 1 - i, j", "i, C - 1 - j"))
        value = self.value(b, ["i", "j"], avoid=b.name)
        if place and f"{b.name}[" in value:
            place = ""
        guard = (
            self.pick(("i < j", "(i + j) % 3 == 0", "i > 0", f"j < {self.number(1, 6)}"))
            if self.chance(4)
            else ""
        )
        return self.each(b, value, place, guard)

    def _two(self, _: int) -> list[str]:
        """Two stores in one loop, the second of what the first made."""
        a, b = self.pick(self.tiles), self.pick(self.tiles)
        if a is b:
            return []
        first = self.value(a, ["i", "j"], avoid=a.name)
        if f"{b.name}[" in first:
            return []
        inner = f"x = {first}"
        read = self.held("x + 1", b)
        return [
            "for i, j in T.Parallel(R, C):",
            f"    {inner}",
            f"    {a.name}[i, j] = x",
            f"    {b.name}[i, j] = {read}",
        ]

    def _vector_map(self, _: int) -> list[str]:
        b = self.pick((self.rows, self.columns))
        self.extent = b.shape[0]
        return self.each(b, self.value(b, ["i"], avoid=b.name))

    def _reduce(self, _: int) -> list[str]:
        a = self.pick(self.tiles)
        dim, b = self.pick(((0, self.columns), (1, self.rows), (-1, self.rows)))
        op = self.pick(("sum", "max", "min", "absmax", "abssum"))
        if op != "abssum":
            return [f"T.reduce_{op}({a.name}, {b.name}, dim={dim}, clear={self.chance()})", *self.normal(b)]
        return [f"T.reduce_abssum({a.name}, {b.name}, dim={dim})", *self.normal(b)]

    def normal(self, b: Tile) -> list[str]:
        """Bring a tile back into the range."""
        at = "i, j" if b.whole else "i"
        read = f"{b.name}[{at}]"
        if b.dtype.startswith("float8"):
            read = f"T.cast({read}, T.float32)"
        return self.each(b, self.held(read, b))

    def _scan(self, _: int) -> list[str]:
        shared = [t for t in self.tiles if t.is_shared and t.dtype in ("float32", "int32", "float16")]
        if not shared:
            return []
        b = self.pick(shared)
        op = self.pick(("cumsum", "cummax"))
        return [f"T.{op}({b.name}, dim={self.number(0, 1)}, reverse={self.chance()})", *self.normal(b)]

    def _atomic(self, _: int) -> list[str]:
        shared = [t for t in self.tiles if t.is_shared and t.dtype in ("float32", "int32")]
        if not shared:
            return []
        b = self.pick(shared)
        op = self.pick(("add", "max", "min"))
        value = self.held(self.leaf(["i", "j"], b.name), b)
        if f"{b.name}[" in value:
            return []
        place = self.pick(("i, j", "i // 2, j", "0, j", "i, 0", "j % R, i % C"))
        return [
            "for i, j in T.Parallel(R, C):",
            f"    T.atomic_{op}({b.name}[{place}], T.cast({value}, T.{b.dtype}))",
            *self.normal(b),
        ]

    def _inner_sum(self, _: int) -> list[str]:
        """A serial loop inside of a parallel one."""
        shared = [t for t in self.tiles if t.is_shared and not t.dtype.startswith("float8")]
        fragments = [t for t in self.tiles if not t.is_shared and t.dtype in ("float32", "int32")]
        if not shared or not fragments:
            return []
        a, b = self.pick(shared), self.pick(fragments)
        n = self.number(1, 4)
        at = self.pick(("i, k % C", "k % R, j", "(i + k) % R, j"))
        return [
            "for i, j in T.Parallel(R, C):",
            f"    for k in T.serial({n}):",
            f"        {b.name}[i, j] += {a.name}[{at}]",
            *self.normal(b),
        ]

    def _transpose(self, _: int) -> list[str]:
        if self.shape[0] != self.shape[1]:
            return []
        shared = [t for t in self.tiles if t.is_shared]
        pairs = [(a, b) for a in shared for b in shared if a is not b and a.dtype == b.dtype]
        if not pairs:
            return []
        a, b = self.pick(pairs)
        return [f"T.transpose({a.name}, {b.name})"]

    def _scalar_store(self, _: int) -> list[str]:
        """One element of a shared tile, written and read by the whole block."""
        shared = [
            t for t in self.tiles if t.is_shared and not t.unsigned and not t.dtype.startswith("float8")
        ]
        if not shared:
            return []
        b, v = self.pick(shared), self.name("v")
        at = f"{self.number(0, self.shape[0] - 1)}, {self.number(0, self.shape[1] - 1)}"
        if self.chance():
            return [f"{b.name}[{at}] = {self.pick(self.variables)} % 8"]
        self.variables.append(v)
        return [
            f"{v} = T.alloc_var(T.int32, init={self.number(-3, 3)})",
            f"{v} = T.cast({b.name}[{at}], T.int32)",
        ]

    def _reshaped(self, _: int) -> list[str]:
        shared = [t for t in self.tiles if t.is_shared]
        if not shared:
            return []
        a, v = self.pick(shared), self.name("w")
        shape, at = self.pick(
            (("(C, R)", "i * C // R % C, j % R"), ("(R * C,)", "i * C + j"), ("(C * R, 1)", "j, 0"))
        )
        other = [t for t in self.tiles if t is not a]
        b = self.pick(other)
        read = f"{v}[{at}]"
        if a.dtype.startswith("float8"):
            read = f"T.cast({read}, T.float32)"
        return [f"{v} = T.reshape({a.name}, {shape})", *self.each(b, self.held(read, b))]

    def _gather(self, _: int) -> list[str]:
        """Rows chosen by numbers of a tensor."""
        shared = [t for t in self.tiles if t.is_shared and not t.dtype.startswith("float8")]
        if not shared:
            return []
        a = self.pick(shared)
        others = [t for t in self.tiles if t is not a]
        row = self.pick(("(I[i % 4] + 8) % R", "(I[j % 4] + i + 8) % R", "T.max(I[bx], 0) % R"))
        b = self.pick(others)
        return self.each(b, self.held(f"{a.name}[{row}, j] + {self.number(-2, 2)}", b))

    def _flags(self, _: int) -> list[str]:
        """A tile of truth values, made and asked."""
        a, b, m = self.pick(self.tiles), self.pick(self.tiles), self.name("m")
        if any(t.dtype.startswith("float8") for t in (a, b)):
            return []
        scope = self.pick(("shared", "fragment"))
        return [
            f"{m} = T.alloc_{scope}((R, C), T.bool)",
            "for i, j in T.Parallel(R, C):",
            f"    {m}[i, j] = {a.name}[i, j] > {self.number(-3, 3)}",
            *self.each(b, self.held(f"T.if_then_else({m}[i, j], {b.name}[i, j], {self.number(0, 5)})", b)),
        ]

    def _reducer(self, _: int) -> list[str]:
        """A reducer over the columns of a tile."""
        a, q = self.pick(self.tiles), self.name("q")
        if a.dtype.startswith("float8"):
            return []
        op = self.pick(("sum", "max", "min"))
        start = {"sum": 0, "max": -100, "min": 100}[op]
        result = self.name("q")
        return [
            f"{q} = T.alloc_reducer((R,), T.float32, op='{op}')",
            f"{result} = T.alloc_fragment((R,), T.float32)",
            f"T.reducer_init({q}, {start})",
            "for i, j in T.Parallel(R, C):",
            f"    T.reducer_update({q}[i], T.cast({a.name}[i, j], T.float32))",
            f"T.finalize_reducer({q}, {result})",
            "for i in T.Parallel(R):",
            f"    {self.rows.name}[i] = {self.held(f'{result}[i]', self.rows)}",
        ]

    def _deep(self, _: int) -> list[str]:
        """A tile of three dimensions, filled from one and folded into another one."""
        a, b, d = self.pick(self.tiles), self.pick(self.tiles), self.name("d")
        if any(t.dtype.startswith("float8") for t in (a, b)):
            return []
        scope = self.pick(("shared", "fragment"))
        n = self.number(2, 3)
        total = self.name("d")
        return [
            f"{d} = T.alloc_{scope}(({n}, R, C), T.float32)",
            f"{total} = T.alloc_fragment((R, C), T.float32)",
            f"for h, i, j in T.Parallel({n}, R, C):",
            f"    {d}[h, i, j] = h * {self.number(-2, 2)} + {'i' if not a.is_shared else f'{a.name}[i, j]'}",
            f"T.reduce_{self.pick(('sum', 'max', 'min'))}({d}, {total}, dim=0)",
            *self.each(b, self.held(f"{total}[i, j]", b)),
        ]

    def _threads(self, _: int) -> list[str]:
        """Each thread for itself: a row of a shared tile turned round through a barrier."""
        shared = [t for t in self.tiles if t.is_shared and not t.dtype.startswith("float8")]
        if not shared or self.shape[1] > self.threads:
            return []
        a, v, x = self.pick(shared), self.name("t"), self.name("x")
        row = self.number(0, self.shape[0] - 1)
        place = self.pick((f"C - 1 - {v}", f"({v} + 1) % C", f"{v}"))
        return [
            f"{v} = T.get_thread_binding(0)",
            f"{x} = T.alloc_var(T.int32, init=0)",
            f"if {v} < C:",
            f"    {x} = T.cast({a.name}[{row}, {v}], T.int32)",
            "T.sync_threads()",
            f"if {v} < C:",
            f"    {a.name}[{row}, {place}] = {x}",
        ]

    def _narrow(self, _: int) -> list[str]:
        """Arithmetic that wraps around in its dtype, or takes bits."""
        b = self.pick(self.tiles)
        n = self.number(1, 200)
        value = self.pick(
            (
                f"T.cast(i * {n} + j, T.int8) // 16",
                f"T.cast(i * {n} + j * 31, T.uint8) >> 5",
                f"T.cast(T.cast(i * {n} - 100, T.int8) * T.cast(j + 3, T.int8), T.int32) // 16",
                f"T.cast(T.cast(i * {n}, T.uint16) * T.cast(j + 600, T.uint16) >> 13, T.int32)",
                f"(T.cast(i * {n} - 50, T.int16) * T.cast(j + 700, T.int16)) // 4096",
                f"T.cast((T.cast(j * {n} + 77, T.uint32) * T.cast(2654435761, T.uint32)) >> 29, T.int32)",
                f"T.cast((T.cast(i - 3, T.int64) << 33) >> 33, T.int32) + j % {n}",
                f"T.cast(~T.cast(i * {n}, T.uint8), T.int32) // 32",
                f"T.cast(T.cast(i - j, T.int8) % T.cast({n % 7 + 2}, T.int8), T.int32)",
                f"T.truncdiv(i - j * 3, {n % 5 + 2}) + T.truncmod(j - i, 3)",
                f"(i - {n}) // {n % 5 + 2} % 7 - (j - 9) % {n % 4 + 2}",
            )
        )
        return self.each(b, self.held(value, b))

    def _swizzled(self, _: int) -> list[str]:
        """A tile that lies swizzled in shared memory."""
        a, z = self.pick(self.tiles), self.name("z")
        others = [t for t in self.tiles if t is not a]
        b = self.pick(others)
        if any(t.dtype.startswith("float8") for t in (a, b)) or self.shape not in (
            (8, 16),
            (16, 16),
            (16, 32),
        ):
            return []
        return [
            f"{z} = T.alloc_shared((R, C), T.float32)",
            f"T.annotate_layout({{{z}: T.Layout((R, C), lambda i, j: (i, j ^ (i % 4)))}})",
            f"T.copy({a.name}, {z})",
            *self.each(b, self.held(f"{z}[R - 1 - i, j]", b)),
        ]

    def _bits(self, _: int) -> list[str]:
        """A tile seen as integers of its width, or as its bytes: the sign turned, low bits read."""
        shared = [t for t in self.tiles if t.is_shared or self.chance(4)]
        if not shared:
            return []
        a, v, b = self.pick(shared), self.name("w"), self.pick(self.tiles)
        bits = int(re.findall(r"\d+", a.dtype)[0])
        if a.is_float and self.chance():
            lines = [f"{v} = T.view({a.name}, (R, C), T.uint{bits})"]
            sign = f"T.cast({1 << (bits - 1)}, T.uint{bits})"
            return [*lines, "for i, j in T.Parallel(R, C):", f"    {v}[i, j] = {v}[i, j] ^ {sign}"]
        if a is b or not a.is_shared:
            return []
        wide = bits // 8
        read = f"T.cast({v}[i, j * {wide} + {self.number(0, wide - 1)}], T.int32) % 8"
        return [f"{v} = T.view({a.name}, (R, C * {wide}), T.uint8)", *self.each(b, self.held(read, b))]

    def _macro(self, _: int) -> list[str]:
        """A macro that works on tiles, or gives a value."""
        a, b, name = self.pick(self.tiles), self.pick(self.tiles), self.name("macro")
        if a is b:
            return []
        read = "T.cast(x[i, j], T.float32)" if a.dtype.startswith("float8") else "x[i, j]"
        if self.chance():
            value = self.held(f"{read} + n", b)
            body = ["for i, j in T.Parallel(R, C):", f"    y[i, j] = {value}"]
            if self.chance():
                body = ["t = T.alloc_fragment((R, C), T.float32)", "T.copy(x, t)", *body]
                body[-1] = body[-1].replace(read, "t[i, j]")
            self.macros += ["@T.macro", f"def {name}(x, y, n, R, C):", *(f"    {line}" for line in body), ""]
            return [f"{name}({a.name}, {b.name}, {self.pick(self.variables)} % 8, R, C)"]
        self.macros += ["@T.macro", f"def {name}(x, y):", "    z = x * 2", "    return z - y", ""]
        read = read.replace("x", a.name, 1) if read[0] == "x" else f"T.cast({a.name}[i, j], T.float32)"
        return self.each(b, self.held(f"{name}({read}, {self.number(-3, 3)})", b))

    def _lanes(self, _: int) -> list[str]:
        """What threads tell each other, written back to a row of a shared tile."""
        shared = [t for t in self.tiles if t.is_shared and not t.dtype.startswith("float8")]
        if not shared or self.shape[1] > self.threads:
            return []
        a, v, x = self.pick(shared), self.name("t"), self.name("x")
        row, n = self.number(0, self.shape[0] - 1), self.number(1, 9)
        told = self.pick(
            (
                f"T.shfl_xor({x}, {n}) + {x}",
                f"T.shfl_down({x}, {n}) - T.shfl_up({x}, {n})",
                f"T.shfl_sync({x}, {n}) * {v}",
                f"T.shfl_xor({x}, {n % 4}, 8)",
                f"T.warp_reduce_{self.pick(('sum', 'max', 'min', 'bitor'))}({x})",
                f"T.any_sync({x} > {n}) * 3 + T.all_sync({x} < {n})",
                f"T.syncthreads_count({x} == {n % 3}) - {v}",
                f"T.cast(T.ballot({x} > 0), T.int32) % 8",
            )
        )
        return [
            f"{v} = T.get_thread_binding(0)",
            f"{x} = T.alloc_var(T.int32, init=0)",
            f"{x} = T.cast({a.name}[{row}, {v} % C], T.int32)",
            f"{x} = {told}",
            "T.sync_threads()",
            f"if {v} < C:",
            f"    {a.name}[{row}, {v}] = {self.held(x, a)}",
        ]

    def _private(self, _: int) -> list[str]:
        """An array of each thread, in thread code."""
        v, x = self.name("t"), self.name("p")
        target = self.columns
        if not target.is_shared or self.shape[1] > self.threads:
            return []
        n = self.number(1, 4)
        return [
            f"{v} = T.get_thread_binding(0)",
            f"{x} = T.alloc_local(({n},), T.int32)",
            f"for l in T.{self.pick(('serial', 'unroll', 'vectorized'))}({n}):",
            f"    {x}[l] = {v} * {self.number(-2, 3)} + l",
            f"if {v} < C:",
            f"    {target.name}[{v}] = {self.held(f'{x}[{self.number(0, n - 1)}]', target)}",
        ]

    def _tile_atomic(self, _: int) -> list[str]:
        """A tile added to a part of Z, which all blocks share; or its elements."""
        a = self.pick(self.tiles)
        if a.dtype.startswith("float8"):
            return []
        (rows, columns), which = self.shape, self.number(0, 1)
        h, w = self.number(1, rows), self.number(1, columns)
        y, x = self.number(0, rows - h), self.number(0, columns - w)
        how = self.number(0, 3)
        if how == 0 and a.dtype == "float32":
            return [f"T.atomic_add(Z[{which}, 0, 0], {a.name})"]
        if how == 1 and a.dtype == "float32" and a.is_shared:
            return [f"T.atomic_add(Z[{which}, {y}:{y + h}, {x}:{x + w}], {a.name}[{y}:{y + h}, {x}:{x + w}])"]
        place = self.pick((f"{which}, i, j", f"{which}, i, {x}", f"i % 2, {y}, j", f"{which}, R - 1 - i, j"))
        return [
            "for i, j in T.Parallel(R, C):",
            f"    T.atomic_add(Z[{place}], T.cast({a.name}[i, j], T.float32))",
        ]

    def _meeting(self, depth: int) -> list[str]:
        """Blocks show each other a tile in a workspace and wait for all of them."""
        if depth < 2 or self.axes:
            return []
        self.meets = True
        a, b, x = self.pick(self.tiles), self.pick(self.tiles), self.name("X")
        if b.unsigned and not a.unsigned:
            return []
        self.workspaces[x] = a.dtype
        other = self.pick((f"(bx + 1) % {ROWS}", f"{ROWS} - 1 - bx", "0"))
        return [
            f"T.copy({a.name}, {x}[bx * R, 0])",
            "T.sync_grid()",
            f"T.copy({x}[({other}) * R, 0], {b.name})",
        ]

    def _scan_to(self, _: int) -> list[str]:
        """Running sums of one tile in another one, or of a vector."""
        if self.chance(3):
            b = self.pick((self.rows, self.columns))
            self.extent = b.shape[0]
            return [
                f"T.{self.pick(('cumsum', 'cummax'))}({b.name}, reverse={self.chance()})",
                *self.normal(b),
            ]
        a, t = self.pick(self.tiles), self.name("t")
        if a.dtype not in ("float32", "int32", "float16", "bfloat16"):
            return []
        into = self.pick(self.tiles)
        scope = "shared" if a.is_shared and self.chance() else "fragment"
        if a.is_shared and scope == "fragment":
            scope = "shared"
        op = self.pick(("cumsum", "cummax"))
        return [
            f"{t} = T.alloc_{scope}((R, C), T.{a.dtype})",
            f"T.{op}({a.name}, {t}, dim={self.number(0, 1)}, reverse={self.chance()})",
            *self.each(into, self.held(f"{t}[i, j]", into)),
        ]

    def _row(self, _: int) -> list[str]:
        """A row or a column of a tile as a vector, by a copy between ranks."""
        shared = [t for t in self.tiles if t.is_shared and not t.unsigned]
        if not shared:
            return []
        a = self.pick(shared)
        row, column = self.number(0, self.shape[0] - 1), self.number(0, self.shape[1] - 1)
        line, vector = self.pick(
            ((f"{a.name}[{row}, :]", self.columns), (f"{a.name}[:, {column}]", self.rows))
        )
        return [f"T.copy({line}, {vector.name})" if self.chance() else f"T.copy({vector.name}, {line})"]

    def _slab(self, _: int) -> list[str]:
        """One plane of a tile of three dimensions, chosen by a variable."""
        a, b, d = self.pick(self.tiles), self.pick(self.tiles), self.name("d")
        if b.unsigned and not a.unsigned:
            return []
        n = self.number(2, 3)
        which = f"{self.pick(self.variables)} % {n}"
        return [
            f"{d} = T.alloc_shared(({n}, R, C), T.{a.dtype})",
            f"T.fill({d}, {self.number(0, 3)})",
            f"T.copy({a.name}, {d}[{which}, :, :])"
            if self.chance()
            else f"T.copy({a.name}, {d}[{which}, 0, 0])",
            f"T.copy({d}[{which if self.chance() else '0'}, :, :], {b.name})",
        ]

    def _bit_reduce(self, _: int) -> list[str]:
        whole = [t for t in self.tiles if t.dtype in ("int32", "int16", "int64", "int8")]
        if not whole:
            return []
        a, t = self.pick(whole), self.name("t")
        dim, b = self.pick(((0, self.columns), (1, self.rows)))
        op, clear = self.pick(("bitand", "bitor", "bitxor")), self.chance()
        return [
            f"{t} = T.alloc_fragment(({b.shape[0]},), T.{a.dtype})",
            f"T.fill({t}, {self.number(-8, 8)})",
            f"T.reduce_{op}({a.name}, {t}, dim={dim}, clear={clear})",
            f"for i in T.Parallel({b.shape[0]}):",
            f"    {b.name}[i] = {self.held(f'{t}[i]', b)}",
        ]

    def _flat(self, _: int) -> list[str]:
        """All elements by one number, or in short vectors."""
        a, b = self.pick(self.tiles), self.pick(self.tiles)
        if a is b or a.dtype.startswith("float8"):
            return []
        if self.shape[1] % 4 == 0 and self.chance():
            at = "i, j * 4 + v"
            return [
                "for i, j in T.Parallel(R, C // 4):",
                "    for v in T.vectorized(4):",
                f"        {b.name}[{at}] = {self.held(f'{a.name}[{at}] + 1', b)}",
            ]
        at = "n // C, n % C"
        return ["for n in T.Parallel(R * C):", f"    {b.name}[{at}] = {self.held(f'{a.name}[{at}] - 1', b)}"]

    def _inner(self, _: int) -> list[str]:
        """Each element counts in a loop of its own, which it may leave early."""
        b, x = self.pick(self.tiles), self.name("x")
        shared = [t for t in self.tiles if t.is_shared and t is not b and not t.dtype.startswith("float8")]
        read = f"{self.pick(shared).name}[(i + q) % R, j]" if shared else "i + q"
        leave = self.pick(("", f"if {x} > {self.number(0, 6)}:", f"if q == {self.number(0, 3)}:"))
        lines = [
            "for i, j in T.Parallel(R, C):",
            f"    {x} = T.alloc_var(T.int32, init={self.number(-2, 2)})",
        ]
        if self.chance(3):
            q = self.name("q")
            return [
                *lines,
                f"    {q} = T.alloc_var(T.int32, init=0)",
                f"    while {q} < (i + j) % 4:",
                f"        {x} += {q} - {self.number(-2, 2)}",
                f"        {q} += 1",
                f"    {b.name}[i, j] = {self.held(x, b)}",
            ]
        lines.append(f"    for q in T.serial({self.number(1, 4)}):")
        if leave:
            lines += [f"        {leave}", f"            {self.pick(('break', 'continue'))}"]
        return [*lines, f"        {x} += T.cast({read}, T.int32)", f"    {b.name}[i, j] = {self.held(x, b)}"]

    def _nibbles(self, _: int) -> list[str]:
        """Numbers of four bits, packed wherever they lie."""
        a, b, q = self.pick(self.tiles), self.pick(self.tiles), self.name("q")
        if a.dtype.startswith("float8") or self.shape[1] % 2:
            return []
        signed = self.chance()
        scope = self.pick(("shared", "shared", "fragment"))
        low, high, dtype = (-8, 7, "int4") if signed else (0, 15, "uint4")
        return [
            f"{q} = T.alloc_{scope}((R, C), T.{dtype})",
            "for i, j in T.Parallel(R, C):",
            f"    x = T.clamp(T.cast({a.name}[i, j], T.int32), {low}, {high})",
            f"    {q}[i, j] = T.cast(x, T.{dtype})",
            *self.each(b, self.held(f"T.cast({q}[i, j], T.int32)", b)),
        ]

    def _asked(self, depth: int) -> list[str]:
        """A branch on any or all of the truths of a shared tile."""
        a, m = self.pick(self.tiles), self.name("m")
        if a.dtype.startswith("float8"):
            return []
        lines = [
            f"{m} = T.alloc_shared((R, C), T.bool)",
            "for i, j in T.Parallel(R, C):",
            f"    {m}[i, j] = {a.name}[i, j] > {self.number(-8, 8)}",
        ]
        return [*lines, *self.inside(f"if T.{self.pick(('any_of', 'all_of'))}({m}):", depth)]

    def _teams(self, _: int) -> list[str]:
        """Warp groups, each with a shared tile of its own."""
        shared = [t for t in self.tiles if t.is_shared]
        if self.threads < 256 or len(shared) < 2:
            return []
        a, b = self.pick(shared), self.pick(shared)
        if a is b:
            return []
        lines = []
        for group, t in ((0, a), (1, b)):
            value = self.held(
                self.combined(self.pick(("i", "j", "bx", "I[1]")), f"i - {self.number(0, 3)}"), t
            )
            lines += [f"with T.ws({group}):"]
            if self.chance() and not t.unsigned:
                f = self.name("f")
                lines += [f"    {f} = T.alloc_fragment((R, C), T.float32)", f"    T.copy({t.name}, {f})"]
                lines += ["    for i, j in T.Parallel(R, C):", f"        {f}[i, j] = {f}[i, j] - 1"]
                value = self.held(f"{f}[i, j]", t)
            lines += [f"    {s}" for s in self.each(t, value)]
        return [*lines, "T.sync_threads()"]

    # Control

    def inside(
        self, head: str, depth: int, new: list[str] | None = None, before: list[str] | None = None
    ) -> list[str]:
        outside = list(self.variables)
        self.variables += new or []
        body = [*(before or []), *self.block(depth - 1, 3)]
        self.variables = outside
        return [head, *(f"    {line}" for line in body)]

    def _loop(self, depth: int) -> list[str]:
        k = self.name("k")
        head = self.pick(
            (
                f"for {k} in T.serial({self.number(1, 3)}):",
                f"for {k} in range({self.number(1, 3)}):",
                f"for {k} in T.unroll({self.number(1, 3)}):",
                f"for {k} in T.serial({self.number(0, 2)}, {self.number(3, 6)}, {self.number(1, 2)}):",
                f"for {k} in T.serial(bx + 1):",
                f"for {k} in T.serial(T.max(I[0], 0) % 3):",
                f"for {k} in T.serial(T.min(N, 3)):",
                f"for {k} in T.serial({self.number(3, 4)}, 0, -1):",
            )
        )
        before = []
        if "unroll" not in head and self.chance(4):
            before = [f"if {k} == {self.number(0, 2)}:", f"    {self.pick(('break', 'continue'))}"]
        return self.inside(head, depth, [k], before)

    def _while(self, depth: int) -> list[str]:
        n = self.name("n")
        head = [f"{n} = T.alloc_var(T.int32, init={self.number(1, 3)})"]
        return [*head, *self.inside(f"while {n} > 0:", depth, [n], [f"{n} -= 1"])]

    def _if(self, depth: int) -> list[str]:
        lines = self.inside(f"if {self.condition()}:", depth)
        return [*lines, *self.inside("else:", depth)] if self.chance() else lines

    def _pipeline(self, depth: int) -> list[str]:
        """A loop that loads slices of A into tiles of its own and uses them."""
        k, tiles = self.name("k"), self.number(1, 2)
        b = self.pick(self.tiles)
        stages = self.number(0, 4)
        own = [
            Tile(self.name("p"), self.pick(("float32", "float32", "float16")), "shared", ("R", "C"))
            for _ in range(tiles)
        ]
        lines = [f"{p.name} = T.alloc_shared((R, C), T.{p.dtype})" for p in own]
        body: list[str] = []
        for p in own:
            row, column = (
                self.pick((f"bx * R + {k}", "bx * R", f"{k} * R", f"I[{k} % 4] + 8")),
                self.pick(("0", k, "1")),
            )
            if self.chance(6):  # known only when the loop runs
                x = self.name("x")
                body.append(f"{x} = I[({k} + {self.number(0, 3)}) % 4] % 5")
                row = f"{row} + {x}"
            load = [f"T.copy(A[{row}, {column}], {p.name})"]
            if self.chance(6):
                load = [f"if {self.pick((f'{k} % 2 == 0', 'bx > 0', 'I[0] > 0'))}:", f"    {load[0]}"]
                lines.append(f"T.fill({p.name}, {self.number(-3, 3)})")
            elif self.chance(6):
                load = ["for i, j in T.Parallel(R, C):", f"    {p.name}[i, j] = A[{row} + i, {column} + j]"]
            body += load
        if self.chance(4):
            p = self.pick(own)
            body += self.each(p, self.held(f"{p.name}[i, j] + 1", p))
        read = f"T.cast({b.name}[i, j], T.float32)" if b.dtype.startswith("float8") else f"{b.name}[i, j]"
        for p in own:
            at = self.pick(("i, j", "i, j", "R - 1 - i, j", "i, (j + 1) % C"))
            body += self.each(b, self.held(self.combined(f"{p.name}[{at}]", read if self.chance() else k), b))
        if self.chance():
            body += self.block(0, 2)
        if self.chance(8):
            body.append(f"T.copy(A[bx * R, 2], {own[0].name})")  # once more, behind what reads it
        trips = self.pick((self.number(1, 6), "T.max(I[1], 0)", "bx + 1", "T.ceildiv(N, C)", "0"))
        start = self.pick(("", "", f"{self.number(0, 2)}, "))
        lines += [
            f"for {k} in T.Pipelined({start}{trips}, num_stages={stages}):",
            *(f"    {s}" for s in body),
        ]
        p = own[0]
        if self.chance(4):  # what the last iteration left
            if trips not in (3, 4, 5, 6):
                lines.insert(tiles, f"T.fill({p.name}, 1)")
            lines += self.each(b, self.held(f"{p.name}[i, j] * 2", b))
        elif self.chance(4):  # the same tile in another loop
            n = self.name("k")
            lines += [
                f"for {n} in T.Pipelined({self.number(1, 4)}, num_stages={self.number(0, 3)}):",
                f"    T.copy(A[bx * R + {n}, 1], {p.name})",
                *(f"    {s}" for s in self.each(b, self.held(f"{p.name}[i, j] - {n}", b))),
            ]
        return lines

    def _partly(self, _: int) -> list[str]:
        """Loops over a part of a tile, of elements that lie apart, or of one row after the other."""
        a, b = self.pick(self.tiles), self.pick(self.tiles)
        if a is b or a.dtype.startswith("float8"):
            return []
        rows, columns = self.shape
        h, w = self.number(1, rows), self.number(1, columns)
        y, x = self.number(0, rows - h), self.number(0, columns - w)
        if self.chance(3):
            y, x = self.number(0, 1) * (rows - h), self.number(0, 1) * (columns - w)
        other = self.pick((f"i + {y}, j + {x}", f"i + {y}, j + {x}", "i, j", "0, j", f"i + {y}, 0"))
        value = self.held(f"{a.name}[{other}] + {self.number(-1, 1)}", b)
        how = self.number(0, 4)
        if how == 0:
            return [f"for i, j in T.Parallel({h}, {w}):", f"    {b.name}[i + {y}, j + {x}] = {value}"]
        if how == 1:
            k, value = self.name("k"), self.held(f"{a.name}[0, j] + 1", b)
            if a.is_shared or self.chance():
                value = value.replace("[0, j]", f"[{k}, j]")
            return [
                f"for {k} in T.serial({h}):",
                "    for j in T.Parallel(C):",
                f"        {b.name}[{k}, j] = {value}",
            ]
        if how == 2 and columns % 2 == 0:
            k = self.name("k")
            at = f"i, j * 2 + {k}"
            value = self.held(f"{a.name}[{at}] - 1", b)
            loop = self.pick(("T.serial", "T.unroll"))
            return [
                f"for {k} in {loop}(2):",
                "    for i, j in T.Parallel(R, C // 2):",
                f"        {b.name}[{at}] = {value}",
            ]
        if how == 3 and columns % 4 == 0:
            k, at = self.name("k"), "i, {k} * (C // 4) + j"
            at = at.format(k=k)
            value = self.held(f"{a.name}[{at}] + 2", b)
            return [
                f"for {k} in T.serial(4):",
                "    for i, j in T.Parallel(R, C // 4):",
                f"        {b.name}[{at}] = {value}",
            ]
        return [
            "for j, i in T.Parallel(C, R):",
            f"    {b.name}[i, j] = {self.held(f'{a.name}[i, j] * 2', b)}",
        ]

    def _of_part(self, _: int) -> list[str]:
        """A reduction of a part of a tile, or of one with three dimensions, also of a view of one."""
        a = self.pick(self.tiles)
        if a.dtype.startswith("float8"):
            return []
        rows, columns = self.shape
        op = self.pick(("sum", "max", "min", "absmax"))
        if columns % 4 == 0 and self.chance():
            v, t = self.name("w"), self.name("t")
            dim = self.number(1, 2)
            n = columns // 4 if dim == 2 else 4
            into = self.pick(self.tiles)
            return [
                f"{v} = T.reshape({a.name}, (R, C // 4, 4))",
                f"{t} = T.alloc_fragment((R, {n}), T.float32)",
                f"T.reduce_{op}({v}, {t}, dim={dim})",
                *self.each(into, self.held(f"{t}[i, {'j // 4' if dim == 2 else 'j % 4'}]", into)),
            ]
        h, w = self.number(1, rows), self.number(1, columns)
        y, x = self.number(0, rows - h), self.number(0, columns - w)
        t, dim = self.name("t"), self.number(0, 1)
        size, b = ((w, self.columns), (h, self.rows))[dim]
        return [
            f"{t} = T.alloc_{self.pick(('fragment', 'shared'))}(({size},), T.float32)",
            f"T.reduce_{op}({a.name}[{y}:{y + h}, {x}:{x + w}], {t}, dim={dim})",
            f"for i in T.Parallel({size}):",
            f"    {b.name}[i] = {self.held(f'{t}[i]', b)}",
        ]

    def _gemm(self, _: int) -> list[str]:
        """A product of tiles of halves, in a fragment of its own."""
        rows, columns = self.shape
        if rows % 16 or columns % 16:
            return []
        a, b, f = self.name("a"), self.name("b"), self.name("g")
        kind = self.pick(("float16", "bfloat16", "int8"))
        flip_a, flip_b = self.chance(), self.chance()
        total = "int32" if kind == "int8" else "float32"
        shape_a = "(C, R)" if flip_a else "(R, C)"
        shape_b = "(N_ , C)" if flip_b else "(C, N_)"
        sources = [t for t in self.tiles if not t.dtype.startswith("float8")]
        if not sources:
            return []
        left, into = self.pick(sources), self.pick(self.tiles)
        if not left.is_shared:
            return []
        at = "j, i" if not flip_a else "i, j"
        return (
            [
                f"{a} = T.alloc_shared({shape_a}, T.{kind})",
                f"{b} = T.alloc_shared({shape_b.replace('N_ ', 'C').replace('N_', 'C')}, T.{kind})",
                f"{f} = T.alloc_fragment((R, C), T.{total})",
                f"for i, j in T.Parallel({'C, R' if flip_a else 'R, C'}):",
                f"    {a}[i, j] = {left.name}[{'j, i' if flip_a else 'i, j'}]",
                "for i, j in T.Parallel(C, C):",
                f"    {b}[i, j] = (i * 3 + j * 5 + {self.number(0, 4)}) % 7 - 3",
                f"T.gemm({a}, {b}, {f}, transpose_A={flip_a}, transpose_B={flip_b}, clear_accum=True)",
                *self.each(into, self.held(f"{f}[i, j]", into)),
            ]
            if at
            else []
        )


KINDS = ("loop", "tensor", "scalar", "number")
NESTED = ("loop", "while", "if", "pipeline", "asked")
STATEMENTS = (
    "copy",
    "part",
    "fill",
    "load",
    "map",
    "map",
    "map",
    "two",
    "vector_map",
    "reduce",
    "reduce",
    "scan",
    "atomic",
    "inner_sum",
    "transpose",
    "scalar_store",
    "reshaped",
    "gemm",
    "gather",
    "flags",
    "reducer",
    "deep",
    "narrow",
    "narrow",
    "swizzled",
    "threads",
    "threads",
    "bits",
    "bits",
    "macro",
    "private",
    "lanes",
    "tile_atomic",
    "meeting",
    "scan_to",
    "row",
    "slab",
    "bit_reduce",
    "flat",
    "inner",
    "nibbles",
    "teams",
    "partly",
    "partly",
    "of_part",
    "pipeline",
    *NESTED,
)


def _together(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


@st.composite
def programs(draw: Any, statements: int = 6) -> Program:
    """A random program."""
    return Writer(Drawn(draw), statements).program()
