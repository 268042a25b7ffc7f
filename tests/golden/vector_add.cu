// add for cuda:sm_80, with N=1000000
extern "C" __global__ void __launch_bounds__(256) add_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 256 + tx < 1000000) {
    C[bx * 256 + tx] = A[bx * 256 + tx] + B[bx * 256 + tx];
  }
}
