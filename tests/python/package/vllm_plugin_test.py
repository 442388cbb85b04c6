#!/usr/bin/env python3
"""When vLLM gets vmart's allocator and sleep-mode backend, and when it runs without: on the interfaces of
fake_vllm.py. And how the allocator opens the runtime."""

import os
import pathlib
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

from vllm_case import WithVllm

import vmart
from vmart.vllm import register
from vmart.vllm.allocator import Allocator


class Registration(WithVllm):
    def unchanged(self):
        self.assertIsNone(self.cumem.CuMemAllocator.instance)
        self.assertEqual(list(self.backends.SleepModeBackendFactory.registry), ["cumem"])

    def test_an_installed_vmart_changes_nothing(self):
        for value in ("", "0", "off"):
            with mock.patch.dict(os.environ, {"VMART_VLLM": value}):
                self.assertFalse(register())
        self.unchanged()
        with mock.patch.dict(os.environ, {"VMART_VLLM": "maybe"}):
            with self.assertRaisesRegex(vmart.InvalidArgument, "VMART_VLLM is 'maybe'"):
                register()

    def test_an_installed_vmart_loads_nothing(self):
        script = (
            "import sys\n"
            "from vmart.vllm import register\n"
            "assert register() is False\n"
            "print({'torch', 'vllm', 'vmart._core'} & set(sys.modules))\n"
        )
        environment = {**os.environ, "VMART_VLLM": ""}
        done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True,
                              timeout=120, env=environment)  # fmt: skip
        self.assertEqual((done.stdout, done.stderr), ("set()\n", ""))

    def test_vllm_gets_the_allocator_and_the_backend_once(self):
        made = self.allocator()
        self.assertIsInstance(made, Allocator)
        self.assertIs(self.allocator(), made)
        config = types.SimpleNamespace(sleep_mode_backend="vmart")
        backend = self.backends.SleepModeBackendFactory.create_backend(config)
        self.assertIsInstance(backend, self.backends.SleepModeBackend)
        self.assertTrue(backend.preserves_communicators())
        self.assertEqual(backend.state(), "RUNNING")

    def test_vllm_gets_another_allocator_once_its_instance_was_reset(self):
        before = self.allocator()
        self.cumem.CuMemAllocator.instance = None
        self.assertIsNot(self.allocator(), before)

    def refused(self, why):
        with self.assertLogs("vllm.vmart", "WARNING") as logged:
            self.assertFalse(register())
        self.assertRegex(logged.output[0], f"vLLM .* goes on without vmart: .*{why}.*0.33.0")

    def test_an_older_vllm_runs_without_vmart(self):
        with mock.patch.dict(sys.modules, {"vllm.device_allocator.sleep_mode_backend": None}):
            self.refused("sleep_mode_backend")
        self.unchanged()

    def test_a_vllm_without_the_tags_of_a_partial_wake_up_runs_without_vmart(self):
        del self.vllm.device_allocator.DEFERRABLE_TAGS
        self.refused("DEFERRABLE_TAGS")
        self.unchanged()

    def test_a_newer_interface_runs_without_vmart(self):
        def sleep(self, offload_tags=None, compressed=False): ...

        self.cumem.CuMemAllocator.sleep = sleep
        self.cumem.CuMemAllocator.spill = lambda self, tag: None
        self.refused(r"CuMemAllocator has .*sleep\(.*compressed.*spill\(self, tag\)")
        self.unchanged()

    def test_an_allocator_at_work_stays(self):
        theirs = self.cumem.CuMemAllocator.get_instance()
        self.refused("in use already")
        self.assertIs(self.cumem.CuMemAllocator.instance, theirs)

    def test_a_vllm_that_finds_its_allocator_elsewhere_runs_without_vmart(self):
        self.vllm.device_allocator.get_mem_allocator_instance = object
        self.refused("finds another allocator")
        self.unchanged()

    def test_a_vllm_that_refuses_the_backend_runs_without_vmart(self):
        with mock.patch.object(self.backends.SleepModeBackendFactory, "register_backend", side_effect=ValueError("no")):
            self.refused("no")
        self.unchanged()

    def test_without_cuda_vllm_runs_without_vmart(self):
        self.cumem.cumem_available = False
        self.refused("no allocator for CUDA")
        self.unchanged()

    def test_the_backend_needs_the_allocator(self):
        self.allocator()
        self.cumem.CuMemAllocator.instance = None
        config = types.SimpleNamespace(sleep_mode_backend="vmart")
        with self.assertRaisesRegex(ValueError, "not supported"):
            self.backends.SleepModeBackendFactory.create_backend(config)

    def test_the_package_names_the_plugin(self):
        project = pathlib.Path(__file__).parents[3] / "pyproject.toml"
        section = project.read_text().partition('[project.entry-points."vllm.general_plugins"]\n')[2]
        self.assertEqual(section.splitlines()[0], 'vmart = "vmart.vllm:register"')


class OpeningTheRuntime(unittest.TestCase):
    def test_threads_that_make_their_first_pools_at_once_open_one_runtime(self):
        both_look = threading.Barrier(2)
        looked = threading.local()

        def is_open():
            if not hasattr(looked, "once"):
                looked.once = True
                both_look.wait()
                return False
            return bool(opened)

        def open_runtime(devices):
            opened.append(devices)

        opened = []
        allocator = Allocator()
        changed = {name: value for name, value in os.environ.items() if name != "VMART_DEVICES"}
        with (
            mock.patch.dict(os.environ, changed, clear=True),
            mock.patch.object(vmart.runtime, "is_open", is_open),
            mock.patch.object(vmart.runtime, "open_runtime", open_runtime),
        ):
            threads = [threading.Thread(target=allocator._open_runtime) for _ in range(2)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        self.assertEqual(opened, [[0]])

    def test_the_allocator_opens_the_runtime_for_the_current_gpu_at_its_first_pool(self):
        script = (
            "import fake_cuda, torch, vmart\n"
            "fake_cuda.install()\n"
            "from vmart.vllm.allocator import Allocator\n"
            "allocator = Allocator()\n"
            "assert allocator.sleep()[0] == allocator.discard('a')[0] == allocator.wake_up()[0] == 0\n"
            "assert not allocator.asleep and not allocator.get_current_usage()\n"
            "assert not vmart.runtime.is_open()\n"
            "fake_cuda.WORLD.device = 1\n"
            "with allocator.use_memory_pool('weights'):\n"
            "    made = fake_cuda.tensor(12 << 20)\n"
            "print(*vmart.places(), vmart.where(made)[0].at, sep=',')\n"
        )
        folder = os.path.dirname(os.path.abspath(__file__))
        environment = {**os.environ, "VMART_DRIVER": "sim:h200x2"}
        environment["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        for devices, expected in ({}, "gpu(1),host(0),gpu(1)"), ({"VMART_DEVICES": "0,1"}, "gpu(0),gpu(1),host(0),gpu(1)"):
            done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True,
                                  timeout=120, env={**environment, **devices})  # fmt: skip
            self.assertEqual((done.stdout.strip(), done.returncode), (expected, 0), done.stderr)


if __name__ == "__main__":
    unittest.main()
