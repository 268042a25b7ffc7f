"""A saved kernel runs in a process that never imports the compiler or tvm."""

from __future__ import annotations

import subprocess
import sys

from tests.ir.hand_made import vector_add
from tilelang.arch.target import parse_target
from tilelang.targets import driver

PROGRAM = """
import sys
import numpy as np
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.launch import LoadedKernel

kernel = LoadedKernel(Artifact.load(sys.argv[1]))
a = np.arange(1000, dtype=np.float32)
c = np.zeros_like(a)
kernel(a, a, c)
assert (c == 2 * a).all()
loaded = {name.partition(".")[0] for name in sys.modules}
assert "tvm" not in loaded, "tvm was imported"
rooms = ("tilelang.ir", "tilelang.targets", "tilelang.ops", "tilelang.jit")
compiler = [name for name in sys.modules if name.startswith(rooms)]
assert not compiler, compiler
print("ran")
"""


def test_a_saved_cpu_kernel_needs_neither_tvm_nor_the_compiler(tmp_path):
    artifact = driver.build(driver.lower(vector_add(1000), parse_target("cpu")))
    path = artifact.save(tmp_path / "add")
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], capture_output=True, text=True)
    assert done.stdout.strip() == "ran", done.stderr
