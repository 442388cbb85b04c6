"""Environment variables that switch something on or off."""

from __future__ import annotations

import os

from vmart.errors import InvalidArgument


def is_set(name: str, reader: str) -> bool:
    """Whether the variable is 1, yes, on or true; not if it is 0, no, off, false, empty or unset. Raises
    `InvalidArgument`, in the name of `reader`, for anything else."""
    value = os.environ.get(name, "").lower()
    if value not in ("", "0", "1", "true", "false", "yes", "no", "on", "off"):
        raise InvalidArgument(f"{name} is {value!r}; it may be 1 or 0", reader)
    return value in ("1", "true", "yes", "on")
