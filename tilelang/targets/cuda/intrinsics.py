"""Device helpers of the CUDA target: one entry per instruction that lowering uses, as inline PTX.

To add one: choose a name, write the function as in `Intrinsic`'s docstring, put it into `INTRINSICS`, and
emit `tile_ops.call("tl.cuda.<name>", [args])` where it is wanted. Pointers to be read are `const`, to be
written are not: the printer decides from that which kernel parameters are `const`. Pointers into shared
memory are generic here and converted inside (`shared_address`). Constants that PTX wants as immediates are
template arguments, first in the call. Sections name the PTX ISA document.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.arch.mma import MIXED, MMA, MMA_SP
from tilelang.ir.math_ops import ROUNDINGS
from tilelang.targets.cuda.atomics import ATOMICS
from tilelang.targets.cuda.packed_elements import PACKED_ELEMENTS
from tilelang.targets.cuda.thread_ops import THREAD_OPS
from tilelang.targets.cuda.tma import TMA
from tilelang.targets.emit.intrinsic import Intrinsic


def _cp_async(bytes_: int) -> Intrinsic:
    """PTX ISA 9.7.9.25: `bytes_` past the registers; 16 bytes also past L1 (.cg, which takes no other
    size).
    """
    cache = "cg" if bytes_ == 16 else "ca"
    return Intrinsic(
        f"""void cp_async_{bytes_}(void* dst, const void* src) {{
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes_};"
               ::"r"(shared_address(dst)), "l"(src) : "memory");
}}""",
        requires=("shared_address",),
    )


def _cp_async_guarded(bytes_: int) -> Intrinsic:
    """The same; outside, zeros are written and `src` is not read (source size 0)."""
    cache = "cg" if bytes_ == 16 else "ca"
    return Intrinsic(
        f"""void cp_async_{bytes_}_guarded(void* dst, const void* src, bool inside) {{
  int bytes = inside ? {bytes_} : 0;
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes_}, %2;"
               ::"r"(shared_address(dst)), "l"(src), "r"(bytes) : "memory");
}}""",
        requires=("shared_address",),
    )


def _ldmatrix(count: int, transposed: bool) -> Intrinsic:
    """PTX ISA 9.7.15.5.15: `count` 8x8 matrices of 16-bit elements; lane 8 i + r gives the address of row r
    of matrix i."""
    name = f"ldmatrix_x{count}{'_trans' if transposed else ''}"
    instruction = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    outputs = ", ".join(f'"=r"(r[{k}])' for k in range(count))
    registers = ", ".join(f"%{k}" for k in range(count))
    return Intrinsic(
        f"""void {name}(void* dst, const void* src) {{
  unsigned* r = static_cast<unsigned*>(dst);
  asm volatile("{instruction} {{{registers}}}, [%{count}];"
               : {outputs}
               : "r"(shared_address(src)) : "memory");
}}""",
        requires=("shared_address",),
    )


def _stmatrix(count: int, transposed: bool) -> Intrinsic:
    """PTX ISA 9.7.15.5.16: the inverse of ldmatrix; register i of a warp is matrix i."""
    name = f"stmatrix_x{count}{'_trans' if transposed else ''}"
    instruction = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    parameters = ", ".join(f"unsigned r{k}" for k in range(count))
    registers = ", ".join(f"%{1 + k}" for k in range(count))
    given = "".join(f', "r"(r{k})' for k in range(count))
    return Intrinsic(
        f"""void {name}(void* dst, {parameters}) {{
  asm volatile("{instruction} [%0], {{{registers}}};"
               ::"r"(shared_address(dst)){given} : "memory");
}}""",
        requires=("shared_address",),
    )


def _mma(
    name: str,
    shape: str,
    operands: str,
    result: str,
    registers: tuple[int, int, int],
    sparse: bool = False,
) -> Intrinsic:
    """PTX ISA 9.7.15.5.14: D = A · B + D on one warp. `operands`: the types of A and B, such as `e4m3.e5m2`.

    `registers`: registers of A, B and D, of 32 bits (64 for float64). sparse (9.7.15.6, mma.sp): A is the
    stored half, `e` the 32 bits that say where its elements stand, of the lanes that `Selector` chooses.
    """
    a, b, d = registers
    letter, d_type = {
        "f32": ("f", "float"),
        "f16": ("r", "unsigned"),
        "s32": ("r", "int"),
        "f64": ("d", "double"),
    }[result]
    source, source_type = ("d", "double") if result == "f64" else ("r", "unsigned")
    results = ", ".join(f"%{k}" for k in range(d))
    lefts = ", ".join(f"%{d + k}" for k in range(a))
    rights = ", ".join(f"%{d + a + k}" for k in range(b))
    in_out = ", ".join(f'"+{letter}"(z[{k}])' for k in range(d))
    inputs = ", ".join(
        [*(f'"{source}"(x[{k}])' for k in range(a)), *(f'"{source}"(y[{k}])' for k in range(b))]
    )
    types = f"{result}.{operands}.{result}"
    head, parameter, places, kind = "", "", "", "mma.sync"
    if sparse:
        head, parameter, kind = "template <int Selector> ", ", const void* e", "mma.sp.sync"
        places = f", %{d + a + b}, %{d + a + b + 1}"
        inputs += ', "r"(*static_cast<const unsigned*>(e)), "n"(Selector)'
    return Intrinsic(
        f"""{head}void {name}(void* d, const void* a, const void* b{parameter}) {{
  {d_type}* z = static_cast<{d_type}*>(d);
  const {source_type}* x = static_cast<const {source_type}*>(a);
  const {source_type}* y = static_cast<const {source_type}*>(b);
  asm volatile("{kind}.aligned.{shape}.row.col.{types} "
               "{{{results}}}, {{{lefts}}}, {{{rights}}}, {{{results}}}{places};"
               : {in_out}
               : {inputs});
}}""",
        template_args=int(sparse),
    )


def _mma_helpers() -> dict[str, Intrinsic]:
    helpers = {}
    for table, prefix in ((MMA, "mma"), (MMA_SP, "mma_sp")):
        for (shape, _, _), (ptx, result, registers) in table.items():
            for left, right in ((ptx, ptx), *MIXED):
                if left == ptx:
                    types = left if left == right else f"{left}x{right}"
                    name = f"{prefix}_{shape}_{types}_{result}"
                    sparse = table is MMA_SP
                    helpers[name] = _mma(name, shape, f"{left}.{right}", result, registers, sparse)
    return helpers


# CUDA C++ Programming Guide, "Intrinsic Functions": approximations, and arithmetic with a rounding mode.
_FAST = {
    "fast_exp": "__expf",
    "fast_exp10": "__exp10f",
    "fast_log": "__logf",
    "fast_log2": "__log2f",
    "fast_log10": "__log10f",
    "fast_sin": "__sinf",
    "fast_cos": "__cosf",
    "fast_tan": "__tanf",
}
_ROUNDED = {
    "ieee_add": ("__fadd", "__dadd"),
    "ieee_sub": ("__fsub", "__dsub"),
    "ieee_mul": ("__fmul", "__dmul"),
    "ieee_fdiv": ("__fdiv", "__ddiv"),
    "ieee_fmaf": ("__fmaf", "__fma"),
    "ieee_frcp": ("__frcp", "__drcp"),
    "ieee_fsqrt": ("__fsqrt", "__dsqrt"),
}


def _keeping_nan(name: str) -> Intrinsic:
    """CUDA Math API, "Half Comparison Functions": __hmax_nan is one instruction, of bfloat16 too."""
    order = "<" if name == "max" else ">"
    return Intrinsic(
        f"""template <typename T> T {name}_nan(T a, T b) {{
  if constexpr (sizeof(T) == 2) return __h{name}_nan(a, b);
  if (a != a || b != b) return a + b;
  return a {order} b ? b : a;
}}"""
    )


def _machine_math() -> dict[str, Intrinsic]:
    found = {name: Intrinsic(inline=f"{function}({{0}})") for name, function in _FAST.items()}
    found["ffs"] = Intrinsic(inline="__ffs({0})")
    found["ffs_64"] = Intrinsic(inline="__ffsll({0})")
    found["ldg"] = Intrinsic(inline="__ldg(&{0})")
    found["fast_rcp"] = Intrinsic(inline="__fdividef(1.0f, {0})")
    for name in ("max", "min"):
        found[f"{name}_nan"] = _keeping_nan(name)
    for name, (single, double) in _ROUNDED.items():
        for mode in ROUNDINGS:
            found[f"{name}_{mode}"] = Intrinsic(inline=f"{single}_{mode}({{args}})")
            found[f"{name}_{mode}_f64"] = Intrinsic(inline=f"{double}_{mode}({{args}})")
    found["ieee_frsqrt_rn"] = Intrinsic(inline="__frsqrt_rn({0})")
    found["ieee_frsqrt_rn_f64"] = Intrinsic(inline="(1.0 / sqrt({0}))")
    return found


_PLACE = "blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z"
# CUDA C++ Programming Guide, "Formatted Output": the text appears when the host synchronises.
_MESSAGES = {
    **{name: Intrinsic(inline=f"printf({{0}}, {_PLACE}{{rest}})") for name in ("print_value", "print_once")},
    "check": Intrinsic(
        f"""void check(bool holds, const char* text) {{
  if (holds) return;
  printf("%s: BlockIdx=(%d, %d, %d), ThreadIdx=(%d, %d, %d)\\n", text,
         {_PLACE});
  __trap();
}}"""
    ),
}

INTRINSICS: Mapping[str, Intrinsic] = {
    **THREAD_OPS,
    **ATOMICS,
    **TMA,
    **PACKED_ELEMENTS,
    "sync": Intrinsic(inline="__syncthreads()"),
    **_MESSAGES,
    # The value of the lane whose number differs in the bits of the mask (CUDA C++ Programming Guide, warp
    # shuffles).
    "shuffle_xor": Intrinsic(inline="__shfl_xor_sync(0xffffffffu, {0}, {1})"),
    **_machine_math(),
    # PTX ISA 9.7.1.24, of signed numbers.
    "dp4a": Intrinsic(
        """int dp4a(int c, const void* a, const void* b) {
  return __dp4a(*static_cast<const int*>(a), *static_cast<const int*>(b), c);
}"""
    ),
    # NVRTC knows memcpy, but no __builtin_memcpy.
    "bit_cast": Intrinsic(
        """template <typename To, typename From> To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}"""
    ),
    "shared_address": Intrinsic(
        """unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}"""
    ),
    **{f"cp_async_{n}": _cp_async(n) for n in (4, 8, 16)},
    **{f"cp_async_{n}_guarded": _cp_async_guarded(n) for n in (4, 8, 16)},
    "cp_async_commit": Intrinsic(
        """void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}"""
    ),
    "cp_async_wait": Intrinsic(
        """template <int N> void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}""",
        template_args=1,
    ),
    **{
        f"ldmatrix_x{n}{'_trans' if transposed else ''}": _ldmatrix(n, transposed)
        for n in (1, 2, 4)
        for transposed in (False, True)
    },
    **{
        f"stmatrix_x{n}{'_trans' if transposed else ''}": _stmatrix(n, transposed)
        for n in (1, 2, 4)
        for transposed in (False, True)
    },
    **_mma_helpers(),
    # PTX ISA 9.7.3.21 ex2: one instruction; exp2f scales its argument to reach denormal results too.
    "exp2_approx": Intrinsic(
        """float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}"""
    ),
    "wgmma_wait": Intrinsic(
        """template <int N> void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}""",
        template_args=1,
    ),
    # PTX ISA 9.7.9.22 cvt: to the nearest TF32; the unit would cut the low 13 bits off.
    "round_tf32": Intrinsic(
        """float round_tf32(float x) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return __uint_as_float(r);
}"""
    ),
}
