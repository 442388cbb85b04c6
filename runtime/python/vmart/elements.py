"""Types of the elements of arrays: those of NumPy, and of ml_dtypes, which models use."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from vmart.errors import InvalidArgument

__all__ = ["ElementType", "element_type"]


class ElementType(NamedTuple):
    """`kind` is NumPy's letter, or the name of a type that only DLPack and ml_dtypes know."""

    name: str
    kind: str
    nbytes: int
    typestr: str

    @property
    def only_dlpack(self) -> bool:
        return len(self.kind) > 1

    @property
    def kind_of_cpu(self) -> str:
        """NumPy gets the bytes as integers, and shows them as the type of ml_dtypes."""
        return "u" if self.only_dlpack else self.kind

    def of_numpy(self) -> Any:
        numpy = _library("numpy", self.name)
        return numpy.dtype(getattr(_library("ml_dtypes", self.name), self.kind) if self.only_dlpack else self.typestr)


def _library(name: str, wanted: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"arrays of {wanted} on the CPU need {name}: pip install {name}", name=name
        ) from error


def _of(name: str, kind: str, nbytes: int) -> ElementType:
    order = "|" if nbytes == 1 else "<"
    return ElementType(name, kind, nbytes, f"{order}{'V' if len(kind) > 1 else kind}{nbytes}")


_BY_NAME = {
    name: _of(name, kind, nbytes)
    for name, kind, nbytes in (
        ("bool", "b", 1), ("int8", "i", 1), ("uint8", "u", 1), ("int16", "i", 2), ("uint16", "u", 2),
        ("int32", "i", 4), ("uint32", "u", 4), ("int64", "i", 8), ("uint64", "u", 8), ("float16", "f", 2),
        ("float32", "f", 4), ("float64", "f", 8), ("complex64", "c", 8), ("complex128", "c", 16),
        ("bfloat16", "bfloat16", 2), ("float8_e3m4", "float8_e3m4", 1), ("float8_e4m3", "float8_e4m3", 1),
        ("float8_e4m3fn", "float8_e4m3fn", 1), ("float8_e4m3fnuz", "float8_e4m3fnuz", 1),
        ("float8_e4m3b11fnuz", "float8_e4m3b11fnuz", 1), ("float8_e5m2", "float8_e5m2", 1),
        ("float8_e5m2fnuz", "float8_e5m2fnuz", 1), ("float8_e8m0fnu", "float8_e8m0fnu", 1),
    )
}  # fmt: skip
_BY_TYPESTR = {each.typestr: each for each in _BY_NAME.values() if not each.only_dlpack}


def element_type(dtype: Any) -> ElementType:
    """Of a name, a type of NumPy, of ml_dtypes or of PyTorch, or what NumPy takes for one."""
    if isinstance(dtype, ElementType):
        return dtype
    name = dtype if isinstance(dtype, str) else str(getattr(dtype, "name", getattr(dtype, "__name__", "")))
    if type(dtype).__module__ == "torch":
        name = str(dtype).rpartition(".")[2]
    known = _BY_NAME.get(name) or _BY_TYPESTR.get(name)
    if known is not None and (known.only_dlpack or getattr(dtype, "byteorder", "=") in "=|<"):
        return known
    return _of_numpy(dtype)


def _of_numpy(dtype: Any) -> ElementType:
    try:
        numpy = _library("numpy", repr(dtype))
        known = _BY_TYPESTR.get(numpy.dtype(dtype).str)
    except TypeError:  # NumPy has no such type.
        known = None
    if known is None:
        near = difflib.get_close_matches(str(dtype), _BY_NAME, 1)
        raise InvalidArgument(
            f"dtype is {dtype!r}; "
            + (f"did you mean {near[0]!r}? " if near else "")
            + f"it may be one of {', '.join(_BY_NAME)}",
            "vmart.Array",
        )
    return known
