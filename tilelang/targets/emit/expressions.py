"""TIRX expressions as C text with minimal parentheses, the same for all dialects.

Every printing function returns the text and how tightly it binds, so that the caller knows whether to put
parentheses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.arch.float_formats import FORMATS
from tilelang.ir.math_ops import LDG
from tilelang.targets.emit import literals, narrow_floats
from tilelang.targets.emit.bounds import Bounds
from tilelang.targets.emit.dialect import COMMON_HELPERS, Dialect
from tilelang.targets.emit.intrinsic import Intrinsic

Text = tuple[str, int]

# How tightly C operators bind; larger is tighter.
ATOM, UNARY, MUL, ADD, SHIFT, RELATION, EQUALITY, BIT, AND, OR, TERNARY = range(12, 1, -1)

_BINARY: dict[type, tuple[str, int]] = {
    X.Add: ("+", ADD),
    X.Sub: ("-", ADD),
    X.Mul: ("*", MUL),
    X.Div: ("/", MUL),
    X.Mod: ("%", MUL),
    X.LT: ("<", RELATION),
    X.LE: ("<=", RELATION),
    X.GT: (">", RELATION),
    X.GE: (">=", RELATION),
    X.EQ: ("==", EQUALITY),
    X.NE: ("!=", EQUALITY),
    X.And: ("&&", AND),
    X.Or: ("||", OR),
    X.BitwiseAnd: ("&", BIT),
    X.BitwiseOr: ("|", BIT),
    X.BitwiseXor: ("^", BIT),
    X.LShift: ("<<", SHIFT),
    X.RShift: (">>", SHIFT),
}
_COMPARISONS = (X.LT, X.LE, X.GT, X.GE, X.EQ, X.NE)
_PLAIN = {X.Add: ADD, X.Sub: ADD, X.Mul: MUL}
_ASSOCIATIVE = (X.Add, X.And, X.Or, X.BitwiseAnd, X.BitwiseOr, X.BitwiseXor)
_WRAPPING = (X.Add, X.Sub, X.Mul, X.LShift)
_FULL_INTS = ("int32", "int64")
_NARROW_INTS = ("int8", "int16", "uint8", "uint16")
SMALL_FLOATS = ("float16", "bfloat16", *FORMATS)


class EmitError(ValueError):
    """The thread-level function holds something that the target's language has no words for."""


@dataclass
class Storage:
    """A buffer as the printer sees it.

    `wide`: its flat index can pass 2^31, so products in it are computed in 64 bits; `row` is then the
    constant part of its size: what one unit of a symbolic size stands for. `vector`: its elements are
    accessed several at a time.
    """

    name: str
    dtype: str
    scope: str
    scalar: bool = False
    wide: bool = False
    row: int = 1
    opaque: bool = False
    vector: bool = False


def paren(text: Text, at_least: int) -> str:
    """The text, in parentheses if it binds more loosely than `at_least`."""
    return text[0] if text[1] >= at_least else f"({text[0]})"


