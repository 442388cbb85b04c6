"""A stand-in for the parts of vLLM 0.33.0 that vmart.vllm meets: the modules, names, parameters and the
order of calls are vLLM's, what its allocator does is not. Written from its interfaces; no code of vLLM.
"""

import contextlib
import importlib
import sys
import types

VERSION = "0.33.0"
PARTS = ("", ".device_allocator", ".device_allocator.cumem", ".device_allocator.sleep_mode_backend")


class SleepModeBackend:
    def __init__(self):
        self._state = "RUNNING"

    def state(self):
        return self._state

    @classmethod
    def is_supported(cls):
        return True

    @classmethod
    def preserves_communicators(cls):
        return False


class CuMemBackend(SleepModeBackend):
    """Its states are those of vLLM: they tell what was called, and not what came of it."""

    def suspend(self, level=1):
        self._state = "SUSPENDED"
        kept = ("runtime", "cudagraph") if level != 1 else ("weights", "runtime", "cudagraph")
        sys.modules["vllm.device_allocator"].get_mem_allocator_instance().sleep(offload_tags=kept)

    def resume(self, tags=None):
        self._state = "RESUMING"
        sys.modules["vllm.device_allocator"].get_mem_allocator_instance().wake_up(tags)
        self._state = "RUNNING"

    def discard(self, tags):
        sys.modules["vllm.device_allocator"].get_mem_allocator_instance().discard(tags)
        self._state = "SUSPENDED"

    @classmethod
    def preserves_communicators(cls):
        return True


def _factory():
    class SleepModeBackendFactory:
        registry = {"cumem": ("vllm.device_allocator.sleep_mode_backend", "CuMemBackend")}

        @classmethod
        def register_backend(cls, name, module_path, class_name):
            if name in cls.registry:
                raise ValueError(f"'{name}' is registered already")
            cls.registry[name] = module_path, class_name

        @classmethod
        def create_backend(cls, model_config):
            name = model_config.sleep_mode_backend
            if name not in cls.registry:
                raise ValueError(f"Unsupported sleep-mode backend '{name}'")
            module, made = cls.registry[name]
            found = getattr(importlib.import_module(module), made)
            if not found.is_supported():
                raise ValueError(f"Sleep-mode backend '{name}' is not supported")
            return found()

    return SleepModeBackendFactory


def _allocator():
    class CuMemAllocator:
        instance = None
        default_tag = "default"

        @staticmethod
        def get_instance():
            if CuMemAllocator.instance is None:
                CuMemAllocator.instance = CuMemAllocator()
            return CuMemAllocator.instance

        def release_pools(self): ...

        def close(self): ...

        def sleep(self, offload_tags=None): ...

        def discard(self, tags): ...

        def wake_up(self, tags=None): ...

        @contextlib.contextmanager
        def use_memory_pool(self, tag=None):
            yield

        @contextlib.contextmanager
        def cudagraph_pool(self):
            yield (0, 0)

        def get_current_usage(self):
            return 0

    return CuMemAllocator


@contextlib.contextmanager
def installed():
    """A vLLM in `sys.modules`, as it is before its plugins are loaded."""
    before = {name: sys.modules.get(name) for name in list(sys.modules) if name.startswith("vllm")}
    vllm, device_allocator, cumem, backends = (types.ModuleType("vllm" + part) for part in PARTS)
    vllm.__version__, vllm.device_allocator = VERSION, device_allocator
    device_allocator.cumem, device_allocator.sleep_mode_backend = cumem, backends
    device_allocator.DEFERRABLE_TAGS = ("weights", "kv_cache")
    device_allocator.get_mem_allocator_instance = lambda: cumem.CuMemAllocator.get_instance()
    cumem.CuMemAllocator, cumem.cumem_available = _allocator(), True
    backends.SleepModeBackend, backends.CuMemBackend = SleepModeBackend, CuMemBackend
    backends.SleepModeBackendFactory = _factory()
    sys.modules.update({made.__name__: made for made in (vllm, device_allocator, cumem, backends)})
    sys.modules.pop("vmart.vllm.backend", None)  # It has imported another one.
    try:
        yield vllm
    finally:
        for part in PARTS:
            del sys.modules["vllm" + part]
        sys.modules.update(before)
        sys.modules.pop("vmart.vllm.backend", None)
