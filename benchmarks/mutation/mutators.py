"""One-place changes of a kernel's text, by kind: what an author gets wrong in a dimension, a scope, an index.

A mutator looks at one node of the kernel's syntax tree and yields replacements of text; each becomes one
mutant. All of them parse. Whether one is wrong is not decided here: many are merely slower, or another
correct kernel.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.mutation.corpus import Case

ALLOCATIONS = ("alloc_shared", "alloc_fragment", "alloc_local")
DTYPES = ("float32", "float16", "bfloat16", "int8", "int32")
LOOPS = ("Parallel", "serial", "Pipelined", "unroll", "vectorized", "grid")
TILE_OPS = ("copy", "gemm", "fill", "clear", "atomic_add")


@dataclass(frozen=True)
class Mutant:
    """`text` is the module with the lines `first` to `last` changed; `names` are what stands on them."""

    case: Case
    kind: str
    number: int  # of its kind in its kernel
    first: int
    last: int
    before: str
    after: str
    text: str
    names: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.case.name}:{self.first} {self.kind} #{self.number}"


@dataclass(frozen=True)
class Place:
    """A piece of text by offsets into the module, and what replaces it."""

    start: int
    end: int
    new: str


@dataclass
class Kernel:
    """The syntax of one kernel with what mutators ask: text of nodes, buffers, variables around a node."""

    case: Case
    tree: ast.Module
    parents: Mapping[ast.AST, ast.AST]
    buffers: frozenset[str]
    starts: Sequence[int]  # offset of each line
    names: dict[int, set[str]] = field(default_factory=dict)  # by line
    shapes: dict[str, str] = field(default_factory=dict)  # of buffers, as written

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def place(self, node: ast.expr | ast.stmt, new: str) -> Place:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Place(self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column), new)

    def text(self, node: ast.expr | ast.stmt) -> str:
        place = self.place(node, "")
        return self.case.text[place.start : place.end]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        if isinstance(node, ast.stmt):
            return node
        return next(n for n in self.around(node) if isinstance(n, ast.stmt))

    def variables(self, node: ast.AST) -> list[str]:
        """Names of blocks and loops around a node, the innermost first."""
        found: list[str] = []
        for outer in self.around(node):
            if isinstance(outer, ast.For):
                found += _names(outer.target)
            elif isinstance(outer, ast.With):
                for item in outer.items:
                    if item.optional_vars is not None:
                        found += _names(item.optional_vars)
        return found


Mutator = Callable[[Kernel, ast.AST], Iterator[Place]]


def mutants(case: Case, kinds: Sequence[str] = ()) -> list[Mutant]:
    """All mutants of a kernel, in the order of kinds and text. A few may not parse, see `parses`."""
    kernel = _kernel(case)
    found: list[Mutant] = []
    for kind, mutator in MUTATORS.items():
        if kinds and kind not in kinds:
            continue
        seen: set[str] = set()
        for node in ast.walk(kernel.tree):
            line = getattr(node, "lineno", 0)
            if not any(first <= line <= last for first, last in case.lines):
                continue
            for place in mutator(kernel, node):
                made = _mutant(kernel, kind, len(seen), place)
                if made is not None and made.text not in seen:
                    seen.add(made.text)
                    found.append(made)
    return found


def parses(mutant: Mutant) -> bool:
    """Whether the mutant is Python. Asked only of those that are used: it takes longer than making them."""
    try:
        ast.parse(mutant.text)
    except SyntaxError:
        return False
    return True


def _mutant(kernel: Kernel, kind: str, number: int, place: Place) -> Mutant | None:
    case = kernel.case
    text = case.text[: place.start] + place.new + case.text[place.end :]
    if text == case.text:
        return None
    first = case.text.count("\n", 0, place.start) + 1
    last = first + place.new.count("\n")
    old_last = case.text.count("\n", 0, place.end) + 1
    before = "\n".join(case.text.split("\n")[first - 1 : old_last]).strip()
    after = "\n".join(text.split("\n")[first - 1 : last]).strip()
    names = frozenset().union(*(kernel.names.get(line, ()) for line in range(first, old_last + 1)))
    return Mutant(case, kind, number, first, last, before, after, text, names)


def _names_by_line(kernel: Kernel) -> dict[int, set[str]]:
    """Names that say where the cause may be reported: buffers, loop and block variables, what is assigned."""
    found: dict[int, set[str]] = {}
    for n in ast.walk(kernel.tree):
        if isinstance(n, ast.Name) and (
            isinstance(n.ctx, ast.Store) or n.id in kernel.buffers or n.id in kernel.variables(n)
        ):
            found.setdefault(n.lineno, set()).add(n.id)
    return found


def _kernel(case: Case) -> Kernel:
    tree = ast.parse(case.text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    starts, at = [], 0
    for line in case.text.split("\n"):
        starts.append(at)
        at += len(line) + 1
    buffers: set[str] = set()
    shapes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            if "Tensor" in ast.unparse(node.annotation):
                buffers.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
                shapes |= _declared(node.annotation, node.arg if isinstance(node, ast.arg) else node.target)
        elif isinstance(node, ast.Assign) and _makes_buffer(node.value):
            buffers.add(ast.unparse(node.targets[0]))
            shapes |= _declared(node.value, node.targets[0])
    kernel = Kernel(case, tree, parents, frozenset(buffers), starts, shapes=shapes)
    kernel.names = _names_by_line(kernel)
    return kernel


def _declared(call: ast.expr, target: ast.expr | str) -> dict[str, str]:
    """The buffer's name with its shape, where it is written as a call with one."""
    shape = _shape(call)
    name = target if isinstance(target, str) else ast.unparse(target)
    return {} if shape is None else {name: ast.unparse(shape)}


