"""An interpreter of thread-level CUDA functions, for tests on machines without a GPU."""
