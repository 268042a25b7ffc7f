"""Random kernels around T.gemm as authors compose them: products in pipelines, of gathered rows, in uneven
parts of K, followed by a second launch or a meeting of the grid; warp groups, attention.

A kernel is source text. Its tensors hold small whole numbers, scores of attention are whole too and go
through exp2, so that everything is exact in the dtypes that are used and results are compared bit by bit.
Tiles, threads and sizes are odd on purpose: tails in every dimension, tiles of 48 or 80 rows, blocks of 96
or 160 threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

from tests.reference.random_tiles import Choices, Drawn

TILES = (16, 32, 32, 48, 64, 64, 64, 80, 96, 112, 128, 128)
DEPTHS = (16, 32, 32, 48, 64, 64, 96)
THREADS = (32, 64, 96, 128, 128, 128, 128, 160, 192, 256, 256, 256, 384)
POLICIES = ("Square", "FullRow", "FullCol")
# operands of both sides and accumulators
KINDS = (
    ("float16", "float32"),
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("bfloat16", "float32"),
    ("float16", "float16"),
    ("float32", "float32"),
    ("int8", "int32"),
    ("uint8", "int32"),
    ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"),
    ("int4", "int32"),
    ("uint4", "int32"),
)


@dataclass(frozen=True)
class Operand:
    """A tensor that a kernel takes; `most`: its numbers are whole and between -most and most."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    most: int = 2
    padding: int = 0  # elements between two rows: the last dimension but one has a stride of its own
    least: int | None = None  # instead of -most

    @property
    def low(self) -> int:
        if self.least is not None:
            return self.least
        return 0 if self.dtype[0] == "u" else -self.most


@dataclass
class Kernel:
    """The text of a kernel, what it is given, and what the call leaves open."""

    text: str
    operands: list[Operand]
    outputs: tuple[str, ...]
    sizes: dict[str, int]
    fixed: tuple[str, ...]  # sizes that are constants of the compilation
    made_of: list[str] = field(default_factory=list)


