"""Cross entropy of logits and labels: the loss of each row in one pass, without the matrix of probabilities.

Teaches: an online log-sum-exp over a vocabulary that fits into no register file, and the one logit of the
label read where it stands.
"""

import torch

import tilelang
import tilelang.language as T

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


@tilelang.jit
def cross_entropy(Logits, Labels, block: int = 4096, threads: int = 256, dtype=T.bfloat16):
    M, N = T.const("M, N")
    Logits: T.Tensor((M, N), dtype)
    Labels: T.Tensor((M,), T.int32)
    Loss = T.empty((M,), T.float32)

    with T.Kernel(M, threads=threads) as row:
        x = T.alloc_fragment((block,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        top_before = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        tile_sum = T.alloc_fragment((1,), T.float32)

        T.fill(top, -1e30)  # finite: the difference of two infinities is no number
        T.clear(total)
        for t in T.serial(T.ceildiv(N, block)):
            for j in T.Parallel(block):
                value = T.cast(Logits[row, t * block + j], T.float32) * LOG2_E
                x[j] = T.if_then_else(t * block + j < N, value, -T.infinity(T.float32))
            T.copy(top, top_before)
            T.reduce_max(x, top, dim=0, clear=False)
            for j in T.Parallel(block):
                x[j] = T.exp2(x[j] - top[0])
            T.reduce_sum(x, tile_sum, dim=0)
            total[0] = total[0] * T.exp2(top_before[0] - top[0]) + tile_sum[0]
        label = T.cast(Logits[row, Labels[row]], T.float32)
        Loss[row] = (T.log2(total[0]) + top[0]) * LN_2 - label

    return Loss


def ref_program(Logits, Labels):
    return torch.nn.functional.cross_entropy(Logits.float(), Labels.long(), reduction="none")


def inputs(M: int, N: int, device: str = "cpu"):
    return (
        torch.randn(M, N, device=device).mul(4).to(torch.bfloat16),
        torch.randint(0, N, (M,), dtype=torch.int32, device=device),
    )


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N = (4096, 128256) if device == "cuda" else (6, 10000)
    given = inputs(M, N, device)

    torch.testing.assert_close(cross_entropy(*given), ref_program(*given), rtol=1e-5, atol=1e-4)

    latency = cross_entropy.compile(*given).get_profiler().do_bench(input_tensors=list(given))
    print(f"cross_entropy {M}x{N} on {device}: correct, {2 * M * N / latency / 1e6:.1f} GB/s")


if __name__ == "__main__":
    main()
