"""Memory that moves between GPUs and the host under a pointer that stays.

    import vmart
    weights = vmart.empty((4096, 4096), "float32", at="gpu0")
    vmart.migrate(weights, "gpu1")            # the address stays, kernels go on
    vmart.where(weights)

`vmart.torch`, `vmart.cupy`, `vmart.numba` and `vmart.numpy` make memory of these libraries movable,
`vmart.MemoryResource` is one of cuda.core, and `vmart.lab` reads the results of the placement lab. The
environment variable VMART_DRIVER=sim:h200x2 simulates a machine.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vmart.cuda_core import MemoryResource  # noqa: F401
    from vmart.errors import *  # noqa: F403
    from vmart.memory import *  # noqa: F403
    from vmart.moving import *  # noqa: F403
    from vmart.place import *  # noqa: F403
    from vmart.runtime import *  # noqa: F403

    __version__: str

# Loaded at first use: the lab needs no extension, and importing vmart costs no time.
_PARTS = ("errors", "place", "memory", "moving", "runtime")
_MODULES = ("cuda_core", "cupy", "lab", "numba", "numpy", "targets", "torch", "vllm")
# What they need that an installation may lack.
_NEEDS = {
    "MemoryResource": "cuda.core", "cuda_core": "cuda.core", "cupy": "cupy", "numba": "numba",
    "numpy": "numpy", "torch": "torch", "vllm": "torch",
}  # fmt: skip


def get_include() -> str:
    """The folder of the C and C++ headers: `g++ -I$(python3 -c "import vmart; print(vmart.get_include())")`."""
    return os.path.join(os.path.dirname(__file__), "include")


def get_library() -> str:
    """The file of libvmart that this process uses. Libraries that load it by its path (PyTorch's
    `CUDAPluggableAllocator`, ctypes) need this one: another file would be another runtime."""
    return str(importlib.import_module("vmart._core").library_path())


def get_library_dir() -> str:
    """The folder of libvmart, for `-L` and `-Wl,-rpath`, with `-lvmart`."""
    return os.path.dirname(get_library())


_OWN = ("get_include", "get_library", "get_library_dir")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("vmart._core").version
    if name in _MODULES or name in _PARTS:
        return importlib.import_module(f"vmart.{name}")
    if name == "MemoryResource":  # Its base class is cuda.core's, which the rest does not need.
        return importlib.import_module("vmart.cuda_core").MemoryResource
    if not name.startswith("_"):
        for part in _PARTS:
            module = importlib.import_module(f"vmart.{part}")
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module 'vmart' has no attribute '{name}'")


def _is_there(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):  # Likewise a module that somebody put there by hand.
        return False


def __dir__() -> list[str]:
    """What users call, without what needs a library that is not installed: tools ask for each name."""
    names = {"MemoryResource", "__doc__", "__file__", "__name__", "__version__", *_MODULES, *_OWN}
    names -= {name for name, library in _NEEDS.items() if not _is_there(library)}
    for part in _PARTS:
        names.update(importlib.import_module(f"vmart.{part}").__all__)
    return sorted(names)
