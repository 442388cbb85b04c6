"""Runs the steps of `bench/run.py --summary` one after another, and writes what there is after each: a machine that is taken
away loses only the step that ran."""

import importlib.util
import os
import statistics
import sys

from harness.samples import table, write_document

LEAST_S = 3  # With less time left, a step is not begun.
DONE, SKIPPED, FAILED, LEFT_OUT = "done", "SKIPPED", "FAILED", "LEFT OUT"


class Overview:
    """`runner`: a `run.Runner`. `flags`: those of a benchmark, by its filter and the file that it writes."""

    def __init__(self, runner, flags, context, out):
        self.runner, self.flags, self.context, self.out = runner, flags, context, out
        self.states = []

    def run(self, steps, chooser):
        """The ways of a row in an order by chance, so that none is always the first."""
        for row in dict.fromkeys(step.row for step in steps):
            ways = [step for step in steps if step.row == row]
            chooser.shuffle(ways)
            for step in ways:
                self.take(step)

    def take(self, step):
        state, names = self.why_not(step), []
        if not state:
            state, names = self.process(step)
        took_s = round(self.runner.took.get(step.name(), 0), 1)
        self.states.append({"row": step.row, "way": step.way, "state": state, "took_s": took_s,
                            "limit_s": step.limit_s, "samples": names})
        print(f"  {step.name()}: {took_s} s: {state}", flush=True)
        self.write()

    def process(self, step):
        """Returns its state and the names of its samples."""
        failed = self.runner.failed
        before = len(failed)
        gather = (lambda _, out: self.gather(step, out)) if step.reads else self.runner.gather
        reason, names = self.runner.process(step.name(), lambda out: self.command(step, out), step.limit_s, gather)
        if reason.startswith(SKIPPED):
            return reason, names
        # What its cases say of themselves tells more than its status.
        said = [one["reason"] for one in failed[before:]]
        if reason and (not said or reason.startswith("HANG")):
            said.append(reason)
        if not said and names:
            return DONE, names
        why = "; ".join(said) or "it gave no figures"
        failed[before:] = [{"step": step.name(), "reason": why}]
        return f"{FAILED}: {why}", names

    def why_not(self, step):
        if self.context["gpu_count"] < step.gpus:
            return f"{SKIPPED}: needs {step.gpus} GPUs"
        if step.module and importlib.util.find_spec(step.module) is None:
            return f"{SKIPPED}: Python has no {step.module}; type: {step.install}"
        if self.runner.seconds_left() < LEAST_S:
            self.runner.left_out.append(step.name())
            return f"{LEFT_OUT}: no time left"
        return ""

    def command(self, step, out):
        build = self.runner.build.parent
        modules = os.pathsep.join(filter(None, [str(build / "python"), os.environ.get("PYTHONPATH")]))
        command = ["env", f"PYTHONPATH={modules}", *step.settings]
        if not step.reads:
            return [*command, *self.runner.start(step.program), *self.flags(step.pattern, out), *step.arguments]
        return [*command, sys.executable, "-B", str(self.runner.scripts / step.program),
                *(one.format(build=build, out=out) for one in step.arguments)]

    def gather(self, step, out):
        """Takes the entries of a script. What it wrote before it failed counts, too."""
        if not out.exists():
            return []
        try:
            entries = step.reads(out)
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            self.runner.failed.append({"step": step.name(), "reason": f"what it wrote: {type(error).__name__}: {error}"})
            return []
        self.runner.results.update((entry["name"], entry) for entry in entries)
        return [entry["name"] for entry in entries]

    def write(self):
        results = [spread(self.runner.results[name]) for name in sorted(self.runner.results)]
        write_document(self.out, {"context": self.context, "failed": self.runner.failed, "left_out": self.runner.left_out,
                                  "open_cost": [], "steps": self.states, "results": results}, "steps", "results")

    def print_tables(self):
        print(table(["row", "way", "s", "limit", "state"],
                    [[one["row"], one["way"], one["took_s"], one["limit_s"], one["state"]] for one in self.states]))
        print()
        print(table(["samples", "of", "median us", "quartiles", "counters, medians"], [
            [name, len(one["samples_us"]), one["median_us"], " to ".join(map(str, one["quartiles_us"])),
             ", ".join(f"{counter} {statistics.median(values):.4g}" for counter, values in one["counters"].items())]
            for name, one in sorted((name, spread(one)) for name, one in self.runner.results.items())]))


def spread(entry):
    """The entry with its median and quartiles."""
    times = entry["samples_us"]
    low, high = (times[0], times[0]) if len(times) < 2 else statistics.quantiles(times, n=4, method="inclusive")[::2]
    return {**entry, "median_us": round(statistics.median(times), 4), "quartiles_us": [round(low, 4), round(high, 4)]}
