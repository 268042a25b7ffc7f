"""Devices as the templates see them: limits from the tables of targets, peaks of a well known GPU of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilelang.arch.tables import features, limits
from tilelang.arch.target import Target, parse_target
from tilelang.carver.arch import driver as driver


@dataclass(frozen=True)
class Peaks:
    """Of one GPU: multiprocessors, dense float16 TFLOP/s with float32 sums, GB/s of memory, clock in GHz."""

    gpu: str
    processors: int
    tflops: float
    bandwidth: float
    clock: float


# By compute capability, from the vendor's data sheets and architecture white papers.
PEAKS: Mapping[int, Peaks] = MappingProxyType(
    {
        70: Peaks("V100 SXM2", 80, 125.0, 900.0, 1.53),
        75: Peaks("T4", 40, 65.0, 320.0, 1.59),
        80: Peaks("A100 SXM4 40 GB", 108, 312.0, 1555.0, 1.41),
        86: Peaks("GeForce RTX 3090", 82, 71.0, 936.0, 1.70),
        89: Peaks("GeForce RTX 4090", 128, 165.2, 1008.0, 2.52),
        90: Peaks("H100 SXM5", 132, 989.4, 3352.0, 1.83),
    }
)
# Operands and sums that T.gemm multiplies on matrix instructions -> the first architecture that has them.
TENSOR_CORE_PRECISIONS: Mapping[tuple[str, str], int] = MappingProxyType(
    {
        ("float16", "float32"): 70,
        ("float16", "float16"): 70,
        ("int8", "int32"): 75,
        ("int4", "int32"): 75,
        ("bfloat16", "float32"): 80,
        ("float64", "float64"): 80,
        ("float8_e4m3", "float32"): 89,
        ("float8_e4m3fn", "float32"): 89,
        ("float8_e5m2", "float32"): 89,
    }
)
_PEAKS_CDNA = Peaks("Instinct MI300X", 304, 1307.4, 5300.0, 2.1)
_PEAKS_CPU = Peaks("16 cores of AVX-512", 16, 3.0, 200.0, 3.0)
_PEAKS_METAL = Peaks("M2 Max", 38, 13.6, 400.0, 1.4)
_REGISTERS = 64 * 1024  # 32-bit registers of a multiprocessor where the table says nothing


class TileDevice:
    """A device: `target`, `smem_cap` (bytes of a block), `reg_cap` (32-bit registers of a multiprocessor),
    `warp_size`, `compute_max_core`, `peak_tflops`, `bandwidth_gbps`, `clock`, and `peaks_of` or `name`, the
    device that the last ones are of.
    """

    platform = ""

    def __init__(self, target: Any, peaks: Peaks) -> None:
        self.target: Target = _target(target)
        processor = features(self.target).processor
        self.smem_cap = limits(self.target).shared_bytes or 1 << 30
        self.max_smem_usage = self.smem_cap if processor is None else processor.shared_bytes
        self.max_threads = 1024 if processor is None else processor.threads
        self.reg_cap = _REGISTERS if processor is None else processor.registers
        self.warp_size = self.target.warp_size
        self.compute_max_core = peaks.processors
        self.peak_tflops, self.bandwidth_gbps, self.clock = peaks.tflops, peaks.bandwidth, peaks.clock
        self.bandwidth = [int(peaks.bandwidth), int(128 * peaks.clock * peaks.processors)]
        self.peaks_of = self.name = peaks.gpu
        self.transaction_size = [32, 128]

    def get_avaliable_tensorintrin_shapes(self) -> list[list[int]]:
        """Rows and columns of the matrix instructions (spelled as kernels spell it)."""
        return [[16, 16]] if features(self.target).unit else []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target})"


class CUDA(TileDevice):
    """An NVIDIA GPU: `CUDA("cuda")`, `CUDA("cuda:sm_80")`, or a target of TVM."""

    platform = "CUDA"

    def __init__(self, target: Any = "cuda") -> None:
        found = _target(target)
        known = [sm for sm in PEAKS if sm <= found.sm]
        super().__init__(found, PEAKS[max(known)] if known else PEAKS[min(PEAKS)])
        self.sm_version = found.sm
        self.compute_capability = str(found.sm)


class CDNA(TileDevice):
    """An AMD GPU of the CDNA family."""

    platform = "CDNA"

    def __init__(self, target: Any = "hip") -> None:
        super().__init__(_target(target), _PEAKS_CDNA)


class CPU(TileDevice):
    """The processor."""

    platform = "CPU"

    def __init__(self, target: Any = "cpu") -> None:
        super().__init__(_target(target), _PEAKS_CPU)


class METAL(TileDevice):
    """An Apple GPU."""

    platform = "METAL"

    def __init__(self, target: Any = "metal") -> None:
        super().__init__(_target(target), _PEAKS_METAL)


def _target(given: Any) -> Target:
    """The target of a text with options, a mapping, or an object of TVM."""
    return parse_target(" ".join(given.split()[:2]) if isinstance(given, str) else given)


def get_arch(target: Any = "cuda") -> TileDevice:
    """The device of a target. Raises ValueError for a kind without one."""
    found = _target(target)
    kinds = {"cuda": CUDA, "hip": CDNA, "cpu": CPU, "metal": METAL}
    if found.kind not in kinds:
        raise ValueError(f"there is no device description for {found}")
    return kinds[found.kind](found)


def auto_infer_current_arch() -> TileDevice:
    """The device of the default target."""
    return get_arch("cuda")


def is_cuda_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CUDA)


def is_cdna_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CDNA)


def is_cpu_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CPU)


def is_metal_arch(arch: TileDevice) -> bool:
    return isinstance(arch, METAL)


def is_volta_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CUDA) and 70 <= arch.sm_version < 80


def is_ampere_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CUDA) and 80 <= arch.sm_version < 89


def is_ada_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CUDA) and arch.sm_version == 89


def is_hopper_arch(arch: TileDevice) -> bool:
    return isinstance(arch, CUDA) and arch.sm_version == 90


def check_sm_version(arch: str) -> int:
    """The number of an NVIDIA architecture: 90 for sm_90; -1 for a text that is none."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if arch.startswith("sm_") and digits.isdecimal() else -1


def is_tensorcore_supported_precision(in_dtype: str, accum_dtype: str, arch: TileDevice) -> bool:
    """Whether the matrix instructions of an NVIDIA GPU multiply such operands into such sums."""
    known = TENSOR_CORE_PRECISIONS if is_cuda_arch(arch) and arch.target.sm >= 70 else {}
    return arch.target.sm >= known.get((in_dtype, accum_dtype), 1 << 10)


def has_mma_support(arch: TileDevice) -> bool:
    """Whether the device has matrix instructions that T.gemm uses."""
    return bool(features(arch.target).unit)
