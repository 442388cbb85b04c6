"""What can be wrong with an experiment, with a result folder, and with the Python that reads it."""

import importlib


class ResultError(Exception):
    """A file that is not what it should be: `path` names it, `reason` says why."""

    def __init__(self, path, reason):
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.path, self.reason)


class ExperimentError(Exception):
    """An experiment that cannot be run, or not into this folder; says what is wrong, and where."""


class MissingLibrary(ImportError):
    """An optional library that is not installed: `name` is what pip calls it."""


def library(name):
    """The module `name`, which is also its name for pip. Raises MissingLibrary."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingLibrary(f"needs {name} (pip install {name}): {error}", name=name) from error
