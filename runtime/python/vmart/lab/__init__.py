"""Results of `vmart-lab run`: `load` reads a folder of them into data frames, `python3 -m vmart.lab`
writes its page and runs an experiment on a cluster. docs/guide/reading_results.md says what is in a folder."""

from vmart.lab.errors import MissingLibrary, ResultError

__all__ = ["MissingLibrary", "ResultError", "load"]


def load(folder):
    """Reads the result folder `folder` into a `vmart.lab.results.Results`.

    Raises ResultError, which names the file, where something there is not what `vmart-lab run`
    writes, and MissingLibrary without pandas.
    """
    from vmart.lab.errors import library

    library("pandas")
    from vmart.lab.results import read_folder

    return read_folder(folder)
