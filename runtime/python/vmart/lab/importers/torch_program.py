"""What a trace of PyTorch's profiler says of kernels and memory."""

import operator

from vmart.lab.importers.event_order import use
from vmart.lab.importers.input_lines import Refused, is_whole
from vmart.lab.importers.json_events import events_of
from vmart.lab.importers.memory_lives import Lives

LAUNCHES, KERNELS = ("cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")
CUDA = 1  # A device type of PyTorch.
GPUS_MAX = 1024
MICROSECONDS_MAX = 1 << 53
WHOLE_MAX = (1 << 64) - 1


def nanoseconds(event, key):
    value = event.get(key)
    if type(value) not in (int, float) or not 0 <= value <= MICROSECONDS_MAX:
        raise Refused(f"{key}: is not a time")
    return round(value * 1000)


def whole(event, key, least=0, most=WHOLE_MAX):
    arguments = event.get("args")
    value = arguments.get(key) if isinstance(arguments, dict) else None
    if not is_whole(value) or not least <= value <= most:
        raise Refused(f"{key}: is not a whole number from {least} to {most}")
    return int(value)


class Kernel:
    """What ran on a GPU, and the allocations that it writes and reads."""

    __slots__ = ("begin", "duration", "gpu", "launched", "reads", "stream", "writes")

    def __init__(self, gpu, stream, begin, duration):
        self.gpu = gpu
        self.stream = stream
        self.begin = self.launched = begin
        self.duration = duration
        self.writes, self.reads = [], []

    def uses(self):
        return [*(use(one.thing, one.bytes, "write") for one in self.writes),
                *(use(one.thing, one.bytes) for one in self.reads)]


class Program:
    """What the CPU did: launches of kernels, allocations, frees."""

    def __init__(self, source):
        self._bad = source.bad
        least_bytes = source.values["least_bytes"]
        self._launches = {}  # Time and thread, by correlation.
        self._kernels = []  # With their correlations.
        self._memory = []  # Time, number of the event, thread, GPU, address, bytes; less than 0 for a free.
        for number, event in events_of(source.path):
            try:
                self._add(number, event)
            except Refused as reason:
                self._bad.add(number, reason)
        self._memory = [one for one in self._memory if abs(one[-1]) >= least_bytes]
        if not self._memory:
            raise ValueError(f"{source.path}: has {len(self._kernels)} kernels, but no allocations of {least_bytes} bytes "
                             "on GPUs: the profiler needs profile_memory=True")

    def _add(self, number, event):
        kind = event.get("cat")
        if kind in KERNELS:
            kernel = Kernel(whole(event, "device", most=GPUS_MAX), whole(event, "stream"), nanoseconds(event, "ts"),
                            nanoseconds(event, "dur"))
            self._kernels.append((number, whole(event, "correlation"), kernel))
        elif kind in LAUNCHES and isinstance(event.get("args"), dict) and "correlation" in event["args"]:
            self._launches[whole(event, "correlation")] = nanoseconds(event, "ts"), str(event.get("tid"))
        elif event.get("name") == "[memory]" and whole(event, "Device Type", -1) == CUDA:
            self._memory.append((nanoseconds(event, "ts"), number, str(event.get("tid")), whole(
                event, "Device Id", most=GPUS_MAX), whole(event, "Addr"), whole(event, "Bytes", -WHOLE_MAX)))

    def actions(self):
        """Returns them in order: times from 0 on, "launch", "allocate" or "free", and a Kernel or a Life; and all
        lives."""
        waiting = [(time, number, what) for time, number, *what in self._memory]
        for number, correlation, kernel in self._kernels:
            time, thread = self._launches.get(correlation, (kernel.begin, ""))
            waiting.append((time, number, (kernel, thread)))
        waiting.sort(key=operator.itemgetter(0, 1))
        history = History(waiting[0][0])
        for time, number, what in waiting:
            try:
                if len(what) == 2:
                    history.launch(time, *what)
                else:
                    history.use_memory(time, *what)
            except Refused as reason:
                self._bad.add(number, reason)
        return history.actions, history.lives.all


class History:
    """Finds out which kernels may have used what. Requires: times do not decrease."""

    def __init__(self, first):
        self.actions = []
        self.lives = Lives()
        self._first = first
        self._unwritten = {}  # Allocations since a thread launched a kernel on a GPU.
        self._last = {}  # Kernels, by GPU.

    def launch(self, time, kernel, thread):
        kernel.launched = time - self._first
        kernel.begin = max(kernel.launched, kernel.begin - self._first)
        kernel.writes = [life for life in self._unwritten.pop((thread, kernel.gpu), ()) if life.freed is None]
        self._last[kernel.gpu] = kernel
        self.actions.append((kernel.launched, "launch", kernel))

    def use_memory(self, time, thread, gpu, address, size):
        now = time - self._first
        if size > 0:
            life = self.lives.allocate(now, gpu, address, size)
            self._unwritten.setdefault((thread, gpu), []).append(life)
            self.actions.append((now, "allocate", life))
            return
        life = self.lives.free(now, gpu, address, -size)
        self.actions.append((now, "free", life))
        kernel = self._last.get(gpu)
        if kernel and life not in kernel.writes and kernel.launched >= (life.begin or 0):
            kernel.reads.append(life)
