"""Files that are there whole or not at all."""

import os


def write_synced(path, data):
    """Without the sync, a name may show an empty file after a power failure."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def rename(unfinished, path):
    """Gives a complete file its name, or that to which `path` leads if it is a link."""
    os.replace(unfinished, os.path.realpath(path))


def write_whole(path, data, unfinished=None):
    """Puts `data`, bytes, into the file `path`: who reads it sees what was there before, or all of it.
    `unfinished` is the path until then, by default beside the file."""
    if unfinished is None:
        folder, name = os.path.split(os.path.realpath(path))
        unfinished = os.path.join(folder, f".{name}.unfinished")
    write_synced(unfinished, data)
    rename(unfinished, path)
