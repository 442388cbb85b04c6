"""Where memory can lie: `gpu(0)`, `host(1)`, and what other libraries call the same places."""

from __future__ import annotations

from typing import Any

from vmart import arguments
from vmart._core import Extent, Place
from vmart._core import gpu as _gpu
from vmart._core import host as _host
from vmart.errors import InvalidArgument

__all__ = ["Extent", "Place", "as_place", "gpu", "host"]

_MOST = (1 << 31) - 1


def gpu(ordinal: int) -> Place:
    """The HBM of a GPU, by CUDA's ordinal."""
    return _gpu(arguments.integer(ordinal, "ordinal", "vmart.gpu", most=_MOST))


def host(node: int = 0) -> Place:
    """The memory of a host NUMA node."""
    return _host(arguments.integer(node, "node", "vmart.host", most=_MOST))


def as_place(place: Any) -> Place:
    """The place that `place` names: a `Place`, "gpu1", "host0", "cuda:1", "cpu", or a device of
    PyTorch, JAX, CuPy, Numba or cuda.core. "cuda" without a number is GPU 0, "cpu" host node 0.

    Raises `InvalidArgument` for another text, and `TypeError` for what is no place.
    """
    if isinstance(place, Place):
        return place
    if isinstance(place, str):
        return Place(place)
    library = type(place).__module__.partition(".")[0]
    number = getattr(place, {"cupy": "id", "numba": "id", "cuda": "device_id"}.get(library, ""), None)
    if number is not None:
        return gpu(number)
    try:
        return Place(str(place))  # As devices of PyTorch and JAX are written.
    except InvalidArgument:
        raise TypeError(
            f'{place!r}, a {type(place).__name__}, is no place; write "gpu0" or "host0", or pass '
            "vmart.gpu(0), vmart.host(0) or a device of PyTorch, JAX, CuPy, Numba or cuda.core"
        ) from None
