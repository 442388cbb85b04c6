"""A plugin of pytest: memory pools and graphs of PyTorch that name no allocator have vmart's.

- `torch.cuda.MemPool()` has vmart's allocator, and says that it has none, as PyTorch's own does.
- `CUDAGraph.capture_begin()` without a pool gets one with vmart's allocator.
- The "dummy allocator" of TestMemPool notes its calls as before, and asks vmart for memory.
"""

import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile

import record_results
import torch
from vmart import _core

_SOURCE = """
#include <stddef.h>
extern void* vmart_torch_malloc(size_t, int, void*);
extern void vmart_torch_free(void*, size_t, int, void*);
int called_dummy_alloc, called_dummy_free;
void* dummy_alloc(size_t size, int device, void* stream) {
  called_dummy_alloc = 123;
  return vmart_torch_malloc(size, device, stream);
}
void dummy_free(void* pointer, size_t size, int device, void* stream) {
  called_dummy_free = 321;
  vmart_torch_free(pointer, size, device, stream);
}
int asked;
void* counted_alloc(size_t size, int device, void* stream) {
  __atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
  return vmart_torch_malloc(size, device, stream);
}
"""
_Pool, _Graph = torch.cuda.MemPool, torch.cuda.CUDAGraph
_kept = []  # For good: PyTorch crashes if an allocator goes before its pool, or a pool before its graph.
_built = []


def _library():
    """A new copy for each call, whose variables are zero."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vmart_suite_"))
    source, made = folder / "allocator.c", folder / "allocator.so"
    source.write_text(_SOURCE)
    vmart = _core.library_path()
    compiler = shutil.which("cc") or "gcc"
    command = [compiler, "-shared", "-fPIC", "-O1", str(source), vmart, f"-Wl,-rpath,{os.path.dirname(vmart)}", "-o", str(made)]
    subprocess.run(command, check=True)
    _built.append(ctypes.CDLL(str(made)))
    return str(made)


def _allocator():
    if not _kept:
        made = torch.cuda.memory.CUDAPluggableAllocator(_library(), "counted_alloc", "dummy_free")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        _kept.append(made)
    return _kept[0].allocator()


class MemPool(_Pool):
    def __init__(self, allocator=None, *arguments, **options):
        self._by_default = allocator is None
        super().__init__(_allocator() if allocator is None else allocator, *arguments, **options)

    @property
    def allocator(self):
        return None if self._by_default else super().allocator


class CUDAGraph(_Graph):
    def capture_begin(self, pool=None, *arguments, **options):
        if pool is None:
            _kept.append(MemPool())
            pool = _kept[-1].id
        super().capture_begin(pool, *arguments, **options)


def _dummy_allocator(_, check_vars):
    library = _library()
    return torch.cuda.memory.CUDAPluggableAllocator(library, "dummy_alloc", "dummy_free"), library


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item.cls, "get_dummy_allocator"):
            item.cls.get_dummy_allocator = _dummy_allocator


def _calls():
    """A dummy allocator notes that it was called, and not how often."""
    values = [[ctypes.c_int.in_dll(library, name).value for name in ("asked", "called_dummy_alloc")] for library in _built]
    return sum(asked + bool(called) for asked, called in values)


def pytest_sessionfinish():
    record_results.note(used=_calls())
    for made in _kept:  # Not freed in the order in which modules end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))


torch.cuda.MemPool, torch.cuda.CUDAGraph = MemPool, CUDAGraph
torch.cuda.memory.MemPool, torch.cuda.graphs.CUDAGraph = MemPool, CUDAGraph
