"""Generators of the kernel: a loop's body stands inside of the statements around their `yield`."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.diagnostics.error import KernelError


def slots(count, serial):
    if serial:
        with T.serial(count) as slot:  # pyright: ignore[reportGeneralTypeIssues]
            yield slot
    else:
        yield from range(count)


def doubled(values):
    for k, value in enumerate(values):
        yield k, value * 2


def both(count):
    yield from slots(count, True)
    yield from slots(count, False)


def added(serial):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            for slot in slots(4, serial):
                one = A[slot, t] + 1
                B[slot, t] = one
            for k, value in doubled([A[k, t] for k in range(4)]):
                B[k, t] += value
            for slot in both(2):
                if slot == 0:
                    B[slot, t] += 10

    return main


@pytest.mark.parametrize("serial", [True, False])
def test_a_loop_over_a_generator_runs_inside_of_it(serial):
    kernel = tilelang.compile(added(serial), target="cpu")
    a, b = torch.randn(4, 32), torch.empty(4, 32)
    kernel(a, b)
    want = 3 * a + 1
    want[0] += 20
    torch.testing.assert_close(b, want)


def test_all_elements_at_once():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            for (k, value), again in zip(doubled([A[0], A[1]]), [A[2], A[3]], strict=True):
                B[k] = value
                B[k + 2] = again

    a, b = torch.randn(4), torch.empty(4)
    tilelang.compile(main, target="cpu")(a, b)
    torch.testing.assert_close(b, torch.cat([2 * a[:2], a[2:]]))


def test_leaving_a_loop_over_a_generator_is_refused():
    with pytest.raises(KernelError, match="`break` cannot leave a loop over the generator `slots`"):

        @T.prim_func
        def main(B: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=32):
                for slot in slots(4, False):
                    B[slot] = 1
                    break
