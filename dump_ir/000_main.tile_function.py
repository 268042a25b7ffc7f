# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32"), D: T.Buffer((64, 64), "float32")):
    T.func_attr({"tl.enable_dump_ir": True, "tl.outputs": []})
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 128)
    for i in T.parallel(32, annotations={"tl.kind": "Parallel"}):
        for j in T.parallel(64, annotations={"tl.kind": "Parallel"}):
            C[bx * 32 + i, j] = A[bx * 32 + i, j] + B[bx * 32 + i, j]
            D[bx * 32 + i, j] = A[bx * 32 + i, j] - B[bx * 32 + i, j]