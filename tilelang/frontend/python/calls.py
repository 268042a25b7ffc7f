"""Calls: of the language, of interpreted functions and classes, of Python builtins, of everything else."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, plain, read_arguments
from tilelang.frontend.constants import any_not_given
from tilelang.frontend.dtypes import read_dtype
from tilelang.frontend.model import (
    BoundMethod,
    ClassValue,
    Function,
    HostCall,
    Instance,
    JitFunction,
    KernelMethod,
    Late,
    ModuleValue,
    NativeMethod,
    ParentsOf,
    PrimFunction,
    RecordFunction,
)
from tilelang.frontend.names import known_size
from tilelang.frontend.operations.extern_calls import address
from tilelang.frontend.operations.intrinsics import convert_value
from tilelang.frontend.operations.named_values import fits_let, named_value
from tilelang.frontend.python.attributes import MUTATING, BufferMethod, PlainMethod
from tilelang.frontend.python.builtin_functions import BUILTIN_FUNCTIONS, call_builtin, is_modelled
from tilelang.frontend.python.classes import instantiate
from tilelang.frontend.python.decorators import Decorator, PlainDecorator
from tilelang.frontend.python.functions import call_function
from tilelang.frontend.python.kernel_objects import (
    call_method,
    call_own_function,
    is_own_class,
    make_object,
    method_of_kernel,
)
from tilelang.frontend.python.language_calls import call_language, guarded_choice
from tilelang.frontend.python.operator_functions import OPERATOR_FUNCTIONS, call_operator
from tilelang.frontend.python.records import call_record
from tilelang.frontend.python.repeated_calls import REPEATING, call_repeatedly
from tilelang.frontend.python.targets import taint
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_traced, any_unknown, is_traced, kept, scalar
from tilelang.frontend.scope import Scope
from tilelang.frontend.star_import import hides_builtin, not_pythons
from tilelang.frontend.tensors import unnamed_size
from tilelang.frontend.traced_values import (
    library_needs_value,
    math_needs_value,
    needs_tensors,
    note_text,
)
from tilelang.ir.tile_program import Access, Evaluate
from tilelang.ir.values import Buffer, Index, Region, Unknown
from tilelang.language.dtypes import DType
from tilelang.language.names import LANGUAGE, declared_name

_MAX_LENGTH = 1_000_000
_MAX_DIGITS = 4  # of a format: more could ask for a text that fills the memory
_LIBRARIES = ("numpy", "torch", "torch.nn.functional")
_SEARCHING = ("get", "pop", "setdefault", "index", "count", "remove", "discard")
Arguments = tuple[list[Argument], dict[str, Argument]]


def call(run: Run, node: ast.Call) -> Any:
    """`function(...)`."""
    function = run.eval(node.func)
    name = _declared(function)
    if name == "if_then_else" and not any(isinstance(a, ast.Starred) for a in node.args):
        return guarded_choice(run, node)
    if function is X.Let and fits_let(node):
        return named_value(run, node)
    saved = run.binding_name, run.printing
    run.binding_name, run.printing = None, node if function is print else run.printing
    given = read_arguments(run, node)
    run.binding_name, run.printing = saved
    if isinstance(given, Unknown):
        return _unknown_call(run, node, function if isinstance(function, Unknown) else given, given)
    wrong = _traced_in_library(run, node, given)
    if wrong is not None:
        return wrong
    if isinstance(function, Unknown):
        return _unknown_call(run, node, function, given)
    return call_known(run, node, function, *given)


def call_known(
    run: Run, node: ast.Call, function: Any, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """A call of a known value with known arguments."""
    if is_own_class(function):
        return make_object(run, node, function, args, kwargs)
    name = _declared(function)
    given = args, kwargs
    if name is not None and LANGUAGE[name].kind == "code":
        return call_own_function(run, node, function, args, kwargs)
    if name is not None:
        return call_language(run, node, name, function, args, kwargs)
    if isinstance(function, DType):
        if not args:
            unknown = Unknown("a dtype called without a value")
            return unknown if kwargs else unnamed_size(run, str(function), run.span(node))
        value = args[0].value
        callee = f"T.{function}"
        if hides_builtin(node.func):
            callee = f"{not_pythons(ast.unparse(node.func), str(function))}"
        return convert_value(run, value, str(function), args[0].span, callee)
    if isinstance(function, Function):
        return _interpreted(run, node, function, args, kwargs)
    if isinstance(function, BoundMethod):
        owner = Argument(function.owner, run.span(node.func))
        inner = function.function
        if isinstance(inner, JitFunction):
            return call_known(run, node, inner, [owner, *args], kwargs)
        if isinstance(inner, RecordFunction):
            return call_record(run, node, inner, [owner, *args], kwargs)
        if isinstance(inner, NativeMethod):
            return inner.handler(run, function.owner, args, kwargs)
        return _interpreted(run, node, inner, [owner, *args], kwargs)
    if isinstance(function, Instance):
        return _call_object(run, node, function, args, kwargs)
    if isinstance(function, ClassValue):
        return instantiate(run, node, function, args, kwargs)
    if isinstance(function, RecordFunction):
        return call_record(run, node, function, args, kwargs)
    if function is super and not args:
        return _parents(run)
    if isinstance(function, PlainMethod):
        return _plain_method(run, node, function, args, kwargs)
    if isinstance(function, BufferMethod):
        return _buffer_method(run, node, function, args, kwargs)
    if isinstance(function, Decorator):
        return _decorator_call(run, function, args, kwargs)
    if isinstance(function, PlainDecorator):
        wraps = function.name == "wraps"  # `functools.wraps(f)` is about f and decorates another function
        return args[0].value if args and isinstance(args[0].value, Function) and not wraps else function
    if isinstance(function, JitFunction):
        _note_host_call(run, function.function, function, args, kwargs)
        return Unknown(f"the result of `{function.function.name}` is known only when it runs")
    if isinstance(function, KernelMethod):
        kernel = function.kernel
        _note_host_call(run, kernel.function, kernel, args, kwargs)
        return Unknown(f"the result of `{function.kernel.function.name}` is known only when it runs")
    if isinstance(function, PrimFunction):
        return Unknown(f"the result of `{function.function.name}` is known only when it runs")
    if _hashable(function) and function in BUILTIN_FUNCTIONS:
        return call_builtin(run, node, function, args, kwargs)
    if _hashable(function) and OPERATOR_FUNCTIONS.get(function) == len(args) and not kwargs:
        return call_operator(run, node, function, args)
    if _hashable(function) and function in REPEATING and not kwargs:
        return call_repeatedly(run, node, function, args, call_known)
    if isinstance(function, functools.partial):
        at = run.span(node)
        before = [Argument(known_size(run, v), at) for v in function.args]
        named = {k: Argument(known_size(run, v), at, k, at) for k, v in function.keywords.items()}
        return call_known(run, node, function.func, [*before, *args], {**named, **kwargs})
    if method_of_kernel(function):
        return call_method(run, node, function, args, kwargs)
    wrong = _traced_in_math(run, node, function, args)
    if wrong is not None:
        return wrong
    _note_formatted(run, node, function, args, kwargs)
    result = run.environment.call(run, node, function, args, kwargs)
    if isinstance(result, Unknown):
        return _unknown_call(run, node, result, given)
    return result


def _declared(function: Any) -> str | None:
    # Dtypes are declared too, but what a dtype does is the same however it was made.
    return None if isinstance(function, DType | str | int | float) else declared_name(function)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _interpreted(
    run: Run, node: ast.Call, function: Function, args: list[Argument], kwargs: Mapping[str, Argument]
) -> Any:
    if function.node is run.watched:
        _note_host_call(run, function, function, args, kwargs)
    return call_function(run, function, args, dict(kwargs), node, run.span(node))


def _note_host_call(
    run: Run, function: Function, value: Any, args: list[Argument], kwargs: Mapping[str, Argument]
) -> None:
    """Keep a call of a kernel, its objects as they are now: what follows may change them."""
    named = {k: replace(a, value=_as_it_is(a.value)) for k, a in kwargs.items()}
    run.host_calls.append(
        HostCall(
            function, value, [replace(a, value=_as_it_is(a.value)) for a in args], named, run.names_now()
        )
    )


def _as_it_is(value: Any) -> Any:
    return Instance(value.cls, dict(value.attributes)) if isinstance(value, Instance) else value


def _call_object(
    run: Run, node: ast.Call, owner: Instance, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """`object(...)` of an interpreted class: its `__call__`."""
    try:
        method = owner.cls.find("__call__")
    except KeyError:
        method = None
    if not isinstance(method, Function):
        lost = Unknown(f"what calling a {owner.cls.name} does is not known to the compiler")
        return _unknown_call(run, node, lost, (args, kwargs))
    return _interpreted(run, node, method, [Argument(owner, run.span(node.func)), *args], kwargs)


def _parents(run: Run) -> Any:
    """`super()`: the class and the object of the method around."""
    scope: Scope | None = run.scope
    while scope is not None and scope.function is None:
        scope = scope.parent
    function = None if scope is None else scope.function
    names = [] if function is None else [a.arg for a in function.node.args.args]
    if scope is None or function is None or not names or names[0] not in scope.names:
        return Unknown("the object that `super()` is about is not known")
    owner = scope.names[names[0]]
    cls = function.attributes.get("__class__")
    if isinstance(cls, ClassValue):
        return ParentsOf(cls, owner)
    _, native = scope.find("__class__")  # of running Python, where the closure holds it
    if isinstance(native, type) and isinstance(owner, native):
        return super(native, owner)
    return Unknown("the class that `super()` is about is not known")


def _unknown_call(run: Run, node: ast.Call, reason: Unknown, given: Arguments | Unknown) -> Any:
    """A call that may do anything with the buffers it receives."""
    if isinstance(given, Unknown):
        run.complete = False
        return reason
    args, kwargs = given
    touched = False
    for argument in (*args, *kwargs.values()):
        for buffer in _buffers_in(argument.value):
            touched = True
            somewhere = tuple(Index(reason, None, argument.span) for _ in buffer.shape)
            run.accesses.append(Access(buffer, somewhere, "read", argument.span, run.context))
            run.accesses.append(Access(buffer, somewhere, "write", argument.span, run.context))
        taint_all(run, argument.value)
    if touched:
        run.emit(Evaluate(reason, run.span(node)))
        run.complete = False
    return reason


def _buffers_in(value: Any) -> list[Buffer]:
    if isinstance(value, Buffer):
        return [value]
    if isinstance(value, Region):
        return [value.buffer]
    if isinstance(value, Late):
        return [value.region.buffer]
    if isinstance(value, tuple | list | set):
        return [b for v in value for b in _buffers_in(v)]
    if isinstance(value, dict):
        return [b for v in value.values() for b in _buffers_in(v)]
    return []


def taint_all(run: Run, value: Any) -> None:
    """Containers that an unknown function received may have been changed by it."""
    if isinstance(value, list | dict | set):
        taint(run, value)
    if isinstance(value, list | tuple):
        for item in value:
            taint_all(run, item)
    elif isinstance(value, dict):
        for item in value.values():
            taint_all(run, item)


def _plain_method(
    run: Run, node: ast.Call, method: PlainMethod, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """A method of a plain value in the static environment."""
    owner = method.owner
    if isinstance(owner, str) and method.name == "format":
        return _formatted(run, node, owner, args, kwargs)
    if method.name in MUTATING and isinstance(owner, list | dict | set):
        if run.context.maybe:
            taint(run, owner)
        values = [kept(run, a.value, "element") for a in args]
    else:
        values = [plain(a) for a in args]
        if id(owner) in run.tainted:
            return Unknown("the container is changed on a path that may not be taken")
    named = {k: plain(a) for k, a in kwargs.items()}
    if method.name in _SEARCHING and any(isinstance(v, Instance) for v in values):
        taint_all(run, owner) if method.name in MUTATING else None
        return Unknown("whether the container holds an equal object is not known to the compiler")
    if method.name not in ("append", "insert", "extend", "update", "get", "setdefault"):
        unknown = any_unknown([*values, named])
        if unknown is not None:
            taint_all(run, owner)
            return unknown
    if method.name not in MUTATING:
        lost = any_not_given(run, [*values, named])
        if lost is not None:
            return lost
    if _grows_too_much(owner, values):
        return Unknown("the result is too long to be made here")
    if not all(is_modelled(v) for v in named.values()):
        return Unknown(f"`{method.name}` with these arguments is not known to the compiler")
    return run.guarded_native(node, getattr(owner, method.name), values, named)


def _grows_too_much(owner: Any, values: list[Any]) -> bool:
    """Whether a method could make a text or a list of more than a million elements."""
    if isinstance(owner, str):
        longest = max(
            (len(v) if isinstance(v, str) else v for v in values if isinstance(v, str | int)), default=0
        )
        return len(owner) * (longest + 1) > _MAX_LENGTH or longest > _MAX_LENGTH
    if isinstance(owner, list):
        return len(owner) + sum(len(v) for v in values if isinstance(v, list | tuple | str)) > _MAX_LENGTH
    return False


def _buffer_method(
    run: Run, node: ast.Call, method: BufferMethod, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    if method.name == "scope":
        return _scope_name(method.owner)
    if method.name == "astype":
        target = args[0] if args else kwargs.get("dtype")
        if target is None:
            return Unknown("astype without a dtype")
        dtype = read_dtype(run, target.value, target.span)
        if isinstance(dtype, Unknown):
            return dtype
        return convert_value(run, method.owner, dtype, target.span, "astype")
    if method.name == "access_ptr":
        return _access_ptr(run, node, method.owner, args, kwargs)
    return run.unknown(f"`{method.name}` is not supported")


def _scope_name(buffer: Buffer) -> str:
    """A buffer's scope as the language names it: shared tiles lie in the dynamic arena, unless the author
    asked for the other one, or they are of truth values.
    """
    if buffer.scope != "shared":
        return buffer.scope
    whole = buffer
    while whole.view_of is not None:
        whole = whole.view_of
    return "shared" if whole.static or whole.dtype == "bool" else "shared.dyn"


def _access_ptr(
    run: Run, node: ast.Call, buffer: Buffer, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """`buffer.access_ptr(access_mask, offset=)`: its address, `offset` elements on."""
    names = ("access_mask", "ptr_type", "content_lanes", "offset", "extent")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    wrong = next((name for name in kwargs if name not in names), None)
    if wrong is not None or len(args) > len(names) or "access_mask" not in given:
        what = f'takes {", ".join(names)}; the first says what is done: "r", "w" or "rw"'
        return run.report(BAD_ARGUMENTS, run.span(node), callee=f"{buffer.name}.access_ptr", what=what)
    offset = given["offset"] if "offset" in given else Argument(0, run.span(node))
    at = Region(buffer, None, run.span(node))
    return address(run, at, scalar(run, offset.value, offset.span))


def _decorator_call(run: Run, decorator: Decorator, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`@tilelang.jit(out_idx=[-1])`, `tilelang.jit(f)`, `@tilelang.autotune(configs=...)`."""
    if args and isinstance(args[0].value, Function):
        options = {**decorator.options, **{k: a.value for k, a in kwargs.items()}}
        made = JitFunction(args[0].value, {decorator.name: options})
        run.made_kernels.append(made)
        return made
    if args and isinstance(args[0].value, JitFunction):
        kernel = args[0].value
        options = {**decorator.options, **{k: a.value for k, a in kwargs.items()}}
        return JitFunction(kernel.function, {decorator.name: options, **kernel.decorators})
    if decorator.name == "compile":
        return _compiled(args, kwargs)
    options = {k: a.value for k, a in kwargs.items()}
    if args and decorator.name == "jit":
        options.setdefault("out_idx", args[0].value)
    elif args:
        options.setdefault("configs", args[0].value)
    return Decorator(decorator.name, options)