def _makes_buffer(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call | ast.IfExp):
        return False
    return any(called(n) in (*ALLOCATIONS, "empty", "reshape", "view") for n in ast.walk(node))


def called(node: ast.AST) -> str:
    """`copy` for a call of `T.copy`, "" for anything else."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    ):
        return node.func.attr if node.func.value.id == "T" else ""
    return ""


def _names(node: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def _keyword(node: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in node.keywords if k.arg == name), None)


# -- What a tile or tensor is


def dimension(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """An extent of an allocation, annotation or output: doubled, halved, one more; the shape reversed."""
    shape = _shape(node)
    if shape is None:
        return
    elements = shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape]
    for element in elements:
        text = k.text(element)
        for new in (f"{_group(text)} * 2", f"{_group(text)} // 2", f"{_group(text)} + 1"):
            yield k.place(element, new)
    if len(elements) >= 2:
        first, second = elements[-2:]
        yield _between(k, first, second, f"{k.text(second)}, {k.text(first)}")
        yield _between(k, elements[0], elements[-1], ", ".join(k.text(e) for e in elements[:-1]) + ",")


def _shape(node: ast.AST) -> ast.expr | None:
    if called(node) in (*ALLOCATIONS, "empty", "Tensor") and isinstance(node, ast.Call) and node.args:
        return node.args[0]
    return None


def _group(text: str) -> str:
    return text if text.replace("_", "").replace(".", "").isalnum() else f"({text})"


def _between(k: Kernel, first: ast.expr, last: ast.expr, new: str) -> Place:
    return Place(k.place(first, "").start, k.place(last, "").end, new)


def slice_bound(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """The end or the start of a slice."""
    if not isinstance(node, ast.Slice):
        return
    for bound in (node.lower, node.upper):
        if bound is not None:
            for new in (
                f"{_group(k.text(bound))} + 1",
                f"{_group(k.text(bound))} - 1",
                f"{_group(k.text(bound))} * 2",
            ):
                yield k.place(bound, new)


def dtype(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """The dtype of a tile, a tensor, a cast or an infinity."""
    spot = _dtype(node)
    if spot is not None:
        for name in DTYPES:
            yield k.place(spot, f"T.{name}")


def _dtype(node: ast.AST) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    name = called(node)
    if name in (*ALLOCATIONS, "empty", "Tensor", "cast") and len(node.args) >= 2:
        return node.args[-1]
    return node.args[0] if name in ("infinity", "alloc_var") and node.args else None


def scope(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Where a tile lives."""
    if called(node) in ALLOCATIONS and isinstance(node, ast.Call):
        for name in ALLOCATIONS:
            yield k.place(node.func, f"T.{name}")


# -- Which elements


