"""Device helpers of the CUDA target: one entry per instruction that lowering uses, as inline PTX.

To add one: choose a name, write the function as in `Intrinsic`'s docstring, put it into `INTRINSICS`, and
emit `tile_ops.call("tl.cuda.<name>", [args])` where it is wanted. Pointers to be read are `const`, to be
written are not: the printer decides from that which kernel parameters are `const`. Pointers into shared
memory are generic here and converted inside (`shared_address`). Constants that PTX wants as immediates are
template arguments, first in the call. Sections name the PTX ISA document.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.emit.intrinsic import Intrinsic

INTRINSICS: Mapping[str, Intrinsic] = {
    "sync": Intrinsic(inline="__syncthreads()"),
    "shared_address": Intrinsic(
        """unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}"""
    ),
    # 9.7.9.25 cp.async: 16 bytes past L1 (.cg); zeros are written for the bytes beyond `bytes` (0 or 16).
    "cp_async_16": Intrinsic(
        """void cp_async_16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(dst)), "l"(src) : "memory");
}""",
        requires=("shared_address",),
    ),
    "cp_async_16_guarded": Intrinsic(
        """void cp_async_16_guarded(void* dst, const void* src, bool inside) {
  int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               ::"r"(shared_address(dst)), "l"(src), "r"(bytes) : "memory");
}""",
        requires=("shared_address",),
    ),
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
    # 9.7.14.5.15 ldmatrix: four 8x8 matrices of 16-bit elements; each lane gives the address of one row.
    "ldmatrix_x4": Intrinsic(
        """void ldmatrix_x4(void* dst, const void* src) {
  unsigned* r = static_cast<unsigned*>(dst);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(src)) : "memory");
}""",
        requires=("shared_address",),
    ),
    "ldmatrix_x4_trans": Intrinsic(
        """void ldmatrix_x4_trans(void* dst, const void* src) {
  unsigned* r = static_cast<unsigned*>(dst);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(src)) : "memory");
}""",
        requires=("shared_address",),
    ),
    # 9.7.14.5.14 mma: D = A * B + D on one warp.
    "mma_m16n8k16_f16_f32": Intrinsic(
        """void mma_m16n8k16_f16_f32(float* d, const void* a, const void* b) {
  const unsigned* x = static_cast<const unsigned*>(a);
  const unsigned* y = static_cast<const unsigned*>(b);
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}"""
    ),
}
