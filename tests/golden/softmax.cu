// softmax for cuda:sm_80, with M=4096, N=2048
#include <math_constants.h>

extern "C" __global__ void __launch_bounds__(128) softmax_kernel(
    const float* __restrict__ X,
    float* __restrict__ Y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  float* tile_max_warps = (float*)smem;
  float* tile_sum_warps = (float*)(smem + 128);
  __align__(16) float x[16];
  float tile_max[4];
  float tile_sum[4];
  float row_max[4];
  float row_sum[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    row_max[r] = -CUDART_INF_F;
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    row_sum[r] = 0.0f;
  }
  for (int k = 0; k < 4; ++k) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      __align__(16) float X_vec[4];
      *(uint4*)&X_vec[0] = *(const uint4*)&X[bx * 8192 + r * 2048 + k * 512 + tx * 4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const float value = X_vec[v] * 1.442695f;
        x[r * 4 + v] = value;
      }
    }
    float tile_max_part[4];
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = -CUDART_INF_F;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        tile_max_part[o] = fmaxf(tile_max_part[o], x[o * 4 + q]);
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = fmaxf(tile_max_part[o], __shfl_xor_sync(0xffffffffu, tile_max_part[o], 1));
      tile_max_part[o] = fmaxf(tile_max_part[o], __shfl_xor_sync(0xffffffffu, tile_max_part[o], 2));
      tile_max_part[o] = fmaxf(tile_max_part[o], __shfl_xor_sync(0xffffffffu, tile_max_part[o], 4));
      tile_max_part[o] = fmaxf(tile_max_part[o], __shfl_xor_sync(0xffffffffu, tile_max_part[o], 8));
      tile_max_part[o] = fmaxf(tile_max_part[o], __shfl_xor_sync(0xffffffffu, tile_max_part[o], 16));
    }
    if (tx % 32 == 0) {
      #pragma unroll
      for (int o = 0; o < 4; ++o) {
        tile_max_warps[o * 4 + tx / 32] = tile_max_part[o];
      }
    }
    __syncthreads();
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = -CUDART_INF_F;
      #pragma unroll
      for (int w = 0; w < 4; ++w) {
        tile_max_part[o] = fmaxf(tile_max_part[o], tile_max_warps[o * 4 + w]);
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max[o] = tile_max_part[o];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      tile_max[r] = fmaxf(tile_max[r], row_max[r]);
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = exp2f(x[r] - tile_max[r / 4]);
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
      tile_sum_part[o] = tile_sum_part[o] + __shfl_xor_sync(0xffffffffu, tile_sum_part[o], 1);
      tile_sum_part[o] = tile_sum_part[o] + __shfl_xor_sync(0xffffffffu, tile_sum_part[o], 2);
      tile_sum_part[o] = tile_sum_part[o] + __shfl_xor_sync(0xffffffffu, tile_sum_part[o], 4);
      tile_sum_part[o] = tile_sum_part[o] + __shfl_xor_sync(0xffffffffu, tile_sum_part[o], 8);
      tile_sum_part[o] = tile_sum_part[o] + __shfl_xor_sync(0xffffffffu, tile_sum_part[o], 16);
    }
    if (tx % 32 == 0) {
      #pragma unroll
      for (int o = 0; o < 4; ++o) {
        tile_sum_warps[o * 4 + tx / 32] = tile_sum_part[o];
      }
    }
    __syncthreads();
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_sum_part[o] = 0.0f;
      #pragma unroll
      for (int w = 0; w < 4; ++w) {
        tile_sum_part[o] = tile_sum_part[o] + tile_sum_warps[o * 4 + w];
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_sum[o] = tile_sum_part[o];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      row_sum[r] = row_sum[r] * exp2f(row_max[r] - tile_max[r]) + tile_sum[r];
      row_max[r] = tile_max[r];
    }
  }
  for (int k = 0; k < 4; ++k) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(uint4*)&x[r * 4] = *(const uint4*)&X[bx * 8192 + r * 2048 + k * 512 + tx * 4];
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = exp2f(x[r] * 1.442695f - row_max[r / 4]) / row_sum[r / 4];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(uint4*)&Y[bx * 8192 + r * 2048 + k * 512 + tx * 4] = *(const uint4*)&x[r * 4];
    }
  }
}
