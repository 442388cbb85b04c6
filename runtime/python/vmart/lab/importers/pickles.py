"""Pickles of others, which may be hostile: only plain lists, dictionaries, texts and numbers are read, in bounded
memory."""

import contextlib
import os
import pickle
import resource

from vmart.lab.importers.input_lines import opened

MEMORY_BYTES = 2 << 30
MEMORY_A_BYTE = 256  # Of the file, which may be compressed.


class Plain(pickle.Unpickler):
    """Never imports or calls anything."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refers to {module}.{name}, and may only have lists, dictionaries, texts and numbers")


def load_plain(path):
    """Raises ValueError that names the file and about how far it was read."""
    with opened(path) as file:
        size = 0 if path == "-" else os.path.getsize(path)
        try:
            with limited_memory(MEMORY_BYTES + MEMORY_A_BYTE * size):
                return Plain(file).load()
        except MemoryError:
            reason = "needs more memory than files of its size do"
        except EOFError:
            reason = "is cut off"
        # A damaged pickle raises nearly anything.
        except (pickle.UnpicklingError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
                ValueError) as error:
            reason = f"is not a plain pickle: {error}"
        where = f"near byte {file.tell()}: " if file.seekable() else ""
        raise ValueError(f"{path}: {where}{reason}")


@contextlib.contextmanager
def limited_memory(more):
    """Allocations beyond `more` bytes raise MemoryError: a few bytes of a pickle can ask for gigabytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [one for one in (now + more, soft, hard) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
