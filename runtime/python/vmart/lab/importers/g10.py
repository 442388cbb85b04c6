"""Training iterations as traced by G10: a JSON-lines file NAME_kernels.jsonl with one kernel per line,
{"k","name","us","in","out"}, where "in" and "out" list tensor numbers; and next to it NAME_tensors.csv:
tensor,is_weight,bytes. Both may be compressed.

The kernels run in sequence, "iterations" times. Each is a task, numbered from 1. Over its measured time it
passes once over each of its tensors: it reads those in "in", writes those in "out", and does both for those in
both. Weights have the tag "weights" and live from their first use to the end; other tensors live from their
first to their last use in each iteration. A mark begins each iteration. With "stages" above 0 the kernels of
an iteration are split into that many parts of equal time, one per GPU, like a pipeline; with 0 the trace names
no device. A kernel with a tensor that is missing in the table or has no bytes is a bad line.

In a closed loop, a kernel follows the previous one of its microbatch, and the previous one on its stage: a
stage runs the microbatches in order, and an iteration follows the whole previous one, which has changed the
weights. Each microbatch has its own tensors of its share of the bytes, and its kernels take its share of the
time; it passes once over each weight. So the weights are read and written as often as there are microbatches.
With "hints", each kernel announces when each of its tensors is used next, and by which stage, as a compiler
knows it that has measured the kernels: a `TrainingPlan`. A weight is an object with the tensor's number, and
every other tensor is a new object each time. In an open loop, every tensor is an object with its number, and
kernels begin at the times at which they would if memory never delayed one."""

from vmart.lab.importers.event_order import (NO_TASK, ClosedLoop, allocation, begun_use, ended, free, hint, mark,
                                             timed, use)
from vmart.lab.importers.g10_kernels import TrainingPlan, read_iteration, tensors_path
from vmart.lab.importers.parameters import CLOSED, HINTS, Parameter

PARAMETERS = (
    Parameter("iterations", 2, 1, 60e3, "how often the kernels run"),
    Parameter("stages", 0, 0, 1000, "GPUs in a pipeline; 0: name no device"), CLOSED,
    Parameter("microbatches", 0, 0, 1000, "microbatches of an iteration of a closed loop; 0: 4 if there are "
              "several stages, else 1"), HINTS)


def files(path):
    """The kernels file and the tensor table. Raises ValueError if the table is missing."""
    return [path, tensors_path(path)]


class OpenTraining:
    def __init__(self, order, training, staged):
        self._order = order
        self._training = training
        self._staged = staged
        self._now = self._task = 0

    def run(self, iterations):
        for iteration in range(1, iterations + 1):
            self._add(mark(f"iteration {iteration}"))
            for kernel in self._training.kernels:
                self._order.advance(self._now)
                self._task += 1
                self._begin(kernel, iteration == 1)
                self._now += kernel.duration
                for _, tensor, _ in self._uses(kernel):
                    if tensor.last == kernel.number and not tensor.weight:
                        self._add(free(tensor.number))
        for weight in self._training.weights_used():
            self._add(free(weight))

    def _add(self, event):
        self._order.add(self._now, timed(self._now, event))

    def _uses(self, kernel):
        return [(number, self._training.tensors[number], kind) for number, kind in kernel.uses]

    def _begin(self, kernel, first_iteration):
        """Allocates what the kernel is the first to use, and uses all of its tensors."""
        for number, tensor, _ in self._uses(kernel):
            if tensor.begins_with(kernel, first_iteration):
                self._add(allocation(number, tensor.bytes, tensor.tag()))
        gpu = kernel.stage if self._staged else None
        begun = begun_use(self._now, duration=kernel.duration, task=self._task, gpu=gpu)
        uses = [use(number, tensor.bytes, kind) for number, tensor, kind in self._uses(kernel)]
        self._order.add(self._now, ended(begun, uses))


class ClosedTraining:
    def __init__(self, order, training, microbatches, staged, hints):
        self._order = order
        self._tasks = ClosedLoop(order)
        self._training = training
        self._microbatches = microbatches
        self._staged = staged
        self._plan = TrainingPlan(training, microbatches) if hints else None
        self._things_end = max(training.tensors, default=-1) + 1  # A tensor is another object in each microbatch.
        self._things = {}  # Of this microbatch, by tensor.
        self._stage_ends = {}  # The last task of each stage.
        self._last = NO_TASK

    def run(self, iterations):
        for iteration in range(1, iterations + 1):
            before = self._last
            self._order.advance(before.end)
            self._tasks.at_end(before, mark(f"iteration {iteration}"))
            self._stage_ends.clear()
            for batch in range(self._microbatches):
                self._last = before if batch == 0 else NO_TASK  # The others follow the first one.
                self._run_microbatch(batch, batch == 0 and iteration == 1)
        for weight in self._training.weights_used():
            self._tasks.at_end(self._last, free(weight))

    def _run_microbatch(self, batch, first):
        """The kernels of a microbatch run one after the other; each stage takes one microbatch at a time."""
        self._things.clear()
        for kernel in self._training.kernels:
            after = [self._last]
            if kernel.enters:
                after.append(self._stage_ends.get(kernel.stage, NO_TASK))
            if after[0].number == after[-1].number:
                del after[1:]
            self._allocate(kernel, first, max(after, key=lambda one: one.end))
            hints = [self._hint(number, batch, kernel) for number, _ in kernel.uses] if self._plan else []
            self._last = self._tasks.declare(
                [use(self._thing(number), self._bytes_of(number), kind) for number, kind in kernel.uses],
                [one for one in hints if one], compute=kernel.duration // self._microbatches,
                gpu=kernel.stage if self._staged else None, after=after)
            self._stage_ends[kernel.stage] = self._last
            for number, _ in kernel.uses:
                tensor = self._training.tensors[number]
                if tensor.last == kernel.number and not tensor.weight:
                    self._tasks.at_end(self._last, free(self._things[number]))

    def _thing(self, number):
        return number if self._training.tensors[number].weight else self._things[number]

    def _allocate(self, kernel, first, after):
        for number, _ in kernel.uses:
            tensor = self._training.tensors[number]
            if not tensor.begins_with(kernel, first):
                continue
            if not tensor.weight:
                self._things[number] = self._things_end
                self._things_end += 1
            self._tasks.at_end(after, allocation(self._thing(number), self._bytes_of(number), tensor.tag()))

    def _hint(self, number, batch, kernel):
        """When the tensor is used after this kernel; None if it is not."""
        tensor = self._training.tensors[number]
        if not tensor.weight and tensor.last == kernel.number:
            return None
        after, stage = self._plan.next_use(tensor, batch, kernel.number)
        return hint(self._thing(number), self._bytes_of(number), next_use=after,
                    gpu=stage if self._staged else None)

    def _bytes_of(self, number):
        """Microbatches share the weights and divide everything else."""
        tensor = self._training.tensors[number]
        return -(-tensor.bytes // (1 if tensor.weight else self._microbatches))


def convert(source, order):
    stages, iterations = source.values["stages"], source.values["iterations"]
    training = read_iteration(source, stages)
    if not source.values["closed"]:
        OpenTraining(order, training, stages > 0).run(iterations)
        return
    microbatches = source.values["microbatches"] or (4 if stages > 1 else 1)
    ClosedTraining(order, training, microbatches, stages > 0, source.values["hints"]).run(iterations)
