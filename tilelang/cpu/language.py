"""The language under the name that kernels for the CPU import it by: the very module `tilelang.language`.

What a target lacks is said when a kernel is compiled for it, not by another set of names.
"""

import sys

import tilelang.language

sys.modules[__name__] = tilelang.language
