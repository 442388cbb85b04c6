"""Results of `vmart-lab run`: `load` reads a folder of them into data frames, `python3 -m vmart.lab`
writes its page and runs an experiment on a cluster. docs/guide/reading_results.md says what is in a folder.
`import_trace` makes a trace of a file of another format."""

from vmart.lab.errors import MissingLibrary, ResultError

__all__ = ["MissingLibrary", "ResultError", "import_trace", "load"]


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
