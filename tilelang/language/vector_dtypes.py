"""Vectors of dtypes as users write them: `T.float16x2` is the dtype of two halves side by side."""

from __future__ import annotations

from tilelang.language.dtypes import DType

int8x2 = DType("int8x2")
int8x4 = DType("int8x4")
int8x8 = DType("int8x8")
int8x16 = DType("int8x16")
int8x32 = DType("int8x32")
int8x64 = DType("int8x64")
int16x2 = DType("int16x2")
int16x4 = DType("int16x4")
int16x8 = DType("int16x8")
int16x16 = DType("int16x16")
int16x32 = DType("int16x32")
int16x64 = DType("int16x64")
int32x2 = DType("int32x2")
int32x4 = DType("int32x4")
int32x8 = DType("int32x8")
int32x16 = DType("int32x16")
int32x32 = DType("int32x32")
int32x64 = DType("int32x64")
int64x2 = DType("int64x2")
int64x4 = DType("int64x4")
int64x8 = DType("int64x8")
int64x16 = DType("int64x16")
int64x32 = DType("int64x32")
int64x64 = DType("int64x64")
uint8x2 = DType("uint8x2")
uint8x4 = DType("uint8x4")
uint8x8 = DType("uint8x8")
uint8x16 = DType("uint8x16")
uint8x32 = DType("uint8x32")
uint8x64 = DType("uint8x64")
uint16x2 = DType("uint16x2")
uint16x4 = DType("uint16x4")
uint16x8 = DType("uint16x8")
uint16x16 = DType("uint16x16")
uint16x32 = DType("uint16x32")
uint16x64 = DType("uint16x64")
uint32x2 = DType("uint32x2")
uint32x4 = DType("uint32x4")
uint32x8 = DType("uint32x8")
uint32x16 = DType("uint32x16")
uint32x32 = DType("uint32x32")
uint32x64 = DType("uint32x64")
uint64x2 = DType("uint64x2")
uint64x4 = DType("uint64x4")
uint64x8 = DType("uint64x8")
uint64x16 = DType("uint64x16")
uint64x32 = DType("uint64x32")
uint64x64 = DType("uint64x64")
float16x2 = DType("float16x2")
float16x4 = DType("float16x4")
float16x8 = DType("float16x8")
float16x16 = DType("float16x16")
float16x32 = DType("float16x32")
float16x64 = DType("float16x64")
bfloat16x2 = DType("bfloat16x2")
bfloat16x4 = DType("bfloat16x4")
bfloat16x8 = DType("bfloat16x8")
bfloat16x16 = DType("bfloat16x16")
bfloat16x32 = DType("bfloat16x32")
bfloat16x64 = DType("bfloat16x64")
float32x2 = DType("float32x2")
float32x4 = DType("float32x4")
float32x8 = DType("float32x8")
float32x16 = DType("float32x16")
float32x32 = DType("float32x32")
float32x64 = DType("float32x64")
tfloat32x2 = DType("float32x2")
tfloat32x4 = DType("float32x4")
tfloat32x8 = DType("float32x8")
tfloat32x16 = DType("float32x16")
tfloat32x32 = DType("float32x32")
tfloat32x64 = DType("float32x64")
float64x2 = DType("float64x2")
float64x4 = DType("float64x4")
float64x8 = DType("float64x8")
float64x16 = DType("float64x16")
float64x32 = DType("float64x32")
float64x64 = DType("float64x64")
float8_e3m4x2 = DType("float8_e3m4x2")
float8_e3m4x4 = DType("float8_e3m4x4")
float8_e3m4x8 = DType("float8_e3m4x8")
float8_e3m4x16 = DType("float8_e3m4x16")
float8_e3m4x32 = DType("float8_e3m4x32")
float8_e3m4x64 = DType("float8_e3m4x64")
float8_e4m3x2 = DType("float8_e4m3fnx2")
float8_e4m3x4 = DType("float8_e4m3fnx4")
float8_e4m3x8 = DType("float8_e4m3fnx8")
float8_e4m3x16 = DType("float8_e4m3fnx16")
float8_e4m3x32 = DType("float8_e4m3fnx32")
float8_e4m3x64 = DType("float8_e4m3fnx64")
float8_e4m3b11fnuzx2 = DType("float8_e4m3b11fnuzx2")
float8_e4m3b11fnuzx4 = DType("float8_e4m3b11fnuzx4")
float8_e4m3b11fnuzx8 = DType("float8_e4m3b11fnuzx8")
float8_e4m3b11fnuzx16 = DType("float8_e4m3b11fnuzx16")
float8_e4m3b11fnuzx32 = DType("float8_e4m3b11fnuzx32")
float8_e4m3b11fnuzx64 = DType("float8_e4m3b11fnuzx64")
float8_e4m3fnx2 = DType("float8_e4m3fnx2")
float8_e4m3fnx4 = DType("float8_e4m3fnx4")
float8_e4m3fnx8 = DType("float8_e4m3fnx8")
float8_e4m3fnx16 = DType("float8_e4m3fnx16")
float8_e4m3fnx32 = DType("float8_e4m3fnx32")
float8_e4m3fnx64 = DType("float8_e4m3fnx64")
float8_e4m3fnuzx2 = DType("float8_e4m3fnuzx2")
float8_e4m3fnuzx4 = DType("float8_e4m3fnuzx4")
float8_e4m3fnuzx8 = DType("float8_e4m3fnuzx8")
float8_e4m3fnuzx16 = DType("float8_e4m3fnuzx16")
float8_e4m3fnuzx32 = DType("float8_e4m3fnuzx32")
float8_e4m3fnuzx64 = DType("float8_e4m3fnuzx64")
float8_e5m2x2 = DType("float8_e5m2x2")
float8_e5m2x4 = DType("float8_e5m2x4")
float8_e5m2x8 = DType("float8_e5m2x8")
float8_e5m2x16 = DType("float8_e5m2x16")
float8_e5m2x32 = DType("float8_e5m2x32")
float8_e5m2x64 = DType("float8_e5m2x64")
float8_e5m2fnuzx2 = DType("float8_e5m2fnuzx2")
float8_e5m2fnuzx4 = DType("float8_e5m2fnuzx4")
float8_e5m2fnuzx8 = DType("float8_e5m2fnuzx8")
float8_e5m2fnuzx16 = DType("float8_e5m2fnuzx16")
float8_e5m2fnuzx32 = DType("float8_e5m2fnuzx32")
float8_e5m2fnuzx64 = DType("float8_e5m2fnuzx64")
float8_e8m0fnux2 = DType("float8_e8m0fnux2")
float8_e8m0fnux4 = DType("float8_e8m0fnux4")
float8_e8m0fnux8 = DType("float8_e8m0fnux8")
float8_e8m0fnux16 = DType("float8_e8m0fnux16")
float8_e8m0fnux32 = DType("float8_e8m0fnux32")
float8_e8m0fnux64 = DType("float8_e8m0fnux64")
float6_e2m3fnx2 = DType("float6_e2m3fnx2")
float6_e2m3fnx4 = DType("float6_e2m3fnx4")
float6_e2m3fnx8 = DType("float6_e2m3fnx8")
float6_e2m3fnx16 = DType("float6_e2m3fnx16")
float6_e2m3fnx32 = DType("float6_e2m3fnx32")
float6_e2m3fnx64 = DType("float6_e2m3fnx64")
float6_e3m2fnx2 = DType("float6_e3m2fnx2")
float6_e3m2fnx4 = DType("float6_e3m2fnx4")
float6_e3m2fnx8 = DType("float6_e3m2fnx8")
float6_e3m2fnx16 = DType("float6_e3m2fnx16")
float6_e3m2fnx32 = DType("float6_e3m2fnx32")
float6_e3m2fnx64 = DType("float6_e3m2fnx64")
float4_e2m1fnx2 = DType("float4_e2m1fnx2")
float4_e2m1fnx4 = DType("float4_e2m1fnx4")
float4_e2m1fnx8 = DType("float4_e2m1fnx8")
float4_e2m1fnx16 = DType("float4_e2m1fnx16")
float4_e2m1fnx32 = DType("float4_e2m1fnx32")
float4_e2m1fnx64 = DType("float4_e2m1fnx64")

