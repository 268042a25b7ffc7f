// add for metal:metal3, with N=1000000
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(256)]]
kernel void add_kernel(
    device const float* A [[buffer(0)]],
    device const float* B [[buffer(1)]],
    device float* C [[buffer(2)]],
    uint3 blockIdx [[threadgroup_position_in_grid]],
    uint3 threadIdx [[thread_position_in_threadgroup]]) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 256 + tx < 1000000) {
    C[bx * 256 + tx] = A[bx * 256 + tx] + B[bx * 256 + tx];
  }
}
