"""Tensor and scalar parameters of a kernel, declared by annotations in the signature or in the body."""

from __future__ import annotations

from typing import Any

from tilelang.diagnostics.span import Span
from tilelang.frontend.dtypes import read_dtype
from tilelang.frontend.model import TensorType
from tilelang.frontend.run import Run
from tilelang.ir.build import POINTERS
from tilelang.ir.tile_program import Param
from tilelang.ir.values import Buffer, Unknown


def pointer_type(dtype: Any, span: Span) -> TensorType:
    """What T.ptr declares: a tensor whose shape T.make_tensor gives."""
    return TensorType((1,), None, dtype, "global", span, pointer=True)


def declare_parameter(run: Run, name: str, annotation: Any, name_span: Span, span: Span) -> None:
    """Bind a parameter's name to the buffer or the scalar variable that its annotation declares."""
    scope = run.signature.node_scope or run.scope
    if isinstance(annotation, TensorType):
        buffer = Buffer(
            name,
            annotation.scope,
            annotation.shape,
            annotation.dtype,
            annotation.span,
            name_span,
            annotation.strides,
            role="parameter",
            is_pointer=annotation.pointer,
        )
        if annotation.pointer:
            others = str(run.attrs.get(POINTERS, "")).split()
            run.attrs[POINTERS] = " ".join([*others, name])
        if not buffer.known:
            run.complete = False
        old = run.signature.parameters.get(name)
        if old is not None and old.buffer is not None:
            run.buffers.remove(old.buffer)
        run.buffers.append(buffer)
        run.signature.parameters[name] = Param(name, buffer, None, span)
        scope.names[name] = buffer
        return
    dtype = read_dtype(run, annotation, span)
    if isinstance(dtype, Unknown):
        scope.names[name] = dtype
        return
    var = run.fresh(name, dtype)
    run.signature.parameters[name] = Param(name, None, var, span)
    scope.names[name] = var
