"""Templates recommend configurations that fit the device, plausible ones first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilelang.carver import (
    CPU,
    CUDA,
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    Hint,
    MatmulTemplate,
)
from tilelang.carver.arch import check_sm_version, is_ampere_arch, is_tensorcore_supported_precision
from tilelang.carver.costs import Block, blocks_per_processor, launch_time
from tilelang.carver.operators import template_of
from tilelang.carver.roller import DefaultPolicy, OutputNode, PrimFuncNode
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DRow
from tilelang.carver.template import BaseTemplate
from tilelang.carver.utils import get_roller_hints_from_func, get_roller_hints_from_output_nodes

TEMPLATES = {
    "matmul": MatmulTemplate(M=1024, N=1024, K=1024, accum_dtype="float32"),
    "gemv": GEMVTemplate(N=1024, K=1024),
    "elementwise": ElementwiseTemplate(shape=[1024, 1024], dtype="float16"),
    "reduction": GeneralReductionTemplate(structure="SSR", shape=[64, 128, 1024], dtype="float16"),
    "attention": FlashAttentionTemplate(
        batch_size=4, num_heads=16, head_dim=64, seq_length=2048, seq_kv_length=2048, accum_dtype="float32"
    ),
    "convolution": ConvTemplate(N=4, C=64, H=32, W=32, F=128, K=3, S=1, D=1, P=1, accum_dtype="float32"),
}


@pytest.mark.parametrize("arch", ["cuda:sm_75", "cuda:sm_80", "cuda:sm_90"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_recommendations_fit_and_are_ordered(name: str, arch: str) -> None:
    device = CUDA(arch)
    hints = TEMPLATES[name].with_arch(device).recommend_hints(topk=20)
    assert 1 <= len(hints) <= 20
    times = [h.estimated_time for h in hints]
    assert times == sorted(times) and all(0 < t < math.inf for t in times)
    for hint in hints:
        assert Hint.from_dict(hint.to_dict()).block == hint.block
        if hint.warp:
            warps = math.prod(b // w for b, w in zip(hint.block, hint.warp, strict=True))
            assert 1 <= warps <= 8
    assert len(TEMPLATES[name].recommend_hints(topk=3)) <= 3


def test_a_matmul_fits_into_shared_memory_and_registers() -> None:
    device = CUDA("cuda:sm_80")
    for hint in TEMPLATES["matmul"].with_arch(device).recommend_hints(100):
        (bm, bn), bk = hint.block, hint.rstep[0]
        assert (bm + bn) * bk * 2 * hint.pipeline_stage <= device.smem_cap
        threads = math.prod(b // w for b, w in zip(hint.block, hint.warp, strict=True)) * 32
        assert bm * bn // threads <= 215


def test_what_is_known_of_good_configurations() -> None:
    """A large gemm wants large tiles and several stages, a small one enough blocks, a gemv wide loads."""
    device = CUDA("cuda:sm_80")
    large = (
        MatmulTemplate(M=8192, N=8192, K=8192, accum_dtype="float32").with_arch(device).recommend_hints(1)[0]
    )
    assert math.prod(large.block) >= 128 * 128 and large.pipeline_stage >= 3 and large.use_tc
    assert not isinstance(large.rasterization_plan, NoRasterization)
    small = (
        MatmulTemplate(M=512, N=512, K=4096, accum_dtype="float32").with_arch(device).recommend_hints(1)[0]
    )
    assert math.prod(small.block) < math.prod(large.block)
    assert isinstance(small.rasterization_plan, NoRasterization)
    vector = GEMVTemplate(N=16384, K=16384).with_arch(device).recommend_hints(1)[0]
    assert vector.vectorize["B"] == 8 and vector.reduce_thread[0] >= 4


def test_waves_and_limits() -> None:
    device = CUDA("cuda:sm_80")
    block = Block(128, 48 * 1024, 128 * 64, 1e6, 1e4, 1e4)
    assert blocks_per_processor(block, device) == 3  # 164 KiB of a multiprocessor
    assert blocks_per_processor(Block(128, 200 * 1024, 0, 1, 1, 1), device) == 0
    assert launch_time(Block(128, 200 * 1024, 0, 1, 1, 1), 1, device) == math.inf
    full = launch_time(block, 3 * device.compute_max_core, device)
    assert launch_time(block, 3 * device.compute_max_core + 1, device) == pytest.approx(2 * full)


def test_the_processor_gets_tiles_too() -> None:
    (hint,) = MatmulTemplate(M=256, N=256, K=256).with_arch(CPU()).recommend_hints(1)
    assert not hint.use_tc


def call(template: BaseTemplate, *inputs: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    import tvm

    built = tvm.compile(template.equivalent_function(), target="llvm")
    out = tvm.runtime.tensor(np.zeros(shape, dtype))
    built(*(tvm.runtime.tensor(i) for i in inputs), out)
    return out.numpy()


def test_equivalent_functions_compute_the_operator() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(8, 16)).astype("float32") for _ in range(2))
    plain = {"in_dtype": "float32", "out_dtype": "float32", "accum_dtype": "float32"}
    found = call(MatmulTemplate(8, 8, 16, **plain), a, b, shape=(8, 8), dtype="float32")
    np.testing.assert_allclose(found, a @ b.T, rtol=1e-5, atol=1e-5)
    total = call(GeneralReductionTemplate("SR", [8, 16], "float32"), a, shape=(8,), dtype="float32")
    np.testing.assert_allclose(total, a.sum(1), rtol=1e-5, atol=1e-5)
    image = rng.normal(size=(1, 4, 4, 2)).astype("float32")
    kernel = rng.normal(size=(3, 3, 2, 5)).astype("float32")
    template = ConvTemplate(1, 2, 4, 4, 5, 3, 1, 1, 1, **plain)
    found = call(template, image, kernel, shape=(1, 4, 4, 5), dtype="float32")
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = sum(padded[:, i : i + 4, j : j + 4] @ kernel[i, j] for i in range(3) for j in range(3))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("structure", ["SS", "RR", "SX", "S"])
def test_a_wrong_structure_is_refused(structure: str) -> None:
    with pytest.raises(ValueError, match="structure"):
        GeneralReductionTemplate(structure, [4, 4])


def test_a_device_is_named_as_targets_are() -> None:
    assert CUDA({"kind": "cuda", "arch": "sm_80"}).sm_version == 80
    assert is_ampere_arch(CUDA("cuda -arch=sm_80"))
    assert check_sm_version("sm_90a") == 90 and check_sm_version("gfx942") == -1
    assert is_tensorcore_supported_precision("int8", "int32", CUDA("cuda:sm_80"))
    assert not is_tensorcore_supported_precision("float8_e4m3", "float32", CUDA("cuda:sm_80"))


def test_an_operator_says_what_it_is_made_of() -> None:
    template = ElementwiseTemplate(shape=[4, 8])
    assert template.params_as_dict() == {"shape": [4, 8], "dtype": "float16"}


def test_hints_show_what_they_decide() -> None:
    hint = Hint(block=[64, 32], warp=[32, 16], rstep=[32], use_tc=True, pipeline_stage=2)
    assert repr(hint) == str(hint.to_dict())
    assert hint.to_dict() == {
        "block": [64, 32],
        "warp": [32, 16],
        "rstep": [32],
        "use_tc": True,
        "pipeline_stage": 2,
    }
    assert repr(Rasterization2DRow(8)) == "<Rasterization2DRow(8)>"


@pytest.mark.parametrize("transposed", [False, True])
def test_operators_are_recognised_by_their_loops(transposed: bool) -> None:
    matmul = MatmulTemplate(M=64, N=32, K=16, trans_A=transposed, trans_B=transposed, accum_dtype="float32")
    assert template_of(matmul.equivalent_function()) == matmul
    gemv = GEMVTemplate(N=64, K=32, trans_B=transposed)
    assert template_of(gemv.equivalent_function()) == gemv
    reduction = GeneralReductionTemplate(structure="SRS" if transposed else "SSR", shape=[4, 8, 16])
    assert template_of(reduction.equivalent_function()) == reduction
    elementwise = ElementwiseTemplate(shape=[8, 4], dtype="float32")
    assert template_of(elementwise.equivalent_function()) == elementwise


def test_functions_of_loops_get_hints() -> None:
    arch = CUDA("cuda:sm_90")
    product = MatmulTemplate(M=256, N=256, K=256).equivalent_function()
    hints = get_roller_hints_from_func(product, arch, topk=5)
    assert hints is not None and len(hints) == 5 and all(h.use_tc and h.arch is arch for h in hints)
    summed = GeneralReductionTemplate(structure="SR", shape=[256, 256]).equivalent_function()
    assert get_roller_hints_from_func(summed, arch, topk=5, tensorcore_only=True) is None
    assert len(DefaultPolicy.from_prim_func(summed, arch).emit_config(3)) == 3
    node = PrimFuncNode(product, name="product")
    assert (node.get_space_dim(), node.raxis, node.get_dtype()) == ([256, 256], [256], "float16")
    assert len(get_roller_hints_from_output_nodes([OutputNode(node)], arch, topk=2)) == 2
