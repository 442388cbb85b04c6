"""What an experiment's file says, with all names resolved, and its cells: machines x traces x policies x
routers x seeds."""

import itertools
from typing import NamedTuple

from vmart.lab.errors import ExperimentError
from vmart.lab.kinds import is_drawn

CELLS_MAX = 1_000_000
NAME_BYTES_MAX = 200  # Of a file: the usual limit of 255, less extensions.
BETWEEN = "~"
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-")


class Machine(NamedTuple):
    name: str
    described: dict  # For a worker: "file", and capacities. With "hbm_share", the HBM depends on the trace.

    @property
    def shares(self):
        return "hbm_share" in self.described


class Trace(NamedTuple):
    name: str
    where: str  # In the experiment's file, for errors: "small.json: traces[0]".
    how: str  # "file", "generate" or "convert".
    maker: str  # Name of the generator or format.
    input: str  # Path of the trace, or of the conversion's input.
    values: tuple  # Each "name=value".
    kind: str  # "real", "synthetic" or "held_out".

    @property
    def draws(self):
        """Whether it depends on a seed."""
        return is_drawn({self.how: self.maker})


class Experiment(NamedTuple):
    file: str
    text: bytes
    machines: list
    traces: list
    policies: list  # As for VMART_POLICY, with sweeps expanded.
    libraries: dict  # The absolute path of its shared object, by policy.
    routers: list
    pacing: str
    admission: str
    admission_memory: str
    limits: dict  # Of requests in milliseconds, "slo_first_ms" and "slo_step_ms", if they are given.
    options: dict  # Of replays, as the file has them: "uses", "stop" and others.
    chunk_bytes: int
    seeds: list
    bounds: bool


class Cell(NamedTuple):
    id: str  # A readable file name that depends only on the names below.
    machine: Machine
    trace: Trace
    policy: str
    router: str
    seed: int

    @property
    def bound_id(self):
        """Of the bound shared by all cells that differ only in the policy."""
        return file_name_of([self.machine.name, self.trace.name, self.router, f"s{self.seed}"])


def content_sum(parts):
    """FNV-1a, as `ContentSum` computes it of files."""
    total = 14695981039346656037
    for byte in b"".join(parts):
        total = (total ^ byte) * 1099511628211 % 2**64
    return f"{total:016x}"


def file_name_of(parts):
    """Combines `parts` into one file name: unchanged and joined by ~ if they are short and contain only
    letters, digits and ._=,+-; otherwise with a checksum."""
    parts = [part.encode() for part in parts]
    plain = ["".join(chr(byte) if byte in PLAIN else "_" for byte in part) for part in parts]
    name = BETWEEN.join(plain)
    if name[0] in ".-":  # A leading dot hides the file, and a leading dash looks like an option.
        name = "_" + name[1:]
    name = name[:NAME_BYTES_MAX]
    if name.encode() == BETWEEN.encode().join(parts):
        return name
    return f"{name}{BETWEEN}{content_sum(b'%d %s' % (len(part), part) for part in parts)}"


def cell_of(machine, trace, policy, router, seed):
    identity = file_name_of([machine.name, trace.name, *policy.split(":", 1), router, f"s{seed}"])
    return Cell(identity, machine, trace, policy, router, seed)


def cells_of(experiment):
    """All cells, ordered by machine, trace, policy, router and seed. A trace that does not depend on the seed is used
    only with the first: its replays would be equal."""
    lists = (experiment.machines, experiment.traces, experiment.policies, experiment.routers)
    most = len(experiment.seeds)
    for each in lists:
        most *= len(each)
    if most > CELLS_MAX:
        raise ExperimentError(f"{experiment.file}: more than {CELLS_MAX} cells")
    return [cell_of(machine, trace, policy, router, seed)
            for machine, trace, policy, router in itertools.product(*lists)
            for seed in (experiment.seeds if trace.draws else experiment.seeds[:1])]
