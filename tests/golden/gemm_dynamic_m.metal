// gemm_any_m for metal:metal3, with N=1024, K=1024
#include <metal_simdgroup_matrix>
#include <metal_stdlib>
using namespace metal;

template <typename T> static inline void registers_from_matrix(
    threadgroup T* tile, thread const simdgroup_matrix<T, 8, 8>* m, thread T* r, int lane);

[[max_total_threads_per_threadgroup(128)]]
kernel void gemm_any_m_kernel(
    device const half* A [[buffer(0)]],
    device const half* B [[buffer(1)]],
    device half* C [[buffer(2)]],
    constant int& M [[buffer(3)]],
    uint3 blockIdx [[threadgroup_position_in_grid]],
    uint3 threadIdx [[thread_position_in_threadgroup]]) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  alignas(16) threadgroup uchar smem[13824];
  threadgroup float* tile_float32 = (threadgroup float*)smem;
  threadgroup half* A_shared = (threadgroup half*)(smem + 8704);
  threadgroup half* B_shared = (threadgroup half*)smem;
  alignas(16) float C_local[64];
  simdgroup_matrix<float, 8, 8> C_local_mat[32];
  #pragma unroll
  for (int t = 0; t < 32; ++t) {
    C_local_mat[t] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  for (int k = 0; k < 32; ++k) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (by * 64 + r * 32 + tx / 4 < M) {
        *(threadgroup uint4*)&A_shared[r * 1280 + tx / 4 * 40 + tx % 4 * 8] =
            *(device const uint4*)&A[(long)by * 65536 + r * 32768 + tx / 4 * 1024 + k * 32 + tx % 4 * 8];
      } else {
        *(threadgroup uint4*)&A_shared[r * 1280 + tx / 4 * 40 + tx % 4 * 8] = uint4(0);
      }
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      *(threadgroup uint4*)&B_shared[r * 1088 + tx / 16 * 136 + tx % 16 * 8] =
          *(device const uint4*)&B[k * 32768 + r * 8192 + tx / 16 * 1024 + bx * 128 + tx % 16 * 8];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int kk = 0; kk < 4; ++kk) {
      simdgroup_matrix<half, 8, 8> A_shared_mat[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        simdgroup_load(A_shared_mat[i], &A_shared[tx % 64 / 32 * 1280 + i * 320 + kk * 8], 40, ulong2(0),
            false);
      }
      simdgroup_matrix<half, 8, 8> B_shared_mat[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        simdgroup_load(B_shared_mat[i], &B_shared[kk * 1088 + tx / 64 * 64 + i * 8], 136, ulong2(0), false);
      }
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          simdgroup_multiply_accumulate(C_local_mat[i * 8 + j], A_shared_mat[i], B_shared_mat[j],
              C_local_mat[i * 8 + j]);
        }
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  #pragma unroll
  for (int t = 0; t < 32; ++t) {
    registers_from_matrix(&tile_float32[tx / 32 * 64], &C_local_mat[t], &C_local[t * 2], tx % 32);
  }
  #pragma unroll
  for (int r = 0; r < 32; ++r) {
    if (by * 64 + tx % 64 / 32 * 32 + r / 8 * 8 + tx % 32 / 4 < M) {
      alignas(16) half C_vec[2];
      #pragma unroll
      for (int v = 0; v < 2; ++v) {
        C_vec[v] = half(C_local[r * 2 + v]);
      }
      *(device uint*)&C[(long)by * 65536 + tx % 64 / 32 * 32768 + r / 8 * 8192 + tx % 32 / 4 * 1024 + bx * 128
          + tx / 64 * 64 + r % 8 * 8 + tx % 4 * 2] =
          *(thread const uint*)&C_vec[0];
    }
  }
}

template <typename T> static inline void registers_from_matrix(
    threadgroup T* tile, thread const simdgroup_matrix<T, 8, 8>* m, thread T* r, int lane) {
  simdgroup_store(*m, tile, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  r[0] = tile[lane * 2];
  r[1] = tile[lane * 2 + 1];
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
