"""Runs one kernel in the user's interpreter and compares it with its torch reference; self-contained.

Without a reference it compares with what the tile program means, where the user's tilelang can interpret it.

It must work with whatever `tilelang` that interpreter holds, so it imports nothing of the server's. It
reads one line of JSON from stdin (what is known of the kernel, see `tilelang/facts/run_request.py`) and
writes lines of JSON to stdout: `{"event": "progress", "message"}` and at last `{"event": "result",
"result"}` with the fields of a RunResult, but `error_line` in the place of its `error_span`. What the
kernel and its file print goes to stderr.

Inputs are seeded. Sizes that the kernel leaves open get a small value that common tiles divide and one that
they do not. Tolerances follow from dtypes and the length of reductions: see `tolerance`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import json
import linecache
import math
import os
import re
import sys
import threading
import time
import traceback
import types
from typing import Any

SEED = 0
# Sizes for open dimensions: first what tiles of 16 to 256 divide; then multiples of 8, as rows of 16-byte
# vectors need, that no tile of 16 or more divides. A kernel over one dimension gets longer ones.
EVEN, UNEVEN = 256, (200, 136, 168, 104, 248, 72)
EVEN_1D, UNEVEN_1D = 4096, (1000, 1992, 3000)
# On a GPU one more size, large enough for a time that means something.
LARGE_GEMM, LARGE_2D, LARGE_1D = 4096, 8192, 1 << 26
MEASURE_S = 1.0
UNKNOWN = "?"  # a size that analysis could not tell
OWN_MEANING = "the program's own meaning"  # stands for a reference where the author wrote none
PICTURE = 16  # rows and columns of a picture at most

# Dense peaks in TFLOP/s for 16-bit inputs, from the vendors' data sheets; TF32 has half, 8-bit double of it.
_PEAK_TFLOPS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "RTX 4090": 165, "A10G": 70, "L4": 121}
# Memory bandwidth in GB/s, from the same sheets.
_PEAK_GBYTES = {
    "H200": 4800,
    "H100": 3350,
    "A100": 2039,
    "L40S": 864,
    "RTX 4090": 1008,
    "A10G": 600,
    "L4": 300,
}

# What the driver calls a stray address: which of them depends on where it points (the last: into the window
# of shared memory, which a global access cannot use).
_OUT_OF_BOUNDS = (
    "illegal memory access",
    "misaligned address",
    "operation not supported on global/shared address space",
)

_RELATIVE_IMPORT = re.compile(r"^\s*from\s*\.", re.MULTILINE)


class RunError(Exception):
    """What keeps the run from comparing anything, for the kernel's author. `line` is in their file."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anybody prints, native code too, must not end up between our lines
    sys.stdout = sys.stderr
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()

    def send(event: dict[str, Any]) -> None:
        channel.write(json.dumps(event) + "\n")
        channel.flush()

    def progress(message: str) -> None:
        send({"event": "progress", "message": message})

    result = {
        "kernel": request["kernel"],
        "passed": False,
        "device": "none",
        "reference": None,
        "cases": [],
        "latency_ms": None,
        "reference_ms": None,
        "tflops": None,
        "gbytes_per_s": None,
        "roofline_share": None,
        "error": None,
        "error_line": None,
        "output": "",
    }
    try:
        _run(request, result, progress)
    except RunError as error:
        result.update(passed=False, error=str(error), error_line=error.line)
    except BaseException as error:  # noqa: BLE001 - SystemExit from the user's file too must become a message
        traceback.print_exc()
        line = line_in(error, request["path"])
        result.update(passed=False, error=describe(error), error_line=line)
    send({"event": "result", "result": result})
    channel.close()
    # Not sys.exit: a thread or an atexit handler of the user's could keep the process.
    sys.stderr.flush()
    os._exit(0)


def end_with_parent(parent: int) -> None:
    """End this process when the one that started it is gone: nobody is left to stop an endless kernel."""
    while os.name == "posix" and os.getppid() == parent:
        time.sleep(1)
    if os.name == "posix":
        os._exit(1)


