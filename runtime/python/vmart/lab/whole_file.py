"""Files that are there whole or not at all."""

import os


def write_whole(path, data):
    """Puts `data`, bytes, into the file `path`: who reads it sees what was there before, or all of it."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)
