"""The folder with the results of one experiment. Several processes may write to it concurrently: a file gets
its name only when it is complete, and all processes produce the same contents."""

import contextlib
import fcntl
import os

from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.worker import utf8
from vmart.lab.whole_file import rename, write_synced, write_whole

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
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read") from error


def remove_tree(folder):
    """Of what cannot be removed, something is left. A link is removed, and what it leads to is not."""
    if os.path.islink(folder):
        with contextlib.suppress(OSError):
            os.unlink(folder)
    elif os.path.isdir(folder):
        import shutil  # This takes long to load.

        shutil.rmtree(folder, ignore_errors=True)


class ResultFolder:
    """Creates the folder, or opens that of the same experiment, and removes the leftovers of a crash. If
    several experiments start in one folder at the same time, only one gets it. Used with `with`; raises
    ExperimentError that says why the folder cannot be this experiment's, or cannot be written."""

    def __init__(self, path, experiment):
        self.path = utf8(path)
        self.experiment = experiment

    def __enter__(self):
        with refusing(self.path):
            os.makedirs(self.path, exist_ok=True)
        known = self._is_known()
        self._lock()
        try:
            with refusing(self.path):
                for folder in FOLDERS:
                    os.makedirs(self.file(folder), exist_ok=True)
                own = self.file(UNFINISHED, os.urandom(8).hex())
                os.mkdir(own)
                self._own = own
            if not known and not self._write_first():
                self._is_known()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._own:
            with contextlib.suppress(OSError):
                os.rmdir(self._own)  # Mostly it is empty.
            remove_tree(self._own)
        # Other processes may use the folder or be about to: only the last one removes it.
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rmdir(self.file(UNFINISHED))
        os.close(self._descriptor)

    def _is_known(self):
        """Whether the folder already contains the experiment's file."""
        file = self.file(EXPERIMENT)
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
            remove_tree(self.file(UNFINISHED))
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _write_first(self):
        """Writes the experiment's file. Returns False if another process wrote one meanwhile."""
        file = self.unfinished(EXPERIMENT)
        with refusing(self.file(EXPERIMENT)):
            write_synced(file, self.experiment.text)
            try:
                os.link(file, self.file(EXPERIMENT))
            except FileExistsError:
                return False
            except OSError:  # A file system without links.
                os.rename(file, self.file(EXPERIMENT))
        return True

    def file(self, *names):
        return os.path.join(self.path, *names)

    def cell(self, identity):
        return self.file("cells", f"{identity}.json")

    def bound(self, identity):
        return self.file("bounds", f"{identity}.json")

    def trace(self, name):
        return self.file("traces", f"{name}.vtrace")

    def trace_note(self, name):
        """Says how the trace was made."""
        return self.file("traces", f"{name}.json")

    def unfinished(self, name):
        """A path for a file that is written and then renamed. No other unfinished file may have this name."""
        return os.path.join(self._own, name)

    def write(self, path, data):
        """Writes the whole file or nothing."""
        file = self.unfinished(os.path.relpath(path, self.path).replace("/", "-"))
        with refusing(path):
            write_whole(path, data, file)

    def finish(self, unfinished, path):
        """Renames a complete file."""
        with refusing(path):
            rename(unfinished, path)