def _run(request: dict[str, Any], result: dict[str, Any], progress: Any) -> None:
    progress("importing torch")
    torch = import_torch()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result["device"] = torch.cuda.get_device_name(0) if device == "cuda" else "CPU (no GPU found)"
    progress(f"importing {os.path.basename(request['path'])}")
    module = load_module(request["path"], request["text"])
    kernel = Kernel(request, module)
    reference = find_reference(request, module) or kernel
    # The large sizes of a GPU would take the interpreter minutes.
    cases = plan_cases(request, device if isinstance(reference, Reference) else "cpu")
    result["reference"] = reference.name if isinstance(reference, Reference) else OWN_MEANING
    last: Measured | None = None
    for number, sizes in enumerate(cases):
        text = ", ".join(f"{k}={v}" for k, v in sizes.items()) or "fixed shapes"
        progress(f"case {number + 1} of {len(cases)}: {text}")
        case, measured = run_case(torch, device, request, kernel, reference, sizes)
        result["cases"].append(case)
        if case["passed"]:
            last = measured
    result["passed"] = all(case["passed"] for case in result["cases"])
    if last is not None:
        progress("measuring")
        result.update(measure(torch, device, request, last, result["device"]))


# --- the user's file


def import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise RunError(
            f"torch is not installed in {sys.executable} ({error}). Install it there (pip install torch), "
            "or choose another interpreter in the setting tilelang.interpreter."
        ) from error
    return torch


def load_module(path: str, text: str) -> types.ModuleType:
    """Execute the text of the editor as a module, saved or not. `__name__` is not "__main__"."""
    root, package = package_of(path)
    sys.path[:1] = list(dict.fromkeys((os.path.dirname(path), root)))
    module = types.ModuleType("__tilelang_run__")
    module.__file__ = path
    module.__package__ = package
    sys.modules[module.__name__] = module
    try:
        if package and _RELATIVE_IMPORT.search(text):
            # It may import the file as it is on disk, which is read before the editor's text takes its place.
            importlib.import_module(package)
        # The compiler reads a kernel's source through linecache; it must see the editor's text, not the
        # disk's.
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        # Without `dont_inherit` this file's own `from __future__` would hold for theirs.
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        raise RunError(f"{os.path.basename(path)} does not compile: {error.msg}", error.lineno) from error
    except BaseException as error:  # whatever their code raises, SystemExit too
        traceback.print_exc()
        line = line_in(error, path)
        raise RunError(f"importing {os.path.basename(path)} failed: {describe(error)}", line) from error
    return module


def package_of(path: str) -> tuple[str, str]:
    """(the folder from which a file is imported, the package it is in), "" for one in no package."""
    folder, names = os.path.dirname(path), []
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder):
        folder, name = os.path.split(folder)
        names.insert(0, name)
    return folder, ".".join(names)


def line_in(error: BaseException, path: str) -> int | None:
    """The last line of the user's file that the error passed through; a compiler's own place comes first."""
    problems = getattr(error, "problems", None)
    if problems:
        span: Any = getattr(problems[0], "span", None)
        if span is not None and span.path == path:
            return span.line
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def describe(error: BaseException) -> str:
    problems = getattr(error, "problems", None)
    if problems:
        return "; ".join(str(getattr(p, "message", p)) for p in problems[:3])
    text = str(error).strip()
    if any(said in text for said in _OUT_OF_BOUNDS):
        return f"the kernel accessed memory out of bounds on the device ({text.splitlines()[0]})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- the kernel