def index(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A subscript: off by one, without a term, with another variable, two swapped."""
    if not isinstance(node, ast.Subscript) or ast.unparse(node.value) not in k.buffers:
        return
    entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    points = [e for e in entries if not isinstance(e, ast.Slice)]
    for entry in points:
        text = k.text(entry)
        yield k.place(entry, f"{text} + 1")
        yield k.place(entry, f"{text} - 1")
        if isinstance(entry, ast.BinOp) and isinstance(entry.op, ast.Add):
            yield k.place(entry, k.text(entry.left))
            yield k.place(entry, k.text(entry.right))
        if not isinstance(entry, ast.Constant):
            yield k.place(entry, "0")
    for name in [n for e in entries for n in ast.walk(e) if isinstance(n, ast.Name)]:
        around = k.variables(node)
        if name.id in around:
            others = [v for v in dict.fromkeys(around) if v != name.id]
            for other in others[:2]:
                yield k.place(name, other)
    for a, b in itertools.pairwise(entries):
        if not isinstance(a, ast.Slice) or not isinstance(b, ast.Slice) or k.text(a) != k.text(b):
            yield _between(k, a, b, f"{k.text(b)}, {k.text(a)}")


def swapped_variables(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Two variables of one region or element exchanged for each other: `A[k * 64, by * 32]`."""
    if not isinstance(node, ast.Subscript) or ast.unparse(node.value) not in k.buffers:
        return
    names = [n for n in ast.walk(node.slice) if isinstance(n, ast.Name) and n.id in k.variables(node)]
    for a, b in itertools.combinations(dict.fromkeys(n.id for n in names), 2):
        whole = k.place(node.slice, "")
        text = list(k.case.text[whole.start : whole.end])
        for name in sorted(names, key=lambda n: -k.place(n, "").start):
            other = {a: b, b: a}.get(name.id)
            if other is not None:
                at = k.place(name, "")
                text[at.start - whole.start : at.end - whole.start] = other
        yield Place(whole.start, whole.end, "".join(text))


def other_buffer(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Another buffer that is declared with the same shape, read or written element by element."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return
    shape = k.shapes.get(node.value.id)
    if shape is None or any(called(n) in TILE_OPS for n in k.around(node)):
        return
    others = [name for name, s in sorted(k.shapes.items()) if s == shape and name != node.value.id]
    for name in others[:2]:
        yield k.place(node.value, name)


# -- Loops and launch


def loop_extent(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """How often a loop runs."""
    if not (called(node) in LOOPS or _is_range(node)) or not isinstance(node, ast.Call):
        return
    for argument in node.args:
        text = _group(k.text(argument))
        for new in (f"{text} + 1", f"{text} - 1", f"{text} * 2", f"{text} // 2"):
            yield k.place(argument, new)
    if len(node.args) == 2:
        first, second = node.args
        yield _between(k, first, second, f"{k.text(second)}, {k.text(first)}")


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def loop_kind(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """What kind of loop it is; stages are dropped where the new kind takes none."""
    if not isinstance(node, ast.For) or called(node.iter) not in LOOPS or not isinstance(node.iter, ast.Call):
        return
    inside = ", ".join(k.text(a) for a in node.iter.args)
    for name in ("Parallel", "serial", "unroll", "vectorized", "Pipelined"):
        yield k.place(node.iter, f"T.{name}({inside})")
    if isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
        first, second = node.target.elts
        yield _between(k, first, second, f"{k.text(second)}, {k.text(first)}")


def stages(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """The number of stages of a pipeline."""
    if called(node) == "Pipelined" and isinstance(node, ast.Call):
        given = _keyword(node, "num_stages")
        if given is not None:
            for new in ("0", "1", "4", "8", "40", "-1"):
                yield k.place(given.value, new)


def threads(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """The number of threads of a block."""
    if called(node) == "Kernel" and isinstance(node, ast.Call):
        given = _keyword(node, "threads")
        if given is not None:
            for new in ("0", "1", "32", "48", "64", "96", "100", "256", "512", "1024", "2048"):
                yield k.place(given.value, new)


def grid(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """The number of blocks, and which variable counts them."""
    if called(node) == "Kernel" and isinstance(node, ast.Call):
        for argument in node.args:
            text = _group(k.text(argument))
            for new in (f"{text} + 1", f"{text} - 1", f"{text} * 2", f"{text} // 2", "1"):
                yield k.place(argument, new)
        for a, b in zip(node.args, node.args[1:], strict=False):
            yield _between(k, a, b, f"{k.text(b)}, {k.text(a)}")
    if isinstance(node, ast.With):
        target = node.items[0].optional_vars
        if isinstance(target, ast.Tuple):
            for a, b in zip(target.elts, target.elts[1:], strict=False):
                yield _between(k, a, b, f"{k.text(b)}, {k.text(a)}")
    if called(node) == "ceildiv" and isinstance(node, ast.Call) and _in_launch(k, node):
        yield k.place(node, f"{_group(k.text(node.args[0]))} // {_group(k.text(node.args[1]))}")
        yield k.place(node.args[1], f"{_group(k.text(node.args[1]))} * 2")
        yield k.place(node.args[1], f"{_group(k.text(node.args[1]))} // 2")


def ceildiv(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A number of tiles outside of the launch: one more or less to count, rounded down, turned over; a range
    that starts one too late.
    """
    if _is_range(node) and isinstance(node, ast.Call) and len(node.args) == 1:
        yield k.place(node.args[0], f"1, {k.text(node.args[0])}")
    if called(node) in ("serial", "unroll") and isinstance(node, ast.Call) and len(node.args) == 1:
        yield k.place(node.args[0], f"1, {k.text(node.args[0])}")
    if called(node) != "ceildiv" or not isinstance(node, ast.Call) or _in_launch(k, node):
        return
    what, step = (k.text(a) for a in node.args)
    yield k.place(node, f"{_group(what)} // {_group(step)}")
    yield k.place(node, f"({_group(what)} // {_group(step)} + 1)")
    yield k.place(node.args[0], f"{_group(what)} - {_group(step)}")
    yield _between(k, node.args[0], node.args[1], f"{step}, {what}")


def condition(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A comparison one off, or the other way round."""
    turned = {ast.Lt: ("<=", ">"), ast.LtE: ("<", ">"), ast.Gt: (">=", "<"), ast.GtE: (">", "<")}
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in turned:
        return
    left, right = node.left, node.comparators[0]
    for sign in turned[type(node.ops[0])]:
        yield _between(k, left, right, f"{k.text(left)} {sign} {k.text(right)}")


def _in_launch(k: Kernel, node: ast.AST) -> bool:
    return any(called(n) == "Kernel" for n in k.around(node))


# -- Tile operations


def transpose(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A transpose flag of a product."""
    if called(node) != "gemm" or not isinstance(node, ast.Call):
        return
    for name in ("transpose_A", "transpose_B"):
        given = _keyword(node, name)
        if given is not None:
            yield k.place(given.value, f"not {_group(k.text(given.value))}")
        elif len(node.args) <= 3:
            yield _more(k, node, f"{name}=True")


def _more(k: Kernel, node: ast.Call, argument: str) -> Place:
    end = k.place(node, "").end - 1
    return Place(end, end, f", {argument}")


def policy(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """How a product is divided among the warps."""
    if called(node) == "gemm" and isinstance(node, ast.Call):
        given = _keyword(node, "policy")
        for name in ("Square", "FullRow", "FullCol"):
            new = f"T.GemmWarpPolicy.{name}"
            yield _more(k, node, f"policy={new}") if given is None else k.place(given.value, new)


def clear_accum(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Whether a product clears its accumulator."""
    if called(node) != "gemm" or not isinstance(node, ast.Call):
        return
    given = _keyword(node, "clear_accum")
    if given is None:
        yield _more(k, node, "clear_accum=True")
    else:
        for new in ("True", "False", *(f"{v} == 1" for v in k.variables(node)[:1])):
            yield k.place(given.value, new)


def missing_clear(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A fill or clear that is forgotten."""
    if isinstance(node, ast.Expr) and called(node.value) in ("clear", "fill"):
        yield k.place(node, "pass")


def missing_copy(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A copy that is forgotten."""
    if isinstance(node, ast.Expr) and called(node.value) == "copy":
        yield k.place(node, "pass")


def missing_statement(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Another statement that is forgotten: a product, a reduction, a loop over elements, a store."""
    if isinstance(node, ast.Expr):
        forgotten = called(node.value) not in ("", "copy", "clear", "fill", "use_swizzle")
    elif isinstance(node, ast.For):
        forgotten = called(node.iter) == "Parallel"
    elif isinstance(node, ast.Assign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        forgotten = isinstance(target, ast.Subscript)
    else:
        forgotten = False
    if forgotten and isinstance(node, ast.stmt):
        yield k.place(node, "pass")


def copy_operands(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Source and destination swapped; another tile of the kernel in one of their places."""
    if called(node) != "copy" or not isinstance(node, ast.Call) or len(node.args) != 2:
        return
    source, destination = node.args
    yield _between(k, source, destination, f"{k.text(destination)}, {k.text(source)}")
    for argument in node.args:
        yield from _another_tile(k, argument)


def operand(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Another buffer in a product, a reduction or a fill; two operands swapped."""
    if called(node) not in ("gemm", "clear", "fill") and not called(node).startswith("reduce"):
        return
    assert isinstance(node, ast.Call)
    for argument in node.args[:3]:
        if isinstance(argument, ast.Name):
            yield from _another_tile(k, argument)
    if len(node.args) >= 2 and called(node) != "fill":
        first, second = node.args[:2]
        yield _between(k, first, second, f"{k.text(second)}, {k.text(first)}")


def _another_tile(k: Kernel, argument: ast.expr) -> Iterator[Place]:
    base = argument.value if isinstance(argument, ast.Subscript) else argument
    if isinstance(base, ast.Name) and base.id in k.buffers:
        names = sorted(k.buffers)
        at = names.index(base.id)
        for step in (1, 2):
            other = names[(at + step) % len(names)]
            if other != base.id:
                yield k.place(base, other)


def reduce_dim(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """Along which dimension, and whether old contents count."""
    if not called(node).startswith("reduce_") or not isinstance(node, ast.Call):
        return
    given = _keyword(node, "dim")
    if given is not None:
        for new in ("0", "1", "2", "-1"):
            yield k.place(given.value, new)
    clear = _keyword(node, "clear")
    if clear is None:
        yield _more(k, node, "clear=False")
    else:
        yield k.place(clear.value, "True")


# -- Names


def name(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """A misspelt name of the language or keyword, a variable that does not exist."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "T":
        word = node.attr
        yield k.place(node, f"T.{word[:-1]}")
        yield k.place(node, f"T.{word[:1].swapcase()}{word[1:]}")
    elif isinstance(node, ast.keyword) and node.arg and called(k.parents[node]):
        start = k.offset(node.lineno, node.col_offset)
        yield Place(start, start + len(node.arg), node.arg[:-1])
        yield Place(
            start, start + len(node.arg), node.arg.lower() if node.arg.lower() != node.arg else f"{node.arg}_"
        )
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in k.buffers:
        yield k.place(node, f"{node.id}_")


def argument_count(k: Kernel, node: ast.AST) -> Iterator[Place]:
    """One argument too few or too many."""
    word = called(node)
    if word not in (
        *ALLOCATIONS,
        "copy",
        "gemm",
        "clear",
        "fill",
        "ceildiv",
        "if_then_else",
        "max",
        "exp2",
    ) and not (word.startswith("reduce_")):
        return
    assert isinstance(node, ast.Call)
    if len(node.args) >= 2:
        yield _between(k, node.args[-2], node.args[-1], k.text(node.args[-2]))
    last = node.args[-1]
    end = k.place(last, "").end
    yield Place(end, end, f", {k.text(last)}")


MUTATORS: Mapping[str, Mutator] = {
    "dimension": dimension,
    "slice": slice_bound,
    "dtype": dtype,
    "scope": scope,
    "transpose": transpose,
    "index": index,
    "stages": stages,
    "threads": threads,
    "missing-clear": missing_clear,
    "missing-copy": missing_copy,
    "missing-statement": missing_statement,
    "copy-operands": copy_operands,
    "operand": operand,
    "reduce": reduce_dim,
    "loop-extent": loop_extent,
    "loop-kind": loop_kind,
    "grid": grid,
    "clear-accum": clear_accum,
    "swapped-variables": swapped_variables,
    "other-buffer": other_buffer,
    "ceildiv": ceildiv,
    "condition": condition,
    "policy": policy,
    "name": name,
    "argument-count": argument_count,
}
