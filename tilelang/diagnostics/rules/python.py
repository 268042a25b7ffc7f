"""Rules about Python inside traced code: what Python would do at trace time and the kernel cannot."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

SYNTAX_ERROR = Rule(
    "syntax-error",
    "python",
    Severity.ERROR,
    "The file cannot be parsed, so its kernels cannot be checked.",
    "{what}",
)
PYTHON_BOOL = Rule(
    "python-bool",
    "python",
    Severity.ERROR,
    "A Python builtin needs a Python value, but gets one that exists only when the kernel runs.",
    "{call} needs a Python value, but {operand} is known only when the kernel runs; {instead}",
)
TRACED_TEXT = Rule(
    "traced-text",
    "python",
    Severity.WARNING,
    "A text is made while the kernel is traced, from a value that exists only when it runs.",
    "{what} is made once, while the kernel is traced; {operand} has no value then, so its name or expression "
    "is written. Use `T.print` to see values of a running kernel",
)
UNMARKED_MACRO = Rule(
    "unmarked-macro",
    "python",
    Severity.WARNING,
    "A plain function holds statements of the kernel; only `@T.macro` makes them part of it everywhere.",
    "`{name}` is a plain function, so {what} at line {line} is not part of the kernel everywhere: this "
    "compiler reads the function, upstream TileLang runs it as plain Python and {fate}; mark it with "
    "`@T.macro`",
)
MUTABLE_REBOUND = Rule(
    "mutable-scalar-rebound",
    "python",
    Severity.WARNING,
    "The name of a T.alloc_var is bound to something else, so the variable can no longer be reached.",
    "`{name}` is a mutable scalar from line {line}, and {what}: the variable keeps its old value and is out "
    "of reach from here on; use another name",
)
TRACED_INDEX = Rule(
    "traced-python-index",
    "python",
    Severity.ERROR,
    "A Python list, tuple or dict is indexed by a value that exists only when the kernel runs.",
    "{container} is a Python {kind}, and the index {index} is known only when the kernel runs; "
    "loop over the {kind} itself, or keep the data in a buffer",
)
UNKNOWN_NAME = Rule(
    "unknown-name",
    "python",
    Severity.ERROR,
    "A name is used that nothing binds.",
    "`{name}` is not defined{hint}",
)
UNKNOWN_LANGUAGE_NAME = Rule(
    "unknown-language-name",
    "python",
    Severity.ERROR,
    "`T.<name>` does not exist in the language.",
    "`{module}` has no `{name}`{hint}",
)
UNKNOWN_ATTRIBUTE = Rule(
    "unknown-attribute",
    "python",
    Severity.ERROR,
    "A value has no attribute of that name.",
    "{owner} has no attribute `{name}`{hint}",
)
BAD_ARGUMENTS = Rule(
    "bad-arguments",
    "python",
    Severity.ERROR,
    "A call's arguments do not fit the function's parameters.",
    "{callee}: {what}",
)
CONST_UNBOUND = Rule(
    "const-unbound",
    "shape",
    Severity.ERROR,
    "A T.const stands in no shape or stride of a tensor argument, so no call can give it a value.",
    "`{name}` is a T.const but no tensor argument has it as an entry of its shape or strides, "
    "so no call binds it; write it as an entry of its own, or pass it as a parameter",
)
VAR_UNBOUND = Rule(
    "const-unbound",
    "shape",
    Severity.ERROR,
    CONST_UNBOUND.summary,
    "`{name}` has no value here: no tensor argument has it in its shape or strides, and no loop or "
    "assignment of the kernel gives it one; write it as an entry of a shape, or pass it as a parameter",
)
CONST_UNUSED = Rule(
    "const-unused",
    "shape",
    Severity.ERROR,
    "A T.const is declared and never used, so no call can give it a value.",
    "`{name}` is declared by T.const and never used: every call is refused, since no tensor argument gives "
    "it a value; remove it",
)
OUTPUT_NOT_RETURNED = Rule(
    "output-not-returned",
    "python",
    Severity.ERROR,
    "T.empty makes an output, and outputs must be returned; nothing else may be.",
    "{what}",
)
FACTORY_RETURNS_NOTHING = Rule(
    "factory-returns-nothing",
    "python",
    Severity.ERROR,
    "A function under tilelang.jit defines a T.prim_func and returns nothing, so there is no kernel.",
    "`{factory}` returns nothing, so there is no kernel to compile; add `return {kernel}`",
)
REBINDING_ESCAPES = Rule(
    "rebinding-escapes",
    "python",
    Severity.ERROR,
    "A name bound in a traced loop or branch is used where that binding does not hold.",
    "`{name}` {what}",
)
UNBOUND_NAME = Rule(
    "unbound-name-in-branch",
    "python",
    Severity.ERROR,
    "A local name is read where no executed statement has bound it.",
    "`{name}` has no value here: it is bound only at line {line}, which is not reached before",
)
BUFFER_AUGMENTED = Rule(
    "buffer-augmented",
    "python",
    Severity.ERROR,
    "`buffer += value` on a whole buffer; arithmetic works on elements.",
    "`{name} {op}= ...` would change the whole buffer at once; loop over its elements: "
    "`for {vars} in T.{loop}({shape}): {name}[{vars}] {op}= ...`",
)
TILE_AS_SCALAR = Rule(
    "tile-as-scalar",
    "python",
    Severity.ERROR,
    "A whole buffer or a slice is used where one element is needed.",
    "{operand} is a tile of {shape}; arithmetic works on elements: index it inside T.Parallel",
)
INDEX_COUNT = Rule(
    "index-count",
    "shape",
    Severity.ERROR,
    "A subscript has more or fewer entries than the buffer has dimensions.",
    "`{name}` has {rank} dimension{s} {shape}, but the subscript has {count}",
)
FLOAT_INDEX = Rule(
    "float-index",
    "dtype",
    Severity.ERROR,
    "A subscript or a size is not an integer.",
    "{what} must be an integer, but {text} is {dtype}{hint}",
)
UNKNOWN_DTYPE = Rule(
    "unknown-dtype",
    "dtype",
    Severity.ERROR,
    "A dtype that does not exist, or that this compiler does not support.",
    "{what}",
)
STEP_LIMIT = Rule(
    "step-limit",
    "python",
    Severity.HINT,
    "Interpreting the kernel takes too many steps, so the rest of it is not checked.",
    "{what}; what follows is not checked",
)
UNSUPPORTED_PYTHON = Rule(
    "unsupported-python",
    "python",
    Severity.ERROR,
    "A Python construct that kernels cannot contain.",
    "{what}",
)
PYTHON_ERROR = Rule(
    "python-error",
    "python",
    Severity.ERROR,
    "Python code that runs at trace time raises.",
    "{what}",
)

UNSUPPORTED_LANGUAGE_NAME = Rule(
    "unsupported-language-name",
    "compat",
    Severity.HINT,
    "A name of the language that this compiler does not implement, so the kernel cannot be compiled by it.",
    "`{module}.{name}` is not supported by this compiler yet{instead}; what depends on it is not checked",
)
POINTERS_IN_MEMORY = replace(
    UNSUPPORTED_LANGUAGE_NAME,
    message="memory that holds pointers (T.ptr as a dtype) is not supported by this compiler yet: pass each "
    "pointer as an argument; what depends on it is not checked",
)

COMPARISON_PRECEDENCE = Rule(
    "comparison-precedence",
    "python",
    Severity.WARNING,
    "`&` and `|` bind more tightly than comparisons.",
    "`{symbol}` binds more tightly than the comparisons beside it, which are with `{taken}`: use `{word}`, "
    "or put brackets around each comparison",
)
SAME_OPERANDS = Rule(
    "same-operands",
    "python",
    Severity.WARNING,
    "Operands that are written alike decide the result, whatever they are.",
    "both operands of `{symbol}` are `{operand}`, so the result is always {result}: another one was meant",
)
SAME_ARGUMENTS = replace(
    SAME_OPERANDS,
    message="both arguments of `{symbol}` are `{operand}`, which is the result: another one was meant",
)
SAME_BRANCHES = replace(
    SAME_OPERANDS, message="both branches are `{operand}`, so the condition decides nothing"
)
SAME_PLACES = replace(
    SAME_OPERANDS,
    level=Severity.HINT,
    message="`{operand}` is written to itself, which changes nothing",
)
UNKNOWN_SPECIALISATION = Rule(
    "unknown-specialisation",
    "python",
    Severity.WARNING,
    "A value that is chosen for a kernel must be one of its parameters or sizes.",
    "`{name}` is given a value {where}, but {kernel} has no parameter or size of that name{hint}",
)
