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
    with pytest.raises(KernelError, match="`addr` must be an address, a number of 64 bits, not int32"):

        @T.prim_func
        def narrow(table: T.Tensor((4,), "int32"), out: T.Tensor((4,), "float32")):
            with T.Kernel(4, threads=32) as bx:
                out[bx] = T.make_tensor_from_addr(table[bx], (128,), "float32")[0]


@T.prim_func
def turned(table: T.Tensor[(3,), T.ptr], out: T.Tensor((3, 64), "float16")):
    """out[b] is x[b] backwards, where table[b] is the address of x[b]."""
    with T.Kernel(3, threads=64) as bx:
        x = T.make_tensor(table[bx], (64,), "float16")
        for i in T.Parallel(64):
            out[bx, i] = x[63 - i]


@pytest.mark.parametrize("device", DEVICES)
def test_tables_of_pointers_are_addresses(device):
    rows = [torch.randn(64, generator=torch.Generator().manual_seed(b)).half().to(device) for b in range(3)]
    table = torch.tensor([x.data_ptr() for x in rows], device=device)
    out = torch.empty(3, 64, dtype=torch.float16, device=device)
    tilelang.compile(turned, target=device)(table, out)
    assert torch.equal(out, torch.stack([x.flip(0) for x in rows]))


def test_an_element_that_is_no_pointer_is_refused():
    with pytest.raises(KernelError, match="`ptr` must be an address, a number of 64 bits, not float32"):

        @T.prim_func
        def wrong(table: T.Tensor((4,), "float32"), out: T.Tensor((4,), "float32")):
            with T.Kernel(4, threads=32) as bx:
                out[bx] = T.make_tensor(table[bx], (128,), "float32")[0]
