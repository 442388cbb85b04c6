"""Files of Python with policies: `./mine.py:uses=3`, or `Follow@./mine.py` of one that has several, as libraries of C++."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import sys
from typing import Any

from vmart.errors import InvalidArgument

__all__ = ["is_file_of_python", "kinds_in", "policies_in", "split"]

_TEXT = re.compile(r"((?:\w+\+)*)(?:(\w+)@)?([^@]*?\.py)((?::.*)?)", re.DOTALL)


def is_file_of_python(text: Any) -> bool:
    """Whether a policy, or the library of one, is such a file."""
    return isinstance(text, str) and _TEXT.fullmatch(text) is not None


def split(text: str) -> tuple[str, str, str, str]:
    """Of such a policy: those around it, such as "guarded+"; its name or ""; the file; and its parameters, with the colon."""
    match = _TEXT.fullmatch(text)
    assert match is not None
    return match[1], match[2] or "", match[3], match[4]


def policies_in(path: str, call: str) -> list[Any]:
    """The subclasses of `vmart.Policy` that the file defines, in their order. Runs it, anew each time, so that nothing of an
    earlier replay is left in its classes. Raises what it raises."""
    from vmart.runtime import Policy

    if not os.path.isfile(path):
        raise InvalidArgument(f"{call}: {path}: there is no such file", call)
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.append(folder)  # For what it imports; what is installed goes first.
    name = os.path.basename(path).removesuffix(".py")
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None, origin=path))
    module.__file__ = path
    with open(path, "rb") as source:
        exec(compile(source.read(), path, "exec"), module.__dict__)
    made = [each for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, Policy) and each.__module__ == name]
    if not made:
        raise InvalidArgument(f"{call}: {path}: defines no subclass of vmart.Policy", call)
    return made


def kinds_in(path: str, call: str = "vmart.lab") -> list[Any]:
    """Those as `PolicyKind`s, whose exceptions are counted."""
    from vmart.runtime import policy_kind

    return [policy_kind(made, call) for made in policies_in(path, call)]
