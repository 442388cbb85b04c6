#!/usr/bin/env python3
"""vmart.vllm on a simulated machine: sleep and wake-up as vLLM's worker and vLLM's own tests call them, and
that both undo what they did when they fail."""

import gc
import unittest
from unittest import mock

from fake_cuda import MIB, WORLD, tensor
from vllm_case import WithVllm
from vllm_worker import ALL, BUFFER, KV_CACHE, SCRATCH, STATE, WEIGHTS

import torch
import vmart


class AsTheWorkerDoes(WithVllm):
    def test_level_1_brings_the_weights_back_to_the_same_addresses(self):
        worker = self.started()
        before = worker.pointers()
        for _ in range(3):
            self.assertEqual(worker.sleep(), ALL)
            self.assertEqual(worker.backend.state(), "SUSPENDED")
            self.assertEqual(self.places([worker.weights, worker.state]), ["host(0)", "host(0)"])
            dropped = vmart.where([worker.kv_cache, worker.scratch])
            self.assertTrue(all(part.dropped for part in dropped))
            worker.wake_up()
            self.assertEqual((worker.backend.state(), worker.pointers()), ("RUNNING", before))
            worker.check()

    def test_level_2_keeps_only_runtime_state(self):
        worker = self.started()
        self.assertEqual(worker.sleep(2), ALL)
        self.assertTrue(vmart.where(worker.weights)[0].dropped)
        at_host = [place for place in vmart.stats().places if place.at.kind == "host"]
        self.assertEqual(sum(place.allocated_bytes for place in at_host), STATE)
        worker.wake_up(["weights"])
        self.assertEqual(self.memory.byte(worker.weights), 0)
        worker.reload()
        worker.wake_up(["kv_cache"])
        worker.check()

    def test_a_wake_up_by_tags_defers_weights_and_kv_cache_only(self):
        worker = self.started()
        allocator = self.allocator()
        worker.sleep()
        worker.wake_up(["weights"])
        self.assertEqual(self.mapped(allocator), ALL - KV_CACHE)
        self.assertEqual(worker.backend.state(), "SUSPENDED")
        worker.wake_up(["kv_cache"])
        self.assertEqual((self.mapped(allocator), worker.backend.state()), (ALL, "RUNNING"))
        worker.check()

    def check_kv_cache_alone(self, level):
        worker = self.started()
        worker.release_kv_cache()
        self.assertEqual(self.mapped(self.allocator()), ALL - KV_CACHE)
        self.assertEqual(worker.backend.state(), "SUSPENDED")
        self.assertEqual(self.memory.byte(worker.weights), 1)
        worker.sleep(level)
        self.assertEqual(self.mapped(self.allocator()), 0)
        worker.wake_up()
        if level == 2:
            worker.reload()
        worker.check()

    def test_the_kv_cache_can_go_alone_and_level_1_takes_the_rest(self):
        self.check_kv_cache_alone(1)

    def test_the_kv_cache_can_go_alone_and_level_2_takes_the_rest(self):
        self.check_kv_cache_alone(2)

    def test_what_sleeps_stays_as_it_went_to_sleep(self):
        worker = self.started()
        for first, second in ((1, 2), (2, 1)):
            worker.sleep(first)
            worker.wake_up(["kv_cache"])
            awake = self.mapped(self.allocator())
            worker.backend.suspend(second)
            self.assertEqual((awake > 0, self.mapped(self.allocator())), (True, 0))
            worker.sleeping_tags |= {"kv_cache"}
            worker.wake_up()
            if first == 2:
                worker.reload()
            worker.check()

    def test_vllm_s_own_backend_works_with_the_allocator(self):
        worker = self.started("cumem")
        self.assertEqual(worker.sleep(), ALL)
        worker.wake_up()
        worker.check()

    def test_work_is_awaited_and_garbage_is_not_copied(self):
        worker = self.started()
        with self.allocator().use_memory_pool("weights"):
            garbage = [tensor(12 * MIB)]
        garbage.append(garbage)
        del garbage
        with mock.patch.object(torch.cuda, "synchronize") as awaited:
            slept = self.allocator().sleep(("weights", "runtime"))
        awaited.assert_called_once()
        self.assertEqual((slept.host_bytes, slept.residue_bytes), (WEIGHTS + BUFFER + STATE, 0))
        self.allocator().wake_up()
        worker.release_kv_cache()
        worker.wake_up()
        worker.check()

    def test_a_tag_whose_last_tensor_has_died_is_no_failure(self):
        worker = self.started()
        worker.scratch = None
        graph = torch.cuda.CUDAGraph()
        with self.allocator().cudagraph_pool() as pool, torch.cuda.graph(graph, pool=pool):
            made = tensor(12 * MIB)
        del made, graph
        self.assertEqual(worker.sleep(), ALL + 12 * MIB)
        worker.wake_up()
        worker.scratch = worker.kv_cache
        worker.check()

    def test_memory_that_another_thread_frees_meanwhile_is_no_failure(self):
        allocator = self.allocator()
        park, resume = vmart.moving.park, vmart.moving.resume

        def after_a_free(call):
            def freed(tag, **options):
                if tag == "vllm/a":
                    made.clear()
                    allocator.release_pools()
                    torch.cuda.empty_cache()
                return call(tag, **options)

            return freed

        with allocator.use_memory_pool("b"):
            stays = tensor(12 * MIB)
        self.memory.fill(stays, 3)
        for name, call in (("park", park), ("resume", resume)):
            with allocator.use_memory_pool("a"):
                made = [tensor(12 * MIB)]
            with mock.patch.object(vmart.moving, name, after_a_free(call)):
                allocator.sleep(("a", "b"))
                allocator.wake_up()
            self.assertEqual((self.memory.byte(stays), made), (3, []))

    def test_memory_of_a_load_that_failed_goes_back(self):
        allocator = self.allocator()
        with self.assertRaises(ZeroDivisionError), allocator.use_memory_pool("weights"):
            tensor(64 * MIB)
            1 / 0
        self.assertEqual(allocator.get_current_usage(), 0)

    def test_bytes_that_wake_up_on_another_gpu_are_told(self):
        worker = self.started()
        worker.sleep()
        self.capacity("gpu0", ALL - MIB)
        with self.assertLogs("vllm.vmart", "WARNING") as logged:
            worker.wake_up()
        self.assertIn("bytes woke up on another GPU", logged.output[0])
        worker.check()


