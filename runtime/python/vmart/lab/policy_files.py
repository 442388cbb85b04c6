"""Files of Python with policies: `./mine.py:uses=3`, or `Follow@./mine.py` of one that has several, as libraries of C++."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import re
import sys
import threading
import types
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

from vmart.errors import InvalidArgument

__all__ = ["is_file_of_python", "kinds_in", "policies_in", "split"]

# Classes of files, by the file, what told its loads apart, and their name. Pickles name them so: no module has them.
_known: weakref.WeakValueDictionary[tuple[str, str, str], type] = weakref.WeakValueDictionary()
_loading = threading.RLock()  # Held while sys.path and sys.modules have what a file needs.
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
    earlier replay is left in its classes or in what it imports from its folder, at its top. Raises what it raises."""
    from vmart.runtime import Policy

    made = [each for each in _classes_in(path, call) if issubclass(each, Policy)]
    if not made:
        raise InvalidArgument(f"{call}: {path}: defines no subclass of vmart.Policy", call)
    return made


def _classes_in(path: str, call: str, load: str = "") -> list[type]:
    """All classes that the file defines, whose instances can be pickled from then on."""
    if not os.path.isfile(path):
        raise InvalidArgument(f"{call}: {path}: there is no such file", call)
    name = os.path.basename(path)  # With its ".py", so that it is the name of no module.
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None, origin=path))
    module.__file__ = path
    with open(path, "rb") as source, _importable(module, os.path.dirname(os.path.abspath(path))):
        exec(compile(source.read(), path, "exec"), module.__dict__)
    load = load or uuid.uuid4().hex
    made = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
    plain = [each for each in made if (each.__reduce_ex__, each.__reduce__) == (object.__reduce_ex__, object.__reduce__)]
    for each in made:
        key = (os.path.abspath(path), load, each.__qualname__)
        _known[key] = each
        if each in plain:
            each.__reduce_ex__ = functools.partialmethod(_reduced, each, key)  # type: ignore[assignment, method-assign]
    return made


def _reduced(self: Any, owner: type, key: tuple[str, str, str], protocol: Any) -> Any:
    """As `object` pickles it, but with its class by file and name."""
    make, (made, *arguments), *rest = object.__reduce_ex__(self, max(int(protocol), 2))  # type: ignore[misc]
    if made is not owner:  # A subclass of another file.
        return make, (made, *arguments), *rest
    return _remade, (key, make, arguments), *rest


def _remade(key: tuple[str, str, str], make: Any, arguments: list[Any]) -> Any:
    """In another process the file is run again, once for all that is still there of one load."""
    if key not in _known:
        path, load, _ = key
        made = _classes_in(path, "vmart.lab", load)  # Keeps them until one is found.
        if key not in _known:
            raise InvalidArgument(f"vmart.lab: {path}: defines {', '.join(each.__qualname__ for each in made)}, no {key[2]}", "vmart.lab")
    return make(_known[key], *arguments)


@contextlib.contextmanager
def _importable(module: types.ModuleType, folder: str) -> Iterator[None]:
    """Lets the module, which dataclasses look up, import what lies in its folder. Files in other folders, and later replays,
    import their own. What is installed goes first."""
    with _loading:
        before = set(sys.modules)
        sys.modules[module.__name__] = module
        added = folder not in sys.path
        if added:
            sys.path.append(folder)
        try:
            yield
        finally:
            del sys.modules[module.__name__]
            if added:
                sys.path.remove(folder)
                new = {each: sys.modules[each] for each in set(sys.modules) - before}
                beside = {each for each, one in new.items() if _lies_in(one, folder)}
                for each in new:
                    if each.partition(".")[0] in beside:
                        del sys.modules[each]


def _lies_in(module: types.ModuleType, folder: str) -> bool:
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return False
    places = spec.submodule_search_locations or [spec.origin or ""]
    return any(os.path.dirname(place) == folder for place in places)


def kinds_in(path: str, call: str = "vmart.lab") -> list[Any]:
    """Those as `PolicyKind`s, whose exceptions are counted."""
    from vmart.runtime import policy_kind

    return [policy_kind(made, call) for made in policies_in(path, call)]
