"""The traces of an experiment: made in its folder unless they are there, or given, and read to their end."""

import json
import os

from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.experiment import file_name_of
from vmart.lab.experiments.folder import read_if_there
from vmart.lab.experiments.worker import Refusal


def one_line(value):
    """JSON as the files of a folder have it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def require_same(wanted, known, path):
    """Raises ExperimentError with the file and what differs."""
    for key, value in wanted.items():
        if key not in known or known[key] != value:
            there = one_line(known[key]) if key in known else "nothing"
            raise ExperimentError(f"{path}: was made from other inputs: {key} is {there} there and "
                                  f"{one_line(value)} here; choose another folder with --out, or remove it")


def files_of(trace, worker):
    """The trace's file, or all files that it is made from. Raises Refusal for an incomplete input."""
    if trace.how != "convert":
        return [trace.input] if trace.how == "file" else []
    from vmart.lab.importers import FORMATS  # These take long to load.

    if trace.maker not in FORMATS:  # The program's own.
        return worker.ask("files", convert=trace.maker, input=trace.input)["files"]
    try:
        return FORMATS[trace.maker].files(trace.input)
    except (ValueError, OSError) as error:
        raise Refusal(str(error)) from error


class TraceRecipe:
    """How a trace is made for one seed, and from which bytes. Recognises a trace that it made by the note
    next to it: one line of JSON, described in docs/guide/experiments.md."""

    def __init__(self, trace, seed, worker):
        self.trace = trace
        self.seed = seed
        self.worker = worker
        made = worker.ask("recipe", values=trace.values, seed=seed, **{trace.how: trace.maker})["made"]
        self.inputs = {"made": made, "version": worker.ask("version")["version"]}
        if trace.how == "convert":
            self.inputs["input_sums"] = self._input_sums()

    def _input_sums(self):
        """By file name without folder, as in the trace's header."""
        return {os.path.basename(file): self.worker.ask("sum", file=file)["sum"]
                for file in files_of(self.trace, self.worker)}

    def make(self, output):
        """Raises Refusal if it cannot be made, or its input has changed in the meantime."""
        words = [word for value in self.trace.values for word in ("--param", value)]
        files = [self.trace.input] if self.trace.how == "convert" else []
        self.worker.run(self.trace.how, "--seed", str(self.seed), *words, "--", self.trace.maker, *files, output)
        if files and self.inputs["input_sums"] != self._input_sums():
            raise Refusal(f"{self.trace.input}: changed while it was read")

    def note(self, trace_sum):
        return one_line({"inputs": self.inputs, "trace_sum": trace_sum}).encode() + b"\n"

    def sum_in(self, note, path):
        """The checksum of the trace in such a note, bytes; None if the note is incomplete."""
        try:
            known = json.loads(note)
            inputs, trace_sum = known["inputs"], known["trace_sum"]
        except (ValueError, TypeError, KeyError):
            return None
        require_same(self.inputs, inputs, path)
        return trace_sum


def make_ready(trace, seed, folder, worker):
    """What a worker says of the trace, once it exists and all its events are sound: `file`, `sum`, `unplaced`
    (accesses whose device the router chooses), `closed_loop` (it declares tasks) and the memory that it
    needs. Raises ExperimentError with the place in the experiment's file."""
    try:
        return made(trace, seed, folder, worker) if trace.how != "file" else worker.ask("trace", file=trace.input)
    except (Refusal, ExperimentError) as error:
        raise ExperimentError(f"{trace.where}: {error}") from error


def made(trace, seed, folder, worker):
    recipe = TraceRecipe(trace, seed, worker)
    name = file_name_of([trace.name, f"s{seed}"])
    path, note = folder.trace(name), folder.trace_note(name)
    known = read_if_there(note)
    trace_sum = recipe.sum_in(known, note) if known is not None else None
    left = left_trace(path, worker) if trace_sum else None
    if left and left["sum"] == trace_sum:
        return left
    unfinished = folder.unfinished(f"{name}.vtrace")
    recipe.make(unfinished)
    folder.finish(unfinished, path)
    ready = worker.ask("trace", file=str(path))
    folder.write(note, recipe.note(ready["sum"]))
    return ready


def left_trace(path, worker):
    """The trace of an earlier run; None if it is incomplete, for example after a power failure."""
    try:
        return worker.ask("trace", file=str(path))
    except Refusal:
        return None
