"""Matrix products by hand: which elements each lane of a warp holds, and the instructions that use them.

The emitter is kernel code itself: its methods are interpreted where a kernel calls them. The functions are
the index arithmetic that goes with it, on numbers and on indices of a kernel alike.
"""

from __future__ import annotations

from typing import Any

from tilelang.arch.dtypes import canonical_dtype, element_bits
from tilelang.language.externs import access_ptr
from tilelang.language.functions import meta_class
from tilelang.language.launch import get_thread_binding
from tilelang.language.layout_objects import Fragment
from tilelang.language.loops import unroll
from tilelang.language.matrix_instructions import ptx_ldmatrix, ptx_mma

_WARP = 32
_REGISTER = 32  # bits
_ROW = 16  # bytes of one row of a matrix that ldmatrix moves
_SHORT_NAMES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any, Any]:
    """Where the element of a row of `row_size` elements goes, so that eight rows lie in different banks.

    swizzle_bytes: 128, 64 or 32, the width within which chunks of 16 bytes are exchanged; if not given, the
    widest that divides a row. Returns the number of that width along the row, the row, and the column inside.
    Raises ValueError where a row is not a multiple of the width.
    """
    bits = element_bits(dtype)
    row_bytes = row_size * bits // 8
    width = swizzle_bytes or next((n for n in (128, 64, 32) if row_bytes % n == 0), None)
    if width not in (128, 64, 32) or row_bytes % width:
        raise ValueError(f"rows of {row_bytes} bytes are not exchanged within {width or 32} bytes")
    elements, chunk = width * 8 // bits, _ROW * 8 // bits
    chunks = width // _ROW
    turn = row_idx // (8 // chunks) % chunks
    inside = col_idx % elements
    return col_idx // elements, row_idx, (inside // chunk ^ turn) * chunk + inside % chunk


