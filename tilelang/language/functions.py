"""The decorators that mark a function as kernel code without compiling it: `@T.prim_func` and `@T.macro`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tilelang.language.surroundings import keep_surroundings
from tilelang.language.values import OutsideKernelError

_C = TypeVar("_C", bound=type)


class PrimFunc:
    """What `isinstance(f, T.PrimFunc)` asks for: a kernel as it is written, or the tile function read from it
    (`kernel.prim_func`, `get_tir`).
    """

    __slots__ = ()


class KernelFunction(PrimFunc):
    """A kernel written by hand, as a lazy factory returns it: `tilelang.compile` takes it.

    `function` is the undecorated Python function, whose source the compiler reads; it is never called.
    `definition` is what the compiler read when the kernel was defined (`tilelang.definition`).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.definition: Any = None
        keep_surroundings(function)
        functools.update_wrapper(self, function)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class of tile functions once the kernel has been read: kernels and tests ask `isinstance(main,
        tirx.PrimFunc)`, and what takes a tile function takes this (`__tvm_ffi_object__`).
        """
        definition = self.__dict__.get("definition")
        return KernelFunction if definition is None else definition.kind

    def __tvm_ffi_object__(self) -> Any:
        """The tile function, for `IRModule({"main": main})` and whatever else of tvm takes one."""
        if self.definition is None:
            raise TypeError(f"{self.function.__name__} has no source that could be read")
        return self.definition.tile_function

    @property
    def orig_func(self) -> Callable[..., Any]:
        """The undecorated Python function."""
        return self.function

    def __getattr__(self, name: str) -> Any:
        """What tile functions have (`script()`, `params`, `attrs`, ...) is asked of the kernel's own."""
        if name.startswith("_") or self.__dict__.get("definition") is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.definition.tile_function, name)

    def __repr__(self) -> str:
        return f"<kernel function {self.function.__qualname__}>" if self.definition is None else str(self)

    def __str__(self) -> str:
        """The kernel as tvm prints tile functions; its name alone where it cannot be told without values."""
        text = None if self.definition is None else self.definition.text()
        return f"<kernel function {self.function.__qualname__}>" if text is None else text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.function.__name__
        raise TypeError(
            f"{name} is a kernel that is not compiled yet: call tilelang.compile({name}), "
            "or return it from a function decorated with @tilelang.jit"
        )


class Macro:
    """A function whose body is written into the kernel that calls it, parameters bound to its
    arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(self.function.__name__)


class Inline:
    """A function that is always interpreted; in a class, a method of its objects."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        return self if owner is None else InlineMethod(self.function, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(self.function.__name__)


class InlineMethod:
    """A `@T.inline` method with its object."""

    def __init__(self, function: Callable[..., Any], owner: Any) -> None:
        self.function, self.owner = function, owner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(self.function.__name__)


_META_CLASS = "__tilelang_meta_class__"


def is_meta_class(cls: type) -> bool:
    """Whether `T.meta_class` marks a class or one that it comes from."""
    return bool(getattr(cls, _META_CLASS, False))


class MacroBuffer:
    """Annotation of a macro's parameter that takes a tile: its memory, shape and dtype, for readers."""

    _SCOPE = ""

    def __init__(self, shape: Any = None, dtype: Any = "float32", *args: Any, **kwargs: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def __class_getitem__(cls, item: Any) -> Any:
        return cls(*item) if isinstance(item, tuple) else cls(item)

    def scope(self) -> str:
        """The memory that the parameter takes tiles of."""
        return self._SCOPE


class SharedBuffer(MacroBuffer):
    """Annotation of a macro's parameter that takes a tile in shared memory: `s: T.SharedBuffer((64, 64),
    dtype)`.
    """

    _SCOPE = "shared.dyn"


class FragmentBuffer(MacroBuffer):
    """Annotation of a macro's parameter that takes a fragment."""

    _SCOPE = "local.fragment"


class LocalBuffer(MacroBuffer):
    """Annotation of a macro's parameter that takes an array private to each thread."""

    _SCOPE = "local"


class Ref:
    """Annotation of a macro's parameter that is an element or a variable of the caller's, not its value:
    `def add(x: T.Ref, n): x += n`. Older kernels write `T.Var`.
    """


if TYPE_CHECKING:
    # Checkers then leave the body alone: `A: T.Tensor((M, K), dtype)` is no type expression to them.
    from typing import no_type_check as macro
    from typing import no_type_check as prim_func

    def inline(func: Callable[..., Any]) -> Callable[..., Any]:
        """The contract stands at the definition below."""
        ...

    def meta_class(cls: _C) -> _C:
        """The contract stands at the definition below."""
        ...
else:

    def define(kernel: KernelFunction) -> KernelFunction:
        """Let the compiler read a kernel where it is defined. Raises KernelError with its mistakes."""
        importlib.import_module("tilelang.definition").define(kernel)
        return kernel

    def inline(func: Callable[..., Any]) -> Any:
        """Mark a function or a method whose body is written into each kernel that calls it."""
        return Inline(func)

    def meta_class(cls: type) -> type:
        """Mark a class whose methods write code into the kernel: its objects exist while the kernel is
        compiled, their `alloc_var` attributes while it runs.
        """
        setattr(cls, _META_CLASS, True)
        return cls

    def prim_func(func: Callable[..., Any] | None = None) -> Any:
        """Mark a function as a kernel: parameters annotated with `T.Tensor`, the body a tile program.

        Returned by a lazy factory under `@tilelang.jit`, or compiled by `tilelang.compile`. The kernel is
        read here, with the names as they are now; mistakes that no target would accept are raised.
        """
        return prim_func if func is None else define(KernelFunction(func))

    def macro(func: Callable[..., Any] | None = None) -> Any:
        """Mark a function whose body is written into each kernel that calls it."""
        return Macro if func is None else Macro(func)
