"""A saved kernel runs in a process that never imports the compiler or tvm."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.ir.hand_made import vector_add
from tilelang.arch.target import parse_target
from tilelang.jit import JITKernel
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


SHIPPED = """
import sys
import numpy as np

class WithoutCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tvm", "cuda", "nvidia", "libcst"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, WithoutCompiler())
import tilelang

kernel = tilelang.load(sys.argv[1])
a = np.arange(1000, dtype=np.float32)
c = np.zeros_like(a)
kernel(a, C=c, B=a)
assert (c == 2 * a).all()
assert "for " in kernel.get_kernel_source() and "grid" in kernel.get_host_source()
assert kernel.out_idx == [] and kernel.save(sys.argv[1] + "_again")
print("ran")
"""


def test_tilelang_load_needs_neither_tvm_nor_a_compiler_on_the_path(tmp_path):
    kernel = JITKernel.of(driver.build(driver.lower(vector_add(1000), parse_target("cpu"))))
    path = kernel.save(tmp_path / "add")
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SHIPPED, path], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "ran", done.stderr
