"""Tools around kernels: pictures of layouts, and counts of what a kernel computes and moves."""

from tilelang.tools.analyzer import AnalysisResult, Analyzer
from tilelang.tools.plot_layout import plot_layout

__all__ = ["AnalysisResult", "Analyzer", "plot_layout"]
