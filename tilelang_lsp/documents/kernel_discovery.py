"""Where the kernels of a file are, from the incremental parse alone, so also in code that does not compile.

A kernel is a function under `tilelang.jit` or `T.prim_func`, however these names were imported or renamed:
`import tilelang as tl`, `from tilelang import jit as j`, `import tilelang.language as T`, `my_jit =
tl.jit(out_idx=[-1])`. A function that contains a `@T.prim_func`, decorated or not, is one lazy kernel under
its own name. Names are those that the compiler's frontend gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

from tilelang_lsp.documents.syntax_tree import SyntaxTree

_JIT = {"tilelang.jit", "tilelang.jit.jit", "tilelang.lazy_jit"}
_LANGUAGES = (
    "tilelang.language",
    *(f"tilelang.{kind}.language" for kind in ("cpu", "cuda", "rocm", "metal")),
)
_PRIM_FUNC = {f"{module}.prim_func" for module in _LANGUAGES}

# Statements whose bodies may hold definitions. Loops and `with` are left out: kernels live in functions, and
# walking the bodies of kernels would cost more than everything else here.
_BLOCKS = {
    "block",
    "if_statement",
    "elif_clause",
    "else_clause",
    "try_statement",
    "except_clause",
    "finally_clause",
}


@dataclass(frozen=True)
class KernelSlice:
    """A kernel's place: code point offsets from its first decorator to its end, and of its name."""

    qualified_name: str
    name: str
    style: Literal["eager", "lazy"]
    start: int
    end: int
    name_start: int
    name_end: int


def find_kernels(tree: SyntaxTree) -> list[KernelSlice]:
    """The kernels of a file in the order of the text. Other functions, decorated or not, are left out."""
    names = _bindings(tree)
    return list(_find(tree, tree.root, names, ""))


def _find(tree: SyntaxTree, node: Node, names: Mapping[str, str], prefix: str) -> Iterator[KernelSlice]:
    for whole, definition in _definitions(node):
        name, body = definition.child_by_field_name("name"), definition.child_by_field_name("body")
        if name is None or body is None:
            continue
        qualified = prefix + tree.text_of(name)
        if definition.type == "function_definition":
            kind = _kernel_kind(tree, whole, names)
            makes_kernel = any(_kernel_kind(tree, w, names) == "prim_func" for w, _ in _definitions(body))
            if kind or makes_kernel:
                style: Literal["eager", "lazy"] = "eager" if kind == "jit" and not makes_kernel else "lazy"
                yield _slice(tree, whole, name, qualified, style)
                continue
        yield from _find(tree, body, names, f"{qualified}.")


def _definitions(node: Node) -> Iterator[tuple[Node, Node]]:
    """(whole, definition) of functions and classes in a body; `whole` has the decorators in it."""
    for child in node.named_children:
        kind = child.type
        definition = child.child_by_field_name("definition") if kind == "decorated_definition" else child
        if definition is not None and definition.type in ("function_definition", "class_definition"):
            yield child, definition
        elif kind in _BLOCKS or kind == "ERROR":
            yield from _definitions(child)


def _slice(
    tree: SyntaxTree, whole: Node, name: Node, qualified: str, style: Literal["eager", "lazy"]
) -> KernelSlice:
    return KernelSlice(
        qualified_name=qualified,
        name=tree.text_of(name),
        style=style,
        start=tree.offset_of(whole.start_byte),
        end=tree.offset_of(whole.end_byte),
        name_start=tree.offset_of(name.start_byte),
        name_end=tree.offset_of(name.end_byte),
    )


def _kernel_kind(tree: SyntaxTree, node: Node, names: Mapping[str, str]) -> str | None:
    if node.type != "decorated_definition":
        return None
    for child in node.children:
        if child.type != "decorator" or len(child.children) < 2:
            continue
        target = _resolved(_dotted(tree, child.children[1]), names)
        if target in _JIT:
            return "jit"
        if target in _PRIM_FUNC:
            return "prim_func"
    return None


def _dotted(tree: SyntaxTree, node: Node) -> str:
    """`a.b` of `a.b`, `a.b(...)`, `a.b()(...)`."""
    while node.type == "call":
        function = node.child_by_field_name("function")
        if function is None:
            break
        node = function
    return tree.text_of(node) if node.type in ("identifier", "attribute", "dotted_name") else ""


def _resolved(dotted: str, names: Mapping[str, str]) -> str:
    head, _, rest = dotted.partition(".")
    base = names.get(head)
    if base is None:
        return ""
    return f"{base}.{rest}" if rest else base


def _bindings(tree: SyntaxTree) -> dict[str, str]:
    """What names of the file stand for, as far as they lead into `tilelang`."""
    names: dict[str, str] = {}
    for statement in _module_statements(tree.root):
        if statement.type in ("import_statement", "import_from_statement"):
            names.update(_imported(tree, statement))
        elif statement.type == "expression_statement" and statement.named_children:
            assignment = statement.named_children[0]
            left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
            if left is None or right is None or left.type != "identifier":
                continue
            target = _resolved(_dotted(tree, right), names)
            if target in _JIT | _PRIM_FUNC:
                names[tree.text_of(left)] = target
    return names


def _module_statements(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in _BLOCKS or child.type == "ERROR":
            yield from _module_statements(child)
        else:
            yield child


def _imported(tree: SyntaxTree, node: Node) -> Iterator[tuple[str, str]]:
    module_node = node.child_by_field_name("module_name")
    module = tree.text_of(module_node) if module_node is not None else None
    if module is not None and module.split(".")[0] != "tilelang":
        return
    if module is not None and any(child.type == "wildcard_import" for child in node.children):
        yield from ((name, f"{module}.{name}") for name in ("jit", "prim_func", "language"))
    for child in node.children_by_field_name("name"):
        if child.type == "aliased_import":
            original, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if original is None or alias is None:
                continue
            dotted, bound = tree.text_of(original), tree.text_of(alias)
        else:
            dotted = tree.text_of(child)
            bound = dotted
        if module is not None:
            yield bound, f"{module}.{dotted}"
        elif dotted.split(".")[0] == "tilelang":
            # `import tilelang.language` binds `tilelang`; with `as` it binds the module itself.
            yield (bound, dotted) if child.type == "aliased_import" else ("tilelang", "tilelang")
