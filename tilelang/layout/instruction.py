"""Register layouts of matrix instructions, as tables: which lane holds which element of a tile, in which
register.

Sources: PTX ISA 9.7.15 (mma.sync, fragments of each shape). A block tile is cut into a grid of warps
(`warp_partition`), each warp's part into instruction tiles. Registers of one instruction tile are
consecutive, in the order in which the instruction takes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.layout.fragment import Digit, Fragment, Place, Replica

Step = tuple[int, Place, int]  # extent, place, stride in the place; within one dimension, innermost first


@dataclass(frozen=True)
class InstructionTile:
    """One instruction's view of a rows × columns tile: how row and column split into lanes and registers."""

    rows: tuple[Step, ...]
    columns: tuple[Step, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return _extent(self.rows), _extent(self.columns)

    @property
    def registers(self) -> int:
        return _extent(tuple(s for s in (*self.rows, *self.columns) if s[1] == "register"))


# In all of them lane = 4 · group + member.
MMA_C = InstructionTile(((8, "thread", 4), (2, "register", 2)), ((2, "register", 1), (4, "thread", 1)))
# float64: m8n8k4, two neighbouring columns in a lane.
MMA_C_64 = InstructionTile(((8, "thread", 4),), ((2, "register", 1), (4, "thread", 1)))
# A as [m, k] by bits of an element: 4 bytes per 32-bit register, the two halves of the rows before the halves
# of k.
MMA_A = {
    4: InstructionTile(
        ((8, "thread", 4), (2, "register", 8)), ((8, "register", 1), (4, "thread", 1), (2, "register", 16))
    ),
    8: InstructionTile(
        ((8, "thread", 4), (2, "register", 4)), ((4, "register", 1), (4, "thread", 1), (2, "register", 8))
    ),
    16: InstructionTile(
        ((8, "thread", 4), (2, "register", 2)), ((2, "register", 1), (4, "thread", 1), (2, "register", 4))
    ),
    32: InstructionTile(((8, "thread", 4), (2, "register", 1)), ((4, "thread", 1), (2, "register", 2))),
    64: InstructionTile(((8, "thread", 4),), ((4, "thread", 1),)),  # m8n8k4
}
# B as [k, n]; n is the group.
MMA_B = {
    4: InstructionTile(((8, "register", 1), (4, "thread", 1), (2, "register", 8)), ((8, "thread", 4),)),
    8: InstructionTile(((4, "register", 1), (4, "thread", 1), (2, "register", 4)), ((8, "thread", 4),)),
    16: InstructionTile(((2, "register", 1), (4, "thread", 1), (2, "register", 2)), ((8, "thread", 4),)),
    32: InstructionTile(((4, "thread", 1), (2, "register", 1)), ((8, "thread", 4),)),
    64: InstructionTile(((4, "thread", 1),), ((8, "thread", 4),)),
}


def mma_a(bits: int, k: int) -> InstructionTile:
    """A of m16n8k`k`: the table above, or its first half along k."""
    return _first_half(MMA_A[bits], k)


def mma_b(bits: int, k: int) -> InstructionTile:
    """B of m16n8k`k`."""
    tile = MMA_B[bits]
    half = _first_half(InstructionTile(tile.columns, tile.rows), k)
    return InstructionTile(half.columns, half.rows)


def _first_half(tile: InstructionTile, k: int) -> InstructionTile:
    if tile.shape[1] == k:
        return tile
    if tile.shape[1] != 2 * k:
        raise ValueError(f"no mma.sync tile with k = {k}")
    return InstructionTile(tile.rows, tile.columns[:-1])


# AMD MFMA 16×16 (MI200 and MI300 ISA guides, "Matrix Arithmetic Instructions"), 64 lanes. The lowering hands
# B to the instruction as its first operand and A as its second, so it computes the transposed product: a lane
# then holds four consecutive columns of one row of C.
MFMA_C = InstructionTile(((16, "thread", 1),), ((4, "register", 1), (4, "thread", 16)))


def mfma_a(k: int) -> InstructionTile:
    """A as [m, k] of an instruction with `k` products: k / 4 consecutive elements of k in a lane."""
    return InstructionTile(((16, "thread", 1),), _mfma_k(k))


def mfma_b(k: int) -> InstructionTile:
    """B as [k, n], the mirror image of A."""
    return InstructionTile(_mfma_k(k), ((16, "thread", 1),))


def _mfma_k(k: int) -> tuple[Step, ...]:
    return ((k // 4, "register", 1), (4, "thread", 16)) if k > 4 else ((4, "thread", 16),)


# Metal's 8×8 simdgroup matrices keep their distribution to themselves. This is the one that accumulators get
# while threads work on their elements: two neighbouring columns in a lane.
SIMDGROUP_C = InstructionTile(((8, "thread", 4),), ((2, "register", 1), (4, "thread", 1)))


def accumulator(
    m: int,
    n: int,
    m_warps: int,
    n_warps: int,
    tile: InstructionTile = MMA_C,
    warp_size: int = 32,
    interleaved: bool = False,
) -> Fragment:
    """C[m, n] over m_warps × n_warps warps, warp = column part · m_warps + row part.

    Instruction tiles are numbered along n first: tile (i, j) begins at register (i · tiles along n + j) ·
    tile.registers. interleaved: the warps take turns along m, as the four warps of a wgmma do, instead of
    each having consecutive rows.
    """
    rows, columns = tile.shape
    along_n = n // (columns * n_warps)
    return _block_tile(
        (m, n),
        [
            *tile.rows,
            *_over_warps(m // (rows * m_warps), tile.registers * along_n, m_warps, warp_size, interleaved),
        ],
        [*tile.columns, (along_n, "register", tile.registers), (n_warps, "thread", warp_size * m_warps)],
        Replica(1, 1),
    )


def _over_warps(
    tiles: int, registers: int, m_warps: int, warp_size: int, interleaved: bool
) -> tuple[Step, Step]:
    """How the rows above one instruction tile split into tiles of a warp and warps; innermost first."""
    own: Step = (tiles, "register", registers)
    warps: Step = (m_warps, "thread", warp_size)
    return (warps, own) if interleaved else (own, warps)


def operand_a(
    m: int,
    k: int,
    m_warps: int,
    n_warps: int,
    tile: InstructionTile,
    transposed: bool = False,
    warp_size: int = 32,
    interleaved: bool = False,
) -> Fragment:
    """A[m, k] (stored [k, m] if `transposed`), the same in all warps along n.

    Tile (i, kk) begins at register (i · tiles along k + kk) · tile.registers.
    """
    rows, columns = tile.shape
    along_k = k // columns
    return _block_tile(
        (m, k),
        [
            *tile.rows,
            *_over_warps(m // (rows * m_warps), tile.registers * along_k, m_warps, warp_size, interleaved),
        ],
        [*tile.columns, (along_k, "register", tile.registers)],
        Replica(n_warps, warp_size * m_warps),
        transposed,
    )


def operand_b(
    k: int,
    n: int,
    m_warps: int,
    n_warps: int,
    tile: InstructionTile,
    transposed: bool = False,
    warp_size: int = 32,
) -> Fragment:
    """B[k, n] (stored [n, k] if `transposed`), the same in all warps along m.

    Tile (kk, j) begins at register (j · tiles along k + kk) · tile.registers.
    """
    rows, columns = tile.shape
    along_k = k // rows
    return _block_tile(
        (k, n),
        [*tile.rows, (along_k, "register", tile.registers)],
        [
            *tile.columns,
            (n // (columns * n_warps), "register", tile.registers * along_k),
            (n_warps, "thread", warp_size * m_warps),
        ],
        Replica(m_warps, warp_size),
        transposed,
    )


def _block_tile(
    shape: tuple[int, int],
    rows: list[Step],
    columns: list[Step],
    replica: Replica,
    transposed: bool = False,
) -> Fragment:
    inner, outer = (rows, columns) if transposed else (columns, rows)
    digits: list[Digit] = []
    stride = 1
    for extent, place, place_stride in (*inner, *outer):
        if extent > 1:
            digits.append(Digit(stride, extent, place, place_stride))
            stride *= extent
    stored = (shape[1], shape[0]) if transposed else shape
    return Fragment(stored, tuple(digits), (replica,) if replica.extent > 1 else ())


def _extent(steps: tuple[Step, ...]) -> int:
    total = 1
    for extent, _, _ in steps:
        total *= extent
    return total
