"""An experiment on a cluster: a task a cell over Ray. No folder has to be shared; what a task returns
is the file of its cell, which this process writes, so that the folder is that of `vmart-lab run`."""

import os
import pathlib
import shutil
import subprocess
import uuid

from vmart.lab import sweep_task
from vmart.lab.errors import MissingLibrary, ResultError, library
from vmart.lab.experiment_files import experiment_files, listed
from vmart.lab.report import write_report
from vmart.lab.whole_file import write_whole

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
        """Runs what is not finished, then `vmart-lab run`, which finds all cells done and writes the
        table and the report. Returns an exit status: 1 if cells failed, which are named."""
        library("ray")
        ids = self.ids()
        self.begin_folder()
        waiting = [identity for identity in ids if not self.cell_path(identity).exists()]
        self.say(f"{len(ids)} cells, {len(ids) - len(waiting)} of them finished")
        if waiting:
            self.run_cells(waiting, address)
        if self.failed:
            for identity, reason in self.failed.items():
                self.say(f"failed {self.tries_max} times: {identity}: {reason}")
            return 1
        return self.finish()

    def finish(self):
        # The report is made here, where Python is known to be one that can.
        done = subprocess.run([self.program, "run", str(self.experiment), "--out", str(self.folder),
                               "--no-report"], check=False)
        if done.returncode == 0:
            try:
                write_report(self.folder, say=self.say)
            except MissingLibrary as error:
                self.say(f"no report: {error}")
        return done.returncode

    def ids(self):
        """Of all cells."""
        return listed(self.program, self.experiment, "--list")

    def begin_folder(self):
        kept = self.folder / "experiment.json"
        asked = self.experiment.read_bytes()
        if kept.exists() and kept.read_bytes() != asked:
            raise ResultError(self.folder, "has results of another experiment")
        (self.folder / "cells").mkdir(parents=True, exist_ok=True)
        if not kept.exists():
            write_whole(kept, asked)

    def cell_path(self, identity):
        return self.folder / "cells" / f"{identity}.json"

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
        write_whole(self.sweep.cell_path(identity), data)
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
        folder = self.sweep.folder / "bounds"
        for name, data in bounds.items():
            folder.mkdir(exist_ok=True)
            if not (folder / name).exists():
                write_whole(folder / name, data)


def own_folder(sweep_name):
    import ray

    return sweep_task.node_folder(sweep_name, ray.get_runtime_context().get_node_id()[:12])


def cell_task(sweep_name, parcel, experiment, program, identity):
    import ray

    return sweep_task.run_cell(own_folder(sweep_name), lambda: ray.get(parcel[0]), experiment, program,
                               identity)


def clear_task(sweep_name):
    return sweep_task.clear(own_folder(sweep_name))


def find_program():
    """`vmart-lab` of the installation that this file lies in, or the one in PATH."""
    beside = pathlib.Path(__file__).resolve().parents[5] / "bin" / "vmart-lab"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("vmart-lab")
    if not found:
        raise ValueError("there is no vmart-lab in PATH; --program says where it is")
    return found
