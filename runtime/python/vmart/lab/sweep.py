"""An experiment on a cluster: a task a cell over Ray. No folder has to be shared; what a task returns
is the file of its cell, which this process writes, so that the folder is that of `vmart-lab run`."""

import os
import pathlib
import uuid

from vmart.lab import sweep_task
from vmart.lab.errors import library
from vmart.lab.experiment_files import experiment_files
from vmart.lab.experiments.command import tell, write_report
from vmart.lab.experiments.experiment import cells_of
from vmart.lab.experiments.folder import ResultFolder
from vmart.lab.experiments.reader import read_experiment
from vmart.lab.experiments.run import processors, run_read
from vmart.lab.experiments.worker import WorkerPool, find_program

TRIES_MAX = 3
CLEARING_S_MAX = 60


class Sweep:
    """One experiment, one folder of results. `program` is `vmart-lab`, `say` is told what happens."""

    def __init__(self, experiment, folder, program=None, tries_max=TRIES_MAX, say=print):
        self.experiment = pathlib.Path(experiment)
        self.folder = pathlib.Path(folder)
        self.program = os.path.abspath(program or find_program())
        self.tries_max = tries_max
        self.say = say
        self.name = uuid.uuid4().hex[:12]
        self.failed = {}  # From a cell's id to why.

    def run(self, address=None):
        """Runs what is not finished, then what `vmart-lab run` does, which finds all cells done and writes the
        tables, and the report. Returns an exit status: 1 if cells failed, which are named."""
        library("ray")
        with WorkerPool(self.program, processors()) as pool:
            experiment = read_experiment(self.experiment, pool.workers[0])
            with ResultFolder(self.folder, experiment) as self.results:
                self.run_unfinished([cell.id for cell in cells_of(experiment)], address)
            if self.failed:
                for identity, reason in self.failed.items():
                    self.say(f"failed {self.tries_max} times: {identity}: {reason}")
                return 1
            outcome = run_read(experiment, self.folder, pool)
        tell(outcome, self.folder)
        return 0 if outcome.all_went_well and write_report(self.folder, self.say) else 1

    def run_unfinished(self, ids, address):
        waiting = [identity for identity in ids if not os.path.exists(self.results.cell(identity))]
        self.say(f"{len(ids)} cells, {len(ids) - len(waiting)} of them finished")
        if waiting:
            self.run_cells(waiting, address)

    def run_cells(self, ids, address):
        import ray

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Nobody is told of an experiment.
        package = pathlib.Path(__file__).resolve().parents[1]
        begun_here = not ray.is_initialized()
        if begun_here:
            ray.init(address=address, runtime_env={"py_modules": [str(package)]}, log_to_driver=False)
        try:
            ClusterRun(self, ray).run(ids)
        finally:
            if begun_here:
                ray.shutdown()


class ClusterRun:
    """The tasks of one sweep, while Ray is there."""

    def __init__(self, sweep, ray):
        self.sweep = sweep
        self.ray = ray
        experiment, files = experiment_files(sweep.experiment, sweep.program)
        # In a list, so that Ray hands on the reference and not the bytes: a machine fetches them once.
        self.parcel = [ray.put(files)]
        self.arguments = (sweep.name, self.parcel, experiment, sweep.program)
        # Tries are counted here, where each failure can be told.
        self.task = ray.remote(num_cpus=1, max_retries=0)(cell_task)
        self.tries = {}

    def run(self, ids):
        pending = {self.begin(identity): identity for identity in ids}
        done_count = 0
        try:
            while pending:
                (ready, *_), _ = self.ray.wait(list(pending), num_returns=1)
                identity = pending.pop(ready)
                again = self.end(ready, identity)
                if again:
                    pending[again] = identity
                else:
                    done_count += 1
                    self.sweep.say(f"[{done_count}/{len(ids)}] {identity}")
        finally:
            for task in pending:
                self.ray.cancel(task, force=True)
            self.clear_machines()

    def begin(self, identity):
        self.tries[identity] = self.tries.get(identity, 0) + 1
        return self.task.remote(*self.arguments, identity)

    def end(self, ready, identity):
        """Writes what the task brought. Returns a new task where it failed and may be tried again."""
        try:
            data = self.ray.get(ready)
        except self.ray.exceptions.RayError as error:
            # Of an exception in the task Ray shows the whole trace; its cause says it shorter.
            reason = str(getattr(error, "cause", None) or error)
            if self.tries[identity] < self.sweep.tries_max:
                self.sweep.say(f"try {self.tries[identity]} failed: {identity}: {reason}")
                return self.begin(identity)
            self.sweep.failed[identity] = reason
            return None
        self.sweep.results.write(self.sweep.results.cell(identity), data)
        return None

    def clear_machines(self):
        """Leaves nothing behind, and takes the bounds. A machine that is gone by now has taken its
        folder along."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        tasks = []
        for node in self.ray.nodes():
            if node["Alive"]:
                where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                task = self.ray.remote(num_cpus=0, max_retries=0)(clear_task)
                tasks.append(task.options(scheduling_strategy=where).remote(self.sweep.name))
        cleared, _ = self.ray.wait(tasks, num_returns=len(tasks), timeout=CLEARING_S_MAX)
        for task in cleared:
            try:
                self.write_bounds(self.ray.get(task))
            except self.ray.exceptions.RayError as error:
                self.sweep.say(f"a machine was not cleared: {error}")

    def write_bounds(self, bounds):
        """Found once on the cluster, they need not be found here again."""
        for name, data in bounds.items():
            path = self.sweep.results.bound(name.removesuffix(".json"))
            if not os.path.exists(path):
                self.sweep.results.write(path, data)


def own_folder(sweep_name):
    import ray

    return sweep_task.node_folder(sweep_name, ray.get_runtime_context().get_node_id()[:12])


def cell_task(sweep_name, parcel, experiment, program, identity):
    import ray

    return sweep_task.run_cell(own_folder(sweep_name), lambda: ray.get(parcel[0]), experiment, program,
                               identity)


def clear_task(sweep_name):
    return sweep_task.clear(own_folder(sweep_name))