class Kernel:
    """The kernel under test, eager or lazy, called with tensors by name."""

    def __init__(self, request: dict[str, Any], module: types.ModuleType) -> None:
        self.request = request
        self.module = module
        self.tensors = request["tensors"]
        self.name = request["kernel"].split(".")[0]
        parts = request["kernel"].split(".")
        self.object: Any = getattr(module, self.name, None)
        if self.object is None:
            raise RunError(f"{self.name} is not defined after importing the file", request["line"])
        if inspect.isclass(self.object):
            raise RunError(
                f"{'.'.join(parts)} is a method; run & assert needs a function of the module", request["line"]
            )
        self.values = {k: self._value(v) for k, v in request["specialisation"].items()}

    def _value(self, text: str) -> Any:
        """A specialisation's value, written as Python in the terms of the file."""
        try:
            return eval(text, dict(self.module.__dict__))
        except Exception:  # noqa: BLE001 - a bare word such as float16 is meant as text
            return text

    def launcher(self, sizes: dict[str, int]) -> Any:
        """A function from all tensors (in order) to what the kernel returns, for these sizes."""
        if self.request["style"] == "eager":
            return lambda tensors: self._call_eager(tensors, sizes)
        compiled = self._compiled(sizes)
        outputs = returned_positions(compiled, len(self.tensors), self.tensors)
        return lambda tensors: compiled(*(t for i, t in enumerate(tensors) if i not in outputs))

    def interpreter(self, tensors: list[Any], sizes: dict[str, int]) -> Any:
        """As `launcher`, but by the program's own meaning; None if this tilelang has no such thing."""
        if self.request["style"] == "eager":
            if not hasattr(self.object, "compile"):
                return None
            compiled = self._eager(self.object.compile, tensors, sizes)
            outputs = {i for i, t in enumerate(self.tensors) if t["role"] == "output"}
        else:
            compiled = self._compiled(sizes)
            outputs = returned_positions(compiled, len(self.tensors), self.tensors)
        if not hasattr(compiled, "reference"):
            return None
        return lambda given: compiled.reference(*(t for i, t in enumerate(given) if i not in outputs))

    def _call_eager(self, tensors: list[Any], sizes: dict[str, int]) -> Any:
        return self._eager(self.object, tensors, sizes)

    def _eager(self, call: Any, tensors: list[Any], sizes: dict[str, int]) -> Any:
        """Call the kernel (or its `compile`) with its inputs and the values of its other parameters."""
        given = [(t["name"], v) for t, v in zip(self.tensors, tensors, strict=True) if t["role"] != "output"]
        names = parameter_names(self.object)
        values = {k: v for k, v in {**self.values, **sizes}.items() if k in names}
        leading = [name for name in names if name in dict(given)]
        if names[: len(given)] == leading:
            return call(*(dict(given)[n] for n in leading), **values)
        return call(**dict(given), **values)

    def _compiled(self, sizes: dict[str, int]) -> Any:
        target = self.object
        names = parameter_names(target)
        if not {t["name"] for t in self.tensors} <= set(names):  # a factory, not the kernel itself
            values = {k: v for k, v in {**self.values, **sizes}.items() if k in names}
            target = target(**values)
        if hasattr(target, "get_kernel_source"):
            return target
        tilelang = sys.modules.get("tilelang")
        if tilelang is None:
            raise RunError("the file does not import tilelang", 1)
        return tilelang.compile(target)


def parameter_names(function: Any) -> list[str]:
    """Names of a function's parameters, seen through decorators that keep the original somewhere."""
    for attribute in ("func", "__wrapped__", "fn", "orig_func", "function"):
        inner = getattr(function, attribute, None)
        if inspect.isfunction(inner):
            return list(inspect.signature(inner).parameters)
    return list(inspect.signature(function).parameters)


def returned_positions(compiled: Any, count: int, tensors: list[dict[str, Any]]) -> set[int]:
    """Positions of the tensors that a compiled lazy kernel allocates and returns itself."""
    out_idx = getattr(compiled, "out_idx", None)
    if out_idx is None:
        return {i for i, t in enumerate(tensors) if t["role"] == "output"}
    indices = [out_idx] if isinstance(out_idx, int) else list(out_idx)
    return {i % count for i in indices}


# --- the reference


