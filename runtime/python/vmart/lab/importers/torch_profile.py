"""Traces of PyTorch's profiler (Kineto), as export_chrome_trace writes them: JSON with "traceEvents". Allocations are
in it if the profiler had profile_memory=True.

Each kernel, copy and fill is a task on its GPU with the duration that it had. Each allocation on a GPU is an object; one
that was there before, of which the file has only the end, is tagged "kept" and allocated at time 0, any other is
tagged "made". The file does not say which kernel uses which memory. The first kernel that a thread launches after
an allocation writes it in full, since operators allocate their outputs and then launch what fills them. The last kernel that
any thread launched on the GPU before the program frees it reads it in full. Memory that lives on at the end, or in
whose life no kernel was launched, is not read.

In a closed loop, a kernel starts when the CPU has launched it, and the kernel before it on its stream has ended,
and those that write what it reads. Memory is allocated when the program asked for it, and freed when it said so and its
last user has ended. In an open loop, kernels begin when they did."""

from vmart.lab.importers.event_order import NO_TASK, ClosedLoop, begun_use, ended, free, timed
from vmart.lab.importers.memory_lives import LEAST_BYTES
from vmart.lab.importers.parameters import CLOSED
from vmart.lab.importers.torch_program import Program

PARAMETERS = (CLOSED, LEAST_BYTES)


class ClosedKernels:
    def __init__(self, order):
        self._tasks = ClosedLoop(order)
        self._ends = {}  # The last task of each stream.
        self._users = {}  # The last task of each object.

    def launch(self, kernel):
        stream = kernel.gpu, kernel.stream
        after = {self._ends.get(stream, NO_TASK), *(self._users.get(life.thing, NO_TASK) for life in kernel.reads)}
        task = self._tasks.declare(kernel.uses(), time=kernel.launched, compute=kernel.duration, gpu=kernel.gpu,
                                   after=sorted(one for one in after if one.number))
        self._ends[stream] = task
        for life in (*kernel.writes, *kernel.reads):
            self._users[life.thing] = task

    def free(self, life):
        self._tasks.at_end(self._users.pop(life.thing, NO_TASK), free(life.thing), life.end)


class OpenKernels:
    def __init__(self, order):
        self._order = order
        self._tasks = 0
        self._ends = {}  # Of the last kernels that use an object.

    def launch(self, kernel):
        self._tasks += 1
        begun = begun_use(kernel.begin, duration=kernel.duration, task=self._tasks, gpu=kernel.gpu)
        self._order.add(kernel.begin, ended(begun, kernel.uses()))
        for life in (*kernel.writes, *kernel.reads):
            self._ends[life.thing] = max(kernel.begin + kernel.duration, self._ends.get(life.thing, 0))

    def free(self, life):
        end = max(life.end, self._ends.pop(life.thing, 0))
        self._order.add(end, timed(end, free(life.thing)))


def convert(source, order):
    actions, lives = Program(source).actions()
    kernels = (ClosedKernels if source.values["closed"] else OpenKernels)(order)
    order.add(0, "".join(timed(0, life.allocation()) for life in lives if life.begin is None))
    for now, verb, what in actions:
        order.advance(now)
        if verb == "launch":
            kernels.launch(what)
        elif verb == "free":
            kernels.free(what)
        else:
            order.add(now, timed(now, what.allocation()))
