"""Modules of release 0.1.15 that kernels import by path, where this package keeps their names elsewhere.

`import tilelang.language.loop` and `from tilelang.carver.arch.cuda import CUDA` work by the tables below: the
import system asks `find_spec` last, after every file of this package. A module that belongs to the
release's own compiler (its passes, its code generators, targets that are none here) is refused with a
sentence that says so and where its counterpart is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:  # the classes of finders and loaders cost more to import than this package
    from importlib.abc import Loader

# Module -> the modules that have its names here -> those names, "*" for all that are public.
ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "tilelang.autotuner.grouped_compile": {},
    "tilelang.carver.arch.arch_base": {"tilelang.carver.arch": "TileDevice"},
    "tilelang.carver.arch.cdna": {"tilelang.carver.arch": "CDNA is_cdna_arch"},
    "tilelang.carver.arch.cpu": {"tilelang.carver.arch": "CPU is_cpu_arch"},
    "tilelang.carver.arch.cuda": {
        "tilelang.carver.arch": (
            "CUDA check_sm_version has_mma_support is_ada_arch is_ampere_arch is_cuda_arch is_hopper_arch "
            "is_tensorcore_supported_precision is_volta_arch"
        )
    },
    "tilelang.carver.arch.driver.cuda_driver": {
        "tilelang.carver.arch.driver": (
            "get_cuda_device_properties get_device_attribute get_device_name get_l2_cache_size "
            "get_max_dynamic_shared_size_bytes get_persisting_l2_cache_max_size "
            "get_num_sms get_registers_per_block get_shared_memory_per_block"
        )
    },
    "tilelang.carver.arch.metal": {"tilelang.carver.arch": "METAL is_metal_arch"},
    "tilelang.jit.adapter.cython.adapter": {"tilelang.jit.adapter": "CythonKernelAdapter"},
    "tilelang.jit.adapter.nvrtc.adapter": {"tilelang.jit.adapter": "NVRTCKernelAdapter"},
    "tilelang.jit.adapter.torch": {"tilelang.jit.adapter": "MetalKernelAdapter"},
    "tilelang.jit.adapter.torch.metal": {"tilelang.jit.adapter": "MetalKernelAdapter"},
    "tilelang.language.eager.builder": {
        "tilelang.language.functions": "Macro",
        "tilelang.language": (
            "PrimFunc Ref annotate_compile_flags annotate_pass_configs const dtype macro prim_func"
        ),
    },
    "tilelang.layout.gemm_sp": {"tilelang.layout": "make_cutlass_metadata_layout"},
    "tilelang.layout.layout": {"tilelang.layout": "Layout"},
    "tilelang.layout.swizzle": {
        "tilelang.layout": (
            "make_full_bank_swizzled_layout make_fully_replicated_layout_fragment make_gemm_fragment_8x8 "
            "make_gemm_fragment_8x8_transposed make_half_bank_swizzled_layout make_linear_layout "
            "make_quarter_bank_swizzled_layout make_swizzled_layout make_volta_swizzled_layout "
            "make_wgmma_swizzled_layout"
        )
    },
    "tilelang.testing.perf_regression": {"tilelang.testing": "PerfResult process_func regression"},
    "tilelang.tools.Analyzer": {"tilelang.tools": "AnalysisResult Analyzer"},
    # Of the tvm that comes with the release: tilelang/jit/tvm_names.py.
    "tvm.arith": {"tvm.sym": "*"},
    "tvm.ffi": {"tvm_ffi": "*"},
    "tvm.tirx.stmt_functor": {
        "tilelang.transform.stmt_functor": "ir_transform post_order_visit pre_order_visit substitute"
    },
}

_PASSES = "passes are functions in tilelang.passes; tilelang.targets.<kind>.lower says which run and when"
_LOWERINGS = "tile operations are lowered in tilelang.targets.<kind>.ops"
_SOURCES = "sources are written in tilelang.targets.<kind>.emit, and tilelang.lower(...) shows them"
_LAUNCH = "no host code is generated: the runtime carries out a launch plan (kernel.get_host_source())"
_TEMPLATES = "tilelang.carver.*Template(...).recommend_hints() ranks configurations without such an analysis"

# Modules of the release's compiler, and all below them -> what there is here in their place.
INTERNALS: Mapping[str, str] = {
    "tilelang.analysis": "each rule about kernels is a module of that package; `tilelang check` runs them",
    "tilelang.ascend": "Ascend is none of the targets (cuda, hip, metal, cpu)",
    "tilelang.backend": _SOURCES,
    "tilelang.carver": _TEMPLATES,
    "tilelang.contrib.bisheng": "Ascend is none of the targets (cuda, hip, metal, cpu)",
    "tilelang.contrib.cutedsl": "kernels are not written as CuTe DSL",
    "tilelang.contrib.msvc": "no host code is compiled for a kernel",
    "tilelang.cpu": _LOWERINGS,
    "tilelang.cuda": _LOWERINGS,
    "tilelang.cuda.pipeline": _PASSES,
    "tilelang.cuda.transform": _PASSES,
    "tilelang.instrumentation": _PASSES,
    "tilelang.jit.abi": _LAUNCH,
    "tilelang.jit.adapter": _LAUNCH,
    "tilelang.jit.adapter.cutedsl": "kernels are not written as CuTe DSL",
    "tilelang.language.ast": "kernels are read by tilelang.frontend",
    "tilelang.language.eager": "kernels are read by tilelang.frontend",
    "tilelang.language.frame": "kernels are read by tilelang.frontend, which keeps no stack of frames",
    "tilelang.language.overrides": "kernels are read by tilelang.frontend",
    "tilelang.language.parser": "kernels are read by tilelang.frontend",
    "tilelang.metal": _LOWERINGS,
    "tilelang.rocm": _LOWERINGS,
    "tilelang.tileop": _LOWERINGS,
    "tilelang.transform": _PASSES,
    "tilelang.webgpu": "WebGPU is none of the targets (cuda, hip, metal, cpu)",
}


def find_spec(fullname: str) -> ModuleSpec | None:
    """How to load a module of `ELSEWHERE` or `LANGUAGE_PARTS`; None for one that the release had neither.

    Raises ModuleNotFoundError for those of `INTERNALS`.
    """
    homes = homes_of(fullname)
    if homes is not None:
        known = (*ELSEWHERE, *_language_parts())
        package = any(name.startswith(f"{fullname}.") for name in known)
        return ModuleSpec(fullname, cast("Loader", _Elsewhere(homes)), is_package=package)
    why = _why_not(fullname)
    if why is None:
        return None
    raise ModuleNotFoundError(f"there is no module {fullname!r} here: {why}", name=fullname)


class _Elsewhere:
    """Makes a module whose names are looked up where they are."""

    def __init__(self, homes: Mapping[str, tuple[str, ...]]) -> None:
        self._homes = homes

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Names(spec.name, self._homes)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is to be run. The package keeps its own names: `T.print` stays the function."""
        package, _, name = module.__name__.rpartition(".")
        above = sys.modules[package]
        if type(above) is ModuleType and name in vars(above):
            above.__class__ = _KeepsNames