class Reference:
    """The torch function that says what is right."""

    def __init__(self, name: str, function: Any) -> None:
        self.name = name
        self.function = function

    def __call__(self, named: dict[str, Any], inputs: list[Any], sizes: dict[str, int]) -> Any:
        """Call with arguments by name where all names are known, else with the inputs in order."""
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):  # a builtin such as torch.add tells no names
            return self.function(*inputs)
        required = [
            p
            for p in parameters
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        known = {k.lower(): v for k, v in {**sizes, **named}.items()}
        if required and all(p.name.lower() in known for p in required):
            return self.function(*(known[p.name.lower()] for p in required))
        if any(p.kind == p.VAR_POSITIONAL for p in parameters):
            return self.function(*inputs)
        return self.function(*inputs[: max(len(required), 1)])


def find_reference(request: dict[str, Any], module: types.ModuleType) -> Reference | None:
    """By comment first, then by the usual names; None if there is none."""
    chosen = request["reference"]
    if chosen:
        try:
            function = eval(chosen, dict(module.__dict__))
        except Exception as error:
            raise RunError(
                f"`# tilelang: reference {chosen}` cannot be read: {describe(error)}", request["line"]
            ) from error
        if not callable(function):
            raise RunError(f"`# tilelang: reference {chosen}` is no function", request["line"])
        return Reference(chosen, function)
    names = [n for part in dict.fromkeys(request["kernel"].split(".")) for n in reference_names(part)]
    for name in [*names, "ref_program"]:
        function = getattr(module, name, None)
        if callable(function):
            return Reference(name, function)
    return None


def no_reference(request: dict[str, Any]) -> RunError:
    names = [n for part in dict.fromkeys(request["kernel"].split(".")) for n in reference_names(part)]
    shown = ", ".join(["ref_program", *names[:3]])
    return RunError(
        f"there is no torch reference for {request['kernel']}. Write a function called {shown}, "
        "or name one above the kernel: # tilelang: reference my_function",
        request["line"],
    )


def own_meaning(
    kernel: Kernel, given: list[Any], sizes: dict[str, int], request: dict[str, Any]
) -> list[Any]:
    """What the tile program itself says, op by op in float64; this needs a tilelang that can interpret it.

    Writes into `given` what the program writes in place. Raises RunError for a compiler that cannot.
    """
    interpret = kernel.interpreter(given, sizes)
    if interpret is None:
        raise no_reference(request)
    try:
        return as_list(interpret(given))
    except Exception as error:
        traceback.print_exc()
        line = getattr(error, "line", None) or request["line"]
        raise RunError(f"{OWN_MEANING} cannot be computed: {describe(error)}", line) from error


def reference_names(kernel: str) -> list[str]:
    return [f"ref_{kernel}", f"{kernel}_ref", f"torch_{kernel}", f"reference_{kernel}", f"{kernel}_reference"]


# --- sizes and inputs


def plan_cases(request: dict[str, Any], device: str) -> list[dict[str, int]]:
    """Values for every size that is still open, one dictionary per case. No open sizes: one case."""
    known = fixed_sizes(request)
    tensors = request["tensors"]
    if not tensors:
        raise RunError(
            f"{request['kernel']} takes no tensors, so there is nothing to compare", request["line"]
        )
    open_names = [n for n in open_sizes(tensors) if n not in known]
    lost = [n for n in request["missing"] if n not in open_names]
    if lost:
        example = ", ".join(f"{n}=..." for n in lost)
        raise RunError(
            f"there is no value for {', '.join(lost)}. Give one above the kernel: "
            f"# tilelang: specialize({example})",
            request["line"],
        )
    vague = [t["name"] for t in tensors if UNKNOWN in t["shape"]]
    if vague:
        raise RunError(f"the shape of {', '.join(vague)} cannot be read from the source", request["line"])
    if not open_names:
        return [{}]
    flat = all(sum(isinstance(d, str) for d in t["shape"]) <= 1 for t in tensors)
    even, uneven = (EVEN_1D, UNEVEN_1D) if flat and len(open_names) == 1 else (EVEN, UNEVEN)
    cases = [
        dict.fromkeys(open_names, even),
        dict(zip(open_names, itertools.cycle(uneven))),
    ]
    if device == "cuda":
        large = LARGE_GEMM if request["n_gemms"] else LARGE_1D if len(open_names) == 1 and flat else LARGE_2D
        cases.append(dict.fromkeys(open_names, large))
    return cases


def fixed_sizes(request: dict[str, Any]) -> dict[str, int]:
    """The numbers that the specialisation fixes."""
    return {k: int(v) for k, v in request["specialisation"].items() if v.lstrip("-").isdigit()}


def open_sizes(tensors: list[dict[str, Any]]) -> list[str]:
    """Names in shapes, in order of appearance."""
    names: dict[str, None] = {}
    for tensor in tensors:
        for extent in tensor["shape"]:
            if isinstance(extent, str) and extent != UNKNOWN:
                for node in ast.walk(_expression(extent)):
                    if isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
                        names[node.id] = None
    return list(names)


_FUNCTIONS = {
    "ceildiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "int": int,
}


def _expression(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise RunError(f"the size `{text}` cannot be computed") from error


def extent_of(extent: int | str, sizes: dict[str, int]) -> int:
    """The number of a size such as `ceildiv(N, 128)`."""
    if isinstance(extent, int):
        return extent
    _expression(extent)
    text = extent.replace("T.", "").replace("tilelang.", "")
    try:
        return int(eval(text, {"__builtins__": {}}, {**_FUNCTIONS, **sizes}))
    except Exception as error:
        raise RunError(f"the size `{extent}` cannot be computed: {describe(error)}") from error


def make_tensor(
    torch: Any, device: str, tensor: dict[str, Any], sizes: dict[str, int], generator: Any
) -> Any:
    """A seeded input: normal floats, or small non-negative integers, which are safe as indices too.

    Of elements that share a byte it holds all codes, as bytes: torch computes nothing in such dtypes.
    """
    shape = [extent_of(e, sizes) for e in tensor["shape"]]
    if shape and tensor["dtype"] in _PACKED:
        codes = torch.randint(0, 256, [*shape[:-1], shape[-1] // 2], generator=generator).to(torch.uint8)
        return codes.view(getattr(torch, _PACKED[tensor["dtype"]])).to(device)
    dtype = torch_dtype(torch, tensor["dtype"])
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(device=device, dtype=dtype)
    if not dtype.is_floating_point:
        low, high = (-8, 8) if dtype == torch.int8 else (0, 8)
        return torch.randint(low, high, shape, generator=generator).to(device=device, dtype=dtype)
    return torch.randn(shape, generator=generator).to(device=device, dtype=dtype)


_DTYPES = {
    "float8_e4m3": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "tfloat32": "float32",
}

# Two elements in a byte, and the dtype of the bytes.
_PACKED = {"int4": "int8", "uint4": "uint8", "float4_e2m1fn": "uint8"}


def torch_dtype(torch: Any, name: str) -> Any:
    dtype = getattr(torch, _DTYPES.get(name, name), None)
    if not isinstance(dtype, torch.dtype):
        raise RunError(f"torch has no dtype {name}, so no input can be made")
    return dtype


# --- one case


class Measured:
    """A case that passed, kept for the clock."""

    def __init__(self, kernel: Any, reference: Any, inputs: list[Any], outputs: list[Any]) -> None:
        self.kernel = kernel
        self.reference = reference
        self.inputs = inputs
        self.outputs = outputs


def run_case(
    torch: Any,
    device: str,
    request: dict[str, Any],
    kernel: Kernel,
    reference: Reference | Kernel,
    sizes: dict[str, int],
) -> tuple[dict[str, Any], Measured]:
    """Run kernel and reference (the kernel itself: its own meaning) on the same inputs and compare."""
    generator = torch.Generator().manual_seed(SEED)
    values = {**fixed_sizes(request), **sizes}
    tensors = [make_tensor(torch, device, t, values, generator) for t in request["tensors"]]
    for tensor, info in zip(tensors, request["tensors"], strict=True):
        if info["role"] == "output" and tensor.is_floating_point():
            tensor.fill_(float("nan"))  # what the kernel leaves unwritten shows
    given = [t.clone() for t in tensors]
    launch = kernel.launcher(sizes)
    returned = as_list(launch(given))
    if device == "cuda":
        torch.cuda.synchronize()
    changed = [i for i, (a, b) in enumerate(zip(tensors, given, strict=True)) if not same_bits(torch, a, b)]
    found = returned or [given[i] for i in changed]
    if not found:
        raise RunError(
            f"{request['kernel']} returned nothing and changed none of its arguments", request["line"]
        )
    is_output = set() if returned else set(changed)
    is_output |= {i for i, t in enumerate(request["tensors"]) if t["role"] == "output"}
    named = {t["name"]: tensor.clone() for t, tensor in zip(request["tensors"], tensors, strict=True)}
    inputs = [named[t["name"]] for i, t in enumerate(request["tensors"]) if i not in is_output]
    if isinstance(reference, Reference):
        expected = call_reference(reference, named, inputs, values, request)
    else:
        expected = own_meaning(reference, list(named.values()), sizes, request)
    if not expected:
        written = [
            i for i, t in enumerate(request["tensors"]) if not same_bits(torch, tensors[i], named[t["name"]])
        ]
        expected = [named[request["tensors"][i]["name"]] for i in written]
    if not expected:
        name = reference.name if isinstance(reference, Reference) else OWN_MEANING
        raise RunError(f"the reference {name} returned and wrote nothing", request["line"])
    inner = reduction_length(tensors, found)
    shown = sizes or fixed_sizes(request)
    case = compare(torch, found, expected, shown, [t.dtype for t in tensors], inner, device, request)

    timed = None  # interpreting is no peer to be timed against
    if isinstance(reference, Reference):
        timed = functools.partial(reference, named, inputs, values)
    return case, Measured(lambda: launch(given), timed, inputs, found)


def call_reference(
    reference: Reference,
    named: dict[str, Any],
    inputs: list[Any],
    values: dict[str, int],
    request: dict[str, Any],
) -> list[Any]:
    """What the reference returns; nothing if it writes its arguments."""
    try:
        return as_list(reference(named, inputs, values))
    except Exception as error:
        traceback.print_exc()
        line = line_in(error, request["path"])
        raise RunError(
            f"the reference {reference.name} failed: {describe(error)}", line or request["line"]
        ) from error


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, tuple | list) else [value]


def same_bits(torch: Any, a: Any, b: Any) -> bool:
    if a.is_floating_point():
        return (
            bool(((a == b) | (a.isnan() & b.isnan())).all())
            if a.element_size() > 1
            else torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        )
    return torch.equal(a, b)


def reduction_length(inputs: list[Any], outputs: list[Any]) -> int:
    """How many terms a value may be the sum of: the largest extent of any dimension."""
    return max((int(e) for t in [*inputs, *outputs] for e in t.shape), default=1)


def tolerance(
    torch: Any, found: Any, input_dtypes: list[Any], inner: int, device: str, n_gemms: int
) -> tuple[float, float]:
    """(rtol, atol over the root mean square of the reference) of a float output.

    rtol = 4 eps(output) + 4 eps(product) + 4 sqrt(inner) eps(float32): the result is rounded once; products
    of float32 gemms on a GPU are TF32, with ten bits; and the rounding errors of a float32 sum of `inner`
    terms grow like a random walk, in any order of summation.
    """
    output_eps = torch.finfo(found.dtype).eps if found.is_floating_point() else 0.0
    product_eps = 0.0
    if n_gemms and device == "cuda" and torch.float32 in input_dtypes:
        product_eps = 2.0**-10
    sum_eps = 1.2e-7 if found.dtype != torch.float64 else 2.3e-16
    rtol = 4 * output_eps + 4 * product_eps + 4 * math.sqrt(inner) * sum_eps
    return rtol, rtol


def compare(
    torch: Any,
    found: list[Any],
    expected: list[Any],
    sizes: dict[str, int],
    input_dtypes: list[Any],
    inner: int,
    device: str,
    request: dict[str, Any],
) -> dict[str, Any]:
    """One RunCase: the worst of all outputs."""
    if len(found) != len(expected):
        raise RunError(
            f"the kernel gives {len(found)} outputs, the reference {len(expected)}", request["line"]
        )
    cases = []
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if tuple(a.shape) != tuple(b.shape):
            raise RunError(
                f"output {number} has shape {tuple(a.shape)}, the reference gives {tuple(b.shape)}",
                request["line"],
            )
        cases.append(compare_one(torch, a, b, sizes, input_dtypes, inner, device, request["n_gemms"]))
    return min(cases, key=lambda c: (c["passed"], -c["mismatched"], -c["max_abs_error"]))


def compare_one(
    torch: Any,
    found: Any,
    expected: Any,
    sizes: dict[str, int],
    input_dtypes: list[Any],
    inner: int,
    device: str,
    n_gemms: int,
) -> dict[str, Any]:
    exact = not (found.is_floating_point() or expected.is_floating_point())
    a, b = found.detach().to(torch.float64), expected.detach().to(device=found.device, dtype=torch.float64)
    rtol, share = (0.0, 0.0) if exact else tolerance(torch, found, input_dtypes, inner, device, n_gemms)
    finite = b[torch.isfinite(b)]
    rms = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    atol = share * rms
    both_same = (a == b) | (a.isnan() & b.isnan())  # infinities too
    error = torch.where(both_same, torch.zeros_like(a), (a - b).abs())
    error = torch.where(error.isnan(), torch.full_like(error, float("inf")), error)
    bad = error > atol + rtol * b.abs()
    relative = torch.where(b != 0, error / b.abs(), torch.zeros_like(error))
    mismatched = int(bad.sum())
    case: dict[str, Any] = {
        "sizes": [[k, v] for k, v in sizes.items()],
        "passed": mismatched == 0,
        "max_abs_error": finite_number(error.max() if error.numel() else 0.0),
        "max_rel_error": finite_number(relative[error > atol].max() if bool((error > atol).any()) else 0.0),
        "tolerance": [rtol, atol],
        "mismatched": mismatched,
        "total": a.numel(),
        "first_mismatch": None,
        "found": None,
        "expected": None,
        "picture": None,
    }
    if mismatched:
        first = [int(i) for i in bad.nonzero()[0]]
        case["first_mismatch"] = first
        case["found"], case["expected"] = finite_number(a[tuple(first)]), finite_number(b[tuple(first)])
        case["picture"] = picture(torch, bad)
    return case


def finite_number(value: Any) -> float:
    """A number that JSON can carry: infinities and NaN become the largest float."""
    number = float(value)
    return number if math.isfinite(number) else math.copysign(sys.float_info.max, number)


def picture(torch: Any, bad: Any) -> str:
    """Where the wrong values are: `#` all of a cell, `+` some, `.` none. Leading dimensions are folded."""
    flat = bad.reshape(1, -1) if bad.dim() < 2 else bad.reshape(-1, bad.shape[-1])
    rows, columns = min(PICTURE, flat.shape[0]), min(2 * PICTURE, flat.shape[1])
    lines = []
    for r in range(rows):
        strip = flat[r * flat.shape[0] // rows : (r + 1) * flat.shape[0] // rows]
        cells = []
        for c in range(columns):
            cell = strip[:, c * flat.shape[1] // columns : (c + 1) * flat.shape[1] // columns]
            wrong = int(cell.sum())
            cells.append("#" if wrong == cell.numel() else "+" if wrong else ".")
        lines.append("".join(cells))
    height, width = math.ceil(flat.shape[0] / rows), math.ceil(flat.shape[1] / columns)
    return "\n".join([*lines, f"(one character is {height}×{width} values)"])


# --- the clock


def measure(
    torch: Any, device: str, request: dict[str, Any], run: Measured, device_name: str
) -> dict[str, Any]:
    """Latency of kernel and reference, and the rates that follow from it."""
    latency = time_ms(torch, device, run.kernel)
    reference = time_ms(torch, device, run.reference) if run.reference is not None else None
    n_bytes = sum(t.numel() * t.element_size() for t in [*run.inputs, *run.outputs])
    rates: dict[str, Any] = {
        "latency_ms": latency,
        "reference_ms": reference,
        "gbytes_per_s": n_bytes / latency / 1e6,
    }
    flops = gemm_flops(run, request)
    if flops:
        rates["tflops"] = flops / latency / 1e9
    rates["roofline_share"] = roofline(torch, run, latency, n_bytes, flops, device_name)
    return rates


def gemm_flops(run: Measured, request: dict[str, Any]) -> float | None:
    """2·M·N·K of a kernel with one gemm: outputs times the extent that two inputs share and no output has."""
    if request["n_gemms"] != 1 or len(run.outputs) != 1:
        return None
    out = [int(e) for e in run.outputs[0].shape]
    inputs = [list(map(int, t.shape)) for t in run.inputs if t.dim() >= 2][:2]
    if len(inputs) < 2 or len(out) < 2:
        return None
    rows, columns = out[-2], out[-1]
    for k in inputs[0][-2:]:
        a, b = inputs[0][-2:], inputs[1][-2:]
        if k in b and sorted(a) == sorted([rows, k]) and sorted(b) == sorted([k, columns]):
            return 2.0 * math.prod(out) * k
    return None


def roofline(
    torch: Any, run: Measured, latency: float, n_bytes: int, flops: float | None, device_name: str
) -> float | None:
    """Share of the best the device could do: the larger of memory and compute time, over the latency."""
    known = next((name for name in _PEAK_GBYTES if name in device_name), None)
    if known is None:
        return None
    best = n_bytes / _PEAK_GBYTES[known] / 1e6
    if flops:
        size = max(t.element_size() for t in run.inputs[:2])
        scale = {1: 2.0, 2: 1.0, 4: 0.5}.get(size)
        if scale is None:
            return None
        best = max(best, flops / (_PEAK_TFLOPS[known] * scale) / 1e9)
    return best / latency


def time_ms(torch: Any, device: str, work: Any) -> float:
    """The median time of `work`, caches flushed before each round on a GPU."""
    work()
    if device == "cuda":
        return _time_on_gpu(torch, work)
    times = []
    end = time.perf_counter() + MEASURE_S / 2
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 200):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def _time_on_gpu(torch: Any, work: Any) -> float:
    flush = torch.empty(64 * 1024 * 1024, dtype=torch.int32, device="cuda")  # 256 MB, more than any L2
    times = []
    end = time.perf_counter() + MEASURE_S
    torch.cuda.synchronize()
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 100):
        flush.zero_()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return sorted(times)[len(times) // 2]


if __name__ == "__main__":
    main()
