"""The CPU target: blocks become a loop, tiles become arrays, LLVM vectorises; compiled in process through
TVM.
"""