class _KeepsNames(ModuleType):
    """A package in which no module of the release takes the place of a name: the import system sets each
    module in its package when it is loaded, `print` of `tilelang.cuda.language.print` over `T.print`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, _Names) and name in vars(self)):
            super().__setattr__(name, value)


class _Names(ModuleType):
    def __init__(self, name: str, homes: Mapping[str, tuple[str, ...]]) -> None:
        where = ", ".join(homes) or "nowhere: nothing of it is public"
        super().__init__(name, f"Names of release 0.1.15 by another path; here they are in {where}.")
        self.__all__ = sorted(n for home, names in homes.items() for n in names if _has(home, n))
        self._homes = homes

    def __getattr__(self, name: str) -> Any:
        for home, names in self.__dict__.get("_homes", {}).items():
            if name in names:
                return getattr(importlib.import_module(home), name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return list(self.__all__)


def homes_of(module: str) -> dict[str, tuple[str, ...]] | None:
    """The modules that have the names of a released one, with those names; None for one that is not known."""
    parts = _language_parts()
    if module in parts:
        names = parts[module]
        return {"tilelang.language": _names("tilelang.language", "*" if names is None else names)}
    if module not in ELSEWHERE:
        return None
    return {home: _names(home, names) for home, names in ELSEWHERE[module].items()}


def _names(home: str, names: str) -> tuple[str, ...]:
    """The names of a table's line; "*" stands for all that are public."""
    if names != "*":
        return tuple(names.split())
    module = importlib.import_module(home)
    return tuple(getattr(module, "__all__", None) or (n for n in dir(module) if not n.startswith("_")))


def _language_parts() -> Mapping[str, str | None]:
    """The parts of the language, whose package is loaded when one is asked for, not with this one."""
    return importlib.import_module("tilelang.language.released_parts").LANGUAGE_PARTS


def _has(home: str, name: str) -> bool:
    return hasattr(importlib.import_module(home), name)


def _why_not(module: str) -> str | None:
    """Why there is no such module; None where the release had none either, as far as the tables know."""
    parts = module.split(".")
    above = (".".join(parts[:n]) for n in range(len(parts), 1, -1))
    return next((INTERNALS[name] for name in above if name in INTERNALS), None)