def _compiled(args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`tilelang.compile(kernel, out_idx)`: the kernel, so that a factory may end with it."""
    given = args[0] if args else kwargs.get("func")
    if given is None or not isinstance(given.value, PrimFunction):
        return Unknown("what is compiled is not known to the compiler")
    outputs = args[1] if len(args) > 1 else kwargs.get("out_idx")
    return PrimFunction(given.value.function, None if outputs is None else outputs.value)


def _traced_in_math(run: Run, node: ast.Call, function: Any, args: list[Argument]) -> Unknown | None:
    """`math.exp(x)` on a traced x: Python's math needs numbers."""
    if getattr(function, "__module__", None) != "math":
        return None
    argument = next((a for a in args if any_traced(a.value)), None)
    if argument is None:
        return None
    lost = any_not_given(run, [a.value for a in args])
    if lost is not None:
        return lost
    return math_needs_value(run, node, function.__name__, argument.span)


def _note_formatted(
    run: Run, node: ast.Call, function: Any, args: list[Argument], kwargs: Mapping[str, Argument]
) -> None:
    """`"{}".format(x)` of a traced x."""
    if getattr(function, "__name__", None) != "format" or not isinstance(function.__self__, str):
        return
    written = (*node.args, *(k.value for k in node.keywords))
    if len(written) == len(args) + len(kwargs):
        note_text(run, written, [a.value for a in (*args, *kwargs.values())])


def _formatted(
    run: Run, node: ast.Call, template: str, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """`"{}".format(x)` in the static environment: a text where the values are plain and no width is large."""
    _note_formatted(run, node, template.format, args, kwargs)
    values, named = [a.value for a in args], {k: a.value for k, a in kwargs.items()}
    if not all(type(v) in (bool, int, float, str) for v in (*values, *named.values())):
        return Unknown("the text is not known to the compiler")
    if sum(c.isdigit() for c in template) > _MAX_DIGITS or _grows_too_much(template, values):
        return Unknown("the format is not known")
    return run.guarded_native(node, template.format, values, named)


def _traced_in_library(run: Run, node: ast.Call, given: Arguments) -> Unknown | None:
    """`torch.exp(x)`, `np.maximum(x, 0)` on a traced x: functions of tensors and numbers."""
    args, kwargs = given
    argument = next((a for a in (*args, *kwargs.values()) if is_traced(a.value)), None)
    if argument is None or not isinstance(node.func, ast.Attribute):
        return None
    if not needs_tensors("torch", node.func.attr, argument.value):
        return None
    owner = run.eval(node.func.value) if isinstance(node.func.value, ast.Name) else None
    if not isinstance(owner, ModuleValue | ModuleType):
        return None
    library = owner.name if isinstance(owner, ModuleValue) else owner.__name__
    if library not in _LIBRARIES or not needs_tensors(library, node.func.attr, argument.value):
        return None
    lost = any_not_given(run, [a.value for a in (*args, *kwargs.values())])
    if lost is not None:
        return lost
    return library_needs_value(run, node, ast.unparse(node.func), argument.span, argument.value)
