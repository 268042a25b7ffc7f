"""Tensors at addresses that a kernel reads from a table, on both devices."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tests.on_device import DEVICES
from tilelang.diagnostics.error import KernelError


@T.prim_func
def scaled(table: T.Tensor((4,), "int64"), rows: T.int32, out: T.Tensor((4, 128), "float32")):
    """out[b] = 2 x[b] + the reverse of x[b], where table[b] is where x[b] begins; writes what follows it."""
    with T.Kernel(4, threads=128) as bx:
        x = T.make_tensor_from_addr(table[bx], (128,), "float32")
        tile = T.alloc_shared((128,), "float32")
        T.copy(x, tile)
        for i in T.Parallel(128):
            out[bx, i] = tile[i] * 2.0 + x[127 - i]
        after = T.make_tensor_from_addr(table[bx] + 512, (rows, 64), dtype="float32", strides=(64, 1))
        for k in T.serial(2):
            other = T.make_tensor_from_addr(table[(bx + k) % 4], (128,), "float32")
            if T.get_thread_binding() == 0:
                after[k, 3] = other[5]


@pytest.mark.parametrize("device", DEVICES)
def test_tables_of_addresses_lead_to_tensors(device):
    memory = torch.randn(4, 256, generator=torch.Generator().manual_seed(1)).to(device)
    x = memory[:, :128].cpu().clone()
    table = torch.tensor([memory[b].data_ptr() for b in range(4)], dtype=torch.int64, device=device)
    before = memory[:, 195].cpu().clone()
    out = torch.empty(4, 128, device=device)
    tilelang.compile(scaled, target=device)(table, 1, out)
    assert torch.allclose(out.cpu(), 2 * x + x.flip(1))
    assert torch.equal(memory[:, 131].cpu(), x[:, 5])
    assert torch.equal(memory[:, 195].cpu(), before)  # row 1 of one: outside


def test_what_is_no_address_is_refused():
    with pytest.raises(KernelError, match="`addr` must be a number of 64 bits"):

        @T.prim_func
        def narrow(table: T.Tensor((4,), "int32"), out: T.Tensor((4,), "float32")):
            with T.Kernel(4, threads=32) as bx:
                out[bx] = T.make_tensor_from_addr(table[bx], (128,), "float32")[0]
