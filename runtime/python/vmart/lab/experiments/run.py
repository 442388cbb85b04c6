"""Runs the unfinished cells of an experiment. The resulting folder depends only on the experiment, not on the
number of workers or on restarts."""

import os
import threading

from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.experiment import cells_of
from vmart.lab.experiments.folder import ResultFolder, read_if_there
from vmart.lab.experiments.reader import read_experiment
from vmart.lab.experiments.table import ResultsTable, finished_bound, finished_cell
from vmart.lab.experiments.traces import make_ready, require_same
from vmart.lab.experiments.worker import Refusal, WorkerPool, find_program
from vmart.lab.measure import measure_of

# Inputs of a cell that its bound does not depend on.
ONLY_OF_CELLS = ("slo_first_ms", "slo_step_ms", "policy", "policy_sum")


class Watcher:
    """Is told the progress of a run, one call at a time, by any thread."""

    def on_stage(self, what, count):
        """A stage of `count` steps before the cells begins, and may take a while: "making and reading traces"."""

    def on_step(self):
        """One more step of the stage has ended."""

    def on_begin(self, cells, finished):
        """Earlier runs have finished `finished` of the `cells`."""

    def on_cell(self, identity):
        """One more cell has ended."""

    def stop(self):
        """Whether to stop before the next cell. May be called concurrently."""
        return False


class Outcome:
    """What has become of the requested cells.

    cells, finished -- their number, and of those that are finished, also by earlier runs
    stopped         -- stopped before all cells began
    failed          -- reasons, by id, in the order of the experiment
    failed_bounds   -- reasons, by id of the bound
    without_bound   -- number of cells skipped because their bound failed
    """

    def __init__(self, cells):
        self.cells = cells
        self.finished = 0
        self.stopped = False
        self.failed = {}
        self.failed_bounds = {}
        self.without_bound = 0

    @property
    def all_went_well(self):
        return not self.failed and not self.failed_bounds


def processors():
    return len(os.sched_getaffinity(0))


def milliseconds(limit):
    """A limit as the program keeps it, in whole nanoseconds."""
    return None if limit is None else int(limit * 1e6) / 1e6


def without(inputs, keys):
    """`inputs` less `keys`. The last one takes the place of each, which is the order of the files."""
    items = list(inputs.items())
    for key in keys:
        for index, (name, _) in enumerate(items):
            if name == key:
                items[index] = items[-1]
                items.pop()
                break
    return dict(items)


class Inputs:
    """The inputs that results depend on. Each result stores them, so that a result from other inputs is
    recognised. Any thread."""

    def __init__(self, experiment, worker):
        self.experiment = experiment
        self.version = worker.ask("version")["version"]
        self.library_sums = {policy: worker.ask("sum", file=library)["sum"]
                             for policy, library in experiment.libraries.items()}
        self.machines = {}  # What a worker says of a machine with a trace.

    def add_machine(self, machine, trace, seed, ready, worker):
        key = self._machine_key(machine, trace, seed)
        if key not in self.machines:
            self.machines[key] = worker.ask("machine", machine=machine.described, trace=ready,
                                            chunk_bytes=self.experiment.chunk_bytes, **self.experiment.options)

    @staticmethod
    def _machine_key(machine, trace, seed):
        return (machine.name, trace.name, seed) if machine.shares else machine.name

    def machine_of(self, cell):
        return self.machines[self._machine_key(cell.machine, cell.trace, cell.seed)]

    def names(self, cell):
        """Identifies the cell; docs/guide/experiments.md describes the keys."""
        experiment = self.experiment
        names = {"id": cell.id, "machine": cell.machine.name, "trace": cell.trace.name, "policy": cell.policy,
                 "router": cell.router, "seed": cell.seed, "pacing": experiment.pacing,
                 "chunk_bytes": experiment.chunk_bytes, "admission": experiment.admission,
                 "admission_memory": experiment.admission_memory,
                 "slo_first_ms": milliseconds(experiment.limits.get("slo_first_ms")),
                 "slo_step_ms": milliseconds(experiment.limits.get("slo_step_ms")), **experiment.options}
        if cell.machine.shares:
            names["hbm_bytes"] = self.machine_of(cell)["hbm_bytes"]
        return names

    def of(self, cell, ready):
        """The names, the program's version, and checksums of the machine's numbers, the trace's bytes and the
        policy's library."""
        inputs = self.names(cell) | {"version": self.version, "machine_sum": self.machine_of(cell)["sum"],
                                     "trace_sum": ready["sum"]}
        if cell.policy in self.library_sums:
            inputs["policy_sum"] = self.library_sums[cell.policy]
        return inputs

    def of_bound(self, cell, ready):
        return without(self.of(cell, ready) | {"id": cell.bound_id}, ONLY_OF_CELLS)

    def question(self, cell, ready):
        """What a worker is told of a cell or its bound."""
        return {"machine": cell.machine.described, "trace": ready, "router": cell.router,
                "pacing": self.experiment.pacing, "chunk_bytes": self.experiment.chunk_bytes,
                "admission": self.experiment.admission, "admission_memory": self.experiment.admission_memory,
                **self.experiment.options}


