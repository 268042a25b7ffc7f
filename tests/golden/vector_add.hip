// add for hip:gfx942, with N=1000000
#ifndef __global__  // without ROCm's headers
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __forceinline__ inline __attribute__((always_inline))
#endif

extern "C" __global__ void __launch_bounds__(256) add_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
  const int bx = __builtin_amdgcn_workgroup_id_x();
  const int tx = __builtin_amdgcn_workitem_id_x();
  if (bx * 256 + tx < 1000000) {
    C[bx * 256 + tx] = A[bx * 256 + tx] + B[bx * 256 + tx];
  }
}