VECTOR_NAMES: tuple[str, ...] = (
    "int8x2",
    "int8x4",
    "int8x8",
    "int8x16",
    "int8x32",
    "int8x64",
    "int16x2",
    "int16x4",
    "int16x8",
    "int16x16",
    "int16x32",
    "int16x64",
    "int32x2",
    "int32x4",
    "int32x8",
    "int32x16",
    "int32x32",
    "int32x64",
    "int64x2",
    "int64x4",
    "int64x8",
    "int64x16",
    "int64x32",
    "int64x64",
    "uint8x2",
    "uint8x4",
    "uint8x8",
    "uint8x16",
    "uint8x32",
    "uint8x64",
    "uint16x2",
    "uint16x4",
    "uint16x8",
    "uint16x16",
    "uint16x32",
    "uint16x64",
    "uint32x2",
    "uint32x4",
    "uint32x8",
    "uint32x16",
    "uint32x32",
    "uint32x64",
    "uint64x2",
    "uint64x4",
    "uint64x8",
    "uint64x16",
    "uint64x32",
    "uint64x64",
    "float16x2",
    "float16x4",
    "float16x8",
    "float16x16",
    "float16x32",
    "float16x64",
    "bfloat16x2",
    "bfloat16x4",
    "bfloat16x8",
    "bfloat16x16",
    "bfloat16x32",
    "bfloat16x64",
    "float32x2",
    "float32x4",
    "float32x8",
    "float32x16",
    "float32x32",
    "float32x64",
    "tfloat32x2",
    "tfloat32x4",
    "tfloat32x8",
    "tfloat32x16",
    "tfloat32x32",
    "tfloat32x64",
    "float64x2",
    "float64x4",
    "float64x8",
    "float64x16",
    "float64x32",
    "float64x64",
    "float8_e3m4x2",
    "float8_e3m4x4",
    "float8_e3m4x8",
    "float8_e3m4x16",
    "float8_e3m4x32",
    "float8_e3m4x64",
    "float8_e4m3x2",
    "float8_e4m3x4",
    "float8_e4m3x8",
    "float8_e4m3x16",
    "float8_e4m3x32",
    "float8_e4m3x64",
    "float8_e4m3b11fnuzx2",
    "float8_e4m3b11fnuzx4",
    "float8_e4m3b11fnuzx8",
    "float8_e4m3b11fnuzx16",
    "float8_e4m3b11fnuzx32",
    "float8_e4m3b11fnuzx64",
    "float8_e4m3fnx2",
    "float8_e4m3fnx4",
    "float8_e4m3fnx8",
    "float8_e4m3fnx16",
    "float8_e4m3fnx32",
    "float8_e4m3fnx64",
    "float8_e4m3fnuzx2",
    "float8_e4m3fnuzx4",
    "float8_e4m3fnuzx8",
    "float8_e4m3fnuzx16",
    "float8_e4m3fnuzx32",
    "float8_e4m3fnuzx64",
    "float8_e5m2x2",
    "float8_e5m2x4",
    "float8_e5m2x8",
    "float8_e5m2x16",
    "float8_e5m2x32",
    "float8_e5m2x64",
    "float8_e5m2fnuzx2",
    "float8_e5m2fnuzx4",
    "float8_e5m2fnuzx8",
    "float8_e5m2fnuzx16",
    "float8_e5m2fnuzx32",
    "float8_e5m2fnuzx64",
    "float8_e8m0fnux2",
    "float8_e8m0fnux4",
    "float8_e8m0fnux8",
    "float8_e8m0fnux16",
    "float8_e8m0fnux32",
    "float8_e8m0fnux64",
    "float6_e2m3fnx2",
    "float6_e2m3fnx4",
    "float6_e2m3fnx8",
    "float6_e2m3fnx16",
    "float6_e2m3fnx32",
    "float6_e2m3fnx64",
    "float6_e3m2fnx2",
    "float6_e3m2fnx4",
    "float6_e3m2fnx8",
    "float6_e3m2fnx16",
    "float6_e3m2fnx32",
    "float6_e3m2fnx64",
    "float4_e2m1fnx2",
    "float4_e2m1fnx4",
    "float4_e2m1fnx8",
    "float4_e2m1fnx16",
    "float4_e2m1fnx32",
    "float4_e2m1fnx64",
)