class ExperimentRun:
    """One run. Prepares all traces and checks existing results before the first cell begins."""

    def __init__(self, experiment, folder, pool, only=(), watcher=None):
        self.experiment = experiment
        self.folder = folder
        self.pool = pool
        self.watcher = watcher or Watcher()
        self.only = set(only)
        self.cells = {number: cell for number, cell in enumerate(cells_of(experiment))
                      if not self.only or cell.id in self.only}
        unknown = self.only - {cell.id for cell in self.cells.values()}
        if unknown:
            raise ExperimentError(f'{experiment.file} has no cell "{min(unknown)}"; --list prints all cells')
        self.inputs = Inputs(experiment, pool.workers[0])
        self.traces = {}  # Ready, by trace and seed.
        self.bounds = {}  # By id; None if there is none.
        self.failed = {}  # Reasons, by number of the cell.
        self.outcome = Outcome(len(self.cells))
        self.lock = threading.Lock()  # Guards the members below, the outcome and the watcher.
        self.finished = set()
        self.table = ResultsTable(self.t_point)

    def run(self):
        for stage in (self.make_traces, self.find_finished, self.find_bounds, self.run_cells):
            if not self.watcher.stop():
                stage()
        outcome = self.outcome
        outcome.finished = len(self.finished)
        outcome.failed = {self.cells[number].id: self.failed[number] for number in sorted(self.failed)}
        outcome.stopped = outcome.finished + len(self.failed) + outcome.without_bound < outcome.cells
        if not outcome.stopped and not self.only:
            self.folder.write(self.folder.file("results.csv"), self.table.csv().encode())
            self.folder.write(self.folder.file("summary.csv"), self.table.summary().encode())
        return outcome

    def do_all(self, jobs, do):
        self.pool.run(jobs, do, self.watcher.stop)

    def t_point(self, freedom):
        return self.pool.workers[0].ask("t_point", freedom=freedom)["t_point"]

    def ready(self, cell):
        return self.traces[cell.trace.name, cell.seed]

    def make_traces(self):
        wanted = {(cell.trace.name, cell.seed): cell.trace for cell in self.cells.values()}
        self.watcher.on_stage("making and reading traces", len(wanted))

        def make(item, worker):
            (name, seed), trace = item
            self.traces[name, seed] = make_ready(trace, seed, self.folder, worker)
            with self.lock:
                self.watcher.on_step()

        self.do_all(sorted(wanted.items(), key=lambda item: self.place_of(item)), make)

    def place_of(self, item):
        (_, seed), trace = item
        return self.experiment.traces.index(trace), seed

    def find_finished(self):
        worker = self.pool.workers[0]
        for cell in self.cells.values():
            self.inputs.add_machine(cell.machine, cell.trace, cell.seed, self.ready(cell), worker)
        self.do_all(list(self.cells), self.look_for)

    def look_for(self, number, _):
        cell = self.cells[number]
        path = self.folder.cell(cell.id)
        line = read_if_there(path)
        known = finished_cell(line) if line is not None else None
        if known is not None:
            inputs, finished = known
            require_same(self.inputs.of(cell, self.ready(cell)), inputs, path)
            self.note(number, finished, path)

    def note(self, number, finished, path):
        with self.lock:
            self.table.set(number, self.cells[number], finished, path)
            self.finished.add(number)

    def find_bounds(self):
        if not self.experiment.bounds:
            return
        wanted = {}
        for cell in self.cells.values():
            wanted.setdefault(cell.bound_id, cell)
        self.watcher.on_stage("finding lower bounds", len(wanted))

        def find(cell, worker):
            self.find_bound(cell, worker)
            with self.lock:
                self.watcher.on_step()

        self.do_all(list(wanted.values()), find)

    def find_bound(self, cell, worker):
        ready, path = self.ready(cell), self.folder.bound(cell.bound_id)
        inputs = self.inputs.of_bound(cell, ready)
        line = read_if_there(path)
        known = finished_bound(line) if line is not None else None
        if known is None:
            try:
                line = worker.line("bound", **self.inputs.question(cell, ready), inputs=inputs)
                known = finished_bound(line) or worker.refuse(line, "a bound")
            except Refusal as error:
                with self.lock:
                    self.outcome.failed_bounds[cell.bound_id] = str(error)
                return
            self.folder.write(path, line)
        require_same(inputs, known[0], path)
        self.bounds[cell.bound_id] = known[1]

    def run_cells(self):
        left = []
        for number, cell in self.cells.items():
            if number in self.finished:
                continue
            # A cell contains its bound: without it, another run would make a different cell.
            if cell.bound_id in self.outcome.failed_bounds:
                self.outcome.without_bound += 1
            else:
                left.append(number)
        self.watcher.on_begin(len(self.cells), len(self.finished))
        self.do_all(left, self.run_cell)

    def run_cell(self, number, worker):
        cell = self.cells[number]
        try:
            line = worker.line("cell", **self.question(cell))
            _, finished = finished_cell(line) or worker.refuse(line, "a cell")
        except Refusal as error:
            self.failed[number] = str(error)
        else:
            path = self.folder.cell(cell.id)
            self.folder.write(path, line)
            self.note(number, finished, path)
        with self.lock:
            self.watcher.on_cell(cell.id)

    def question(self, cell):
        experiment, ready = self.experiment, self.ready(cell)
        library = experiment.libraries.get(cell.policy)
        return {**self.inputs.question(cell, ready), "policy": cell.policy, **experiment.limits,
                **({"library": library} if library else {}),
                "cell": self.inputs.names(cell) | {"measure": measure_of(ready["closed_loop"])},
                "inputs": self.inputs.of(cell, ready),
                "bound": self.bounds.get(cell.bound_id)}


def run_experiment(experiment, folder, jobs=None, only=(), program=None, watcher=None):
    """See `vmart.lab.run`."""
    with WorkerPool(program or find_program(), jobs or processors()) as pool:
        read = read_experiment(experiment, pool.workers[0])
        return run_read(read, folder, pool, only, watcher)


def run_read(experiment, folder, pool, only=(), watcher=None):
    """Runs an experiment that was read already."""
    try:
        results = ResultFolder(folder, experiment)
        run = ExperimentRun(experiment, results, pool, only, watcher)
        with results:
            return run.run()
    except Refusal as error:
        raise ExperimentError(str(error)) from error
