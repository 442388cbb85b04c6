"""A simulated machine for the tests of the Python package: one runtime a process, 2 GPUs and a host."""

import os
import unittest

import vmart

CHUNK = 2 << 20


class OnAMachine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not vmart.runtime.is_open():
            vmart.open_runtime(driver=os.environ.get("VMART_DRIVER", "sim:h200x2"), **cls.options())

    @classmethod
    def options(cls):
        return {}

    def made(self, nbytes=3 * CHUNK, at="gpu0", **options):
        """Memory in chunks of 2 MiB that is freed with the test."""
        allocation = vmart.alloc(nbytes, at, chunk_bytes=CHUNK, **options)
        self.addCleanup(lambda: allocation.freed or allocation.free())
        return allocation

    def places(self, what):
        return [str(extent.at) for extent in vmart.where(what)]

    def attached(self, gpu=0):
        """A stream of the GPU that is attached during the test."""
        stream = vmart.make_stream(vmart.gpu(gpu))
        vmart.attach(stream)
        self.addCleanup(vmart.destroy_stream, stream)
        self.addCleanup(vmart.detach, stream)
        return stream
