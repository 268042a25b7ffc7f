"""Device helpers for wgmma.mma_async, written on demand: their text depends on the sizes of the tile.

A call is `tl.cuda.wgmma_<tiles>x64x<n>_<steps>x16_<operand>_<result>_<form>(template integers, d, a, b)`.
It multiplies `tiles` times 64 rows by `n` columns on one warpgroup, `steps` times 16 products deep. `form` is
ss (A and B by descriptors) or rs (A in registers), then t or n for A and for B: whether M (N) instead of K is
contiguous.

The template integers are, in units of 16 bytes, for A (ss only) and then for B: the swizzle mode, the leading
and the stride byte offset of the descriptor, the distance of tiles (A only), of steps of K, of groups of
steps, and how many steps are in a group. PTX ISA 9.7.16.5 (register fragments, matrix descriptors, strides).
"""

from __future__ import annotations

import re

from tilelang.targets.emit.intrinsic import Intrinsic

_NAME = re.compile(r"wgmma_(\d+)x64x(\d+)_(\d+)x16_(f16|bf16)_(f32|f16)_(ss|rs)([tn])([tn])(_async)?")
_REGISTERS = re.compile(r"hold_(\d+)_(f32|f16)")
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


def wgmma_name(
    tiles: int, n: int, steps: int, operand: str, result: str, form: str, transposes: tuple[bool, bool]
) -> str:
    """The helper for one multiplication; `transposes`: whether K is not the contiguous dimension."""
    letters = "".join("t" if t else "n" for t in transposes)
    return f"wgmma_{tiles}x64x{n}_{steps}x16_{operand}_{result}_{form}{letters}"


def registers_name(count: int, result: str) -> str:
    """The helper that keeps reads of `count` accumulators behind a wait."""
    return f"hold_{count}_{result}"


def generated(name: str) -> Intrinsic | None:
    """The helper called `name`, None if it is none of these."""
    if name == "matrix_descriptor":
        return _DESCRIPTOR
    held = _REGISTERS.fullmatch(name)
    if held is not None:
        return _hold(name, int(held[1]), held[2])
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    tiles, n, steps = (int(match[k]) for k in (1, 2, 3))
    operand, result, form, a_turned, b_turned, goes_on = match.groups()[3:]
    turned = (a_turned == "t", b_turned == "t")
    return _multiply(name, (tiles, n, steps), operand, result, form == "rs", turned, goes_on is None)


def _hold(name: str, count: int, result: str) -> Intrinsic:
    """No instruction: the compiler takes the registers as written here."""
    letter, d_type, registers = ("f", "float", count) if result == "f32" else ("r", "unsigned", count // 2)
    operands = _listed([f'"+{letter}"(z[{k}])' for k in range(registers)])
    return Intrinsic(
        f"""void {name}(void* d) {{
  {d_type}* z = static_cast<{d_type}*>(d);
  asm volatile("" : {operands} :: "memory");
}}"""
    )


def _multiply(
    name: str,
    size: tuple[int, int, int],
    operand: str,
    result: str,
    by_registers: bool,
    turned: tuple[bool, bool],
    waits: bool,
) -> Intrinsic:
    """One statement from the fence to the wait (if it `waits`), so that nothing touches an accumulator in
    between.
    """
    a_turned, b_turned = turned
    tiles, n, steps = size
    per_tile = n // 2 if result == "f32" else n // 4  # 32-bit registers of D in one thread
    letter, d_type = ("f", "float") if result == "f32" else ("r", "unsigned")
    total = tiles * per_tile
    operands, lines = [f'"+{letter}"(z[{k}])' for k in range(total)], ["wgmma.fence.sync.aligned;"]
    inputs: list[str] = []

    def given(text: str) -> str:
        inputs.append(text)
        return f"%{total + len(inputs) - 1}"

    rights = [given(f'"l"(right + ({k} / BPer * BOuter + {k} % BPer * BStep))') for k in range(steps)]
    for t in range(tiles):
        results = ", ".join(f"%{t * per_tile + k}" for k in range(per_tile))
        for k in range(steps):
            if by_registers:
                lefts = (given(f'"r"(x[{(t * steps + k) * 4 + r}])') for r in range(4))
                left, turns = f"{{{', '.join(lefts)}}}", f"{int(b_turned)}"
            else:
                left = given(f'"l"(left + ({t} * ATile + {k} / APer * AOuter + {k} % APer * AStep))')
                turns = f"{int(a_turned)}, {int(b_turned)}"
            lines.append(
                f"wgmma.mma_async.sync.aligned.m64n{n}k16.{result}.{operand}.{operand} "
                f"{{{results}}}, {left}, {rights[k]}, 1, 1, 1, {turns};"
            )
    lines += ["wgmma.commit_group.sync.aligned;", *(["wgmma.wait_group.sync.aligned 0;"] if waits else [])]
    # The instruction takes the scale of D as a predicate.
    text = "\n".join(f'               "{line}\\n"' for line in _with_predicate(lines))
    a_names = [] if by_registers else ["AMode", "ALead", "AStride", "ATile", "AStep", "AOuter", "APer"]
    names = [*a_names, "BMode", "BLead", "BStride", "BStep", "BOuter", "BPer"]
    left = (
        "  const unsigned* x = static_cast<const unsigned*>(a);"
        if by_registers
        else "  unsigned long long left = matrix_descriptor<AMode, ALead, AStride>(a);"
    )
    head = f"template <{', '.join(f'int {x}' for x in names)}>"
    source = f"""{head} void {name}(void* d, const void* a, const void* b) {{
  {d_type}* z = static_cast<{d_type}*>(d);
{left}
  unsigned long long right = matrix_descriptor<BMode, BLead, BStride>(b);
  asm volatile(
{text}
               : {_listed(operands)}
               : {_listed(inputs)} : "memory");
}}"""
    return Intrinsic(source, template_args=len(names), requires=("matrix_descriptor",))


def _with_predicate(lines: list[str]) -> list[str]:
    opened = ["{ .reg .pred one; setp.eq.u32 one, 1, 1;"]
    return [*opened, *(line.replace(", 1, 1, 1, ", ", one, 1, 1, ") for line in lines), "}"]


def _listed(parts: list[str], each: int = 8) -> str:
    rows = [", ".join(parts[k : k + each]) for k in range(0, len(parts), each)]
    return ",\n                 ".join(rows)
