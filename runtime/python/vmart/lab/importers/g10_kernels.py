"""The kernels and tensors of an iteration of training, as traced by G10."""

import bisect
from dataclasses import dataclass

from vmart.lab.importers.event_order import OBJECT_BYTES_MAX
from vmart.lab.importers.input_lines import (BadLines, Refused, each_csv_line, each_json_line, file_beside, whole_number,
                                             whole_numbers)
from vmart.lab.importers.random_numbers import rounded

NUMBER_MAX = (1 << 64) - 1


@dataclass
class Tensor:
    number: int
    weight: bool
    bytes: int
    first: int | None = None  # The kernels of an iteration that use it.
    last: int | None = None

    def tag(self):
        return "weights" if self.weight else "tensors"

    def begins_with(self, kernel, first_iteration):
        """Whether it is allocated before this kernel: a weight only once."""
        return self.first == kernel.number and (first_iteration or not self.weight)


@dataclass
class Kernel:
    number: int
    duration: int
    uses: list  # Tensors and how it uses them, in their order.
    stage: int = 0
    enters: bool = False  # The kernel before is of another stage.


@dataclass
class TrainingIteration:
    tensors: dict  # By number.
    kernels: list

    def weights_used(self):
        return sorted(one.number for one in self.tensors.values() if one.weight and one.first is not None)


def tensors_path(path):
    """Of the tensor table. Raises ValueError if there is none."""
    return file_beside(path, "_kernels.jsonl", "_tensors.csv")


def read_iteration(source, stages):
    """With `stages` above 0, each kernel belongs to the stage in which it begins, of that many with equal
    time. Raises ValueError."""
    tensors = _read_tensors(tensors_path(source.path), source.bad.most)
    kernels = _read_kernels(source, tensors)
    for kernel in kernels:
        for number, _ in kernel.uses:
            tensor = tensors[number]
            tensor.first = kernel.number if tensor.first is None else tensor.first
            tensor.last = kernel.number
    if stages:
        _cut_stages(kernels, stages)
    for before, kernel in zip([None, *kernels], kernels):
        kernel.enters = before is None or before.stage != kernel.stage
    return TrainingIteration(tensors, kernels)


def _read_tensors(path, bad_lines_max):
    tensors = {}

    def read(number, weight, size):
        number = whole_number(number, "tensor", 0, NUMBER_MAX)
        tensor = Tensor(number, whole_number(weight, "is_weight", 0, 1) == 1,
                        whole_number(size, "bytes", 0, OBJECT_BYTES_MAX))
        if tensors.setdefault(number, tensor) is not tensor:
            raise Refused("tensor: appears twice")

    each_csv_line(path, "tensor,is_weight,bytes", BadLines(path, bad_lines_max), 0, read)
    return tensors


def _read_kernels(source, tensors):
    kernels = []

    def read(members):
        duration = rounded(members.number("us", 0, 1e12) * 1000)
        uses = {}
        for key, kind in (("in", "read"), ("out", "write")):
            for number in whole_numbers(members.list(key), f"{key}: contains an entry that is not a tensor"):
                if number not in tensors or not tensors[number].bytes:
                    raise Refused(f"{key}: tensor {number} has no bytes")
                uses[number] = kind if uses.get(number, kind) == kind else "read_write"
        kernels.append(Kernel(len(kernels), duration, sorted(uses.items())))

    each_json_line(source.path, source.bad, 0, read)
    return kernels


def _cut_stages(kernels, stages):
    total, before = sum(kernel.duration for kernel in kernels), 0
    for kernel in kernels:
        kernel.stage = min(int(before / total * stages), stages - 1) if total else 0
        before += kernel.duration


class TrainingPlan:
    """When each kernel of an iteration starts if no access takes longer than its kernel: what a compiler knows
    that has measured the kernels, as G10's does. The microbatches follow each other as in a closed loop."""

    def __init__(self, training, microbatches):
        self._kernels = training.kernels
        self._users = {}  # The numbers of the kernels that use each tensor.
        for kernel in training.kernels:
            for number, _ in kernel.uses:
                self._users.setdefault(number, []).append(kernel.number)
        self._starts = []  # By microbatch and kernel, from the start of the iteration.
        stage_ends, self._length = {}, 0
        for _ in range(microbatches):
            now, starts = 0, []
            for kernel in training.kernels:
                if kernel.enters:
                    now = max(now, stage_ends.get(kernel.stage, 0))
                starts.append(now)
                now += kernel.duration // microbatches
                stage_ends[kernel.stage] = now
            self._starts.append(starts)
            self._length = max(self._length, now)
        self._uses = {}  # Starts and stages of each weight's, by start.
        for tensor in training.tensors.values():
            if tensor.weight and tensor.first is not None:
                self._uses[tensor.number] = self._all_uses(tensor.number)

    def _all_uses(self, number):
        uses = [(starts[user], self._kernels[user].stage) for starts in self._starts
                for user in self._users[number]]
        return sorted(uses, key=lambda one: one[0])

    def next_use(self, tensor, batch, kernel):
        """How long after the start of the kernel, which uses it, and by which stage: of a weight by any
        microbatch, after the last kernels by the next iteration; of another tensor by the same microbatch.
        Requires: the kernel is not the last one that uses another tensor."""
        now = self._starts[batch][kernel]
        if not tensor.weight:
            users = self._users[tensor.number]
            user = users[bisect.bisect_right(users, kernel)]
            return self._starts[batch][user] - now, self._kernels[user].stage
        uses = self._uses[tensor.number]
        at = bisect.bisect_right(uses, now, key=lambda one: one[0])
        if at < len(uses):
            return uses[at][0] - now, uses[at][1]
        return self._length - now + uses[0][0], uses[0][1]
