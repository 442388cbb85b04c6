"""What `repr` shows of the objects of the extension: their fields, with sizes and places as people
write them."""

from __future__ import annotations

from typing import Any

__all__ = ["bytes_text", "fields", "place_text", "places_text"]

_BYTES = ("nbytes", "bytes_moved", "bytes_asked", "bytes_left", "bytes_dropped", "bytes_elsewhere",
          "bytes_copied_twice", "bytes_remapped")  # fmt: skip
_TIMES = ("wall", "stall_median", "stall_p99", "stall_max")


def bytes_text(nbytes: int) -> str:
    """ "64 MiB", "1.5 GiB", "100 B"."""
    for shift, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(nbytes) >= 1 << shift:
            return f"{nbytes / (1 << shift):.4g} {unit}"
    return f"{nbytes} B"


def place_text(place: Any) -> str:
    """ "gpu0": as a place is written."""
    return f"{place.kind}{place.ordinal}"


def places_text(extents: Any) -> str:
    """ "gpu0", or "gpu0 and host0" if the bytes lie at several places."""
    return " and ".join(dict.fromkeys(place_text(extent.at) for extent in extents))


def _shown(name: str, value: Any) -> str:
    if name in _BYTES or name.endswith("_bytes"):
        most = 1 << 63  # No limit.
        return "no limit" if value >= most else bytes_text(value)
    if name == "pointer":
        return f"{value:#x}"
    if name in _TIMES:
        return f"{value * 1e3:.3g} ms"
    if type(value).__name__ == "Place":
        return place_text(value)
    return repr(value)


def fields(shown: Any) -> str:
    """ "<vmart.Stats allocations=3 ...>": the properties of the class, in their order."""
    made = type(shown)
    names = [name for name, value in vars(made).items() if isinstance(value, property)]
    texts = []
    for name in names:
        try:
            texts.append(f"{name}={_shown(name, getattr(shown, name))}")
        except Exception as error:  # A repr that raises would hide what it is called for.
            texts.append(f"{name}: {type(error).__name__}")
    return f"<vmart.{made.__name__} {', '.join(texts)}>"
