"""The class, with the internals that the tests look at."""

import types

from record_results import note
from vmart.torch import memory_saver

from .stand_ins import is_xpu

__all__ = ["TorchMemorySaver", "is_xpu"]


class _Calls:
    """What the tests ask of the library of torch_memory_saver."""

    def __init__(self, saver):
        self._saver = saver

    def tms_get_interesting_region(self):
        return self._saver.current_region is not None

    def tms_get_enable_cpu_backup(self):
        region = self._saver.current_region
        return region is not None and region.enable_cpu_backup

    def tms_get_current_tag(self):
        region = self._saver.current_region
        return (region.tag if region else "default").encode()

    def tms_get_cpu_backup_backend(self):
        region = self._saver.current_region
        return (region.cpu_backup_backend if region else memory_saver.cpu_backup_backend()).encode()


class TorchMemorySaver(memory_saver.TorchMemorySaver):
    def __init__(self):
        super().__init__()
        self._impl = types.SimpleNamespace(_binary_wrapper=types.SimpleNamespace(cdll=_Calls(self)))

    def pause(self, tag=None):
        paused = super().pause(tag)
        note(used=int(paused.freed_bytes > 0))
        return paused
