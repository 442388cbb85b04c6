"""Streams of PyTorch that attach by themselves.

Background moves may stop the attached streams at a gate; work of other streams must not use memory
that moves then. PyTorch runs work on its default stream and on those that the program switches to, so the
switch is where a stream is attached.
"""

from __future__ import annotations

import collections
import logging
import threading
import weakref
from typing import Any

import torch

from vmart import _core
from vmart.errors import Error, InvalidArgument

__all__ = ["AttachedStreams", "attach_streams"]

_log = logging.getLogger(__name__)


class AttachedStreams:
    """Attaches streams while it is installed, and detaches them at `release()` or the end of its `with`
    block. Any thread.

    It replaces `torch.cuda.set_stream`, which `with torch.cuda.stream(...)` calls, and
    `torch.cuda.Stream.__enter__`. PyTorch has 32 streams for each GPU and priority and never destroys
    them; above `limit` the least recently used ones that are idle are detached. A
    `torch.cuda.ExternalStream` is detached with its Python object: destroy the stream after that.

    Work that C++ code or other libraries submit to their own streams is not seen: `vmart.attach`.
    """

    def __init__(self, limit: int = 32) -> None:
        if limit < 1:
            raise InvalidArgument(f"limit is {limit}; at least 1", "vmart.torch.attach_streams")
        self.limit = limit
        self._lock = threading.RLock()  # A finalizer may run anywhere.
        self._defaults: dict[int, int] = {}  # GPU to handle.
        # By GPU and handle, the least recently used first. None for an external stream.
        self._attached: collections.OrderedDict[tuple[int, int], Any] = collections.OrderedDict()
        self._set_stream: Any = None

    @property
    def installed(self) -> bool:
        return self._set_stream is not None

    def install(self) -> None:
        """Idempotent."""
        with self._lock:
            if self.installed:
                return
            original = self._set_stream = torch.cuda.set_stream

            def set_stream(stream: Any) -> None:
                original(stream)
                self._switched(stream)

            torch.cuda.set_stream = self._hook = set_stream
            enter = getattr(torch.cuda.Stream, "__enter__", None)
            self._own_enter = vars(torch.cuda.Stream).get("__enter__")
            if enter is not None:

                def __enter__(stream: Any) -> Any:
                    entered = enter(stream)
                    self._switched(stream)
                    return entered

                torch.cuda.Stream.__enter__ = __enter__

    def release(self) -> None:
        """Takes the hook out and detaches all streams that it attached. Waits for their work: it may
        use memory that moves next. Idempotent."""
        with self._lock:
            if not self.installed:
                return
            if torch.cuda.set_stream is self._hook:  # Else somebody else wraps it; it calls ours.
                torch.cuda.set_stream = self._set_stream
            if self._own_enter is not None:
                torch.cuda.Stream.__enter__ = self._own_enter
            elif "__enter__" in vars(torch.cuda.Stream):
                del torch.cuda.Stream.__enter__
            self._set_stream = None
            attached, self._attached = self._attached, collections.OrderedDict()
            defaults, self._defaults = self._defaults, {}
        for device, handle in [*attached, *defaults.items()]:
            self._end(device, handle, synchronize=True)

    def __enter__(self) -> AttachedStreams:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def use_current(self, device: int) -> None:
        """Attaches the default and the current stream of a GPU."""
        self._use_default(device)
        self.use(torch.cuda.current_stream(device))

    def use(self, stream: Any) -> None:
        """Attaches the stream, unless it is."""
        device, handle = stream.device.index, stream.cuda_stream
        if handle == torch.cuda.default_stream(device).cuda_stream:
            self._use_default(device)
            return
        with self._lock:
            if (device, handle) in self._attached:
                self._attached.move_to_end((device, handle))
                return
            with torch.cuda.device(device):
                _core.attach(handle)
            external = isinstance(stream, torch.cuda.ExternalStream)
            self._attached[device, handle] = None if external else stream
            if external:
                weakref.finalize(stream, self._dropped, device, handle).atexit = False
            if len(self._attached) > self.limit:
                self._detach_idle()

    def handles(self) -> list[tuple[int, int]]:
        """GPU and handle of the attached streams, except the default ones."""
        with self._lock:
            return list(self._attached)

    def _use_default(self, device: int) -> None:
        with self._lock:
            if device in self._defaults:
                return
            with torch.cuda.device(device):
                if not torch.cuda.is_current_stream_capturing():
                    torch.zeros(1, device=f"cuda:{device}")  # The GPU has a context from then on.
                handle = torch.cuda.default_stream(device).cuda_stream
                _core.attach(handle)
            self._defaults[device] = handle

    def _switched(self, stream: Any) -> None:
        if stream is None or not self.installed:
            return
        try:
            self.use(stream)
        except Error as error:  # Switching streams has never failed, and must not now.
            _log.warning("a stream was not attached, and memory that it uses must not move: %s", error)

    def _detach_idle(self) -> None:
        known = [stream for stream in self._attached.values() if stream is not None]
        if any(self._captures(stream) for stream in known):
            return  # A query would end the capture.
        for key, stream in list(self._attached.items())[:-1]:
            if len(self._attached) <= self.limit:
                return
            if stream is not None and stream.query():
                del self._attached[key]
                self._end(*key, synchronize=False)

    def _captures(self, stream: Any) -> bool:
        with torch.cuda.device(stream.device):
            before = torch.cuda.current_stream()
            self._set_stream(stream)
            try:
                return torch.cuda.is_current_stream_capturing()
            finally:
                self._set_stream(before)

    def _dropped(self, device: int, handle: int) -> None:
        with self._lock:
            if (device, handle) not in self._attached:
                return
            del self._attached[device, handle]
        self._end(device, handle, synchronize=True)

    @staticmethod
    def _end(device: int, handle: int, synchronize: bool) -> None:
        try:
            with torch.cuda.device(device):
                if synchronize:
                    _core.synchronize(handle)
                _core.detach(handle)
        except Error as error:
            _log.warning("a stream was not detached: %s", error)


_streams = AttachedStreams()


def attach_streams(limit: int | None = None) -> AttachedStreams:
    """Attaches the streams that the program switches to from now on, on all GPUs, and returns what
    does so. `memory` calls it. `limit` is how many stay attached, 32 if never given.

        with vmart.torch.attach_streams(limit=64):
            ...                                  # or keep it, and call release()
    """
    if limit is not None:
        if limit < 1:
            raise InvalidArgument(f"limit is {limit}; at least 1", "vmart.torch.attach_streams")
        _streams.limit = limit
    _streams.install()
    return _streams
