"""Device helpers for wgmma.mma_async, written on demand: their text depends on the sizes of the tile.

A T.gemm is `tl.cuda.wgmma_<tiles>x64x<n>_<steps>x<k>_<operand>_<result>_<form>(template integers, d, a, b)`.
It multiplies `tiles` times 64 rows by `n` columns on one warpgroup, `steps` times `k` products deep.
`operand` is a type, or two as in `e4m3xe5m2`. `form` is ss (A and B by descriptors) or rs (A in registers),
then t or n for A and for B: whether M (N) instead of K is contiguous, which only 16-bit operands may have.

The template integers are, in units of 16 bytes, for A (ss only) and then for B: the swizzle mode, the leading
and the stride byte offset of the descriptor, the distance of tiles (A only), of steps of K, of groups of
steps, and how many steps are in a group. PTX ISA 9.7.16.5 (register fragments, matrix descriptors, strides).
`wgmma_sp_...` (9.7.16.6) takes the stored half of a 2:4 sparse A, goes twice as deep in a step, and has a
fourth operand: 32 bits for each tile and step that say where the elements of A stand.
Single instructions, `arch.wgmma.one_product`, take descriptors as numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilelang.targets.emit.intrinsic import Intrinsic

# PTX type of an operand -> products along K of one instruction.
_DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_TYPES = "|".join(_DEPTHS)
_NAME = re.compile(
    rf"wgmma(_sp)?_(\d+)x64x(\d+)_(\d+)x\d+_({_TYPES})(?:x({_TYPES}))?_(f32|f16|s32)_(ss|rs)([tn])([tn])(_async)?"
)
_SINGLE = re.compile(
    rf"wgmma(_sp)?_(ss|rs)_n(\d+)_({_TYPES})x({_TYPES})_(f32|f16|s32)_([tn])([tn])_([pm])([pm])(?:_([01]))?"
)
_REGISTERS = re.compile(r"hold_(\d+)_(f32|f16|s32)")
# PTX type of the result -> constraint, C type, elements in a register.
_ACCUMULATORS = {"f32": ("f", "float", 1), "f16": ("r", "unsigned", 2), "s32": ("r", "int", 1)}
A_INTEGERS, B_INTEGERS = 7, 6

_DESCRIPTOR = Intrinsic(
    # Bits 0-13: address / 16; 16-29: leading, 32-45: stride byte offset / 16; 62-63: swizzle mode.
    """template <int Mode, int Leading, int Stride> unsigned long long matrix_descriptor(const void* p) {
  unsigned long long address = (shared_address(p) & 0x3ffffu) >> 4;
  return address | (unsigned long long)Leading << 16 | (unsigned long long)Stride << 32 |
         (unsigned long long)Mode << 62;
}""",
    template_args=3,
    requires=("shared_address",),
)

_PLAIN = {
    "matrix_descriptor": _DESCRIPTOR,
    "wgmma_arrive": Intrinsic(
        """void wgmma_arrive() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}"""
    ),
    "wgmma_commit": Intrinsic(
        """void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}"""
    ),
}


def wgmma_name(
    size: tuple[int, int, int],
    operands: tuple[str, str],
    result: str,
    form: str,
    transposes: tuple[bool, bool],
    sparse: bool = False,
) -> str:
    """The helper for one multiplication of `size` (tiles, n, steps) with operands of these PTX types.

    `transposes`: whether K is not the contiguous dimension. sparse: of the stored half of A.
    """
    tiles, n, steps = size
    letters = "".join("t" if t else "n" for t in transposes)
    types = "x".join(dict.fromkeys(operands))
    depth, name = _DEPTHS[operands[0]], "wgmma"
    if sparse:
        depth, name = 2 * depth, "wgmma_sp"
    return f"{name}_{tiles}x64x{n}_{steps}x{depth}_{types}_{result}_{form}{letters}"


def registers_name(count: int, result: str) -> str:
    """The helper that keeps reads of `count` accumulators behind a wait."""
    return f"hold_{count}_{result}"


def generated(name: str) -> Intrinsic | None:
    """The helper called `name`, None if it is none of these."""
    if name in _PLAIN:
        return _PLAIN[name]
    held = _REGISTERS.fullmatch(name)
    if held is not None:
        return _hold(name, int(held[1]), held[2])
    single = _SINGLE.fullmatch(name)
    if single is not None:
        return _one(name, single)
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    tiles, n, steps = (int(match[k]) for k in (2, 3, 4))
    left, right, result, form, a_turned, b_turned, goes_on = match.groups()[4:]
    turned, sparse = (a_turned == "t", b_turned == "t"), match[1] is not None
    product = _Product((tiles, n, steps), (left, right or left), result, form == "rs", turned, sparse)
    return _multiply(name, product, goes_on is None)


def _one(name: str, match: re.Match[str]) -> Intrinsic:
    """One instruction and nothing around it; `scale` 0 overwrites the result."""
    is_sparse, form, columns, a_type, b_type, result, *flags, selector = match.groups()
    a_turned, b_turned, a_sign, b_sign = flags
    letter, d_type, packed = _ACCUMULATORS[result]
    count, depth = int(columns) // (2 * packed), _DEPTHS[a_type]
    deep, kind = (2 * depth, ".sp") if is_sparse else (depth, "")
    results = ", ".join(f"%{k}" for k in range(count))
    by_registers = form == "rs"
    lefts = 4 if by_registers else 1
    names = [f"%{count + k}" for k in range(lefts + 2)]
    left = f"{{{', '.join(names[:4])}}}" if by_registers else names[0]
    inputs = [f'"r"(x[{k}])' for k in range(4)] if by_registers else ['"l"(left)']
    inputs += ['"l"(right)', '"r"(scale)']
    metadata, places = "", ""
    if is_sparse:
        metadata, places = ", const void* e", f", %{count + lefts + 2}, {selector}"
        inputs.append('"r"(*static_cast<const unsigned*>(e))')
    signs = "" if result == "s32" else "".join(", -1" if s == "m" else ", 1" for s in (a_sign, b_sign))
    turned = (b_turned,) if by_registers else (a_turned, b_turned)
    turns = "".join(f", {int(t == 't')}" for t in turned) if depth == 16 else ""
    parameter = "const void* a" if by_registers else "unsigned long long left"
    held = "  const unsigned* x = static_cast<const unsigned*>(a);\n" if by_registers else ""
    source = f"""void {name}(void* d, {parameter}, unsigned long long right, int scale{metadata}) {{
  {d_type}* z = static_cast<{d_type}*>(d);
{held}  asm volatile(
               "{{ .reg .pred adds; setp.ne.b32 adds, {names[lefts + 1]}, 0;\\n"
               "wgmma.mma_async{kind}.sync.aligned.m64n{columns}k{deep}.{result}.{a_type}.{b_type} "
               "{{{results}}}, {left}, {names[lefts]}{places}, adds{signs}{turns}; }}\\n"
               : {_listed([f'"+{letter}"(z[{k}])' for k in range(count)])}
               : {_listed(inputs)} : "memory");
}}"""
    return Intrinsic(source)


def _hold(name: str, count: int, result: str) -> Intrinsic:
    """No instruction: the compiler takes the registers as written here."""
    letter, d_type, packed = _ACCUMULATORS[result]
    operands = _listed([f'"+{letter}"(z[{k}])' for k in range(count // packed)])
    return Intrinsic(
        f"""void {name}(void* d) {{
  {d_type}* z = static_cast<{d_type}*>(d);
  asm volatile("" : {operands} :: "memory");
}}"""
    )


@dataclass(frozen=True)
class _Product:
    """What the name of a helper says."""

    size: tuple[int, int, int]  # tiles of 64 rows, columns, steps along K
    types: tuple[str, str]  # of A and B
    result: str
    by_registers: bool  # A
    turned: tuple[bool, bool]
    sparse: bool


def _multiply(name: str, product: _Product, waits: bool) -> Intrinsic:
    """One statement from the fence to the wait (if it `waits`), so that nothing touches an accumulator in
    between.
    """
    letter, d_type, _ = _ACCUMULATORS[product.result]
    by_registers = product.by_registers
    total, inputs, products = _products(product)
    lines = ["{ .reg .pred one; setp.eq.u32 one, 1, 1;", "wgmma.fence.sync.aligned;", *products]
    wait = ["wgmma.wait_group.sync.aligned 0;"] if waits else []
    lines += ["wgmma.commit_group.sync.aligned;", *wait, "}"]
    text = "\n".join(f'               "{line}\\n"' for line in lines)
    operands = [f'"+{letter}"(z[{k}])' for k in range(total)]
    a_names = [] if by_registers else ["AMode", "ALead", "AStride", "ATile", "AStep", "AOuter", "APer"]
    names = [*a_names, "BMode", "BLead", "BStride", "BStep", "BOuter", "BPer"]
    left = (
        "  const unsigned* x = static_cast<const unsigned*>(a);"
        if by_registers
        else "  unsigned long long left = matrix_descriptor<AMode, ALead, AStride>(a);"
    )
    head = f"template <{', '.join(f'int {x}' for x in names)}>"
    places = ", const void* e" if product.sparse else ""
    if product.sparse:
        left += "\n  const unsigned* meta = static_cast<const unsigned*>(e);"
    source = f"""{head} void {name}(void* d, const void* a, const void* b{places}) {{
  {d_type}* z = static_cast<{d_type}*>(d);
{left}
  unsigned long long right = matrix_descriptor<BMode, BLead, BStride>(b);
  asm volatile(
{text}
               : {_listed(operands)}
               : {_listed(inputs)} : "memory");
}}"""
    return Intrinsic(source, template_args=len(names), requires=("matrix_descriptor",))


def _products(product: _Product) -> tuple[int, list[str], list[str]]:
    """(how many registers hold D, the inputs in the order of their numbers, the instructions)."""
    tiles, n, steps = product.size
    types, result, turned = product.types, product.result, product.turned
    per_tile = n // (2 * _ACCUMULATORS[result][2])  # 32-bit registers of D in one thread
    depth, total = _DEPTHS[types[0]], tiles * per_tile
    deep, kind = (2 * depth, ".sp") if product.sparse else (depth, "")
    # Scales of A and B, which are 1 and which integers lack; whether operands are turned, where they may be.
    scales = "" if result == "s32" else ", 1, 1"
    inputs: list[str] = []
    lines: list[str] = []

    def given(text: str) -> str:
        inputs.append(text)
        return f"%{total + len(inputs) - 1}"

    rights = [given(f'"l"(right + ({k} / BPer * BOuter + {k} % BPer * BStep))') for k in range(steps)]
    for t in range(tiles):
        results = ", ".join(f"%{t * per_tile + k}" for k in range(per_tile))
        for k in range(steps):
            if product.by_registers:
                lefts = (given(f'"r"(x[{(t * steps + k) * 4 + r}])') for r in range(4))
                left, turns = f"{{{', '.join(lefts)}}}", f", {int(turned[1])}"
            else:
                left = given(f'"l"(left + ({t} * ATile + {k} / APer * AOuter + {k} % APer * AStep))')
                turns = f", {int(turned[0])}, {int(turned[1])}"
            # Metadata and its selector (PTX ISA 9.7.16.6.2).
            metadata = f'"r"(meta[{t * steps + k}])'
            places = f", {given(metadata)}, 0" if product.sparse else ""
            # The instruction takes the scale of D as a predicate.
            lines.append(
                f"wgmma.mma_async{kind}.sync.aligned.m64n{n}k{deep}.{result}.{types[0]}.{types[1]} "
                f"{{{results}}}, {left}, {rights[k]}{places}, one{scales}{turns if depth == 16 else ''};"
            )
    return total, inputs, lines


def _listed(parts: list[str], each: int = 8) -> str:
    rows = [", ".join(parts[k : k + each]) for k in range(0, len(parts), each)]
    return ",\n                 ".join(rows)
