// softmax for hip:gfx942, with M=4096, N=2048
#ifndef __global__  // without ROCm's headers
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __forceinline__ inline __attribute__((always_inline))
#endif
typedef unsigned u32x4 __attribute__((ext_vector_type(4)));

static __device__ __forceinline__ int lane_id();
template <typename T> static __device__ __forceinline__ T shuffle_xor(T value, int mask);
static __device__ __forceinline__ void sync_threads();

extern "C" __global__ void __launch_bounds__(128) softmax_kernel(
    const float* __restrict__ X,
    float* __restrict__ Y) {
  const int bx = __builtin_amdgcn_workgroup_id_x();
  const int tx = __builtin_amdgcn_workitem_id_x();
  extern __shared__ __attribute__((aligned(1024))) unsigned char smem[];
  float* tile_max_warps = (float*)smem;
  float* tile_sum_warps = (float*)(smem + 128);
  __attribute__((aligned(16))) float x[16];
  float tile_max[4];
  float tile_sum[4];
  float row_max[4];
  float row_sum[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    row_max[r] = -__builtin_inff();
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    row_sum[r] = 0.0f;
  }
  for (int k = 0; k < 4; ++k) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      __attribute__((aligned(16))) float X_vec[4];
      *(u32x4*)&X_vec[0] = *(const u32x4*)&X[bx * 8192 + r * 2048 + k * 512 + tx * 4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const float value = X_vec[v] * 1.442695f;
        x[r * 4 + v] = value;
      }
    }
    float tile_max_part[4];
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = -__builtin_inff();
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], x[o * 4 + q]);
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], shuffle_xor(tile_max_part[o], 1));
      tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], shuffle_xor(tile_max_part[o], 2));
      tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], shuffle_xor(tile_max_part[o], 4));
      tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], shuffle_xor(tile_max_part[o], 8));
      tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], shuffle_xor(tile_max_part[o], 16));
      tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], shuffle_xor(tile_max_part[o], 32));
    }
    if (tx % 64 == 0) {
      #pragma unroll
      for (int o = 0; o < 4; ++o) {
        tile_max_warps[o * 2 + tx / 64] = tile_max_part[o];
      }
    }
    sync_threads();
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = -__builtin_inff();
      #pragma unroll
      for (int w = 0; w < 2; ++w) {
        tile_max_part[o] = __builtin_fmaxf(tile_max_part[o], tile_max_warps[o * 2 + w]);
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max[o] = tile_max_part[o];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      tile_max[r] = __builtin_fmaxf(tile_max[r], row_max[r]);
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = __builtin_exp2f(x[r] - tile_max[r / 4]);
    }
    float tile_sum_part[4];
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_sum_part[o] = 0.0f;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        tile_sum_part[o] = tile_sum_part[o] + x[o * 4 + q];
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_sum_part[o] = tile_sum_part[o] + shuffle_xor(tile_sum_part[o], 1);
      tile_sum_part[o] = tile_sum_part[o] + shuffle_xor(tile_sum_part[o], 2);
      tile_sum_part[o] = tile_sum_part[o] + shuffle_xor(tile_sum_part[o], 4);
      tile_sum_part[o] = tile_sum_part[o] + shuffle_xor(tile_sum_part[o], 8);
      tile_sum_part[o] = tile_sum_part[o] + shuffle_xor(tile_sum_part[o], 16);
      tile_sum_part[o] = tile_sum_part[o] + shuffle_xor(tile_sum_part[o], 32);
    }
    if (tx % 64 == 0) {
      #pragma unroll
      for (int o = 0; o < 4; ++o) {
        tile_sum_warps[o * 2 + tx / 64] = tile_sum_part[o];
      }
    }
    sync_threads();
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_sum_part[o] = 0.0f;
      #pragma unroll
      for (int w = 0; w < 2; ++w) {
        tile_sum_part[o] = tile_sum_part[o] + tile_sum_warps[o * 2 + w];
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_sum[o] = tile_sum_part[o];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      row_sum[r] = row_sum[r] * __builtin_exp2f(row_max[r] - tile_max[r]) + tile_sum[r];
      row_max[r] = tile_max[r];
    }
  }
  for (int k = 0; k < 4; ++k) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(u32x4*)&x[r * 4] = *(const u32x4*)&X[bx * 8192 + r * 2048 + k * 512 + tx * 4];
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = __builtin_exp2f(x[r] * 1.442695f - row_max[r / 4]) / row_sum[r / 4];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(u32x4*)&Y[bx * 8192 + r * 2048 + k * 512 + tx * 4] = *(const u32x4*)&x[r * 4];
    }
  }
}

static __device__ __forceinline__ int lane_id() {
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}

template <typename T> static __device__ __forceinline__ T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) <= 4, "one register");
  int bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = __builtin_amdgcn_ds_bpermute((lane_id() ^ mask) * 4, bits);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

static __device__ __forceinline__ void sync_threads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
