// matmul_relu for cuda:sm_80, with M=1024, N=1024, K=1024
#include <cuda_fp16.h>

static __device__ __forceinline__ unsigned shared_address(const void* p);
static __device__ __forceinline__ void cp_async_16(void* dst, const void* src);
static __device__ __forceinline__ void cp_async_commit();
template <int N> static __device__ __forceinline__ void cp_async_wait();
static __device__ __forceinline__ void ldmatrix_x4(void* dst, const void* src);
static __device__ __forceinline__ void ldmatrix_x4_trans(void* dst, const void* src);
static __device__ __forceinline__ void mma_m16n8k16_f16_f32(void* d, const void* a, const void* b);

extern "C" __global__ void __launch_bounds__(128) matmul_relu_kernel(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  half* A_shared = (half*)smem;
  half* B_shared = (half*)(smem + 24576);
  __align__(16) float C_local[128];
  #pragma unroll
  for (int r = 0; r < 128; ++r) {
    C_local[r] = 0.0f;
  }
  #pragma unroll
  for (int k_first = 0; k_first < 2; ++k_first) {
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      cp_async_16(&A_shared[k_first * 4096 + r * 1024 + tx / 4 * 32 + ((tx % 4) ^ (tx % 32 / 8)) * 8],
          &A[by * 131072 + r * 32768 + tx / 4 * 1024 + k_first * 32 + tx % 4 * 8]);
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      cp_async_16(&B_shared[k_first * 4096 + tx % 16 / 8 * 2048 + r * 512 + tx / 16 * 64
          + ((tx % 8) ^ (tx / 16)) * 8],
          &B[k_first * 32768 + r * 8192 + tx / 16 * 1024 + bx * 128 + tx % 16 * 8]);
    }
    cp_async_commit();
  }
  for (int k = 0; k < 32; ++k) {
    cp_async_wait<1>();
    __syncthreads();
    if (k + 2 < 32) {
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        cp_async_16(&A_shared[(k + 2) % 3 * 4096 + r * 1024 + tx / 4 * 32 + ((tx % 4) ^ (tx % 32 / 8)) * 8],
            &A[by * 131072 + r * 32768 + tx / 4 * 1024 + k * 32 + tx % 4 * 8 + 64]);
      }
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        cp_async_16(&B_shared[(k + 2) % 3 * 4096 + tx % 16 / 8 * 2048 + r * 512 + tx / 16 * 64
            + ((tx % 8) ^ (tx / 16)) * 8],
            &B[k * 32768 + r * 8192 + tx / 16 * 1024 + bx * 128 + tx % 16 * 8 + 65536]);
      }
    }
    cp_async_commit();
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      __align__(16) half A_shared_regs[32];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        ldmatrix_x4(&A_shared_regs[i * 8],
            &A_shared[k % 3 * 4096 + tx % 64 / 32 * 2048 + i * 512 + tx % 16 * 32
                + ((kk * 2 + tx % 32 / 16) ^ (tx % 8 / 2)) * 8]);
      }
      __align__(16) half B_shared_regs[32];
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        ldmatrix_x4_trans(&B_shared_regs[j * 8],
            &B_shared[k % 3 * 4096 + tx / 64 * 2048 + kk * 1024 + tx % 16 * 64
                + ((j * 2 + tx % 32 / 16) ^ (tx % 8)) * 8]);
      }
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          mma_m16n8k16_f16_f32(&C_local[i * 32 + j * 4], &A_shared_regs[i * 8], &B_shared_regs[j * 4]);
        }
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 128; ++r) {
    C_local[r] = fmaxf(C_local[r], 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 64; ++r) {
    __align__(16) half C_vec[2];
    #pragma unroll
    for (int v = 0; v < 2; v += 2) {
      *(half2*)&C_vec[v] = __float22half2_rn(*(const float2*)&C_local[r * 2 + v]);
    }
    *(unsigned*)&C[by * 131072 + tx % 64 / 32 * 65536 + r / 16 * 16384 + r % 2 * 8192 + tx % 32 / 4 * 1024
        + bx * 128 + tx / 64 * 64 + r % 16 / 2 * 8 + tx % 4 * 2] =
        *(const unsigned*)&C_vec[0];
  }
}

static __device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

static __device__ __forceinline__ void cp_async_16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               ::"r"(shared_address(dst)), "l"(src) : "memory");
}

static __device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

static __device__ __forceinline__ void ldmatrix_x4(void* dst, const void* src) {
  unsigned* r = static_cast<unsigned*>(dst);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(src)) : "memory");
}

static __device__ __forceinline__ void ldmatrix_x4_trans(void* dst, const void* src) {
  unsigned* r = static_cast<unsigned*>(dst);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(src)) : "memory");
}

static __device__ __forceinline__ void mma_m16n8k16_f16_f32(void* d, const void* a, const void* b) {
  float* z = static_cast<float*>(d);
  const unsigned* x = static_cast<const unsigned*>(a);
  const unsigned* y = static_cast<const unsigned*>(b);
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}
