"""Modules that the static environment knows without importing anything of the user's: real values or
models of them.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import operator
from dataclasses import dataclass
from typing import Any

import tilelang.arch.dtypes
import tilelang.language as language
from tilelang.arch.dtypes import DTYPES
from tilelang.frontend.model import NAMED_TUPLE, ClassValue, ModuleValue, RecordFunction
from tilelang.frontend.python.argument_parser import PARSER
from tilelang.frontend.python.decorators import Decorator, PlainDecorator
from tilelang.frontend.python.program_start import os_module
from tilelang.ir.values import Unknown
from tilelang.language.dtypes import DType
from tilelang.language.names import LANGUAGE

# Functions of these modules compute on plain values only and have no effects.
PURE_MODULES = (math, itertools, tilelang.arch.dtypes)


@dataclass(frozen=True)
class TensorFactory:
    """`torch.randn` and its kin: their result is a tensor whose shape may be known."""

    name: str


@dataclass(frozen=True)
class HostTensor:
    """A tensor of the host program, as far as its making tells."""

    shape: tuple[Any, ...] | None
    dtype: Any = None


@dataclass(frozen=True)
class FieldFunction:
    """`dataclasses.field`."""


@dataclass(frozen=True)
class NamespaceFunction:
    """`types.SimpleNamespace`."""


@dataclass(frozen=True)
class AutoFunction:
    """`enum.auto`."""


NAMESPACE = ClassValue("SimpleNamespace", {}, ())
JIT = Decorator("jit")
AUTOTUNE = Decorator("autotune")
COMPILE = Decorator("compile")
LAYOUTS = tuple(n for n, e in LANGUAGE.items() if e.kind == "layout" and n != "annotate_layout")


def _public(module: Any) -> dict[str, Any]:
    return {n: v for n, v in vars(module).items() if not n.startswith("_")}


def _tvm() -> ModuleValue:
    """Of tvm only `ir.Op.get(name)`, for T.call_intrin, which takes the name as well."""
    op = ModuleValue("Op", {"get": str}, open=True)
    ir, tirx_op = (
        ModuleValue("tvm.ir", {"Op": op}, open=True),
        ModuleValue("tvm.tirx.op", {"Op": op}, open=True),
    )
    tirx = ModuleValue("tvm.tirx", {"op": tirx_op}, open=True)
    return ModuleValue("tvm", {"ir": ir, "tirx": tirx}, open=True)


def _tilelang() -> dict[str, ModuleValue]:
    layouts = ModuleValue("tilelang.layout", {n: getattr(language, n) for n in LAYOUTS}, open=True)
    names = {
        "jit": JIT,
        "lazy_jit": JIT,
        "autotune": AUTOTUNE,
        "compile": COMPILE,
        "language": language,
        "layout": layouts,
        "tvm": _tvm(),
        "__version__": Unknown("the version of the language"),
    }
    return {
        "tilelang": ModuleValue("tilelang", names, open=True),
        "tilelang.jit": ModuleValue("tilelang.jit", {"jit": JIT, "compile": COMPILE}, open=True),
        "tilelang.layout": layouts,
        **{name: _intrinsics(name) for name in _INTRINSICS},
        "tilelang.autotuner": ModuleValue("tilelang.autotuner", {"autotune": AUTOTUNE}, open=True),
    }


_EMITTERS = (
    "TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform SparseTensorCoreIntrinEmitter "
    "WGSparseTensorCoreIntrinEmitter get_mma_micro_size "
    "get_swizzle_layout get_ldmatrix_offset make_mma_swizzle_layout mma_store_index_map"
)
_INTRINSICS = tuple(
    f"tilelang.cuda.intrinsics{part}"
    for part in (
        *("", ".macro", ".macro.mma_macro_generator", ".macro.wgmma_macro_generator"),
        *(".macro.mma_sp_macro_generator", ".macro.wgmma_sp_macro_generator"),
        *(".layout", ".layout.utils", ".layout.mma_layout"),
    )
)


def _intrinsics(name: str) -> ModuleValue:
    names = {n: getattr(language, n) for n in _EMITTERS.split()}
    if name.endswith(".wgmma_macro_generator"):
        names["TensorCoreIntrinEmitter"] = language.WGMMATensorCoreIntrinEmitter
    if name.endswith(".wgmma_sp_macro_generator"):
        names["SparseTensorCoreIntrinEmitter"] = language.WGSparseTensorCoreIntrinEmitter
    return ModuleValue(name, names, open=True)


_TORCH_NAMES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64"}
_FACTORIES = "randn rand empty zeros ones full randint arange tensor"


def _torch() -> ModuleValue:
    dtypes = {name: DType(name) for name in DTYPES}
    dtypes |= {alias: DType(name) for alias, name in _TORCH_NAMES.items()}
    factories = {n: TensorFactory(n) for n in _FACTORIES.split()}
    return ModuleValue("torch", {**dtypes, **factories}, open=True)


def _numpy() -> ModuleValue:
    names: dict[str, Any] = {name: DType(name) for name in DTYPES if name not in ("bfloat16", "bool")}
    names |= {"bool_": DType("bool"), "pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
    return ModuleValue("numpy", names, open=True)


def _functools() -> ModuleValue:
    names: dict[str, Any] = {"partial": functools.partial, "reduce": functools.reduce}
    names |= {n: PlainDecorator(n) for n in ("cache", "lru_cache", "wraps", "cached_property")}
    return ModuleValue("functools", names, open=True)


def _enum() -> ModuleValue:
    kinds = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
    names: dict[str, Any] = {k: ClassValue(k, {}, (), is_enum=True) for k in kinds}
    names |= {n: PlainDecorator(n) for n in ("unique", "verify", "member", "nonmember")}
    names["auto"] = AutoFunction()
    return ModuleValue("enum", names, open=True)


def _typing() -> ModuleValue:
    return ModuleValue("typing", {"NamedTuple": NAMED_TUPLE, "TYPE_CHECKING": False}, open=True)


_COLLECTIONS: dict[str, Any] = {"OrderedDict": dict, "namedtuple": RecordFunction("namedtuple")}


@functools.cache
def modelled_modules() -> dict[str, ModuleValue]:
    """Models by dotted name; made once and never changed."""
    dataclass_names: dict[str, Any] = {"dataclass": PlainDecorator("dataclass"), "field": FieldFunction()}
    dataclass_names |= {
        n: RecordFunction(n) for n in ("replace", "asdict", "astuple", "fields", "is_dataclass")
    }
    return {
        **_tilelang(),
        "torch": _torch(),
        "torch.nn.functional": ModuleValue("torch.nn.functional", {}, open=True),
        "numpy": _numpy(),
        "math": ModuleValue("math", _public(math)),
        "itertools": ModuleValue("itertools", _public(itertools), open=True),
        "functools": _functools(),
        "operator": ModuleValue("operator", _public(operator), open=True),
        "typing": _typing(),
        "typing_extensions": ModuleValue("typing_extensions", dict(_typing().names), open=True),
        "dataclasses": ModuleValue("dataclasses", dataclass_names, open=True),
        "enum": _enum(),
        "argparse": ModuleValue("argparse", {"ArgumentParser": PARSER}, open=True),
        "collections": ModuleValue("collections", _COLLECTIONS, open=True),
        "os": os_module(),
        "json": ModuleValue("json", {"loads": json.loads}, open=True),
        "types": ModuleValue("types", {"SimpleNamespace": NamespaceFunction()}, open=True),
        "__future__": ModuleValue("__future__", {}, open=True),
    }
