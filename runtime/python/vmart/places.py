"""Where memory can lie: `gpu(0)`, `host(1)`, and what other libraries call the same places."""

from __future__ import annotations

from typing import Any

from vmart._core import Location, gpu, host

__all__ = ["Location", "gpu", "host", "location"]


def location(place: Any) -> Location:
    """The place that `place` names: a `Location`, a text such as "gpu1", "host0", "cuda:1" or "cpu",
    or a device of PyTorch, CuPy, Numba or cuda.core. "cuda" alone is GPU 0, "cpu" host node 0.

    Raises `InvalidArgument` for anything else.
    """
    if isinstance(place, Location):
        return place
    library = type(place).__module__.partition(".")[0]
    number = getattr(place, {"cupy": "id", "numba": "id", "cuda": "device_id"}.get(library, ""), None)
    if number is not None:
        return gpu(number)
    return Location(str(place))