class AsVllmTestsDo(WithVllm):
    """The cases of vLLM's tests/basic_correctness/memory/cumem/test_cumem.py (016993098) that need no
    model."""

    def made(self, allocator, tag, nbytes):
        with allocator.use_memory_pool(tag):
            return tensor(nbytes)

    def test_python_error(self):
        allocator = self.allocator()
        kept = self.made(allocator, None, 60 * MIB)
        allocator.sleep(offload_tags=())
        for place in ("gpu0", "gpu1"):  # Somebody else takes the memory.
            self.capacity(place, 40 * MIB)
        with self.assertRaises(RuntimeError):
            allocator.wake_up()
        self.assertTrue(vmart.where(kept)[0].dropped)

    def test_basic(self):
        allocator = self.allocator()
        made = [self.made(allocator, None, 4 * MIB) for _ in range(2)]
        for each in made:
            self.memory.fill(each, 7)
        mapped = self.mapped(allocator)
        self.assertGreaterEqual(mapped, 8 * MIB)
        allocator.sleep()
        self.assertEqual(self.mapped(allocator), 0)
        allocator.wake_up()
        self.assertEqual((self.mapped(allocator), allocator.get_current_usage()), (mapped, mapped))
        self.assertEqual([self.memory.byte(each) for each in made], [7, 7])
        self.assertTrue(all(allocator.default_tag == row.tag for row in allocator.pointer_to_data.values()))

    def test_discard_tags(self):
        allocator = self.allocator()
        weights, cache = self.made(allocator, "weights", 12 * MIB), self.made(allocator, "kv_cache", 16 * MIB)
        self.memory.fill(weights, 5)
        self.assertEqual(allocator.discard("kv_cache"), (16 * MIB, 0, 12 * MIB))
        self.assertEqual(self.mapped(allocator), 12 * MIB)
        allocator.wake_up()
        self.assertEqual(self.memory.byte(cache), 0)
        allocator.sleep(offload_tags="weights")
        allocator.wake_up()
        self.assertEqual(self.memory.byte(weights), 5)

    def test_a_selective_wake_up_restores_internal_tags(self):
        allocator = self.allocator()
        for tag in ("workspace", None):
            internal, cache = self.made(allocator, tag, 16 * MIB), self.made(allocator, "kv_cache", 32 * MIB)
            allocator.sleep(offload_tags=())
            self.assertEqual(self.mapped(allocator), 0)
            allocator.wake_up(tags=["weights"])
            self.assertEqual(self.mapped(allocator), 16 * MIB)
            allocator.wake_up(tags=["kv_cache"])
            self.assertEqual(self.mapped(allocator), 48 * MIB)
            del internal, cache
            gc.collect()
            torch.cuda.empty_cache()

    def test_a_tag_can_be_entered_again_and_its_free_memory_goes_back(self):
        allocator = self.allocator()
        for early in (True, False):
            with allocator.use_memory_pool("t"):
                freed = [tensor(64 * MIB)]
                if early:
                    freed.clear()
            stays = self.made(allocator, "t", 64 * MIB)
            freed.clear()
            with allocator.use_memory_pool("t"):
                self.assertEqual(self.mapped(allocator), 64 * MIB)
            self.memory.fill(stays, 1)
            allocator.sleep(offload_tags="t")
            allocator.wake_up()
            self.assertEqual(self.memory.byte(stays), 1)
            del stays
            allocator.release_pools()

    def test_a_nested_pool_keeps_its_own_tag(self):
        allocator = self.allocator()
        with allocator.use_memory_pool("runtime"):
            state = tensor(12 * MIB)
            with allocator.use_memory_pool("kv_cache"):
                self.assertEqual(allocator.current_tag, "kv_cache")
                cache = tensor(12 * MIB)
            self.assertEqual(allocator.current_tag, "runtime")
            more = tensor(12 * MIB)
        tags = {row.handle[2]: row.tag for row in allocator.pointer_to_data.values()}
        self.assertEqual([tags[each.data_ptr()] for each in (state, cache, more)], ["runtime", "kv_cache", "runtime"])

    def test_a_pool_entered_during_a_capture_is_entered_anew_and_frees_nothing(self):
        allocator = self.allocator()
        with allocator.use_memory_pool("runtime"):
            before = tensor(12 * MIB)
            graph = torch.cuda.CUDAGraph()
            stream = torch.cuda.current_stream().cuda_stream
            with allocator.cudagraph_pool() as pool, torch.cuda.graph(graph, pool=pool):
                WORLD.capturing.add(stream)
                self.addCleanup(WORLD.capturing.clear)
                with mock.patch.object(torch.cuda, "empty_cache") as freed:
                    with allocator.use_memory_pool("runtime"):
                        during = tensor(12 * MIB)
                freed.assert_not_called()
                WORLD.capturing.clear()
        tags = {row.handle[2]: row.tag for row in allocator.pointer_to_data.values()}
        self.assertEqual([tags[each.data_ptr()] for each in (before, during)], ["runtime", "runtime"])

    def test_memory_of_graphs_sleeps_and_graphs_share_one_pool(self):
        allocator = self.allocator()
        graphs, made = [], []
        pools_before = len(WORLD.pools)
        for _ in range(2):
            graphs.append(torch.cuda.CUDAGraph())
            with allocator.cudagraph_pool() as pool, torch.cuda.graph(graphs[-1], pool=pool):
                self.assertEqual(allocator.current_tag, "cudagraph")
                made.append((pool, tensor(12 * MIB)))
            self.assertEqual(len(WORLD.pools), pools_before + 1)
            self.memory.fill(made[-1][1], 6)
            allocator.sleep(offload_tags=("runtime", "cudagraph"))
            self.assertEqual(self.mapped(allocator), 0)
            allocator.wake_up(["kv_cache"])
            self.assertEqual(self.memory.byte(made[-1][1]), 6)
        self.assertEqual(made[0][0], made[1][0])
        self.assertEqual(allocator.current_tag, "default")
        graphs.clear()
        gc.collect()
        made.clear()
        self.assertEqual(allocator.get_current_usage(), 24 * MIB)
        allocator.release_pools()
        self.assertEqual(allocator.get_current_usage(), 0)


