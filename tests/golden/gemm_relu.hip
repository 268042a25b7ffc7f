// matmul_relu for hip:gfx942, with M=1024, N=1024, K=1024
#ifndef __global__  // without ROCm's headers
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __forceinline__ inline __attribute__((always_inline))
#endif
typedef unsigned u32x4 __attribute__((ext_vector_type(4)));
typedef unsigned u32x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));

static __device__ __forceinline__ void sync_threads();
static __device__ __forceinline__ void mfma_f32_16x16x16f16(float* d, const _Float16* a, const _Float16* b);

extern "C" __global__ void __launch_bounds__(128) matmul_relu_kernel(
    const _Float16* __restrict__ A,
    const _Float16* __restrict__ B,
    _Float16* __restrict__ C) {
  const int bx = __builtin_amdgcn_workgroup_id_x();
  const int by = __builtin_amdgcn_workgroup_id_y();
  const int tx = __builtin_amdgcn_workitem_id_x();
  extern __shared__ __attribute__((aligned(1024))) unsigned char smem[];
  _Float16* A_shared = (_Float16*)smem;
  _Float16* B_shared = (_Float16*)(smem + 8192);
  __attribute__((aligned(16))) float C_local[128];
  #pragma unroll
  for (int r = 0; r < 128; ++r) {
    C_local[r] = 0.0f;
  }
  for (int k = 0; k < 32; ++k) {
    sync_threads();
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(u32x4*)&A_shared[r * 1024 + tx / 4 * 32 + ((tx % 4) ^ (tx % 32 / 8)) * 8] =
          *(const u32x4*)&A[by * 131072 + r * 32768 + tx / 4 * 1024 + k * 32 + tx % 4 * 8];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(u32x4*)&B_shared[tx % 16 / 8 * 2048 + r * 512 + tx / 16 * 64 + ((tx % 8) ^ (tx / 16)) * 8] =
          *(const u32x4*)&B[k * 32768 + r * 8192 + tx / 16 * 1024 + bx * 128 + tx % 16 * 8];
    }
    sync_threads();
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      __attribute__((aligned(16))) _Float16 A_shared_frag[16];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        *(u32x2*)&A_shared_frag[i * 4] =
            *(const u32x2*)&A_shared[tx / 64 * 2048 + i * 512 + tx % 16 * 32
                + ((kk * 2 + tx % 64 / 32) ^ (tx % 8 / 2)) * 8 + tx % 32 / 16 * 4];
      }
      __attribute__((aligned(16))) _Float16 B_shared_frag[32];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        #pragma unroll
        for (int s = 0; s < 4; ++s) {
          B_shared_frag[i * 4 + s] =
              B_shared[i / 4 * 2048 + kk * 1024 + tx % 64 / 16 * 256 + s * 64
                  + ((i % 4 * 2 + tx % 16 / 8) ^ (tx % 32 / 16 * 4 + s)) * 8 + tx % 8];
        }
      }
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          mfma_f32_16x16x16f16(&C_local[i * 32 + j * 4], &B_shared_frag[j * 4], &A_shared_frag[i * 4]);
        }
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 128; ++r) {
    C_local[r] = __builtin_fmaxf(C_local[r], 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 32; ++r) {
    __attribute__((aligned(16))) _Float16 C_vec[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      C_vec[v] = _Float16(C_local[r * 4 + v]);
    }
    *(u32x2*)&C[by * 131072 + tx / 64 * 65536 + r / 8 * 16384 + tx % 16 * 1024 + bx * 128 + r % 8 * 16
        + tx % 64 / 16 * 4] =
        *(const u32x2*)&C_vec[0];
  }
}

static __device__ __forceinline__ void sync_threads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

static __device__ __forceinline__ void mfma_f32_16x16x16f16(float* d, const _Float16* a, const _Float16* b) {
  *(f32x4*)d = __builtin_amdgcn_mfma_f32_16x16x16f16(
      *(const f16x4*)a, *(const f16x4*)b, *(const f32x4*)d, 0, 0, 0);
}
