"""The interface of torch_memory_saver 0.0.10 on vmart: memory of tensors that is given back to the GPU
driver while it is not needed, at addresses that stay, also in CUDA graphs.

    from vmart.torch.memory_saver import torch_memory_saver

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model = load()
    torch_memory_saver.pause("weights")       # the weights are at the host, their HBM is free
    torch_memory_saver.resume("weights")

What differs: `pause` and `resume` do all or nothing, and return what they did. Regions cover PyTorch's
tensors of the thread that enters them, in both hook modes; nothing is preloaded.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from vmart.environment import is_set
from vmart.errors import InvalidArgument, Unsupported
from vmart.targets import Range, find
from vmart.torch import parking, pools
from vmart.torch.parking import Paused, Resumed

__all__ = [
    "Paused", "Region", "Resumed", "TorchMemorySaver", "configure_subprocess", "cpu_backup_backend",
    "torch_memory_saver",
]  # fmt: skip

_PREFIX = "memory_saver/"
_BACKENDS, _BACKENDS_TOLD = ("mmap", "pinned"), "mmap or pinned"
_KEPT, _DROPPED = "/kept", "/dropped"  # With and without a backup, as ends of tags of vmart.
_TAGS = parking.Tags(
    _PREFIX,
    "vmart.torch.memory_saver",
    lambda tag: tag.removeprefix(_PREFIX).rpartition("/")[0],
)


class _Flags:
    """TMS_INIT_* and TMS_RETAIN_CPU_BACKUP."""

    def __init__(self) -> None:
        self.enable, self.backup, self.disk, self.retain = (
            is_set(name, "vmart.torch.memory_saver")
            for name in (
                "TMS_INIT_ENABLE",
                "TMS_INIT_ENABLE_CPU_BACKUP",
                "TMS_INIT_ENABLE_DISK_BACKUP",
                "TMS_RETAIN_CPU_BACKUP",
            )
        )


def cpu_backup_backend() -> str:
    """That of regions that name none: TMS_INIT_CPU_BACKUP_BACKEND. Raises `InvalidArgument`."""
    name = "TMS_INIT_CPU_BACKUP_BACKEND"
    backend = os.environ.get(name) or "pinned"
    if backend not in _BACKENDS:
        raise InvalidArgument(f"{name} is {backend!r}; {_BACKENDS_TOLD}", "vmart.torch.memory_saver")
    return backend


class Region(NamedTuple):
    """What tensors of a thread belong to. The backend is what the program asked for: vmart has one kind of
    backup."""

    tag: str
    enable_cpu_backup: bool
    cpu_backup_backend: str


class TorchMemorySaver:
    """Use the one object `torch_memory_saver`: tags belong to the process. Any thread."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._started: contextlib.ExitStack | None = None
        self._retain: bool | None = None  # None: as the environment says.

    # --- Regions

    @contextlib.contextmanager
    def region(
        self,
        tag: str = "default",
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Tensors that this thread makes inside can be paused by the tag. Regions nest; the innermost
        one counts. Without a backup, a pause drops their bytes.

        Backups lie in memory of vmart at the host, whatever `cpu_backup_backend` is. Raises
        `Unsupported` for backups on disk.
        """
        self._check(enable_cpu_backup, cpu_backup_backend)
        if enable_disk_backup:
            raise _unsupported("enable_disk_backup: vmart keeps backups in host memory")
        self._ensure_initialized()
        region = Region(tag, enable_cpu_backup, cpu_backup_backend or self._backend())
        chunk_bytes = _chunk_bytes(enable_cpu_backup)
        with self._inside(region), pools.memory(_tag(tag, enable_cpu_backup), chunk_bytes=chunk_bytes):
            yield

    @contextlib.contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = "default",
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """`torch.cuda.graph` whose memory can be paused. Raises `Unsupported` for `pool`: memory that
        another pool has already cannot get a tag."""
        self._check(enable_cpu_backup, cpu_backup_backend)
        if pool is not None:
            raise _unsupported("pool: memory of another pool has no tag of this region")
        self._ensure_initialized()
        captured = pools.graph(
            cuda_graph,
            _tag(tag, enable_cpu_backup),
            chunk_bytes=_chunk_bytes(enable_cpu_backup),
            stream=stream,
            capture_error_mode=capture_error_mode,
        )
        region = Region(tag, enable_cpu_backup, cpu_backup_backend or self._backend())
        with self._inside(region), captured:
            yield

    @contextlib.contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """Tensors made inside are PyTorch's own, which no pause touches. Only inside a region."""
        if not dispose_mem_pool_after_use:
            raise _unsupported("dispose_mem_pool_after_use=False")
        if self.current_region is None:
            raise InvalidArgument("disable() needs a region around it", "memory_saver.disable")
        with self._inside(None), pools.of_pytorch():
            yield

    @property
    def current_region(self) -> Region | None:
        """The innermost region of this thread; None outside of regions, and inside `disable`."""
        regions = self._regions()
        return regions[-1] if regions else None

    def _regions(self) -> list[Region | None]:
        return self._thread.__dict__.setdefault("regions", [])

    def _backend(self) -> str:
        """A region inside another one without a backend of its own has that of the other."""
        region = self.current_region
        return cpu_backup_backend() if region is None else region.cpu_backup_backend

    @contextlib.contextmanager
    def _inside(self, region: Region | None) -> Iterator[None]:
        regions = self._regions()
        regions.append(region)
        try:
            yield
        finally:
            regions.pop()

    # --- Pausing

    def pause(self, tag: str | None = None) -> Paused:
        """Gives the HBM of the tag's tensors back to the driver; of all tags if it is None. Waits for
        running work; work that uses the tensors before `resume` fails. What is paused stays paused.

        If a part cannot be paused (it is pinned, say, or the host has no room), brings the rest back
        and raises `Error` with the reasons as `report`. Bytes without a backup may be lost then, as
        in any pause.
        """
        return _TAGS.pause({each: each.endswith(_DROPPED) for each in _chosen(tag)})

    def resume(self, tag: str | None = None) -> Resumed:
        """Gives the tensors of the tag memory again, with their bytes if they have a backup; otherwise
        their contents are undefined. What is not paused stays as it is.

        If a part finds no room, pauses the rest again and raises `OutOfMemory` with `report`.
        """
        chosen = _chosen(tag)
        retain = self.retain_cpu_backup
        copies = [each for each in chosen if retain and each.endswith(_KEPT)]
        return _TAGS.resume(chosen, copies, zeroed=False)

    def get_cpu_backup(self, x: torch.Tensor, zero_copy: bool = False) -> torch.Tensor | None:
        """The bytes of a paused tensor as one on the CPU; None if it is not paused or has no backup.

        Raises `Unsupported` for `zero_copy`: the CPU cannot read the memory of a tensor in place.
        Raises `InvalidArgument` if the tensor is not contiguous, `UnknownPointer` for memory that is
        not vmart's.
        """
        if not x.is_contiguous():
            raise InvalidArgument("the tensor is not contiguous", "memory_saver.get_cpu_backup")
        info = find(Range(x.data_ptr(), 1))
        if not (info.parked and info.tag.startswith(_PREFIX) and info.tag.endswith(_KEPT)):
            return None
        if zero_copy:
            raise _unsupported("zero_copy: the CPU cannot read the memory of a tensor in place")
        copied = torch.empty(x.shape, dtype=x.dtype, device="cpu")
        pools.read(x.data_ptr(), copied.data_ptr(), copied.numel() * copied.element_size())
        return copied

    # --- Settings

    @property
    def enabled(self) -> bool:
        return True

    @property
    def hook_mode(self) -> str:
        return "torch"

    @hook_mode.setter
    def hook_mode(self, mode: str) -> None:
        """Both modes cover PyTorch's tensors, and not the memory of other libraries. "preload" enters the
        region of TMS_INIT_ENABLE: a preloaded library would have been there from the start."""
        if mode not in ("torch", "preload"):
            raise InvalidArgument(f"hook_mode is {mode!r}; torch or preload", "memory_saver")
        if mode == "preload":
            self._ensure_initialized()

    @property
    def retain_cpu_backup(self) -> bool:
        return _Flags().retain if self._retain is None else self._retain

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        """Whether `resume` keeps the copies at the host, so that the next `pause` copies only what has
        changed. `get_cpu_backup` does not show these copies: it returns None after `resume`."""
        self._retain = bool(value)

    @property
    def memory_margin_bytes(self) -> int:
        return 0

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        if value:
            raise _unsupported("memory_margin_bytes: limit vmart's part by vmart.set_capacity instead")

    def set_disk_backup_dir(self, path: str) -> None:
        raise _unsupported("set_disk_backup_dir: vmart keeps backups in host memory")

    def _ensure_initialized(self) -> None:
        """With TMS_INIT_ENABLE, enters a region on this thread that never ends: call it, set `hook_mode`
        to "preload", or enter any region, before the first tensor."""
        if self._started is not None:
            return
        flags = _Flags()
        if flags.disk:
            raise _unsupported("TMS_INIT_ENABLE_DISK_BACKUP")
        cpu_backup_backend()  # A wrong one is an error now.
        self._started = contextlib.ExitStack()
        if flags.enable:
            self._started.enter_context(self.region(enable_cpu_backup=flags.backup))

    @staticmethod
    def _check(backup: bool, backend: str | None) -> None:
        if backend is None:
            return
        if not backup:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
        if backend not in _BACKENDS:
            raise ValueError(f"cpu_backup_backend is {backend!r}; {_BACKENDS_TOLD}")


def _tag(tag: str, backup: bool) -> str:
    return f"{_PREFIX}{tag}{_KEPT if backup else _DROPPED}"


def _chunk_bytes(backup: bool) -> int:
    """What has no backup is given back and taken again, and does not move: the fewer chunks it has,
    the faster that is."""
    return 0 if backup else pools.LARGEST_CHUNKS


def _chosen(tag: str | None) -> list[str]:
    """The tags of vmart that have memory."""
    present = _TAGS.present()
    return sorted(present if tag is None else present & {_tag(tag, True), _tag(tag, False)})


def _unsupported(what: str) -> Unsupported:
    return Unsupported(f"not supported: {what}", "vmart.torch.memory_saver")


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """For compatibility: processes started inside need nothing preloaded."""
    yield


torch_memory_saver = TorchMemorySaver()