class Failures(WithVllm):
    def everything_is_back(self, worker, before):
        self.assertEqual(worker.backend.state(), "RUNNING")
        self.assertEqual(self.mapped(self.allocator()), ALL)
        self.assertEqual(worker.pointers(), before)
        worker.check()
        self.assertEqual(worker.sleep(), ALL)  # And it can be used again.
        worker.wake_up()
        worker.check()

    def test_a_sleep_that_fails_brings_everything_back(self):
        worker = self.started()
        before = worker.pointers()
        for pinned, level in ((worker.weights, 1), (worker.kv_cache, 1), (worker.state, 2), (worker.scratch, 2)):
            with vmart.pin(pinned), self.assertRaisesRegex(vmart.Error, "pinned.*Nothing has changed") as caught:
                worker.sleep(level)
            self.assertEqual([each.pointer for each in caught.exception.report.stayed], [pinned.data_ptr()])
            self.assertRegex(str(caught.exception), r"llm\.wake_up\(\) lets it go on")
            self.everything_is_back(worker, before)

    def test_weights_are_dropped_last(self):
        worker = self.started()
        park = vmart.moving.park

        def refused(tag, **options):
            if tag == "vllm/weights":
                raise vmart.Busy("busy")
            return park(tag, **options)

        with mock.patch.object(vmart.moving, "park", refused):
            with self.assertRaisesRegex(vmart.Busy, f"undone. {KV_CACHE + SCRATCH} bytes .* are zeros"):
                worker.sleep(2)
        self.everything_is_back(worker, worker.pointers())

    def test_a_sleep_beyond_the_memory_of_the_host_brings_everything_back(self):
        worker = self.started()
        before = worker.pointers()
        self.capacity("host0", WEIGHTS)
        with self.assertRaisesRegex(vmart.OutOfMemory, '"weights" could not pause'):
            worker.sleep()
        at_host = [place for place in vmart.stats().places if place.at.kind == "host"]
        self.assertLessEqual(sum(each.allocated_bytes + each.cached_bytes for each in at_host), WEIGHTS)
        worker.check()
        self.assertEqual(worker.sleep(2), ALL)  # Needs less.
        worker.wake_up()
        worker.reload()
        vmart.set_capacity("host0", 1 << 40)
        self.everything_is_back(worker, before)

    def test_any_exception_undoes_a_sleep(self):
        worker = self.started()
        before = worker.pointers()
        park = vmart.moving.park
        for fails in ("vllm/runtime", "vllm/weights"):

            def interrupted(tag, **options):
                if tag == fails:
                    raise KeyboardInterrupt
                return park(tag, **options)

            with mock.patch.object(vmart.moving, "park", interrupted):
                with self.assertRaises(KeyboardInterrupt):
                    worker.sleep()
            self.everything_is_back(worker, before)

    def test_a_wake_up_that_fails_puts_everything_to_sleep_again(self):
        worker = self.started()
        before = worker.pointers()
        worker.sleep()
        self.capacity("gpu1", 0)  # Otherwise the rest goes there.
        self.capacity("gpu0", ALL - MIB)
        with self.assertRaisesRegex(vmart.OutOfMemory, "could not resume"):
            worker.wake_up()
        self.assertEqual(worker.backend.state(), "SUSPENDED")
        self.assertEqual(self.mapped(self.allocator()), 0)
        held = [place for place in vmart.stats().places if place.at.kind == "gpu"]
        self.assertEqual(sum(each.allocated_bytes for each in held), 0)
        vmart.set_capacity("gpu0", 1 << 37)
        worker.wake_up()
        self.everything_is_back(worker, before)

    def test_any_exception_undoes_a_wake_up(self):
        worker = self.started()
        before = worker.pointers()
        resume = vmart.moving.resume

        def interrupted(tag, **options):
            report = resume(tag, **options)
            if tag == "vllm/weights":
                raise KeyboardInterrupt
            return report

        worker.sleep()
        with mock.patch.object(vmart.moving, "resume", interrupted):
            with self.assertRaises(KeyboardInterrupt):
                worker.wake_up()
        self.assertEqual((self.mapped(self.allocator()), worker.backend.state()), (0, "SUSPENDED"))
        self.assertTrue(vmart.where(worker.kv_cache)[0].dropped)  # Needs no host memory.
        worker.wake_up()
        self.everything_is_back(worker, before)

    def test_a_discard_that_fails_drops_nothing(self):
        worker = self.started()
        with vmart.pin(worker.kv_cache), self.assertRaises(vmart.Error):
            worker.release_kv_cache()
        worker.sleeping_tags.clear()
        self.everything_is_back(worker, worker.pointers())

    def test_new_memory_of_a_sleeping_tag_is_kept_with_the_rest(self):
        worker = self.started()
        worker.sleep()
        with self.allocator().use_memory_pool("weights"):
            added = tensor(12 * MIB)
        self.memory.fill(added, 8)
        worker.backend.suspend(2)  # Would drop the weights that were kept, and did not ask for that.
        worker.wake_up()
        self.assertEqual(self.memory.byte(added), 8)
        worker.check()

    def test_nothing_to_do(self):
        allocator = self.allocator()
        self.assertEqual(allocator.sleep()[:2], (0, 0))
        self.assertEqual(allocator.wake_up(), (0, 0, 0, 0))
        self.assertEqual((allocator.get_current_usage(), allocator.asleep), (0, False))


if __name__ == "__main__":
    unittest.main()