class Expressions:
    """Prints expressions; the statements' printer tells it the variables and storages in scope."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.names: dict[int, str] = {}  # variable -> text
        self.storages: dict[int, Storage] = {}
        self.bounds = Bounds()
        self.sizes: set[int] = set()  # variables in shapes of tensors
        self.used_helpers: dict[str, Intrinsic] = {}
        self.used_dtypes: set[str] = set()
        self.used_includes: set[str] = set()
        self.used_types: set[str] = set()  # names that may need a declaration
        self.used_axes: set[str] = set()
        self.passed: set[str] = set()  # buffers whose address goes to code that may write there
        self.lane: str | None = None  # inside a loop over vector lanes: the lane's variable
        self.hoisted: dict[int, str] = {}  # vector load -> array that holds its lanes
        # Inside an index of full width: integers wrap nowhere and literals need no suffix.
        self._plain = False
        self._dtypes: dict[int, str] = {}
        self._kept: list[Any] = []  # type objects, so that their handles stay theirs
        self._call_printers: dict[str, Callable[[Any], Text]] = {
            "if_then_else": self._if_then_else,
            "address_of": self._address_of,
            "buffer_data": lambda e: (self.storage(e.args[0]).name, ATOM),
            "reinterpret": self._reinterpret,
            "likely": lambda e: self.text(e.args[0]),
            "call_extern": self._extern,
            "call_pure_extern": self._extern,
            "shift_left": lambda e: self._call_binary("<<", SHIFT, e),
            "shift_right": lambda e: self._call_binary(">>", SHIFT, e),
            "bitwise_and": lambda e: self._call_binary("&", BIT, e),
            "bitwise_or": lambda e: self._call_binary("|", BIT, e),
            "bitwise_xor": lambda e: self._call_binary("^", BIT, e),
            "bitwise_not": lambda e: self._bitwise_not(e, e.args[0]),
        }
        self._printers: dict[type, Callable[[Any], Text]] = {
            X.IntImm: self._integer,
            X.FloatImm: self._float,
            ir.Var: self._var,
            ir.TensorLoad: self._load,
            ir.Call: self._call,
            ir.StringImm: lambda e: (json.dumps(str(e.value)), ATOM),
            X.Cast: self._cast,
            X.Not: lambda e: (f"!{paren(self.text(e.a), UNARY)}", UNARY),
            X.BitwiseNot: lambda e: self._bitwise_not(e, e.a),
            X.FloorDiv: self._floor_div,
            X.FloorMod: self._floor_mod,
            X.Max: lambda e: self._function("max", e, [e.a, e.b]),
            X.Min: lambda e: self._function("min", e, [e.a, e.b]),
            X.Select: lambda e: self._ternary(e.condition, e.true_value, e.false_value),
            X.Let: self._let,
            X.Ramp: self._ramp,
            X.Broadcast: lambda e: self.text(e.value),
        }
        for kind in _BINARY:
            self._printers[kind] = self._binary
        for kind in (ir.Call, X.Cast, X.Select, X.Let, X.Not, *_COMPARISONS):
            self._printers[kind] = partial(self._full, self._printers[kind])

    # Entry points

    def text(self, e: Any) -> Text:
        """The expression and its binding strength."""
        kind = type(e)
        printer = self._printers.get(kind)
        if printer is None:
            raise EmitError(f"{self.dialect.name} has no words for a {type(e).__name__}: {e}")
        return printer(e)

    def show(self, e: Any) -> str:
        """The expression alone."""
        return self.text(e)[0]

    def dtype(self, e: Any) -> str:
        """The element dtype of an expression (`float16` for `float16x8`)."""
        ty = e.ty
        key = ty.__chandle__()
        found = self._dtypes.get(key)
        if found is None:
            found = self._dtypes[key] = str(ty.dtype).partition("x")[0] if hasattr(ty, "dtype") else "handle"
            self._kept.append(ty)
        return found

    def type_name(self, dtype: str) -> str:
        """The C type of a dtype; remembers that it is used."""
        self.used_dtypes.add(dtype)
        if self._is_soft(dtype):
            self.used_types.add(dtype)
            return dtype
        try:
            return self.dialect.types[dtype]
        except KeyError:
            raise EmitError(f"{self.dialect.name} has no type for {dtype}") from None

    def _is_soft(self, dtype: str) -> bool:
        """Whether a narrow float is a struct of its bits here, converted by helpers."""
        return dtype in FORMATS and dtype not in self.dialect.types

    def pointer(self, dtype: str, scope: str, const: bool = False) -> str:
        """`const half*`, with the address space where the language has one."""
        return self.raw_pointer(self.type_name(dtype), scope, const)

    def raw_pointer(self, type_name: str, scope: str, const: bool = False) -> str:
        return f"{self.dialect.spaces.get(scope, '')}{'const ' if const else ''}{type_name}*"

    def storage(self, buffer: Any) -> Storage:
        found = self.storages.get(buffer.__chandle__())
        if found is None:
            raise EmitError(f"buffer {buffer.name} is used but neither a parameter nor allocated")
        return found

    def element(self, buffer: Any, index: Any) -> str:
        """`A[i]`, or the bare name of a scalar."""
        s = self.storage(buffer)
        return s.name if s.scalar else f"{s.name}[{self.index(s, index)}]"

    def index(self, storage: Storage, index: Any) -> str:
        """A flat index, in 64 bits where the buffer is that large."""
        outer, self._plain = self._plain, self.dtype(index) in _FULL_INTS
        if storage.wide:
            text = self._wide(index, storage.row > 1)[0][0]
        else:
            text = (self._plain_text(index) if self._plain else self.text(index))[0]
        self._plain = outer
        return text

    def _plain_text(self, e: Any) -> Text:
        """`text` for index arithmetic, most of what is printed: only full-width integers."""
        kind = type(e)
        if kind is ir.Var:
            name = self.names.get(e.__chandle__())
            return (name, ATOM) if name is not None else self._var(e)
        if kind is X.IntImm:
            value = e.value
            return str(value), ATOM if value >= 0 else UNARY
        strength = _PLAIN.get(kind)
        if strength is None:
            return self.text(e)
        b = e.b
        left, left_strength = self._plain_text(e.a)
        if kind is X.Add and type(b) is X.IntImm and b.value < 0:
            return f"{left} - {-b.value}", ADD
        right, right_strength = self._plain_text(b)
        if left_strength < strength:
            left = f"({left})"
        if right_strength < strength or (right_strength == strength and not (kind is X.Add is type(b))):
            right = f"({right})"
        return f"{left} {_BINARY[kind][0]} {right}", strength

    def _full(self, print_child: Callable[[Any], Text], e: Any) -> Text:
        """Print something inside which other dtypes than the index's may occur."""
        outer, self._plain = self._plain, False
        text = print_child(e)
        self._plain = outer
        return text

    def address(self, buffer: Any, index: Any) -> str:
        """`&A[i]`, or `A` for its beginning."""
        s = self.storage(buffer)
        if s.scalar:
            return f"&{s.name}"
        text = self.index(s, index)
        return s.name if text == "0" else f"&{s.name}[{text}]"

    def helper(self, name: str) -> Intrinsic:
        """A device helper by name; remembers it and what it needs."""
        found = self.dialect.intrinsics.get(name) or COMMON_HELPERS.get(name)
        found = found or self.dialect.generated(name)
        if found is None:
            raise EmitError(f"tl.{self.dialect.name}.{name} is not in the target's table of intrinsics")
        if found.source is not None and name not in self.used_helpers:
            for other in found.requires:
                self.helper(other)
            self.used_helpers[name] = found
        self.used_includes.update(found.includes)
        self.used_types.update(found.types)
        return found

    # Leaves

    def _integer(self, e: Any) -> Text:
        text = literals.integer(int(e.value), self.dtype(e), self.dialect.int64_suffix)
        return text, UNARY if text.startswith("-") else ATOM

    def _float(self, e: Any) -> Text:
        value, dtype = float(e.value), self.dtype(e)
        if dtype in FORMATS and (self._is_soft(dtype) or not math.isfinite(value)):
            return self._narrow_literal(dtype, value), ATOM
        if not math.isfinite(value):
            self.used_includes.update(self.dialect.constant_includes)
        if math.isnan(value):
            text, wrap = self.dialect.nan, dtype != "float32"
        elif math.isinf(value):
            text, wrap = ("-" if value < 0 else "") + self.dialect.infinity, dtype != "float32"
        else:
            digits = literals.decimal(value, dtype)
            text, wrap = digits if dtype == "float64" else f"{digits}f", dtype in SMALL_FLOATS
        if wrap:
            return f"{self.type_name(dtype)}({text})", ATOM
        return text, UNARY if text.startswith("-") else ATOM

    def _narrow_literal(self, dtype: str, value: float) -> str:
        name = self.type_name(dtype)
        if self._is_soft(dtype):
            return narrow_floats.literal(dtype, value)
        self.helper("bit_cast")  # the constructors of the language's own types saturate
        return f"bit_cast<{name}>((unsigned char)0x{FORMATS[dtype].encode(value):02x})"

    def _var(self, e: Any) -> Text:
        name = self.names.get(e.__chandle__())
        if name is None:
            raise EmitError(f"variable {e.name} is used outside the statement that defines it")
        return name, ATOM if name[-1] != ")" else UNARY

    def _load(self, e: Any) -> Text:
        if self.lane is not None and (array := self.hoisted.get(e.__chandle__())) is not None:
            return f"{array}[{self.lane}]", ATOM
        return self.element(e.source, e.indices[0]), ATOM

    def _ramp(self, e: Any) -> Text:
        if self.lane is None:
            raise EmitError(f"a vector index outside a vector access: {e}")
        base = self.text(e.base)
        step = self.show(e.stride)
        lane = self.lane if step == "1" else f"{self.lane} * {paren(self.text(e.stride), MUL + 1)}"
        return (lane, ATOM if step == "1" else MUL) if base[0] == "0" else (f"{base[0]} + {lane}", ADD)

    # Operators

    def _binary(self, e: Any) -> Text:
        kind = type(e)
        symbol, strength = _BINARY[kind]
        a, b = e.a, e.b
        if kind is X.Mod and self.dtype(e).startswith(("float", "bfloat")):
            return self._function("fmod", e, [a, b])
        if kind is X.Add and type(b) is X.IntImm and b.value < 0:
            left, right, symbol = self.text(a), (str(-int(b.value)), ATOM), "-"
        else:
            left, right = self.text(a), self.text(b)
        # Regrouping integers of full width changes nothing; floats keep their order.
        free = (
            kind in _ASSOCIATIVE
            and type(b) is kind
            and (kind is not X.Add or self._plain or self.dtype(e) in _FULL_INTS)
        )
        if strength in (BIT, SHIFT):  # C's order is a trap for readers: always parentheses
            same = type(a) is kind and kind is not X.LShift and kind is not X.RShift
            text = f"{paren(left, BIT if same else UNARY)} {symbol} {paren(right, BIT if free else UNARY)}"
        elif kind is X.Or:
            text = f"{paren(left, OR if type(a) is X.Or else EQUALITY)} || {paren(right, EQUALITY)}"
        else:
            text = f"{paren(left, strength)} {symbol} {paren(right, strength if free else strength + 1)}"
        if not self._plain and kind in _WRAPPING and (dtype := self.dtype(e)) in _NARROW_INTS:
            return self._convert(text, dtype)
        return text, strength

    def _call_binary(self, symbol: str, strength: int, e: Any) -> Text:
        a, b = e.args
        text = f"{paren(self.text(a), UNARY)} {symbol} {paren(self.text(b), UNARY)}"
        if symbol == "<<" and (dtype := self.dtype(e)) in _NARROW_INTS:
            return self._convert(text, dtype)
        return text, strength

    def _bitwise_not(self, e: Any, operand: Any) -> Text:
        text, dtype = f"~{paren(self.text(operand), UNARY)}", self.dtype(e)
        # C turns the bits of an int: those above an unsigned narrow number too.
        return self._convert(text, dtype) if dtype in _NARROW_INTS else (text, UNARY)

    def _floor_div(self, e: Any) -> Text:
        a, b = e.a, e.b
        if self.bounds.non_negative(a) and self.bounds.non_negative(b):
            return f"{paren(self.text(a), MUL)} / {paren(self.text(b), UNARY)}", MUL
        if (shift := _log2(b)) is not None:
            return f"{paren(self.text(a), UNARY)} >> {shift}", SHIFT
        return self._floor("floordiv", e)

    def _floor_mod(self, e: Any) -> Text:
        a, b = e.a, e.b
        if self.bounds.non_negative(a) and self.bounds.non_negative(b):
            return f"{paren(self.text(a), MUL)} % {paren(self.text(b), UNARY)}", MUL
        if _log2(b) is not None:
            return f"{paren(self.text(a), UNARY)} & {int(b.value) - 1}", BIT
        return self._floor("floormod", e)

    def _floor(self, name: str, e: Any) -> Text:
        """A call of a template; a narrow number and a literal beside it are of different types in C."""
        self.helper(name)
        dtype = self.dtype(e)
        chosen = f"<{self.type_name(dtype)}>" if dtype in _NARROW_INTS else ""
        return f"{name}{chosen}({self.show(e.a)}, {self.show(e.b)})", ATOM

    def _ternary(self, condition: Any, yes: Any, no: Any) -> Text:
        parts = (self.text(condition), self.text(yes), self.text(no))
        return (
            f"{paren(parts[0], TERNARY + 1)} ? {paren(parts[1], TERNARY + 1)} : {paren(parts[2], TERNARY)}",
            (TERNARY),
        )

    def _if_then_else(self, e: Any) -> Text:
        return self._ternary(*e.args)

    def _let(self, e: Any) -> Text:
        self.names[e.var.__chandle__()] = f"({self.show(e.value)})"
        return self.text(e.body)

    # Conversions

    def _cast(self, e: Any) -> Text:
        source, target = self.dtype(e.value), self.dtype(e)
        text = self.text(e.value)
        if source == target:
            return text
        if self._is_soft(source):
            text = (f"{self.helper(narrow_floats.from_name(source)).function}({text[0]})", ATOM)
            source = "float32"
            if target == source:
                return text
        if self._is_soft(target):
            if source != "float32":
                text = self._convert(text[0], "float32", text[1])
            self.type_name(target)
            return f"{self.helper(narrow_floats.to_name(target)).function}({text[0]})", ATOM
        through_float = (target in SMALL_FLOATS and source not in ("float32", "float64")) or (
            source in SMALL_FLOATS and target != "float32"
        )
        if through_float and source != "float32":
            text = (f"{self.type_name('float32')}({text[0]})", ATOM)
            if target == "float32":
                return text
        return self._convert(text[0], target, text[1])

    def _convert(self, text: str, dtype: str, strength: int = TERNARY) -> Text:
        name = self.type_name(dtype)
        if " " in name:
            return f"({name}){paren((text, strength), UNARY)}", UNARY
        return f"{name}({text})", ATOM

    def _reinterpret(self, e: Any) -> Text:
        target, value = self.type_name(self.dtype(e)), e.args[-1]
        text = self._exact(value)  # C computes in int, which has other bits than its result
        spelling = self.dialect.reinterpret
        if spelling.startswith("@"):
            self.helper(spelling[1:])
            spelling = spelling[1:] + "<{type}>({0})"
        return spelling.format(text, type=target), ATOM

    def _exact(self, value: Any) -> str:
        """`value` as an expression that has its own type in C, where narrow integers become int."""
        text, dtype = self.show(value), self.dtype(value)
        if dtype in _NARROW_INTS and not isinstance(value, ir.Var | ir.TensorLoad | X.Cast):
            text, _ = self._convert(text, dtype)
        return text

    # Calls

    def _call(self, e: Any) -> Text:
        name = e.op.name
        prefix, _, rest = name.partition(".")
        if prefix == "tl":
            return self._intrinsic(e, rest)
        printer = self._call_printers.get(rest)
        return printer(e) if printer is not None else self._function(rest, e, list(e.args))

    def _intrinsic(self, e: Any, name: str) -> Text:
        name = name.removeprefix(f"{self.dialect.name}.")
        if f"tl.{name}" == LDG and type(e.args[0]) is not ir.TensorLoad:
            return self.text(e.args[0])  # guarded: a choice has no address
        found = self.helper(name)
        self._note_pointers(found, e.args)
        args = [self.show(a) for a in e.args]
        if found.inline is not None:
            return found.inline.format(
                *args, args=", ".join(args), rest="".join(f", {a}" for a in args[1:])
            ).replace("*&", ""), ATOM
        k = found.template_args
        head = f"{found.function}<{', '.join(args[:k])}>" if k else found.function
        return f"{head}({', '.join(args[k:])})", ATOM

    def _note_pointers(self, helper: Intrinsic, args: Any) -> None:
        """Remember which buffers a call may write, wherever it stands, and which arrays it wants aligned."""
        for position, arg in enumerate(args):
            kind = arg.op.name if type(arg) is ir.Call else ""
            if kind in ("tirx.address_of", "tirx.buffer_data"):
                target = arg.args[0].source if kind == "tirx.address_of" else arg.args[0]
                storage = self.storage(target)
                if helper.written(position):
                    self.passed.add(storage.name)
                storage.vector = True

    def _function(self, name: str, e: Any, args: list[Any]) -> Text:
        dtype = self.dtype(args[0])
        table = self.dialect.functions.get(name, {})
        spelling = table.get(dtype) or table.get("int" if dtype.startswith(("int", "uint")) else "")
        texts = [self.show(a) for a in args]
        result = self.dtype(e)
        if spelling is None and dtype in SMALL_FLOATS and "float32" in table:
            spelling = table["float32"]
            texts = [f"{self.type_name('float32')}({t})" for t in texts]
            back = result in SMALL_FLOATS
        else:
            back = False
        if spelling is None:
            raise EmitError(f"{self.dialect.name} has no {name} for {dtype}")
        if dtype in _NARROW_INTS and (spelling.startswith("@") or self.dialect.exact_overloads):
            texts = [self._exact(a) for a in args]
        if spelling.startswith("@"):
            places = ", ".join(f"{{{i}}}" for i in range(len(args)))
            spelling = f"{self.helper(spelling[1:]).function}({places})"
        text = spelling.format(*texts)
        return (f"{self.type_name(result)}({text})", ATOM) if back else (text, ATOM)

    def _extern(self, e: Any) -> Text:
        for arg in list(e.args)[1:]:
            if type(arg) is ir.Call and arg.op.name == "tirx.address_of":
                self.passed.add(self.storage(arg.args[0].source).name)
        name = str(e.args[0].value)
        if name in self.dialect.extern_helpers:
            self.helper(self.dialect.extern_helpers[name])
        return f"{name}({', '.join(self.show(a) for a in list(e.args)[1:])})", ATOM

    def _address_of(self, e: Any) -> Text:
        load = e.args[0]
        text = self.address(load.source, load.indices[0])
        return text, UNARY if text.startswith("&") else ATOM

    # 64-bit indices

    def _wide(self, e: Any, products: bool) -> tuple[Text, bool]:
        """The index with 64 bits where 32 may not suffice, and whether the text is of 64 bits.

        An index of one dimension fits into 32 bits as sizes do. What may not fit are products with a size,
        and where rows have a constant length (`products`) the outermost products with constants.
        """
        kind = type(e)
        if kind in (X.Add, X.Sub):
            (a, wide_a), (b, wide_b) = self._wide(e.a, products), self._wide(e.b, products)
            symbol = "+" if kind is X.Add else "-"
            if kind is X.Add and type(e.b) is X.IntImm and e.b.value < 0:
                symbol, b = "-", (b[0].lstrip("-"), ATOM)
            free = kind is X.Add and type(e.b) is X.Add
            return (f"{paren(a, ADD)} {symbol} {paren(b, ADD if free else ADD + 1)}", ADD), wide_a or wide_b
        if kind is X.Mul:
            (a, wide_a), (b, wide_b) = self._wide(e.a, False), self._wide(e.b, False)
            wanted = (products or self._has_size(e)) and not self._fits(e)
            if wanted and not (wide_a or wide_b):
                a, wide_a = (f"({self.type_name('int64')}){paren(a, UNARY)}", UNARY), True
            return (f"{paren(a, MUL)} * {paren(b, UNARY)}", MUL), wide_a or wide_b
        if kind is X.FloorDiv and type(e.b) is X.IntImm:  # indices are not negative
            a, wide_a = self._wide(e.a, products)
            if wide_a:
                return (f"{paren(a, MUL)} / {e.b.value}", MUL), True
        return self.text(e), self.dtype(e) in ("int64", "uint64")

    def _has_size(self, e: Any) -> bool:
        if type(e) is ir.Var:
            return e.__chandle__() in self.sizes
        return hasattr(e, "a") and (self._has_size(e.a) or self._has_size(e.b))

    def _fits(self, e: Any) -> bool:
        low, high = self.bounds.interval(e)
        return low >= -(2**31) and high < 2**31


def _log2(e: Any) -> int | None:
    """k if `e` is the constant 2^k."""
    if type(e) is not X.IntImm:
        return None
    value = int(e.value)
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None
