"""What can be wrong with an experiment, with a result folder, and with the Python that reads it."""

import contextlib
import importlib
import re


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


def _imported(module, name, why):
    """The module. Raises MissingLibrary with `why`, and what pip calls it (`name`)."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(f"{why}: {error}", name=name) from error


def extension(call):
    """The module `vmart._lab`. Raises MissingLibrary where it is not installed."""
    return _imported("vmart._lab", "vmart", f"{call} needs the extension vmart._lab (pip install vmart, with CLI11 where that "
                     "is built)")  # fmt: skip


@contextlib.contextmanager
def said_by(call, options=()):
    """Errors of the extension name the call of Python, and its options as Python does, not the parts of C++ that refused."""
    from vmart.errors import Error

    try:
        yield
    except Error as error:
        of_call = error.__traceback__.tb_next
        if of_call is not None and of_call.tb_next is not None:  # A policy of Python raised it: the user's.
            raise
        text = re.sub(rf"^(?:[\w:. -]+: {error.kind}: )+", "", str(error))
        for name in sorted(options, reverse=True):  # hbm_share before hbm.
            text = text.replace("--" + name.replace("_", "-"), name)
        raise type(error)(f"{call}: {text}", call, error.native) from None


def data_frames():
    """pandas. Raises MissingLibrary, which names the extra."""
    return _imported("pandas", "pandas", "data frames need pandas (pip install 'vmart[lab]')")


def library(name):
    """The module `name`, which is also its name for pip. Raises MissingLibrary."""
    return _imported(name, name, f"needs {name} (pip install {name})")
