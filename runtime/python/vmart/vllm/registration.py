"""The plugin of vLLM: puts the allocator and the sleep-mode backend where vLLM looks for them."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from typing import Any

from vmart.environment import is_set
from vmart.errors import Unsupported

__all__ = ["BACKEND", "register"]

BACKEND = "vmart"  # Of --sleep-mode-backend.
_WRITTEN_FOR = "0.33.0"
_registered: list[Any] = []  # The factories of vLLM that know the backend: in practice one.
_log = logging.getLogger("vllm.vmart")  # vLLM shows what is logged below its own name.


def register() -> bool:
    """The entry point of `vllm.general_plugins`, which vLLM calls in each of its processes. Does nothing
    unless VMART_VLLM is 1. Returns whether vLLM uses vmart from now on.

    vLLM's allocator is a singleton, and each use of it asks for the instance: vmart's becomes that
    instance. If this vLLM has other interfaces than those that vmart knows, or an allocator at
    work, logs a warning and changes nothing. Opens no runtime. Idempotent.

    Raises `InvalidArgument` if VMART_VLLM is neither 1 nor 0.
    """
    if not is_set("VMART_VLLM", "vmart.vllm"):
        return False
    try:
        _install()
    except Exception as reason:  # Whatever another version does: vLLM would end with it.
        version = getattr(sys.modules.get("vllm"), "__version__", "unknown")
        _log.warning(
            "VMART_VLLM=1 has no effect, vLLM %s goes on without vmart: %s. vmart.vllm is written for "
            "vLLM %s.", version, reason, _WRITTEN_FOR,
        )  # fmt: skip
        return False
    return True


def _install() -> None:
    """Raises without a change."""
    device_allocator = importlib.import_module("vllm.device_allocator")
    cumem = importlib.import_module("vllm.device_allocator.cumem")
    backends = importlib.import_module("vllm.device_allocator.sleep_mode_backend")
    from vmart.vllm.allocator import Allocator

    theirs, factory = cumem.CuMemAllocator, backends.SleepModeBackendFactory
    if isinstance(theirs.instance, Allocator):
        return
    if not cumem.cumem_available or importlib.import_module("torch").version.cuda is None:
        raise Unsupported("this vLLM has no allocator for CUDA")
    if theirs.instance is not None:
        raise Unsupported(f"vLLM's allocator is in use already, a {type(theirs.instance).__name__}")
    unknown = _unknown(theirs, Allocator)
    if unknown:
        raise Unsupported(f"its CuMemAllocator has {', '.join(unknown)}, unknown to vmart")
    theirs.instance = Allocator(device_allocator.DEFERRABLE_TAGS)
    try:
        if device_allocator.get_mem_allocator_instance() is not theirs.instance:
            raise Unsupported("its get_mem_allocator_instance() finds another allocator")
        if factory not in _registered:  # Another allocator may have been here before.
            factory.register_backend(BACKEND, "vmart.vllm.backend", "SleepBackend")
            _registered.append(factory)
    except BaseException:
        theirs.instance = None
        raise
    _log.info("vLLM's sleep mode uses memory of vmart")


def _unknown(theirs: type, ours: type) -> list[str]:
    """The public calls of vLLM's allocator that ours has not, or with other parameters."""
    calls = dict(inspect.getmembers(theirs, inspect.isfunction))
    calls.pop("get_instance", None)  # Finds the instance, whatever its class.
    return [
        name + str(inspect.signature(call))
        for name, call in calls.items()
        if not name.startswith("_") and _parameters(call) != _parameters(getattr(ours, name, None))
    ]


def _parameters(call: Any) -> list[str] | None:
    return None if call is None else list(inspect.signature(call).parameters)
