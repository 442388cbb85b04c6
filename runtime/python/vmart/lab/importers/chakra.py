"""Chakra execution traces (MLCommons): the operators of one rank as a graph, as converted from PyTorch's execution
traces with those of its profiler.

A storage, which tensors share, is an object as large as the furthest byte that a node uses. Each node that ran on a
GPU is a task with the duration that it had: it reads the tensors of its inputs and writes those of its outputs. A
collective without outputs works in place. Nodes of CPUs are left out. A task waits for the previous one of
its stream, for nodes of its dependencies, and for those that the CPU nodes of its dependencies launched before; for the
last one that wrote what it reads, and for the last user of what it writes. So kernels follow each other without the
pauses of a slow CPU.

A storage that is read before it is written was there before: it is tagged "kept" and lives from the begin to the end.
Any other is tagged "made", allocated for the node that writes it first and freed after its last use. The trace is
repeated "iterations" times, each after the whole previous one, with other objects for what is made.

With "gpus", as many ranks do the same, each on a GPU of its own with its own objects, and a collective waits for what
it waits for on all of them. Otherwise the rank uses the GPUs that the file names."""

from vmart.lab.importers.chakra_nodes import read_nodes
from vmart.lab.importers.event_order import NO_TASK, ClosedLoop, allocation, free, mark, use
from vmart.lab.importers.parameters import Parameter

PARAMETERS = (
    Parameter("iterations", 1, 1, 60e3, "how often the nodes run"),
    Parameter("gpus", 0, 0, 64, "ranks that do the same, one per GPU; 0: the one of the file, on its own GPUs"))


class Storage:
    """How all nodes use it."""

    def __init__(self, kept):
        self.kept = kept
        self.bytes = 0
        self.last = None  # The place of its last node in the file.


def storages_of(nodes):
    storages = {}
    for place, node in enumerate(nodes):
        for key, part in node.parts.items():
            storage = storages.setdefault(key, Storage(part.kind != "write"))
            storage.bytes = max(storage.bytes, part.end)
            storage.last = place
    return storages


class Rank:
    """One process: its objects, and which tasks used them."""

    def __init__(self, gpu):
        self.gpu = gpu  # None: as the file says.
        self.things = {}  # Objects, by storage.
        self.ends = {}  # The last task of each stream, by GPU.
        self.barrier = []  # The last tasks of the previous iteration.
        self._ran = {}  # The last task of each node of a GPU, or that a node of a CPU launched.
        self._writers, self._users = {}, {}  # The last to write a storage, and the one of its users that ends last.

    def begin_iteration(self):
        self.barrier = list(self.ends.values())
        self.ends = {}
        self._ran.clear()

    def awaited(self, node, stream):
        """The tasks that the node waits for."""
        tasks = [self.ends[stream]] if stream in self.ends else list(self.barrier)
        tasks += [self._ran.get(dep, NO_TASK) for dep in node.deps]
        for key, part in node.parts.items():
            tasks.append((self._writers if part.kind == "read" else self._users).get(key, NO_TASK))
        return tasks

    def used(self, node, stream, task, on_gpus):
        self.ends[stream] = task
        self._ran[node.number] = task
        for dep in node.deps:
            if dep not in on_gpus:
                self._ran[dep] = task
        for key, part in node.parts.items():
            if part.kind != "read":
                self._writers[key] = task
            self._users[key] = max(task, self._users.get(key, NO_TASK), key=lambda one: one.end)

    def forget(self, key):
        """Returns the object of the storage, and its user that ends last."""
        self._writers.pop(key, None)
        return self.things.pop(key), self._users.pop(key, NO_TASK)


class Iterations:
    def __init__(self, order, nodes, ranks):
        self._order = order
        self._tasks = ClosedLoop(order)
        self._nodes = nodes
        self._on_gpus = {node.number for node in nodes}
        self._storages = storages_of(nodes)
        self._ranks = ranks
        self._made = 0  # Objects so far.

    def run(self, count):
        for iteration in range(1, count + 1):
            last = max((task for rank in self._ranks for task in rank.ends.values()), key=lambda one: one.end,
                       default=NO_TASK)
            self._order.advance(last.end)
            self._tasks.at_end(last, mark(f"iteration {iteration}"))
            for rank in self._ranks:
                rank.begin_iteration()
            for place, node in enumerate(self._nodes):
                self._run(place, node)
        for rank in self._ranks:
            for key in list(rank.things):
                self._free(rank, key)

    def _run(self, place, node):
        streams = [(self._gpu(rank, node), node.stream) for rank in self._ranks]
        awaited = [rank.awaited(node, stream) for rank, stream in zip(self._ranks, streams)]
        if node.collective:
            awaited = [sum(awaited, [])] * len(self._ranks)
        for rank, stream, tasks in zip(self._ranks, streams, awaited):
            after = sorted({task for task in tasks if task.number})
            self._allocate(rank, node, max(after, key=lambda one: one.end, default=NO_TASK))
            task = self._tasks.declare(
                [use(rank.things[key], part.end - part.begin, part.kind, offset=part.begin)
                 for key, part in node.parts.items()], compute=node.duration, gpu=stream[0], after=after)
            rank.used(node, stream, task, self._on_gpus)
            for key in node.parts:
                if self._storages[key].last == place and not self._storages[key].kept:
                    self._free(rank, key)

    def _gpu(self, rank, node):
        """Of a node without tensors: the first one of the file."""
        if rank.gpu is not None:
            return rank.gpu
        return next(gpu for _, gpu in node.parts or self._storages)

    def _allocate(self, rank, node, after):
        for key in node.parts:
            storage = self._storages[key]
            if key in rank.things:
                continue
            rank.things[key] = self._made
            self._made += 1
            self._tasks.at_end(NO_TASK if storage.kept else after,
                               allocation(rank.things[key], storage.bytes, "kept" if storage.kept else "made"))

    def _free(self, rank, key):
        thing, last = rank.forget(key)
        self._tasks.at_end(last, free(thing))


def convert(source, order):
    nodes = read_nodes(source)
    gpus = source.values["gpus"]
    if gpus and len({gpu for node in nodes for _, gpu in node.parts}) > 1:
        raise ValueError(f"{source.path}: its rank uses several GPUs itself: gpus has to be 0")
    ranks = [Rank(gpu) for gpu in range(gpus)] or [Rank(None)]
    Iterations(order, nodes, ranks).run(source.values["iterations"])
