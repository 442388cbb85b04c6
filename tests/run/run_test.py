"""A program runs under `vmart run` as it does without, on simulated GPUs. run_test.py VMART PROGRAM"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

WAYS = ("linked", "dlsym", "resolver")  # How it finds the driver.
PLACES = (("gpu1", "gpu(1)"), ("host0", "host(0)"), ("gpu0", "gpu(0)"), ("gpu1", "gpu(1)"))
BESIDE_MOVES = (*((way, "stream") for way in WAYS), ("linked", "streams"), ("resolver", "graph"),
                ("dlsym", "blocking"), ("resolver", "legacy"), ("linked", "orphans"), ("linked", "copies"),
                ("linked", "attributes"), ("resolver", "newer"), ("per_thread", "newer"))
PATIENT = {"VMART_PRESSURE_LIMIT_MS": "60000"}  # Room is made however slow the machine is.
VMART, PROGRAM = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def environment(**changes):
    """Without settings of whoever runs the test; `changes` of None remove a variable. Nothing is given up because
    the machine is busy."""
    result = {name: value for name, value in os.environ.items()
              if not name.startswith("VMART_") and name != "LD_PRELOAD" and name not in changes}
    result["VMART_POLICY_LIMIT_MS"] = "60000"
    result.update({name: value for name, value in changes.items() if value is not None})
    return result


def run(*command, **changes):
    return subprocess.run([str(part) for part in command], env=environment(**changes), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=120)


class Programs(unittest.TestCase):
    def test_print_the_same_however_they_find_the_driver(self):
        for way, work in (*BESIDE_MOVES, ("dlsym", "fork"), ("linked", "contexts"), ("resolver", "gpus"),
                          ("linked", "green")):
            with self.subTest(way=way, work=work):
                bare = run(PROGRAM, way, work)
                self.assertEqual(bare.returncode, 0, bare.stdout + bare.stderr)
                self.assertIn("sum ", bare.stdout)
                self.assertNotIn("too early", bare.stdout)
                under = run(VMART, "run", "--", PROGRAM, way, work, VMART_CONTROL="0")
                self.assertEqual(under.stderr, "")
                self.assertEqual((under.returncode, under.stdout), (0, bare.stdout))

    def test_memory_moves_beside_the_work(self):
        for way, work in BESIDE_MOVES:
            with self.subTest(way=way, work=work), Running(way, work) as running:
                memory = running.where()
                self.assertEqual([one["bytes"] for one in memory], 6 * [4 << 20])
                self.assertEqual({place for one in memory for place in places(one)}, {"gpu(0)"})
                for place, shown in {"orphans": 3, "copies": 6, "attributes": 6}.get(work, 1) * PLACES:
                    running.control("migrate", "run", place)
                    self.assertEqual({at for one in running.where() for at in places(one)}, {shown})
                self.assert_prints_the_same(running, way, work)

    def test_graphs_are_updated_after_moves(self):
        for work in ("updates", "nodes"):
            with self.subTest(work=work), Running("linked", work) as running:
                running.control("migrate", "run", "gpu1")
                self.assert_prints_the_same(running, "linked", work)

    def test_graphs_are_updated_whose_memory_lay_elsewhere_when_they_were_instantiated(self):
        for work in ("updates", "nodes"):
            # There is no room on the GPU where the program believes its memory.
            options = ("--capacity", "gpu0=4MiB", "--overcommit")
            with self.subTest(work=work), Running("linked", work, *options) as running:
                self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(1)"})
                running.control("migrate", "run", "host0")
                self.assert_prints_the_same(running, "linked", work)

    def test_wrong_calls_and_other_threads_do_not_end_the_moving(self):
        for work in ("misuse", "beside"):
            with self.subTest(work=work), Running("linked", work) as running:
                running.control("migrate", "run", "gpu1")
                self.assert_prints_the_same(running, "linked", work)
                self.assertEqual(running.errors(), "")

    def test_a_query_after_a_wait_does_not_tell_of_a_move(self):
        for way, stop in (("linked", "gate"), ("per_thread", "gate"), ("linked", None)):
            with self.subTest(way=way, stop=stop), Running(way, "waits", VMART_STOP=stop) as running:
                for place, _ in 3 * PLACES:
                    running.control("migrate", "run", place)
                self.assert_prints_the_same(running, way, "waits")

    def test_may_use_memory_while_they_end(self):
        bare = run(PROGRAM, "linked", "ending").stdout
        self.assertIn("used memory at the end", bare)
        for options in ((), ("--pools", "--policy", "auto"), ("--capacity", "gpu0=64MiB")):
            under = run(VMART, "run", *options, "--", PROGRAM, "linked", "ending")
            self.assertEqual((under.returncode, under.stderr, result_of(under.stdout)), (0, "", result_of(bare)))

    def test_freeing_in_the_order_of_a_stream_does_not_wait(self):
        under = run(VMART, "run", "--", PROGRAM, "linked", "late", VMART_CONTROL="0")
        self.assertEqual(under.stderr, "")
        self.assertIn("freed before its work", under.stdout)

    def test_pools_are_the_drivers_unless_asked_for(self):
        for work, options in (("pools", ()), ("exported", ("--pools",))):
            with self.subTest(work=work), Running("linked", work, *options) as running:
                self.assertFalse(running.socket.exists(), "vmart was loaded for nothing")
                self.assertEqual(running.end(), run(PROGRAM, "linked", work).stdout)

    def test_pools_count_as_the_drivers_do(self):
        for way, work in (*((way, "pools") for way in WAYS), ("linked", "kept"), ("per_thread", "pools"),
                          ("linked", "fork"), ("dlsym", "contexts")):
            with self.subTest(way=way, work=work):
                under = run(VMART, "run", "--pools", "--", PROGRAM, way, work, VMART_CONTROL="0")
                self.assertEqual(under.stderr, "")
                self.assertEqual((under.returncode, under.stdout),
                                 (0, run(PROGRAM, way, work).stdout))

    def test_pools_have_nothing_left_after_a_reset(self):
        under = run(VMART, "run", "--pools", "--", PROGRAM, "linked", "reset", VMART_CONTROL="0")
        self.assertEqual((under.returncode, under.stderr), (0, ""))
        self.assertIn("reset: 0\nreserved after the reset: 0\n", under.stdout)

    def test_pools_move_beside_the_work(self):
        for way, work in (("dlsym", "kept"), ("resolver", "pools")):
            with self.subTest(way=way, work=work), Running(way, work, "--pools") as running:
                self.assertGreaterEqual(sum(one["bytes"] for one in running.where()), 24 << 20)
                for place, shown in PLACES:
                    running.control("migrate", "run", place)
                    # What a pool that keeps nothing allocates meanwhile lies on its GPU.
                    lies = [places(one) for one in running.where()]
                    self.assertIn({shown}, lies)
                    if work == "kept":
                        self.assertEqual(set().union(*lies), {shown})
                self.assert_prints_the_same(running, way, work)

    def test_policies_see_what_the_work_uses(self):
        with Running("resolver", "stream", "--policy", "auto") as running:
            self.assert_sees_uses(running, "auto")

    def test_a_limit_or_a_policy_that_is_set_later_lets_uses_be_seen(self):
        for command, policy in (("capacity gpu0 1GiB", "stay_put"), ("policy --set counter", "counter")):
            with self.subTest(command), Running("resolver", "stream") as running:
                self.assertEqual(self.demand(running), 0)
                running.control(*command.split())  # Nothing has to leave.
                self.assert_sees_uses(running, policy)

    def demand(self, running):
        status = json.loads(running.control("status", "--json"))
        return next(place["demand_bytes_s"] for place in status["places"] if place["at"] == "gpu(0)")

    def assert_sees_uses(self, running, policy):
        self.assertEqual(json.loads(running.control("status", "--json"))["policy"], policy)
        deadline = time.monotonic() + 60
        while self.demand(running) == 0 and time.monotonic() < deadline:
            pass  # The scheduler looks at uses at its next tick.
        self.assertGreater(self.demand(running), 0)
        self.assert_prints_the_same(running, "resolver", "stream")

    def test_small_allocations_stay_the_drivers(self):
        with Running("linked", "stream", "--min", "16MiB") as running:
            self.assertFalse(running.socket.exists(), "vmart was loaded for nothing")
            self.assertEqual(running.end(), run(PROGRAM, "linked").stdout)

    def test_can_be_switched_off(self):
        with Running("dlsym", "stream", VMART_RUN="off") as running:
            self.assertFalse(running.socket.exists())
            self.assertEqual(running.end(), run(PROGRAM, "dlsym").stdout)

    def test_go_on_alone_if_vmart_cannot_start(self):
        under = run(VMART, "run", "--", PROGRAM, "linked", VMART_DEVICES="nonsense")
        self.assertEqual((under.returncode, under.stdout), (0, run(PROGRAM, "linked").stdout))
        self.assertEqual(under.stderr.count("vmart run: "), 1, under.stderr)
        self.assertIn("VMART_DEVICES", under.stderr)

    def test_ask_for_a_limit_alone_if_vmart_cannot_start(self):
        under = run(VMART, "run", "--capacity", "gpu0=64MiB", "--min", "1GiB", "--", PROGRAM, "linked", "info",
                    VMART_DEVICES="nonsense")
        self.assertEqual(result_of(under.stdout), result_of(run(PROGRAM, "linked", "info").stdout))
        self.assertEqual(under.stderr.count("vmart run: "), 1, under.stderr)

    def assert_prints_the_same(self, running, way, work):
        # Moves need memory of the runtime's own, so how much is free in the end differs.
        self.assertEqual(running.end().splitlines()[:-1],
                         run(PROGRAM, way, work).stdout.splitlines()[:-1])


class Capacity(unittest.TestCase):
    """`vmart run --capacity` and `--overcommit`, with six buffers of 4 MiB."""

    def test_is_kept_by_moving_the_coldest_to_a_peer(self):
        with Running("linked", "stream", "--capacity", "gpu0=24MiB") as running:
            self.assert_divided(running, {"gpu(0)", "gpu(1)"}, 24)
            self.assertEqual(running.result(), result_of(run(PROGRAM, "linked").stdout))

    def test_sends_to_the_host_what_no_gpu_has_room_for(self):
        with Running("resolver", "stream", "--capacity", "gpu0=16MiB,gpu1=16MiB") as running:
            self.assert_divided(running, {"gpu(0)", "gpu(1)", "host(0)"}, 16)
            self.assertEqual(running.result(), result_of(run(PROGRAM, "resolver").stdout))

    def test_holds_without_a_control_socket(self):
        bare = run(PROGRAM, "linked", "info")
        under = run(VMART, "run", "--capacity", "gpu0=16MiB", "--", PROGRAM, "linked", "info",
                    VMART_CONTROL="0")
        self.assertEqual((under.returncode, under.stderr), (0, ""))
        self.assertEqual(result_of(under.stdout), result_of(bare.stdout))
        self.assertEqual(info_of(under.stdout), [[16 << 20, 16 << 20], [0, 16 << 20]])

    def test_is_what_the_program_is_told(self):
        bare = info_of(run(PROGRAM, "dlsym", "info").stdout)
        large = run(VMART, "run", "--capacity", "gpu0=64MiB", "--", PROGRAM, "dlsym", "info")
        self.assertEqual(info_of(large.stdout), [[64 << 20, 64 << 20], [40 << 20, 64 << 20]])
        for options in (["--overcommit"], ["--overcommit", "--capacity", "gpu0=16MiB"],
                        ["--capacity", "gpu1=16MiB"], ["--capacity", "gpu0=1TiB"]):
            under = info_of(run(VMART, "run", *options, "--", PROGRAM, "dlsym", "info").stdout)
            self.assertEqual([total for _, total in under], [total for _, total in bare], options)
            self.assertGreater(under[1][0], 64 << 20)

    def test_is_kept_by_pools(self):
        # Which allocate 64 MiB at once, beside the buffers. Of these, some leave.
        for work in ("kept", "pools"):
            with self.subTest(work=work), \
                    Running("linked", work, "--pools", "--capacity", "gpu0=72MiB", **PATIENT) as running:
                memory = running.where()
                self.assertLessEqual(sum(one["bytes_at"].get("gpu(0)", 0) for one in memory), 72 << 20)
                self.assertIn("gpu(1)", {at for one in memory for at in places(one)})
                self.assertEqual(running.result(), result_of(run(PROGRAM, "linked", work).stdout))

    def test_is_kept_by_what_is_divided_or_unused(self):
        def told(*options):
            done = run(VMART, "run", *options, "--pools", "--vmm", "--", PROGRAM, "linked", "told",
                       VMART_CONTROL="0", **PATIENT)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            return {when: int(mib) for when, mib in re.findall(r"told (.*): (\d+)", done.stdout)}

        # Six buffers of 4 MiB, 512 MiB, and twice 64 MiB or a little more.
        for options, total in ((("--capacity", "gpu0=1GiB"), 1024), (("--capacity", "gpu0=700MiB"), 700)):
            left = told(*options)
            self.assertEqual([left["before"], left["divided"]], [total - 24, total - 536])
            self.assertLessEqual(left["free in a pool"], total - 600)
            self.assertEqual(left["free in a pool"] - left["not mapped"], 64)
            self.assertLessEqual(left["pool destroyed"], total - 88)
            self.assertEqual(left["after"], left["before"])
        left = told("--overcommit", "--capacity", "gpu0=450MiB")
        self.assertAlmostEqual(left["before"] - left["divided"], 512, delta=8)
        self.assertAlmostEqual(left["free in a pool"] - left["not mapped"], 64, delta=8)
        self.assertAlmostEqual(left["after"], left["before"], delta=8)

    def test_without_it_a_full_gpu_refuses_as_it_does_bare(self):
        def taken(*command):
            (line,) = re.findall(r"full after (\d+)", run(*command).stdout)
            return int(line)

        bare = taken(PROGRAM, "linked", "full")
        under = taken(VMART, "run", "--", PROGRAM, "linked", "full")
        self.assertLessEqual(under, bare)
        self.assertGreater(under, bare - 16)  # vmart has some memory of its own.
        self.assertGreater(taken(VMART, "run", "--overcommit", "--", PROGRAM, "linked", "full"), bare)
        arrays = taken(PROGRAM, "linked", "arrays")  # Of 64 MiB.
        self.assertGreaterEqual(taken(VMART, "run", "--", PROGRAM, "linked", "arrays"), arrays - 2)

    def test_fails_where_there_is_no_room_at_all(self):
        limits = "gpu0=8MiB,gpu1=8MiB,host0=4MiB"
        under = run(VMART, "run", "--capacity", limits, "--", PROGRAM, "linked")
        self.assertEqual((under.returncode, under.stdout), (1, "cuMemAlloc returned 2\n"))

    def test_can_be_changed_while_the_program_runs(self):
        with Running("linked", "stream") as running:
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(0)"})
            changed = running.control("capacity", "gpu0", "24MiB")
            self.assertIn("moved away", changed)
            self.assert_divided(running, {"gpu(0)", "gpu(1)"}, 24)
            running.control("capacity", "gpu0", "none")
            running.control("migrate", "all", "gpu0")
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(0)"})
            running.control("capacity", "gpu0", "0")
            self.assertNotIn("gpu(0)", {at for one in running.where() for at in places(one)})
            self.assertEqual(running.result(), result_of(run(PROGRAM, "linked").stdout))

    def test_that_is_no_capacity_is_refused(self):
        for text in ("gpu0", "gpu0=", "60GiB", "gpu0=1GiB,", "mars=1GiB"):
            under = run(VMART, "run", "--capacity", text, "--", "true")
            self.assertEqual(under.returncode, 1, text)

    def test_overcommitted_memory_spills_to_the_host(self):
        tiny = {"SIMCUDA_MACHINE": str(pathlib.Path(__file__).parent / "tiny_gpus.json")}
        for options in ([], ["--capacity", "gpu1=16MiB"]):
            alone = run(VMART, "run", *options, "--", PROGRAM, "linked", **tiny)
            self.assertEqual((alone.returncode, alone.stdout),
                             (1, "cuMemAlloc returned 2\n"), alone.stderr)
        under = run(VMART, "run", "--overcommit", "--", PROGRAM, "linked", **tiny, **PATIENT)
        self.assertEqual(under.returncode, 0, under.stdout + under.stderr)
        self.assertEqual(result_of(under.stdout), result_of(run(PROGRAM, "linked").stdout))

    def test_makes_room_on_the_gpu_of_the_request(self):
        tiny = {"SIMCUDA_MACHINE": str(pathlib.Path(__file__).parent / "tiny_gpus.json")}
        under = run(VMART, "run", "--overcommit", "--min", "4MiB", "--", PROGRAM, "linked", "elsewhere",
                    **tiny, **PATIENT)
        self.assertEqual(under.returncode, 0, under.stdout + under.stderr)
        self.assertIn("handle of the other GPU: 0\n" + 2 * "pool of the other GPU: 0\n", under.stdout)

    def test_waits_for_a_context_that_is_being_destroyed(self):
        under = run(VMART, "run", "--pools", "--capacity", "gpu0=48MiB,gpu1=48MiB", "--", PROGRAM, "linked", "beside",
                    **PATIENT)
        self.assertEqual(under.returncode, 0, under.stdout + under.stderr)
        self.assertIn("freed beside contexts\n", under.stdout)

    def test_moves_nothing_for_what_can_never_fit(self):
        with Running("linked", "hopeless", "--overcommit") as running:
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(0)"})
            self.assertIn("hopeless: 2\n", running.end())

    def assert_divided(self, running, expected, limit_mib):
        memory = running.where()
        self.assertEqual({at for one in memory for at in places(one)}, expected)
        here = sum(one["bytes_at"].get("gpu(0)", 0) for one in memory)
        self.assertLessEqual(here, limit_mib << 20)


class Sites(unittest.TestCase):
    """Where a program has made its allocations."""

    def test_of_machine_code_are_shown_and_select(self):
        with Running("linked", "stream", "--sites", VMART_RUN_SITE_BYTES=str(4 << 20)) as running:
            memory = running.where()
            for one in memory:
                self.assertIn("run_program", one["site"].split(" < ")[0])
                self.assertIn("libc.so", one["site"])
                self.assertNotIn("libvmart", one["site"])
            shown = running.control("where", "--sites", "site:run_program")
            # Each of the six buffers: in the program, and then in what calls its main().
            self.assertEqual(shown.count("    libc.so"), 6 * memory[0]["site"].count("libc.so"))
            self.assertGreaterEqual(shown.count("    run_program"), 6)
            running.control("migrate", "site:run_program", "gpu1")
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(1)"})
            nothing = run(VMART, "migrate", "site:train.py", "gpu0", "--socket", running.socket)
            self.assertEqual(nothing.returncode, 1)
            self.assertEqual(running.result(), result_of(run(PROGRAM, "linked").stdout))

    def test_are_taken_of_large_allocations_and_if_asked_for(self):
        for options in ([], ["--sites"]):  # The buffers have 4 MiB.
            with Running("dlsym", "stream", *options) as running:
                self.assertEqual({one["site"] for one in running.where()}, {""})
                self.assertIn("unknown", running.control("where", "--sites"))

    def test_of_python_are_shown_if_the_thread_holds_the_lock(self):
        script = pathlib.Path(__file__).parent / "allocating.py"
        for call, seen in (("PyDLL", True), ("CDLL", False)):
            with Running("", "", "--sites", command=(sys.executable, str(script), call)) as running:
                site = running.allocations()[0]["site"].split(" < ")
                self.assertTrue(any("ffi" in frame for frame in site), site)
                if seen:
                    self.assertRegex(site[0], r"^allocating.py:17 make_weights$")
                    self.assertRegex(site[1], r"^allocating.py:\d+ make_model$")
                    self.assertRegex(site[2], r"^allocating.py:\d+ main$")
                else:
                    self.assertFalse(any(".py" in frame for frame in site), site)
                running.control("migrate", "site:ffi", "gpu1")
                self.assertEqual(running.end(), "ready\nend\n")


class SeveralPrograms(unittest.TestCase):
    """Two programs of one user, which share the GPUs."""

    def test_give_memory_to_each_other_and_are_shown_together(self):
        with tempfile.TemporaryDirectory(prefix="vmart-run-") as folder:
            here = {"VMART_CONTROL": "1", "XDG_RUNTIME_DIR": folder}
            with Running("linked", "stream", **here) as one, \
                    Running("dlsym", "stream", "--capacity", "gpu0=64MiB", **here) as other:
                shown = run(VMART, "top", **here).stdout
                for running in (one, other):
                    self.assertRegex(shown, rf"{running.pid} +\w+ +run_program .*24.0 MiB / ")
                programs = json.loads(run(VMART, "top", "--json", **here).stdout)["programs"]
                self.assertLessEqual({one.pid, other.pid}, {each["pid"] for each in programs})

                taken = run(VMART, "yield", one.pid, "gpu0", "12MiB", **here)
                self.assertEqual((taken.returncode, taken.stderr), (0, ""))
                self.assertIn("12.0 MiB moved away from gpu0", taken.stdout)
                used = {each["pid"]: each["places"][0]["used_bytes"] for each in
                        json.loads(run(VMART, "top", "--json", **here).stdout)["programs"]}
                self.assertLessEqual(used[one.pid], 12 << 20)
                self.assertEqual(used[other.pid], 24 << 20)
                more = run(VMART, "yield", one.pid, "gpu0", "1GiB", **here)
                self.assertEqual(more.returncode, 1)
                self.assertIn(f"is more than the 12.0 MiB that process {one.pid} has at gpu0", more.stderr)
                for running in (one, other):
                    self.assertEqual(running.result(), result_of(run(PROGRAM, "linked").stdout))


class ProgramsWithoutGpu(unittest.TestCase):
    def test_load_one_small_library(self):
        maps = run(VMART, "run", "--", "cat", "/proc/self/maps").stdout
        self.assertIn("libvmart-run.so", maps)
        self.assertNotIn("libvmart.so", maps)
        self.assertNotIn("libcuda", maps)

    def test_pass_it_on_to_children_unless_told_otherwise(self):
        show = ("sh", "-c", "cat /proc/self/maps")
        self.assertIn("libvmart-run.so", run(VMART, "run", "--", *show).stdout)
        alone = run(VMART, "run", "--no-children", "--", *show)
        self.assertEqual(alone.returncode, 0)
        self.assertNotIn("libvmart-run.so", alone.stdout)

    def test_keep_their_exit_status_and_arguments(self):
        self.assertEqual(run(VMART, "run", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run(VMART, "run", "--", "echo", "--policy", "x", "--").stdout,
                         "--policy x --\n")

    def test_may_have_dashes_of_their_own(self):
        self.assertEqual(run(VMART, "run", "echo", "a", "--", "echo", "b").stdout,
                         "a -- echo b\n")
        self.assertEqual(run(VMART, "run", "--min", "4MiB", "--", "echo", "--", "b").stdout, "-- b\n")

    def test_that_do_not_exist_are_named(self):
        missing = run(VMART, "run", "--", "/no/such/program")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("/no/such/program", missing.stderr)
        self.assertEqual(run(VMART, "run").returncode, 2)


class Running:
    """The program under `vmart run`, in the middle of its work, with its control socket."""

    def __init__(self, way, work, *options, command=None, **changes):
        self._folder = tempfile.TemporaryDirectory(prefix="vmart-run-")
        self.socket = pathlib.Path(self._folder.name) / "control"
        self._errors = open(pathlib.Path(self._folder.name) / "errors", "w+")
        self._process = subprocess.Popen(
            [str(VMART), "run", *options, "--", *(command or (str(PROGRAM), way, work))], text=True,
            env=environment(**{"VMART_CONTROL": str(self.socket), **changes}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors)
        self._begin = ""
        while not self._begin.endswith("ready\n"):
            line = self._process.stdout.readline()
            if not line:
                raise AssertionError(f"ended early: {self._begin}{self.errors()}")
            self._begin += line

    @property
    def pid(self):
        return self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._folder.cleanup()

    def wait(self):
        return self._process.wait(60)

    def errors(self):
        self._errors.seek(0)
        return self._errors.read()

    def control(self, *command):
        done = run(VMART, *command, "--socket", self.socket)
        if done.returncode != 0:
            raise AssertionError(f"vmart {command}: {done.stdout}{done.stderr}{self.errors()}")
        return done.stdout

    def allocations(self):
        return json.loads(self.control("where", "--json"))["allocations"]

    def where(self):
        return json.loads(self.control("where", "run", "--json"))["allocations"]

    def result(self):
        return result_of(self.end())

    def end(self):
        rest, _ = self._process.communicate("\n", timeout=120)
        if self._process.returncode != 0:
            raise AssertionError(f"exit {self._process.returncode}: {rest}{self.errors()}")
        return self._begin + rest


def result_of(output):
    """What does not depend on how much memory the program is told of."""
    return [line for line in output.splitlines() if ": " not in line or line.startswith("too large")]


def info_of(output):
    """Free and total bytes, as the program was told: before it allocated, and after."""
    return [[int(number) for number in line.split(": ")[1].split(" of ")]
            for line in output.splitlines() if " of " in line]


def places(allocation):
    return {extent["at"] for extent in allocation["extents"]}


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
