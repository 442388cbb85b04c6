"""A plugin of pytest: each test begins with vmart as CuPy's allocator. Some tests set another one, and CuPy's own pool after
it."""

import os

import cupy
import pytest
import record_results
from vmart import cupy as vmart_cupy

_asked = 0
_made = []


class _Counting(vmart_cupy.Allocator):
    def _malloc(self, size, device):
        global _asked
        _asked += 1
        return super()._malloc(size, device)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Not earlier: CuPy's conftest.py chooses the GPUs of the process first."""
    if not _made:
        _made.append(_Counting(None, "cupy", {}))
    cupy.cuda.set_allocator(_made[0]._functions.malloc)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        record_results.note(used=_asked, worker=os.environ.get("PYTEST_XDIST_WORKER"))
