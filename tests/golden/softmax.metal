// softmax for metal:metal3, with M=4096, N=2048
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(128)]]
kernel void softmax_kernel(
    device const float* X [[buffer(0)]],
    device float* Y [[buffer(1)]],
    uint3 blockIdx [[threadgroup_position_in_grid]],
    uint3 threadIdx [[thread_position_in_threadgroup]]) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  alignas(16) threadgroup uchar smem[192];
  threadgroup float* tile_max_warps = (threadgroup float*)smem;
  threadgroup float* tile_sum_warps = (threadgroup float*)(smem + 128);
  alignas(16) float x[16];
  float tile_max[4];
  float tile_sum[4];
  float row_max[4];
  float row_sum[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    row_max[r] = -INFINITY;
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    row_sum[r] = 0.0f;
  }
  for (int k = 0; k < 4; ++k) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      alignas(16) float X_vec[4];
      *(thread uint4*)&X_vec[0] = *(device const uint4*)&X[bx * 8192 + r * 2048 + k * 512 + tx * 4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const float value = X_vec[v] * 1.442695f;
        x[r * 4 + v] = value;
      }
    }
    float tile_max_part[4];
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = -INFINITY;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        tile_max_part[o] = fmax(tile_max_part[o], x[o * 4 + q]);
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = fmax(tile_max_part[o], simd_shuffle_xor(tile_max_part[o], ushort(1)));
      tile_max_part[o] = fmax(tile_max_part[o], simd_shuffle_xor(tile_max_part[o], ushort(2)));
      tile_max_part[o] = fmax(tile_max_part[o], simd_shuffle_xor(tile_max_part[o], ushort(4)));
      tile_max_part[o] = fmax(tile_max_part[o], simd_shuffle_xor(tile_max_part[o], ushort(8)));
      tile_max_part[o] = fmax(tile_max_part[o], simd_shuffle_xor(tile_max_part[o], ushort(16)));
    }
    if (tx % 32 == 0) {
      #pragma unroll
      for (int o = 0; o < 4; ++o) {
        tile_max_warps[o * 4 + tx / 32] = tile_max_part[o];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max_part[o] = -INFINITY;
      #pragma unroll
      for (int w = 0; w < 4; ++w) {
        tile_max_part[o] = fmax(tile_max_part[o], tile_max_warps[o * 4 + w]);
      }
    }
    #pragma unroll
    for (int o = 0; o < 4; ++o) {
      tile_max[o] = tile_max_part[o];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      tile_max[r] = fmax(tile_max[r], row_max[r]);
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = exp2(x[r] - tile_max[r / 4]);
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
      tile_sum_part[o] = tile_sum_part[o] + simd_shuffle_xor(tile_sum_part[o], ushort(1));
      tile_sum_part[o] = tile_sum_part[o] + simd_shuffle_xor(tile_sum_part[o], ushort(2));
      tile_sum_part[o] = tile_sum_part[o] + simd_shuffle_xor(tile_sum_part[o], ushort(4));
      tile_sum_part[o] = tile_sum_part[o] + simd_shuffle_xor(tile_sum_part[o], ushort(8));
      tile_sum_part[o] = tile_sum_part[o] + simd_shuffle_xor(tile_sum_part[o], ushort(16));
    }
    if (tx % 32 == 0) {
      #pragma unroll
      for (int o = 0; o < 4; ++o) {
        tile_sum_warps[o * 4 + tx / 32] = tile_sum_part[o];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
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
      row_sum[r] = row_sum[r] * exp2(row_max[r] - tile_max[r]) + tile_sum[r];
      row_max[r] = tile_max[r];
    }
  }
  for (int k = 0; k < 4; ++k) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(thread uint4*)&x[r * 4] = *(device const uint4*)&X[bx * 8192 + r * 2048 + k * 512 + tx * 4];
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      x[r] = exp2(x[r] * 1.442695f - row_max[r / 4]) / row_sum[r / 4];
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(device uint4*)&Y[bx * 8192 + r * 2048 + k * 512 + tx * 4] = *(thread const uint4*)&x[r * 4];
    }
  }
}
