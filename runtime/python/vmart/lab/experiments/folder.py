"""The folder with the results of one experiment. Several processes may write to it concurrently: a file gets
its name only when it is complete, and all processes produce the same contents."""

import contextlib
import fcntl
import os
import pathlib

from vmart.lab.errors import ExperimentError

UNFINISHED = "unfinished"
EXPERIMENT = "experiment.json"
FOLDERS = ("cells", "bounds", "traces", UNFINISHED)


@contextlib.contextmanager
def refusing(path):
    """What the system refuses is refused with the path and the reason."""
    try:
        yield
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror or error}") from error


def read_if_there(path):
    """The bytes of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read") from error


def write_synced(path, data):
    """Without the sync, a name may show an empty file after a power failure."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def remove_tree(folder):
    """Of what cannot be removed, something is left."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
        folder.rmdir()


class ResultFolder:
    """Creates the folder, or opens that of the same experiment, and removes the leftovers of a crash. If
    several experiments start in one folder at the same time, only one gets it. Used with `with`; raises
    ExperimentError that says why the folder cannot be this experiment's, or cannot be written."""

    def __init__(self, path, experiment):
        self.path = pathlib.Path(path)
        self.experiment = experiment

    def __enter__(self):
        with refusing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        known = self._is_known()
        self._lock()
        try:
            with refusing(self.path):
                for folder in FOLDERS:
                    (self.path / folder).mkdir(exist_ok=True)
                own = self.path / UNFINISHED / os.urandom(8).hex()
                own.mkdir()
                self._own = own
            if not known and not self._write_first():
                self._is_known()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._own:
            remove_tree(self._own)
        # Other processes may use the folder or be about to: only the last one removes it.
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rmdir(self.path / UNFINISHED)
        os.close(self._descriptor)

    def _is_known(self):
        """Whether the folder already contains the experiment's file."""
        file = self.path / EXPERIMENT
        text = read_if_there(file)
        if text is not None and text != self.experiment.text:
            raise ExperimentError(f"{file}: is of an experiment other than {self.experiment.file}; choose another "
                                  "folder with --out")
        if text is None:
            self._refuse_foreign()
        return text is not None

    def _refuse_foreign(self):
        with refusing(self.path):
            names = os.listdir(self.path)
        for name in names:  # The experiment's own: another process has just started.
            if name not in FOLDERS and name != EXPERIMENT:
                raise ExperimentError(f"{self.path}: contains {name} but no {EXPERIMENT}; choose another folder "
                                      "with --out")

    def _lock(self):
        """Removes leftovers if no other process uses the folder, then takes a shared lock."""
        self._own = None  # This process's own folder for what is unfinished.
        with refusing(self.path):
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # In use, or without support for locks: nothing is removed.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(self.path / UNFINISHED)
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _write_first(self):
        """Writes the experiment's file. Returns False if another process wrote one meanwhile."""
        file = self.unfinished(EXPERIMENT)
        with refusing(self.path / EXPERIMENT):
            write_synced(file, self.experiment.text)
            try:
                os.link(file, self.path / EXPERIMENT)
            except FileExistsError:
                return False
            except OSError:  # A file system without links.
                os.rename(file, self.path / EXPERIMENT)
        return True

    def cell(self, identity):
        return self.path / "cells" / f"{identity}.json"

    def bound(self, identity):
        return self.path / "bounds" / f"{identity}.json"

    def trace(self, name):
        return self.path / "traces" / f"{name}.vtrace"

    def trace_note(self, name):
        """Says how the trace was made."""
        return self.path / "traces" / f"{name}.json"

    def unfinished(self, name):
        """A path for a file that is written and then renamed. No other unfinished file may have this name."""
        return self._own / name

    def write(self, path, data):
        """Writes the whole file or nothing."""
        file = self.unfinished(f"{path.parent.name}-{path.name}")
        with refusing(path):
            write_synced(file, data)
            os.replace(file, path)

    def finish(self, unfinished, path):
        """Renames a complete file."""
        with refusing(path):
            os.replace(unfinished, path)
