"""The placement lab: `run` runs an experiment, `load` reads a folder of results into data frames, and `import_trace`
makes a trace of a file of another format. `python3 -m vmart.lab` also writes the page of results, and runs an
experiment on a cluster. docs/guide/experiments.md and docs/guide/reading_results.md say what is in a folder."""

from vmart.lab.errors import ExperimentError, MissingLibrary, ResultError

__all__ = ["ExperimentError", "MissingLibrary", "ResultError", "import_trace", "load", "run"]


def run(experiment, folder, jobs=None, only=(), program=None):
    """Runs the cells of the experiment file `experiment` that are not finished yet, `jobs` at a time (the
    number of processors), and leaves the results in `folder`.

    `only` are ids of cells; the tables are written by a run of all. `program` is `vmart-lab`, by default
    the installed one. Returns a `vmart.lab.experiments.run.Outcome`: how many cells are finished, and why
    others failed. Raises ExperimentError for what is wrong in the file or the folder.
    """
    from vmart.lab.experiments.run import run_experiment

    return run_experiment(experiment, folder, jobs, only, program)


def load(folder):
    """Reads the result folder `folder` into a `vmart.lab.results.Results`.

    Raises ResultError, which names the file, where something there is not what `vmart-lab run`
    writes, and MissingLibrary without pandas.
    """
    from vmart.lab.errors import library

    library("pandas")
    from vmart.lab.results import read_folder

    return read_folder(folder)


def import_trace(format, input, output, seed=1, *, bad_lines_max=100, program=None, **parameters):
    """Converts a file to a trace, as `vmart-lab convert`, and returns the summary of the trace as a dict.

    `vmart-lab convert --help` lists the formats and their parameters; `output` ends in .vtrace or .jsonl.
    `program` is `vmart-lab`, if it is not beside this package or in PATH. Raises ValueError with what the
    program says: which file and line, or which parameter, is wrong.
    """
    from vmart.lab.importing import convert

    return convert(format, input, output, seed, bad_lines_max, program, parameters)
