"""Whether a kernel is thread code: whether it names the thread that it runs on."""

from __future__ import annotations

from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Bind, Evaluate, For, If, Launch, Store, walk
from tilelang.ir.values import Unknown


def names_threads(launch: Launch) -> bool:
    """Whether a statement, a condition or a bound of a loop depends on the number of the thread, so that
    another number of threads would mean something else.
    """
    threads = set(launch.thread_vars)
    for node in walk(launch.body):
        match node:
            case Store():
                parts = (node.value, *node.indices)
            case Bind() | Evaluate():
                parts = (node.value,)
            case If():
                parts = (node.condition,)
            case For():
                parts = (*node.loop.mins, *node.loop.extents)
            case _:
                continue
        if any(threads & free_vars(p) for p in parts if not isinstance(p, Unknown)):
            return True
    return False
