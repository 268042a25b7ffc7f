// Stand-ins for the AMDGPU builtins that generated HIP uses, so that kernels run on the host, on the fibers of block.h.
// The matrix instructions follow the register layouts of the "AMD Instinct MI200/MI300 Instruction Set Architecture"
// guides: with one 16×16 block, A[i][k] is in lane i + 16 (k / n), element k % n, B[k][j] in lane j + 16 (k / n),
// element k % n (n elements of a lane), and D[i][j] in lane j + 16 (i / 4), element i % 4.
#pragma once
#include "block.h"

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(threads)
#define __forceinline__ inline

extern "C" {
alignas(1024) unsigned char smem[65536];

// Rounding to bfloat16, which the host's compiler takes from a library that is not everywhere.
__attribute__((weak)) __bf16 __truncsfbf2(float x) {
  unsigned bits;
  __builtin_memcpy(&bits, &x, 4);
  unsigned short top = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  __bf16 y;
  __builtin_memcpy(&y, &top, 2);
  return y;
}
}

namespace amdgcn {
template <int N, typename A, typename D, typename Total> D mfma(A a, A b, D c) {
  block::give(a, 0);
  block::give(b, 1);
  block::warp_sync();
  const int lane = block::lane();
  typedef typename Total::element element;
  for (int r = 0; r < 4; ++r) {
    const int i = 4 * (lane / 16) + r, j = lane % 16;
    typename Total::sum total = c[r];
    for (int k = 0; k < 4 * N; ++k) {
      A x = block::of<A>(i + 16 * (k / N), 0), y = block::of<A>(j + 16 * (k / N), 1);
      element xs[sizeof(A) / sizeof(element)], ys[sizeof(A) / sizeof(element)];
      __builtin_memcpy(xs, &x, sizeof(A));
      __builtin_memcpy(ys, &y, sizeof(A));
      total += typename Total::sum(xs[k % N]) * typename Total::sum(ys[k % N]);
    }
    c[r] = total;
  }
  block::warp_sync();
  return c;
}
struct Half {
  typedef _Float16 element;
  typedef float sum;
};
struct Bfloat {
  typedef __bf16 element;
  typedef float sum;
};
struct Float {
  typedef float element;
  typedef float sum;
};
struct Int8 {
  typedef signed char element;
  typedef int sum;
};
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef short i16x4 __attribute__((ext_vector_type(4)));

inline int bpermute(int address, int value) {
  block::give(value);
  block::warp_sync();
  int other = block::of<int>(address / 4 % 64);
  block::warp_sync();
  return other;
}
}  // namespace amdgcn

#define __builtin_amdgcn_workitem_id_x() block::current
#define __builtin_amdgcn_workgroup_id_x() block::group.x
#define __builtin_amdgcn_workgroup_id_y() block::group.y
#define __builtin_amdgcn_workgroup_id_z() block::group.z
#define __builtin_amdgcn_fence(order, scope)
#define __builtin_amdgcn_s_barrier() block::barrier()
#define __builtin_amdgcn_mbcnt_lo(mask, base) 0
#define __builtin_amdgcn_mbcnt_hi(mask, base) block::lane()
#define __builtin_amdgcn_ds_bpermute(address, value) amdgcn::bpermute(address, value)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, x, y, z) \
  amdgcn::mfma<4, amdgcn::f16x4, amdgcn::f32x4, amdgcn::Half>(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, x, y, z) \
  amdgcn::mfma<4, amdgcn::i16x4, amdgcn::f32x4, amdgcn::Bfloat>(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, x, y, z) amdgcn::mfma<1, float, amdgcn::f32x4, amdgcn::Float>(a, b, c)
#define __builtin_amdgcn_mfma_i32_16x16x16i8(a, b, c, x, y, z) amdgcn::mfma<4, int, amdgcn::i32x4, amdgcn::Int8>(a, b, c)
#define __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, x, y, z) amdgcn::mfma<8, long, amdgcn::i32x4, amdgcn::Int8>(a, b, c)
