"""The correct kernels that are broken: own ones, the examples, and those of the tests, one module text each.

A module text holds the imports, constants and helpers of its file and one kernel, so that one mutant is one
small file. A kernel whose parameters have no defaults gets them by a `# tilelang: specialize(...)` comment,
as an author would give them; sizes that are `T.const` or `T.dynamic` stay open for the check and are numbers
only when the kernel runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).parent / "kernels"
_SIZES = re.compile(r"#\s*sizes:\s*(.+)")

Sizes = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One kernel. `runs` are the values of its open sizes with which it is lowered and run, one run each."""

    name: str  # file/kernel, unique
    path: str  # of the original, relative to the repository
    kernel: str
    text: str
    lines: tuple[tuple[int, int], ...]  # what may be mutated: the kernel and the macros it uses
    runs: tuple[Sizes, ...] = ({},)


def cases(wanted: Sequence[str] = ()) -> list[Case]:
    """All kernels, or those whose name contains one of `wanted`, in a fixed order."""
    found = [*_own(), *_examples(), *_tests()]
    return [c for c in found if not wanted or any(w in c.name for w in wanted)]


def _own() -> Iterator[Case]:
    for file in sorted(OWN.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for name, runs in _annotated(text):
            yield _case(file, text, name, runs)


# Example -> what the open sizes are when it runs. Sizes that no tile divides are among them.
_EXAMPLES: Mapping[str, str] = {
    "dynamic_vector_add": "N=1000",
    "elementwise_2d": "M=100, N=136",
    "gemm_dynamic_m": "M=100",
    "quickstart": "M=256, N=384, K=96; M=200, N=136, K=72",
    "softmax": "M=12, N=1024; M=10, N=1000",
    "vector_add": "N=1000",
}


def _examples() -> Iterator[Case]:
    for file in sorted((ROOT / "examples").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        names = [n.name for n in _kernels(ast.parse(text))]
        for name in names:
            yield _case(file, text, name, _EXAMPLES.get(file.stem, ""))


# (file, kernel, what its parameters are, sizes when it runs)
_TESTED: tuple[tuple[str, str, str, str], ...] = (
    (
        "tests/test_kernels.py",
        "gemm",
        "trans_a=False, trans_b=True, a_scope='shared', dtype=T.float16, accum=T.float32, "
        "policy=T.GemmWarpPolicy.Square, threads=128, stages=2, blocks=(64, 64, 32)",
        "M=128, N=192, K=160; M=100, N=72, K=40",
    ),
    ("tests/test_kernels.py", "attention", "heads=2, length=128, dim=64, causal=True", ""),
    ("tests/test_kernels.py", "rounding", "", "N=200"),
    ("tests/cpu/test_operations.py", "through_tiles", "", "M=64, N=64; M=40, N=31"),
    ("tests/cpu/test_operations.py", "reduced", "", "M=37, N=20"),
    ("tests/cpu/test_operations.py", "tile_gemm", "M=64, N=32, K=48", ""),
)
# (file, name of the text in it, kernel, parameters, sizes)
_TEXTS: tuple[tuple[str, str, str, str, str], ...] = (
    ("tests/emit/gemm_cases.py", "SOURCE", "product", "dtype='float16', accum='float32'", ""),
    (
        "tests/emit/gemm_cases.py",
        "SOURCE",
        "product",
        "dtype='int8', accum='int32', transpose_A=False, transpose_B=True",
        "",
    ),
    ("tests/emit/gemm_cases.py", "SOURCE", "attention", "", ""),
    ("tests/cuda/test_emulated_more.py", "REDUCE", "reduce", "", "M=8, N=64"),
    ("tests/cuda/test_emulated_more.py", "ATTENTION", "attention", "", "N=128; N=100"),
    ("tests/cli/kernels.py", "GEMM", "matmul", "", "M=128, N=96, K=64"),
)
_HEAD = "import tilelang\nimport tilelang.language as T\n\n\n"


def _tests() -> Iterator[Case]:
    for path, name, values, sizes in _TESTED:
        text = _only(ROOT / path, (ROOT / path).read_text(encoding="utf-8"), name, values)
        yield _case(ROOT / path, text, name, sizes, whole=True)
    for path, variable, name, values, sizes in _TEXTS:
        file = ROOT / path
        text = _constant(file, variable).lstrip("\n")
        text = _only(file, text if text.startswith(("import", '"""')) else _HEAD + text, name, values)
        tag = f"-{values.split(',')[0]}".replace("'", "") if values else ""
        yield _case(file, text, name, sizes, whole=True, tag=tag)
    for file in sorted((ROOT / "tests/mistakes/valid").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for kernel in _kernels(ast.parse(text)):
            yield _case(file, text, kernel.name, _VALID.get(file.stem, ""))


_VALID = {
    "dynamic_tail": "N=1000",
    "loaded_index_in_pipeline": "M=8, N=64",
    "strided_tensor": "M=8, N=40, s=48",
    "unrelated_symbolic_bounds": "S=256, NB=4",
}


def _constant(file: Path, name: str) -> str:
    """A text that a test keeps in a module constant; the tests themselves are not imported."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return str(ast.literal_eval(node.value))
    raise LookupError(f"{file} has no constant {name}")


def _case(file: Path, text: str, name: str, sizes: str, whole: bool = False, tag: str = "") -> Case:
    if not whole:
        text = _only(file, text, name, "")
    path = str(file.relative_to(ROOT))
    short = path.removeprefix("benchmarks/mutation/").removesuffix(".py")
    tree = ast.parse(text)
    lines = tuple((n.lineno, n.end_lineno or n.lineno) for n in tree.body if _may_be_mutated(n, name))
    return Case(f"{short}/{name}{tag}", path, name, text, lines, _runs(sizes))


def _runs(sizes: str) -> tuple[Sizes, ...]:
    """`M=1, N=2; M=3, N=4` -> one mapping per run."""
    return tuple(_run(part) for part in sizes.split(";"))


def _run(part: str) -> Sizes:
    pairs = (pair.partition("=") for pair in part.split(",") if pair.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _annotated(text: str) -> Iterator[tuple[str, str]]:
    """Kernels of a file with the `# sizes:` comment above their decorators."""
    lines = text.split("\n")
    for node in _kernels(ast.parse(text)):
        above = lines[node.decorator_list[0].lineno - 2]
        found = _SIZES.match(above)
        yield node.name, found.group(1) if found else ""


def _kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and _is_kernel(n)]


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(".jit" in ast.unparse(d) or "prim_func" in ast.unparse(d) for d in node.decorator_list)


def _may_be_mutated(node: ast.stmt, name: str) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return node.name == name or any("macro" in ast.unparse(d) for d in node.decorator_list)


def _only(file: Path, text: str, name: str, values: str) -> str:
    """The module with this kernel and without the others, tests and other decorated functions."""
    tree, lines = ast.parse(text), text.split("\n")
    kept: list[str] = []
    used = {
        n.id
        for k in tree.body
        if getattr(k, "name", "") == name
        for n in ast.walk(k)
        if isinstance(n, ast.Name)
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not _wanted(file, node, name, used):
            continue
        first = node.decorator_list[0].lineno if getattr(node, "decorator_list", None) else node.lineno  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef) and node.name == name and values:
            kept.append(f"# tilelang: specialize({values})")
        if isinstance(node, ast.Assign) and "pytest" in ast.unparse(node):
            continue
        kept += (
            [*lines[first - 1 : node.end_lineno], "", ""] if first > 3 else lines[first - 1 : node.end_lineno]
        )
    return "\n".join(kept).rstrip("\n") + "\n"


def _wanted(file: Path, node: ast.FunctionDef | ast.ClassDef, name: str, used: set[str]) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name == name:
        return True
    if any("macro" in ast.unparse(d) for d in node.decorator_list):
        return node.name in used
    in_tests = "tests" in file.parts and "mistakes" not in file.parts
    return not node.decorator_list and not in_tests and isinstance(node, ast.FunctionDef)
