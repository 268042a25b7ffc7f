"""A kernel with a planted mistake, in this style: device properties."""

import torch
import tilelang
import tilelang.language as T
from tilelang.carver.arch import driver

SM = torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 9
BLOCK = 128 if SM >= 9 else 64
NUM_SMS = torch.cuda.get_device_properties(0).multi_processor_count
sm_num = driver.get_num_sms()


@tilelang.jit
def persistent(A, dim: int = 64):
    M = T.const("M")
    A: T.Tensor((M, dim), T.float16)
    O = T.empty((M, dim), T.float16)
    with T.Kernel(NUM_SMS, threads=128) as b:
        s = T.alloc_shared((BLOCK, dim), T.float16)
        g = T.alloc_shared((32, dim), T.float16)
        h = T.alloc_shared((32, dim + 1), T.float16)
        for t in T.serial(T.ceildiv(T.ceildiv(M, BLOCK), NUM_SMS)):
            T.copy(A[(t * NUM_SMS + b) * BLOCK, 0], s)
            T.copy(A[(t * NUM_SMS + b) * 32, 0], g)
            T.copy(g, h)  # wrong
            T.copy(s, O[(t * NUM_SMS + b) * BLOCK, 0])
            T.copy(h[:, :dim], O[(t * NUM_SMS + b) * BLOCK, 0])
    return O