def get_ldmatrix_offset(
    matrix: str, row_idx: Any, col_idx: Any, stride: Any, dtype: Any = "float16", transposed: bool = False
) -> tuple[Any, Any]:
    """Row and column, in a tile of 16 rows of 32 bytes, of what lane `row_idx` names to `ldmatrix_x4`.

    col_idx: the element within the 16 bytes that it names. transposed: for the form that turns matrices over,
    and for a B that lies as (N, K). Raises ValueError for elements that `ldmatrix` does not bring into place.
    """
    bits, per = element_bits(dtype), _ROW * 8 // element_bits(dtype)
    if bits == 16:
        if transposed:
            return 8 * (row_idx // 16) + row_idx % 8, 8 * (row_idx % 16 // 8) + col_idx % 8
        return row_idx % 16, 8 * (row_idx // 16) + col_idx % 8
    if bits not in (8, 4) or transposed != (matrix == "B"):
        raise ValueError("ldmatrix brings 8-bit elements into place only for A as (M, K) and B as (N, K)")
    if matrix == "B":
        return row_idx // 16 * 8 + row_idx % 8, col_idx + per * (row_idx % 16 // 8)
    return row_idx % 16, col_idx + row_idx // 16 * per


def mma_store_index_map(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """Row and column, in a tile of 16 by 16, of register `local_id` (0 to 7) of lane `thread_id`.

    PTX ISA 9.7.15.5, the accumulator of m16n8k16, twice side by side.
    """
    row = local_id % 4 // 2 * 8 + thread_id // 4
    return row, local_id // 4 * 8 + thread_id % 4 * 2 + local_id % 2


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """Rows, columns and depth of the tile that one step of the emitter multiplies."""
    return 16, 16, 256 // element_bits(dtype)


@meta_class
class TensorCoreIntrinEmitter:
    """Products of tiles in shared memory by `ldmatrix` and `mma.sync`, written step by step.

    For a block of `block_row_warps` by `block_col_warps` warps, each of which makes `warp_row_tiles` by
    `warp_col_tiles` of the result. a_transposed: A lies as (K, M); b_transposed: B lies as (N, K).
    chunk: the depth K of the tiles in shared memory. is_m_first: consecutive warps lie along N (else along
    M). thread_var: the number of the thread, where it is not that of the block.

    Arrays of registers (`T.alloc_local`) hold `warp_rows * local_size_a`, `warp_cols * local_size_b` and
    `warp_rows * warp_cols * local_size_out` elements. Raises ValueError for tiles that no instruction fits.
    """

    WARP_SIZE = _WARP
    _fours_of_b = 2  # registers of B that a lane holds along K for one instruction

    def __init__(
        self,
        a_dtype: Any = "float16",
        b_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        chunk: int = 16,
        reduce_k: int = 1,
        num_elems_per_byte: int = 1,
        is_m_first: bool | None = False,
        thread_var: Any = None,
    ) -> None:
        self.a_dtype, self.b_dtype, self.accum_dtype = a_dtype, b_dtype, accum_dtype
        self.a_transposed, self.b_transposed = a_transposed, b_transposed
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles = warp_row_tiles, warp_col_tiles
        self.chunk, self.reduce_k, self.num_elems_per_byte = chunk, reduce_k, num_elems_per_byte
        self.is_m_first, self.thread_var = bool(is_m_first), thread_var
        self.a_dtype_abbrv, self.b_dtype_abbrv = _short(a_dtype), _short(b_dtype)
        self.accum_dtype_abbrv = "fp32" if canonical_dtype(accum_dtype) == "float32" else _short(accum_dtype)
        self._a_bits, self._b_bits = element_bits(a_dtype), element_bits(b_dtype)
        double = canonical_dtype(a_dtype) == "float64"
        self.M_DIM = 8 if double else 16
        self.k_dim = 4 if double else 256 // self._a_bits
        self.n_dim = 8 if double or warp_col_tiles % 16 else 16
        if warp_row_tiles % self.M_DIM or warp_row_tiles <= 0:
            raise ValueError(f"warp_row_tiles must be a multiple of {self.M_DIM}, not {warp_row_tiles}")
        if warp_col_tiles % 8 or warp_col_tiles <= 0:
            raise ValueError(f"warp_col_tiles must be a multiple of 8, not {warp_col_tiles}")
        self.micro_size_x, self.micro_size_y, self.micro_size_k = self.M_DIM, self.n_dim, self.k_dim
        self.warp_rows, self.warp_cols = warp_row_tiles // self.M_DIM, warp_col_tiles // self.n_dim
        self.local_size_a = self.M_DIM * self.k_dim // _WARP
        self.local_size_b = self.n_dim * self.k_dim // _WARP
        self.local_size_out = self.M_DIM * self.n_dim // _WARP
        self.mma_prefix = f"m{self.M_DIM}n8k{self.k_dim}"
        self.threads = _WARP * block_row_warps * block_col_warps * reduce_k
        self._choose_instructions()

    def _choose_instructions(self) -> None:
        """What an emitter of other instructions adds: called when all sizes are known."""

    @property
    def mma_num_inst_m(self) -> int:
        """Instructions along M."""
        return self.warp_rows

    @property
    def mma_num_inst_n(self) -> int:
        """Steps along N."""
        return self.warp_cols

    def get_thread_binding(self) -> Any:
        """The number of the thread."""
        return get_thread_binding(0) if self.thread_var is None else self.thread_var

    def extract_thread_binding(self, thread_id: Any, is_m_first: bool | None = None) -> tuple[Any, Any, Any]:
        """The lane in the warp, and where the warp lies along N and along M."""
        along_n = self.is_m_first if is_m_first is None else is_m_first
        warp = thread_id // _WARP
        if along_n:
            return (
                thread_id % _WARP,
                warp % self.block_col_warps,
                warp // self.block_col_warps % self.block_row_warps,
            )
        return (
            thread_id % _WARP,
            warp // self.block_row_warps % self.block_col_warps,
            warp % self.block_row_warps,
        )

    def ldmatrix_a(self, A_local_buf: Any, A_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Step `ki` of A into registers."""
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        depth = rk * self.chunk + ki * self.micro_size_k
        for i in unroll(self.warp_rows):
            first = warp_m * self.warp_row_tiles + i * self.micro_size_x
            self._load(A_local_buf, i * self.local_size_a, A_shared_buf, first, depth, lane, True)

    def ldmatrix_b(self, B_local_buf: Any, B_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Step `ki` of B into registers."""
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        depth = rk * self.chunk + ki * self.micro_size_k
        for j in unroll(self.warp_cols):
            first = warp_n * self.warp_col_tiles + j * self.micro_size_y
            self._load(B_local_buf, j * self.local_size_b, B_shared_buf, first, depth, lane, False)

    def _load(
        self, registers: Any, at: Any, shared: Any, first: Any, depth: Any, lane: Any, of_a: bool
    ) -> None:
        """The rows of A (columns of B) from `first` on, at `depth` of K, into registers from `at` on.

        The matrices of ldmatrix, 8 rows of 16 bytes each, are in the order of the registers: for A down the
        rows first, for B along K first (PTX ISA 9.7.15.5). Only 16-bit elements can be turned over on the
        way; others are then read one by one.
        """
        bits = self._a_bits if of_a else self._b_bits
        inner = not self.a_transposed if of_a else self.b_transposed  # whether K is the inner dimension
        wide = _ROW * 8 // bits
        matrices = 4 if of_a or self.n_dim == 16 else 2
        number, row = lane // 8 % matrices, lane % 8
        across, along = (number % 2, number // 2) if of_a else (number // 2, number % 2)
        if bits == 64 or (bits != 16 and not inner):
            self._load_elements(registers, at, shared, first, depth, lane, of_a)
        elif inner:
            source = access_ptr(shared[first + across * 8 + row, depth + along * wide], "r")
            ptx_ldmatrix(False, matrices, source, access_ptr(registers[at], "w"))
        else:
            source = access_ptr(shared[depth + along * 8 + row, first + across * 8], "r")
            ptx_ldmatrix(True, matrices, source, access_ptr(registers[at], "w"))

    def _load_elements(
        self, registers: Any, at: Any, shared: Any, first: Any, depth: Any, lane: Any, of_a: bool
    ) -> None:
        """The same without ldmatrix: lane 4 g + t holds row g, and of K `per` neighbours from t * per on."""
        bits = self._a_bits if of_a else self._b_bits
        per = max(1, _REGISTER // bits)
        turned = self.a_transposed if of_a else not self.b_transposed
        for e in unroll(self.local_size_a if of_a else self.local_size_b):
            number, inside = e // per, e % per
            across, along = (number % 2, number // 2) if of_a else (number // 2, number % 2)
            row = first + lane // 4 + across * 8
            column = depth + lane % 4 * per + inside + along * 4 * per
            registers[at + e] = shared[column, row] if turned else shared[row, column]

    def mma(self, A_local_buf: Any, B_local_buf: Any, C_local_buf: Any, k_inner: Any = 0) -> None:
        """C += A · B for the step that is in the registers. k_inner: which step of those that fragments hold;
        an array of `T.alloc_local` holds one.
        """
        for i in unroll(self.warp_rows):
            for j in unroll(self.warp_cols):
                self.mma_atom(A_local_buf, B_local_buf, C_local_buf, i, j, k_inner)

    def mma_atom(
        self,
        A_local_buf: Any,
        B_local_buf: Any,
        C_local_buf: Any,
        inst_m_idx: Any,
        inst_n_idx: Any,
        k_inner: Any = 0,
    ) -> None:
        """The part of `mma` that makes one tile of the result."""
        step_a = k_inner if A_local_buf.scope() == "local.fragment" else 0
        step_b = k_inner if B_local_buf.scope() == "local.fragment" else 0
        a = (step_a * self.warp_rows + inst_m_idx) * self.local_size_a
        b = (step_b * self.warp_cols + inst_n_idx) * self.local_size_b
        c = (inst_m_idx * self.warp_cols + inst_n_idx) * self.local_size_out
        for half in unroll(self.n_dim // 8):
            ptx_mma(
                self.accum_dtype,
                self.mma_prefix,
                "row",
                "col",
                self.a_dtype,
                self.b_dtype,
                self.accum_dtype,
                A_local_buf.data,
                a,
                B_local_buf.data,
                b + half * (self.k_dim * 8 // _WARP),
                C_local_buf.data,
                c + half * (self.M_DIM * 8 // _WARP),
                False,
            )

    def make_mma_load_layout(self, local_buf: Any, matrix: str = "A") -> Fragment:
        """How a fragment that holds operand `matrix` lies in the registers of the block's warps.

        PTX ISA 9.7.15.5, the operands of m16n8k32 and kin: a register holds neighbours along K.
        """
        if matrix not in ("A", "B"):
            raise ValueError(f'matrix is "A" or "B", not {matrix!r}')
        of_a = matrix == "A"
        turned = self.a_transposed if of_a else not self.b_transposed
        per = max(1, _REGISTER // (self._a_bits if of_a else self._b_bits))
        rows, copies = (
            (self.warp_row_tiles, self.block_col_warps)
            if of_a
            else (self.warp_col_tiles, self.block_row_warps)
        )
        eights = self.M_DIM // 8 if of_a else 1
        fours = 2 if of_a else self._fours_of_b  # registers of one tile along K

        def place(i: Any, j: Any, copy: Any = 0) -> tuple[Any, Any]:
            row, k = (j, i) if turned else (i, j)
            part, inner, warp = self._row_of_warp(row, copy, of_a)
            step = rows // (8 * eights) * eights * fours * per
            index = k // (4 * fours * per) * step + part * (eights * fours * per)
            index = index + k % (4 * fours * per) // (4 * per) * (eights * per) + inner // 8 * per + k % per
            return warp * _WARP + inner % 8 * 4 + k % (4 * per) // per, index

        if copies == 1:
            return Fragment(local_buf.shape, forward_fn=lambda i, j: place(i, j))
        return Fragment(local_buf.shape, forward_fn=place, replicate=copies)

    def make_mma_store_layout(self, local_buf: Any) -> Fragment:
        """How a fragment that holds the result lies in the registers of the block's warps."""

        def place(i: Any, j: Any) -> tuple[Any, Any]:
            part, inner, warp = self._row_of_warp(i, j // self.warp_col_tiles, True)
            eights = self.M_DIM // 8
            index = part * (self.warp_col_tiles * eights // 4) + j % self.warp_col_tiles // 8 * (2 * eights)
            return warp * _WARP + inner % 8 * 4 + j % 8 // 2, index + inner // 8 * 2 + j % 2

        return Fragment(local_buf.shape, forward_fn=place)

    def _row_of_warp(self, row: Any, other: Any, of_a: bool) -> tuple[Any, Any, Any]:
        """(The warp's tile that a row is in, the row in there, the warp), warps `other` the other way."""
        size = self.warp_row_tiles if of_a else self.warp_col_tiles
        tile = self.M_DIM if of_a else 8
        down, across = (row // size, other) if of_a else (other, row // size)
        warp = (
            down * self.block_col_warps + across if self.is_m_first else across * self.block_row_warps + down
        )
        return row % size // tile, row % tile, warp

    def stmatrix(self, C_local_buf: Any, C_buf: Any, pid_m: Any = None, pid_n: Any = None) -> None:
        """The result from registers into `C_buf`: rows and columns, or (tiles, tiles, rows, columns).

        pid_m, pid_n: of a tensor in global memory, which block of rows and of columns this one makes.
        """
        lane, warp_n, warp_m = self.extract_thread_binding(self.get_thread_binding())
        above = 0 if pid_m is None or pid_n is None else pid_m * self.block_row_warps
        before = 0 if pid_m is None or pid_n is None else pid_n * self.block_col_warps
        for i in unroll(self.warp_rows):
            for j in unroll(self.warp_cols):
                tile = (i * self.warp_cols + j) * self.local_size_out
                down = (above + warp_m) * self.warp_rows + i
                across = (before + warp_n) * self.warp_cols + j
                for e in unroll(self.local_size_out):
                    row = lane // 4 + e % 4 // 2 * 8
                    column = lane % 4 * 2 + e % 2 + e // 4 * 8
                    if len(C_buf.shape) == 2:
                        C_buf[down * self.micro_size_x + row, across * self.micro_size_y + column] = (
                            C_local_buf[tile + e]
                        )
                    else:
                        C_buf[down, across, row, column] = C_local_buf[tile + e]


def _short(dtype: Any) -> str:
    """What an operand is called in PTX's manner."""
    name = canonical_dtype(dtype)
    return "tf32" if name == "float32" else _SHORT_NAMES.get(name, name)