class Composer:
    """Writes one kernel, asking `choices` for everything."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.kinds: list[str] = []
        self.operands: list[Operand] = []

    def pick(self, options: Any) -> Any:
        return self.choices.choice(list(options))

    def number(self, low: int, high: int) -> int:
        return self.choices.randint(low, high)

    def chance(self, one_in: int = 2) -> bool:
        return self.number(1, one_in) == one_in

    def kernel(self) -> Kernel:
        return getattr(
            self, self.pick(("product", "product", "product", "attention", "attention", "groups"))
        )()

    def note(self, kind: str) -> None:
        self.kinds.append(kind)

    # A product

    def product(self) -> Kernel:
        self.kind, self.total = self.pick(KINDS)
        self.bm, self.bn, self.bk = self.pick(TILES), self.pick(TILES), self.pick(DEPTHS)
        self.threads = self.pick(THREADS)
        self.most = 1 if self.total == "float16" else 3
        self.halves = self.kind.endswith("int4")
        plain = self.kind == "float32" or self.kind.startswith(("int", "uint", "float8"))
        self.flip_a = self.chance(4 if plain else 2)
        self.flip_b = not self.chance(4) if plain else self.chance()
        self.batch = self.chance(4)
        self.split = not self.batch and self.chance(4)
        self.uneven = self.split and self.chance()
        if self.halves:
            self.bk, self.flip_a, self.flip_b = self.pick((64, 64, 128)), False, not self.chance(6)
        self.sizes = {
            "M": self.size(self.bm, 8),
            "N": self.size(self.bn, 8),
            "K": self.size(self.bk, 8, most=3),
        }
        if self.halves:
            self.sizes = {n: s + s % 2 for n, s in self.sizes.items()}
        self.fixed = self.pick((("M", "N", "K"), ("N", "K"), (), ("K",), ("M", "N", "K")))
        self.after = None if self.batch or self.split else self.pick((None, None, None, "launch", "meeting"))
        body = self.grid()
        outputs = ("C",) if not self.split else ()
        if self.after is not None:
            self.note(f"then a {self.after}")
            outputs += ("D",)
        if self.rows_too:
            outputs += ("R",)
        return self.finish(body, outputs)

    def size(self, tile: int, step: int, most: int = 2) -> int:
        """Whole tiles, or with a tail that is aligned or not."""
        whole = tile * self.number(1, most)
        if self.chance():
            return whole
        self.note("tail")
        less = self.number(1, tile - 1)
        return whole - (less // step * step if self.chance() else less) or tile

    def finish(self, body: list[str], outputs: tuple[str, ...]) -> Kernel:
        names = ", ".join(dict.fromkeys(o.name for o in self.operands))
        symbols = [n for n in self.sizes if n not in self.fixed]
        head = ["@tilelang.jit", f"def k({names}):"]
        for call, some in (("const", [n for n in self.sizes if n in self.fixed]), ("dynamic", symbols)):
            if some:
                both = ", ".join(some)
                head.append(f'    {both} = T.{call}("{both}")')
        lines = [*head, *(f"    {line}" for line in body)]
        if outputs:
            lines.append(f"    return {', '.join(outputs)}")
        return Kernel("\n".join(lines) + "\n", self.operands, outputs, self.sizes, self.fixed, self.kinds)

    def given(self, name: str, dtype: str, shape: list[str], most: int | None = None) -> str:
        """The declaration of an operand."""
        numbers = tuple(int(eval(s, {}, dict(self.sizes))) for s in shape)
        padding = 8 if len(shape) == 2 and not dtype.endswith("int4") and self.chance(6) else 0
        self.operands.append(Operand(name, dtype, numbers, self.most if most is None else most, padding))
        dims = ", ".join(shape) + ("," if len(shape) == 1 else "")
        if padding:
            self.note("strided")
            return f"{name}: T.StridedTensor(({dims}), ({shape[1]} + {padding}, 1), T.{dtype})"
        return f"{name}: T.Tensor(({dims}), T.{dtype})"

    def grid(self) -> list[str]:
        bm, bn = self.bm, self.bn
        first = ["G"] if self.batch else []
        if self.batch:
            self.sizes["G"] = 2
            self.fixed = (*self.fixed, "G")
        self.raw = "int8" if self.kind in ("float16", "bfloat16") and self.chance(4) else self.kind
        self.packed = self.raw == self.kind and self.kind == "float16" and not self.batch and self.chance(5)
        lines = [self.given("A", self.kind, [*first, *(["K", "M"] if self.flip_a else ["M", "K"])])]
        shape_b = ["N", "K"] if self.flip_b else ["K", "N"]
        if self.packed:  # two numbers of four bits in a byte
            self.note("packed")
            for name in ("K", "N"):
                self.sizes[name] += self.sizes[name] % 2
            self.operands[-1] = Operand(
                "A",
                self.kind,
                tuple(self.sizes[n] for n in (("K", "M") if self.flip_a else ("M", "K"))),
                self.most,
                self.operands[-1].padding,
            )
            self.operands.append(
                Operand("B", "uint8", (self.sizes[shape_b[0]], self.sizes[shape_b[1]] // 2), 255)
            )
            lines.append(f"B: T.Tensor(({shape_b[0]}, {shape_b[1]} // 2), T.uint8)")
            # The size of the packed dimension comes from A or from the bias.
        else:
            lines.append(self.given("B", self.raw, [*first, *shape_b]))
        self.bias = self.chance() or self.packed
        if self.bias:
            lines.append(self.given("V", "float32", ["N"]))
        self.rows_too = not self.split and self.chance(4)
        out = (
            self.total if self.split else self.pick((self.total, self.total, "float16", "bfloat16", "int32"))
        )
        if self.split:
            self.note("split")
            lines.append(self.given("C", self.total, ["M", "N"]))
        else:
            lines.append(f"C = T.empty(({', '.join([*first, 'M', 'N'])}), T.{out})")
        if self.after is not None:
            lines.append(f"D = T.empty((M, N), T.{out})")
        if self.rows_too:
            self.note("rows")
            lines.append(f"R = T.empty(({', '.join([*first, f'T.ceildiv(N, {bn})', 'M'])}), T.float32)")
        across, down = f"T.ceildiv(N, {bn})", f"T.ceildiv(M, {bm})"
        third = ["G"] if self.batch else [str(self.number(2, 3))] if self.split else []
        self.splits = int(third[0]) if self.split else 1
        extents, names = [across, down, *third], ["bx", "by", *(["bz"] if third else [])]
        if self.chance(3):
            self.note("turned grid")
            extents, names = extents[::-1], names[::-1]
        body = self.inside(out)
        lines[:0] = self.declared
        second: list[str] = []
        if self.after == "launch":
            bi, bj = self.pick((8, 16, 32)), self.pick((16, 32, 64))
            grid, threads = f"T.ceildiv(N, {bj}), T.ceildiv(M, {bi})", self.pick((32, 64, 128))
            second = [
                f"with T.Kernel({grid}, threads={threads}) as (bx, by):",
                f"    for i, j in T.Parallel({bi}, {bj}):",
                f"        D[by * {bi} + i, bx * {bj} + j] = C[M - 1 - (by * {bi} + i), bx * {bj} + j] + 1",
            ]
        if self.after == "meeting":
            body += [
                "T.sync_grid()",
                f"for i, j in T.Parallel({bm}, {bn}):",
                f"    D[by * {bm} + i, bx * {bn} + j] = C[M - 1 - (by * {bm} + i), bx * {bn} + j] + 1",
            ]
        if self.after != "meeting" and self.chance(5) and not third:
            self.note("persistent")
            workers = self.number(1, 3)
            group = self.pick(("", ", group_size=1", ", group_size=2"))
            allocations = [s for s in body if "T.alloc" in s or "T.annotate" in s]
            rest = [s for s in body if s not in allocations]
            return [
                *lines,
                f"with T.Kernel({workers}, threads={self.threads}) as worker:",
                *(f"    {s}" for s in allocations),
                f"    for by, bx in T.Persistent([{down}, {across}], {workers}, worker{group}):",
                *(f"        {s}" for s in rest),
                *second,
            ]
        if self.chance(5) and not third:
            self.note("swizzle")
            body.insert(
                0, f"T.use_swizzle({self.number(1, 4)}{', order=' + repr('column') if self.chance() else ''})"
            )
        return [
            *lines,
            f"with T.Kernel({', '.join(extents)}, threads={self.threads}) as ({', '.join(names)}):",
            *(f"    {s}" for s in body),
            *second,
        ]

    def inside(self, out: str) -> list[str]:
        bm, bn, bk = self.bm, self.bn, self.bk
        shape_a = (bk, bm) if self.flip_a else (bm, bk)
        shape_b = (bn, bk) if self.flip_b else (bk, bn)
        self.declared: list[str] = []
        lines = [
            f"a = T.alloc_shared({shape_a}, T.{self.kind})",
            f"b = T.alloc_shared({shape_b}, T.{self.kind})",
        ]
        lines.append(f"acc = T.alloc_fragment(({bm}, {bn}), T.{self.total})")
        clear = self.pick(("clear", "first", "fill") if not self.uneven else ("clear", "fill"))
        if clear != "first":
            lines.append("T.clear(acc)" if clear == "clear" else "T.fill(acc, 0)")
        steps, gemm_a, gemm_b = self.loads(lines, shape_a, shape_b)
        policy = self.pick(("", *(f", policy=T.GemmWarpPolicy.{p}" for p in POLICIES)))
        asked = ", clear_accum=(k == 0)" if clear == "first" else ""
        flips = f"transpose_A={self.flip_a}, transpose_B={self.flip_b}"
        gemm = f"T.gemm({gemm_a}, {gemm_b}, acc, {flips}{policy}{asked})"
        steps.append([gemm])
        count = f"T.ceildiv(K, {bk})"
        if self.split:
            count = f"T.ceildiv(T.ceildiv(K, {bk}), {self.splits})"
        if self.uneven:  # as the parts of stream-K are: some have a step more, or none
            self.note("uneven parts")
            lines.append(f"first = bz * T.ceildiv(K, {bk}) // {self.splits}")
            lines.append(f"last = (bz + 1) * T.ceildiv(K, {bk}) // {self.splits}")
            count = "last - first"
        stages = self.number(0, 4)
        plain = [len(s) == 1 for s in steps]
        if stages and all(plain) and len(steps) >= 3 and self.chance(5):
            self.note("order")
            count_loads = len(steps) - 1
            ahead = self.number(1, 3)
            stage = [0] * count_loads + [ahead]
            order = list(range(len(steps)))
            if self.chance():
                order = [1 + n for n in range(count_loads)] + [0]
            head = f"for k in T.Pipelined({count}, order={order}, stage={stage}):"
        elif stages or self.chance():
            self.note(f"stages {stages}")
            head = f"for k in T.Pipelined({count}, num_stages={stages}):"
        else:
            head = f"for k in {self.pick(('T.serial', 'range'))}({count}):"
        lines += [head, *(f"    {line}" for step in steps for line in step)]
        return [*lines, *self.epilogue(out)]

    def corner(self, name: str, flipped: bool) -> list[str]:
        k = f"(bz * T.ceildiv(T.ceildiv(K, {self.bk}), {self.splits}) + k)" if self.split else "k"
        k = "(first + k)" if self.uneven else k
        outer = f"by * {self.bm}" if name == "A" else f"bx * {self.bn}"
        deep = f"{k} * {self.bk}"
        turned = flipped if name == "A" else not flipped
        at = [deep, outer] if turned else [outer, deep]
        return [*(["bz"] if self.batch else []), *at]

    def loads(
        self, lines: list[str], shape_a: tuple[int, int], shape_b: tuple[int, int]
    ) -> tuple[list[list[str]], str, str]:
        """Statements of an iteration before the product, and the operands of it."""
        steps: list[list[str]] = []
        a, b = "a", "b"
        steps.append(self.load("A", "a", shape_a, self.flip_a, self.kind))
        if self.packed:
            h, w = shape_b
            lines.append(f"q = T.alloc_shared(({h}, {w // 2}), T.uint8)")
            row, column = self.corner("B", self.flip_b)
            steps.append([f"T.copy(B[{row}, {column} // 2], q)"])
            value = "T.cast((q[i, j // 2] >> T.cast(j % 2 * 4, T.uint8)) & 15, T.float16) - 8"
            if self.chance():
                lines.append(f"qf = T.alloc_fragment(({h}, {w // 2}), T.uint8)")
                lines.append(f"bf = T.alloc_fragment(({h}, {w}), T.float16)")
                steps.append(["T.copy(q, qf)"])
                value = value.replace("q[", "qf[")
                steps.append([f"for i, j in T.Parallel({h}, {w}):", f"    bf[i, j] = {value}"])
                steps.append(["T.copy(bf, b)"])
            else:
                steps.append([f"for i, j in T.Parallel({h}, {w}):", f"    b[i, j] = {value}"])
        elif self.raw != self.kind:
            self.note("converted")
            lines.append(f"q = T.alloc_shared({shape_b}, T.{self.raw})")
            steps.append(self.load("B", "q", shape_b, self.flip_b, self.raw))
            h, w = shape_b
            how = self.number(0, 2)
            if how == 0:
                steps.append(["T.copy(q, b)"])
            elif how == 1:
                steps.append([f"for i, j in T.Parallel({h}, {w}):", "    b[i, j] = q[i, j] * 2 - 1"])
            else:
                lines.append(f"bf = T.alloc_fragment({shape_b}, T.{self.kind})")
                steps.append(["T.copy(q, bf)"])
                steps.append([f"for i, j in T.Parallel({h}, {w}):", "    bf[i, j] = bf[i, j] + 1"])
                steps.append(["T.copy(bf, b)"])
        else:
            steps.append(self.load("B", "b", shape_b, self.flip_b, self.kind))
        if self.chance(3) and not self.flip_a:
            self.note("fragment of A")
            lines.append(f"af = T.alloc_fragment({shape_a}, T.{self.kind})")
            steps.append(["T.copy(a, af)"])
            a = "af"
            if self.chance() and "float" in self.kind and "8" not in self.kind:
                h, w = shape_a
                steps.append([f"for i, j in T.Parallel({h}, {w}):", "    af[i, j] = af[i, j] * 2"])
        elif self.chance(6) and self.kind in ("float16", "bfloat16", "float32"):
            self.note("changed in place")
            h, w = shape_a
            steps.append([f"for i, j in T.Parallel({h}, {w}):", "    a[i, j] = a[i, j] + 1"])
        if (
            self.chance(8)
            and self.raw == self.kind
            and not self.packed
            and self.kind in ("float16", "bfloat16")
        ):
            self.note("fragment of B")
            lines.append(f"bf = T.alloc_fragment({shape_b}, T.{self.kind})")
            steps.append(["T.copy(b, bf)"])
            b = "bf"
        return steps, a, b

    def load(self, name: str, into: str, shape: tuple[int, int], flipped: bool, dtype: str) -> list[str]:
        corner = self.corner(name, flipped)
        h, w = shape
        if not self.chance(4):
            return [f"T.copy({name}[{', '.join(corner)}], {into})"]
        *lead, row, column = corner
        first = "".join(f"{x}, " for x in lead)
        if self.chance() or "float8" in dtype:
            self.note("slices")
            return [f"T.copy({name}[{first}{row}:{row} + {h}, {column}:{column} + {w}], {into})"]
        self.note("elements")
        loop, value = f"for i, j in T.Parallel({h}, {w}):", f"{name}[{first}{row} + i, {column} + j]"
        if name == "A" and not flipped and not lead and self.chance(3):
            self.note("rows by index")
            numbers = (self.sizes["M"],)
            self.operands.append(Operand("I", "int32", numbers, self.sizes["M"] - 1, least=-3))
            self.declared.append("I: T.Tensor((M,), T.int32)")
            taken = f"T.if_then_else(at >= 0, A[at, {column} + j], 0)"
            return [loop, f"    at = I[{row} + i]", f"    {into}[i, j] = {taken}"]
        if self.chance():
            self.note("masked")
            some = self.pick(("(i + k) % 3 != 1", "j % 4 != 1", f"j < {w // 8 * 4}", "(k > 0) | (i > 2)"))
            if self.chance():
                return [loop, f"    kept = {some}", f"    {into}[i, j] = T.if_then_else(kept, {value}, 0)"]
            value = f"T.if_then_else({some}, {value}, 0)"
        return [loop, f"    {into}[i, j] = {value}"]

    def epilogue(self, out: str) -> list[str]:
        bm, bn = self.bm, self.bn
        lines: list[str] = []
        each = f"for i, j in T.Parallel({bm}, {bn}):"
        if self.bias and not self.split:
            self.note("bias")
            if self.total != "int32" and self.chance():
                lines += [
                    f"v = T.alloc_{self.pick(('shared', 'fragment'))}(({bn},), T.float32)",
                    f"T.copy(V[bx * {bn}], v)",
                    each,
                    "    acc[i, j] = acc[i, j] + v[j]",
                ]
            else:
                lines += [each, f"    acc[i, j] += T.cast(V[bx * {bn} + j], T.{self.total})"]
        if self.chance(3):
            lines += [each, f"    acc[i, j] = T.max(acc[i, j], {self.number(-3, 0)})"]
        corner = ", ".join([*(["bz"] if self.batch else []), f"by * {bm}", f"bx * {bn}"])
        if self.rows_too:
            op = self.pick(("max", "min", "sum", "absmax"))
            lines += [
                f"r = T.alloc_fragment(({bm},), T.{self.total})",
                f"T.reduce_{op}(acc, r, dim=1)",
                f"T.copy(r, R[{'bz, ' if self.batch else ''}bx, by * {bm}])",
            ]
        if self.split:
            how = self.number(0, 2) if self.total != "float16" else 0
            if how == 0 and self.total != "float16":
                return [*lines, f"T.atomic_add(C[{corner}], acc)"]
            inside = f"by * {bm} + i < M and bx * {bn} + j < N"
            if how == 1:
                lines += [
                    f"s = T.alloc_shared(({bm}, {bn}), T.{self.total})",
                    "T.copy(acc, s)",
                    f"T.atomic_add(C[{corner}], s)",
                ]
                return lines
            return [
                *lines,
                each,
                f"    if {inside}:",
                f"        T.atomic_add(C[by * {bm} + i, bx * {bn} + j], acc[i, j])",
            ]
        if out == "int32" and self.total != "int32":
            lines += [each, "    acc[i, j] = T.clamp(acc[i, j], -5000, 5000)"]
        how = self.number(0, 3)
        if how == 0:
            lines.append(f"T.copy(acc, C[{corner}])")
        elif how == 1:
            self.note("through shared")
            lines += [
                f"s = T.alloc_shared(({bm}, {bn}), T.{out})",
                "T.copy(acc, s)",
                f"T.copy(s, C[{corner}])",
            ]
        elif how == 2:
            self.note("converted fragment")
            lines += [
                f"o = T.alloc_fragment(({bm}, {bn}), T.{out})",
                "T.copy(acc, o)",
                f"s = T.alloc_shared(({bm}, {bn}), T.{out})",
                "T.copy(o, s)",
                f"T.copy(s, C[{corner}])",
            ]
        else:
            self.note("elements out")
            *lead, row, column = corner.split(", ")
            first = "".join(f"{x}, " for x in lead)
            lines += [
                each,
                f"    if {row} + i < M and {column} + j < N:",
                f"        C[{first}{row} + i, {column} + j] = acc[i, j]",
            ]
        return lines

    # Warp groups with code of their own

    def groups(self) -> Kernel:
        """One group fetches, one or two multiply; mbarriers between them."""
        self.note("groups")
        self.kind, self.total = self.pick(
            (("float16", "float32"), ("bfloat16", "float32"), ("float16", "float16"))
        )
        self.most = 1 if self.total == "float16" else 3
        consumers, stages = self.number(1, 2), self.number(1, 4)
        apart = consumers == 2 and self.chance()  # each has rows of its own
        rows = self.pick((64, 64, 128))
        bm = rows * 2 if apart else rows
        bn, bk = self.pick((16, 32, 48, 64, 96, 128)), self.pick((32, 48, 64))
        flip = self.chance()
        self.sizes = {"M": self.size(bm, 8), "N": self.size(bn, 8), "K": self.size(bk, 8, most=4)}
        by_tma = self.chance()
        if by_tma:
            self.note("tma")
            self.sizes = {n: max(8, v // 8 * 8) for n, v in self.sizes.items()}
        self.fixed = self.pick((("M", "N", "K"), ("N", "K")))
        lines = [
            self.given("A", self.kind, ["M", "K"]),
            self.given("B", self.kind, ["N", "K"] if flip else ["K", "N"]),
        ]
        out = self.pick((self.total, "float16"))
        lines.append(f"C = T.empty((M, N), T.{out})")
        last = self.chance()
        fetching = consumers if last else 0
        working = [g for g in range(consumers + 1) if g != fetching]
        teams = [(g,) for g in working] if apart else [tuple(working)]
        shape_b = (bn, bk) if flip else (bk, bn)
        body = [
            f"a = T.alloc_shared(({stages}, {bm}, {bk}), T.{self.kind})",
            f"b = T.alloc_shared(({stages}, {shape_b[0]}, {shape_b[1]}), T.{self.kind})",
            *(
                f"acc{n} = T.alloc_fragment(({bm // len(teams)}, {bn}), T.{self.total})"
                for n in range(len(teams))
            ),
            f"ready = T.alloc_barrier([{', '.join(['128'] * stages)}])",
            f"done = T.alloc_barrier([{', '.join([str(128 * consumers)] * stages)}])",
        ]
        stored = [self.number(0, 2) for _ in teams]
        body += [
            f"c{n} = T.alloc_shared(({bm // len(teams)}, {bn}), T.{out})"
            for n, how in enumerate(stored)
            if how
        ]
        at = f"k % {stages}" if stages > 1 else "0"
        turn = f"k // {stages} % 2"
        call, end = ("T.tma_copy", f", barrier=ready[{at}])") if by_tma else ("T.copy", ")")
        corner_b = f"bx * {bn}, k * {bk}" if flip else f"k * {bk}, bx * {bn}"
        count = f"T.ceildiv(K, {bk})"
        producer = [
            f"with T.ws({fetching}):",
            *(["    T.dec_max_nreg(24)"] if self.chance(3) else []),
            f"    for k in T.serial({count}):",
            f"        T.mbarrier_wait_parity(done[{at}], ({turn}) ^ 1)",
            f"        {call}(A[by * {bm}, k * {bk}], a[{at}, :, :]{end}",
            f"        {call}(B[{corner_b}], b[{at}, :, :]{end}",
            f"        T.mbarrier_arrive(ready[{at}])",
        ]
        consuming: list[str] = []
        policy = self.pick(("", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol"))
        for n, team in enumerate(teams):
            size = bm // len(teams)
            part = f"a[{at}, {n * size}:{n * size + size}, :]" if apart else f"a[{at}, :, :]"
            row = f"by * {bm} + {n * size}"
            inside = [
                f"T.clear(acc{n})",
                f"for k in T.serial({count}):",
                f"    T.mbarrier_wait_parity(ready[{at}], {turn})",
                f"    T.gemm({part}, b[{at}, :, :], acc{n}, transpose_B={flip}{policy})",
                f"    T.mbarrier_arrive(done[{at}])",
            ]
            if self.chance(3):
                inside += [
                    f"for i, j in T.Parallel({size}, {bn}):",
                    f"    acc{n}[i, j] = T.max(acc{n}[i, j], -1)",
                ]
            if stored[n]:
                store = "T.tma_copy" if stored[n] == 2 and self.sizes["N"] % 8 == 0 else "T.copy"
                inside += [f"T.copy(acc{n}, c{n})", f"{store}(c{n}, C[{row}, bx * {bn}])"]
                inside += ["T.tma_store_wait()"] if store == "T.tma_copy" else []
            else:
                inside.append(f"T.copy(acc{n}, C[{row}, bx * {bn}])")
            consuming += [f"with T.ws({', '.join(map(str, team))}):", *(f"    {s}" for s in inside)]
        body += [*producer, *consuming] if self.chance() else [*consuming, *producer]
        grid = f"T.ceildiv(N, {bn}), T.ceildiv(M, {bm})"
        lines += [
            f"with T.Kernel({grid}, threads={128 * consumers + 128}) as (bx, by):",
            *(f"    {s}" for s in body),
        ]
        return self.finish(lines, ("C",))

    # Attention

    def attention(self) -> Kernel:
        """Scores, a running maximum, rescaled sums; the division is left to the reader of both outputs."""
        self.note("attention")
        kind = self.pick(("float16", "float16", "bfloat16"))
        self.most = 1
        bm, bn, dim = self.pick(TILES), self.pick(TILES), self.pick((16, 32, 48, 64, 64, 80, 96, 128))
        threads = self.pick(THREADS)
        self.sizes = {"S": self.size(bm, 8), "L": self.size(bn, 8, most=3), "H": self.number(1, 2)}
        self.fixed = self.pick((("S", "L", "H"), ("H",), ("S", "H"), ("S", "L", "H")))
        causal = self.chance(3)
        heads_first = self.chance()
        grouped = self.chance(3)  # all heads share the keys

        def shape(length: str, heads: str = "H") -> list[str]:
            return [heads, length, str(dim)] if heads_first else [length, heads, str(dim)]

        def place(start: str, size: int, head: str = "by") -> str:
            part = f"{start}:{start} + {size}"
            return f"{head}, {part}, :" if heads_first else f"{part}, {head}, :"

        keys = "1" if grouped else "H"
        key_head = "0" if grouped else "by"
        lines = [
            self.given("Q", kind, shape("S")),
            self.given("K", kind, shape("L", keys)),
            self.given("V", kind, shape("L", keys), most=3),
            f"O = T.empty(({', '.join(shape('S'))}), T.float32)",
            "D = T.empty((H, S), T.float32)",
        ]
        policy = self.pick(
            ("", "", *(f", policy=T.GemmWarpPolicy.{p}" for p in ("FullRow", "FullRow", "FullCol")))
        )
        body = [
            f"q = T.alloc_shared(({bm}, {dim}), T.{kind})",
            f"kt = T.alloc_shared(({bn}, {dim}), T.{kind})",
            f"vt = T.alloc_shared(({bn}, {dim}), T.{kind})",
            f"s = T.alloc_fragment(({bm}, {bn}), T.float32)",
            f"o = T.alloc_fragment(({bm}, {dim}), T.float32)",
            f"m = T.alloc_fragment(({bm},), T.float32)",
            f"before = T.alloc_fragment(({bm},), T.float32)",
            f"scale = T.alloc_fragment(({bm},), T.float32)",
            f"part = T.alloc_fragment(({bm},), T.float32)",
            f"l = T.alloc_fragment(({bm},), T.float32)",
            f"T.copy(Q[{place(f'bx * {bm}', bm)}], q)",
            "T.clear(o)",
            "T.clear(l)",
            "T.fill(m, -64)",
        ]
        left = "q"
        if self.chance(4):
            self.note("Q in registers")
            body += [f"qf = T.alloc_fragment(({bm}, {dim}), T.{kind})", "T.copy(q, qf)"]
            left = "qf"
        if self.chance(4):
            body += [f"for i, j in T.Parallel({bm}, {dim}):", f"    {left}[i, j] = {left}[i, j] * 2"]
        through = self.chance(3)
        body.append(f"p = T.alloc_{'shared' if through else 'fragment'}(({bm}, {bn}), T.{kind})")
        masks = [f"j + kb * {bn} < L"]
        if causal:
            self.note("causal")
            masks.append(f"j + kb * {bn} <= bx * {bm} + i")
        condition = " and ".join(masks)
        count = f"T.ceildiv(L, {bn})"
        if causal and self.chance():
            count = f"T.min(T.ceildiv(L, {bn}), T.ceildiv((bx + 1) * {bm}, {bn}))"
        step = [
            f"T.copy(K[{place(f'kb * {bn}', bn, key_head)}], kt)",
            *self.scores(bm, bn, condition, left, policy),
            "T.copy(m, before)",
            "T.reduce_max(s, m, dim=1, clear=False)",
            f"for i in T.Parallel({bm}):",
            "    scale[i] = T.exp2(before[i] - m[i])",
            f"for i, j in T.Parallel({bm}, {bn}):",
            "    s[i, j] = T.exp2(T.max(s[i, j] - m[i], -14.0))"
            if self.chance()
            else f"    s[i, j] = T.if_then_else({condition}, T.exp2(s[i, j] - m[i]), 0)",
            "T.reduce_sum(s, part, dim=1)",
            "T.copy(s, p)",
            f"for i in T.Parallel({bm}):",
            "    l[i] = l[i] * scale[i] + part[i]",
            f"for i, j in T.Parallel({bm}, {dim}):",
            "    o[i, j] *= scale[i]",
            f"T.copy(V[{place(f'kb * {bn}', bn, key_head)}], vt)",
            f"T.gemm(p, vt, o{policy})",
        ]
        if self.chance(3):  # both loads at the beginning
            load = next(s for s in step if "], vt)" in s)
            step.remove(load)
            step.insert(1, load)
        stages = self.number(0, 3)
        self.note(f"stages {stages}")
        body += [f"for kb in T.Pipelined({count}, num_stages={stages}):", *(f"    {s}" for s in step)]
        if self.chance():
            self.note("through shared")
            body += [
                f"os_ = T.alloc_shared(({bm}, {dim}), T.float32)",
                "T.copy(o, os_)",
                f"T.copy(os_, O[{place(f'bx * {bm}', bm)}])",
            ]
        else:
            body.append(f"T.copy(o, O[{place(f'bx * {bm}', bm)}])")
        body.append(f"T.copy(l, D[by, bx * {bm}])")
        lines += [
            f"with T.Kernel(T.ceildiv(S, {bm}), H, threads={threads}) as (bx, by):",
            *(f"    {s}" for s in body),
        ]
        return self.finish(lines, ("O", "D"))

    def scores(self, bm: int, bn: int, condition: str, left: str, policy: str) -> list[str]:
        each = f"for i, j in T.Parallel({bm}, {bn}):"
        gemm = f"T.gemm({left}, kt, s, transpose_B=True{policy}"
        how = self.number(0, 2)
        if how == 0:  # the mask is what the product is added to
            return [
                each,
                f"    s[i, j] = T.if_then_else({condition}, 0, -256.0)",
                f"{gemm})",
                *self.held(each),
            ]
        if how == 1:
            return [
                f"{gemm}, clear_accum=True)",
                each,
                f"    s[i, j] = T.if_then_else({condition}, T.clamp(s[i, j], -6.0, 6.0), -256.0)",
            ]
        return [
            "T.clear(s)",
            f"{gemm})",
            *self.held(each),
            each,
            f"    if not ({condition}):",
            "        s[i, j] = -256.0",
        ]

    def held(self, each: str) -> list[str]:
        return [each, "    s[i, j] = T.if_then_else(s[i, j] < -100.0, -256.0, T.clamp(s[i, j], -6.0, 6.0))"]


def tensors(kernel: Kernel, seed: int) -> dict[str, torch.Tensor]:
    """Whole numbers for every operand, rows apart where it has a stride of its own."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for o in kernel.operands:
        if o.dtype.endswith("int4"):  # two numbers to a byte
            shape = (*o.shape[:-1], o.shape[-1] // 2)
            given = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
            made[o.name] = given if o.dtype[0] == "u" else given.view(torch.int8)
            continue
        dtype = getattr(torch, o.dtype)
        values = torch.randint(o.low, o.most + 1, o.shape, generator=generator).double().to(dtype)
        if o.padding:
            step = o.shape[-1] + o.padding
            memory = torch.zeros(o.shape[0] * step, dtype=torch.uint8 if dtype.itemsize == 1 else dtype)
            rows = memory.view(dtype).as_strided(o.shape, (step, 1))
            rows.copy_(values)
            values = rows
        made[o.name] = values
    return made


@st.composite
def kernels(draw: Any) -> Kernel:
    """A random kernel."""
    return Composer(Drawn(draw)).kernel()
