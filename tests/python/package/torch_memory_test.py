#!/usr/bin/env python3
"""vmart.torch on a simulated machine, with the pools of fake_cuda.py: which tensors lie where, nesting,
threads, streams, what moves, and the table of places."""

import gc
import threading
import unittest

import fake_cuda
from fake_cuda import MIB, WORLD, Stream, tensor
from machine_case import OnAMachine

import torch
import vmart

fake_cuda.install()


class TorchCase(OnAMachine):
    def setUp(self):
        vmart.torch.release()
        self.addCleanup(lambda: vmart.torch.attach_streams().release())

    def info(self, made):
        return vmart.targets.find(vmart.targets.Range(made.data_ptr(), 1))


class Memory(TorchCase):
    def test_segments_have_what_the_context_says(self):
        with vmart.torch.memory(tag="fine", at="host0", chunk_bytes=4 * MIB):
            made = tensor(12 * MIB)
        info = self.info(made)
        self.assertEqual((info.tag, info.chunk_bytes, info.nbytes), ("fine", 4 * MIB, 12 * MIB))
        self.assertEqual(self.places(made), ["host(0)"])

    def test_the_gpu_is_the_current_one_or_the_one_given(self):
        with vmart.torch.memory():
            first = tensor(MIB)
        with vmart.torch.memory(device="cuda:1"):
            second = tensor(MIB)
        with torch.cuda.device(1), vmart.torch.memory():
            third = tensor(MIB)
        self.assertEqual(self.places([first, second, third]), ["gpu(0)", "gpu(1)", "gpu(1)"])
        self.assertEqual(self.info(first).tag, "torch")
        self.assertEqual(self.info(second).pointer, self.info(third).pointer)

    def test_contexts_nest_and_the_options_outside_are_restored(self):
        with vmart.torch.memory(tag="outer"):
            with vmart.torch.memory(tag="inner", at="gpu1"):
                inner = tensor(12 * MIB)
            after = tensor(12 * MIB)
            with self.assertRaises(KeyError), vmart.torch.memory(tag="inner", at="host0"):
                raise KeyError
            last = tensor(12 * MIB)
        self.assertEqual([self.info(each).tag for each in (inner, after, last)], ["inner", "outer", "outer"])
        self.assertEqual(self.places([inner, after, last]), ["gpu(1)", "gpu(0)", "gpu(0)"])

    def test_the_same_context_inside_itself_is_the_same_pool(self):
        with vmart.torch.memory(tag="a") as one:
            with vmart.torch.memory(tag="a") as two, vmart.torch.memory(tag="b"):
                # PyTorch refuses the pool of the outermost, which still records.
                with vmart.torch.memory(tag="a") as three:
                    made = tensor(MIB)
        self.assertIs(one, two)
        self.assertIsNot(one, three)
        self.assertEqual(self.info(made).tag, "a")

    def test_a_pool_is_used_again(self):
        with vmart.torch.memory(tag="again") as one:
            first = tensor(MIB // 2)
        with vmart.torch.memory(tag="again") as two:
            second = tensor(MIB // 2)
        self.assertIs(one, two)
        self.assertEqual(self.info(first).pointer, self.info(second).pointer)

    def test_threads_have_pools_of_their_own(self):
        made, both = {}, threading.Barrier(2)

        def work(name):
            with vmart.torch.memory(tag="threads") as pool:
                both.wait(60)
                made[name] = pool, tensor(MIB)
                both.wait(60)

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIsNot(made["a"][0], made["b"][0])
        self.assertEqual({self.info(each).tag for _, each in made.values()}, {"threads"})

    def test_no_split_gives_each_tensor_a_segment(self):
        with vmart.torch.memory(tag="whole", no_split=True):
            one, two = tensor(MIB), tensor(MIB)
        self.assertNotEqual(self.info(one).pointer, self.info(two).pointer)
        self.assertEqual(vmart.migrate(one, "gpu1").bytes_along, MIB)
        self.assertEqual(self.places(two), ["gpu(0)"])

    def test_neighbours_in_a_segment_move_along_and_the_report_says_so(self):
        with vmart.torch.memory(tag="shared"):
            one, two = tensor(MIB), tensor(MIB)
        report = vmart.migrate(one, "gpu1")
        self.assertEqual((report.bytes_named, report.bytes_along), (MIB, MIB))
        self.assertEqual(self.places(two), ["gpu(1)"])

    def test_places_by_size(self):
        with vmart.torch.place_by_size(64 * MIB, large="host0", tag="sized"):
            weights, cache = tensor(62 * MIB), tensor(64 * MIB)
        self.assertEqual(self.places([weights, cache]), ["gpu(0)", "host(0)"])
        self.assertEqual(self.info(cache).tag, "sized")

    def test_release_returns_segments_and_spares_other_tags(self):
        for tag in ("one", "two"):
            with vmart.torch.memory(tag=tag):
                made = tensor(12 * MIB)
            del made
        gc.collect()
        vmart.torch.release("one")
        self.assertEqual([i.tag for i in vmart.allocations() if i.tag in ("one", "two")], ["two"])
        vmart.torch.release()
        self.assertEqual([i.tag for i in vmart.allocations() if i.tag in ("one", "two")], [])

    def test_pools_released_while_another_records_go_when_it_ends(self):
        def tags():
            return {info.tag for info in vmart.allocations()}

        with vmart.torch.memory(tag="around"):
            with vmart.torch.memory(tag="released"):
                made = tensor(12 * MIB)
            del made
            vmart.torch.release("released")
            self.assertIn("released", tags())
        self.assertNotIn("released", tags())

    def test_a_pool_that_a_graph_retains_outlives_release(self):
        with vmart.torch.memory(tag="retained") as pool:
            pool.users = 2
        vmart.torch.release()
        with vmart.torch.memory(tag="retained") as same:
            self.assertIs(pool, same)
        pool.users = 1
        vmart.torch.release()
        with vmart.torch.memory(tag="retained") as other:
            self.assertIsNot(pool, other)

    def test_a_graph_has_a_pool_of_its_own_that_outlives_release(self):
        graph = torch.cuda.CUDAGraph()
        with vmart.torch.memory(tag="eager"), vmart.torch.graph(graph, tag="graph", at="gpu1"):
            made = tensor(12 * MIB)
        self.assertEqual((self.info(made).tag, self.places(made)), ("graph", ["gpu(1)"]))
        (pool,) = [p for tag, p in vmart.torch.pools._pools._of_graphs if tag == "graph"]
        pool.users = 2  # The graph retains it.
        vmart.torch.release()
        self.assertEqual(len(vmart.torch.pools._pools._of_graphs), 1)
        pool.users = 1
        vmart.torch.release()
        self.assertEqual(len(vmart.torch.pools._pools._of_graphs), 0)

    def test_no_room_and_unknown_places(self):
        with self.assertRaises(torch.OutOfMemoryError), vmart.torch.memory(at="gpu7"):
            tensor(MIB)
        for options in ({"at": "moon"}, {"large_at": "host0"}, {"large_bytes": 5}):
            with self.assertRaises(vmart.InvalidArgument), vmart.torch.memory(**options):
                self.fail("entered")
        with vmart.torch.memory(tag="after"):
            self.assertEqual(self.info(tensor(MIB)).tag, "after")


class Streams(TorchCase):
    def test_the_current_one_attaches_if_asked_and_so_do_those_that_are_switched_to(self):
        with self.assertRaisesRegex(vmart.InvalidArgument, "attach"):
            vmart.migrate_async(self.made(), "gpu1").wait(60)
        before = torch.cuda.set_stream
        with vmart.torch.memory(attach=True):
            memory = tensor(12 * MIB)
        vmart.migrate_async(memory, "gpu1").wait(60)  # The default stream is attached.
        hook = vmart.torch.attach_streams()
        side, other = Stream(), Stream()
        with torch.cuda.stream(side):
            self.assertEqual(hook.handles(), [(0, side.cuda_stream)])
        with other:
            self.assertEqual(hook.handles()[1:], [(0, other.cuda_stream)])
        hook.release()
        self.assertIs(torch.cuda.set_stream, before)
        self.assertEqual(hook.handles(), [])
        with torch.cuda.stream(side):
            self.assertEqual(hook.handles(), [])
        with self.assertRaisesRegex(vmart.InvalidArgument, "attach"):
            vmart.migrate_async(memory, "gpu0").wait(60)

    def test_idle_ones_beyond_the_limit_detach_the_oldest_first(self):
        streams = [Stream() for _ in range(4)]
        busy, rest = streams[0], streams[1:]
        WORLD.busy.add(busy.cuda_stream)
        self.addCleanup(WORLD.busy.clear)
        with vmart.torch.attach_streams(limit=2) as hook:
            self.addCleanup(setattr, hook, "limit", 32)
            for stream in streams:
                hook.use(stream)
            kept = [handle for _, handle in hook.handles()]
        self.assertEqual(kept, [busy.cuda_stream, rest[-1].cuda_stream])

    def test_no_stream_is_queried_while_one_captures(self):
        streams = [Stream() for _ in range(3)]
        WORLD.capturing.add(streams[0].cuda_stream)
        self.addCleanup(WORLD.capturing.clear)
        with vmart.torch.attach_streams(limit=1) as hook:
            self.addCleanup(setattr, hook, "limit", 32)
            for stream in streams:
                hook.use(stream)
            self.assertEqual(len(hook.handles()), 3)
            WORLD.capturing.clear()
            hook.use(Stream())
            self.assertEqual(len(hook.handles()), 1)

    def test_an_external_stream_detaches_with_its_object(self):
        handle = vmart.make_stream(vmart.gpu(0))
        with vmart.torch.attach_streams() as hook:
            stream = torch.cuda.ExternalStream(handle)
            with torch.cuda.stream(stream):
                self.assertEqual(hook.handles(), [(0, handle)])
            del stream
            gc.collect()
            self.assertEqual(hook.handles(), [])
        vmart.destroy_stream(handle)

    def test_both_gpus(self):
        with vmart.torch.attach_streams() as hook:
            hook.use_current(0)
            hook.use_current(1)
            memory = self.made(at="gpu1")
            vmart.migrate_async(memory, "gpu0").wait(60)
        self.assertEqual(WORLD.device, 0)


class Targets(TorchCase):
    """What modules, optimizers and tensors stand for."""

    def model(self):
        with vmart.torch.memory(tag="model", no_split=True):
            raw = [tensor(4 * MIB) for _ in range(2)]
        module = torch.nn.Module()
        module.first = torch.nn.Parameter(raw[0].view(torch.float32), requires_grad=False)
        module.tied = module.first
        module.register_buffer("part", raw[1][: 2 * MIB])
        return module

    def test_a_module_moves_whole_storages_once(self):
        module = self.model()
        report = vmart.migrate(module, "gpu1")
        self.assertEqual(report.bytes_named, 8 * MIB)  # The storage of which `part` is a half.
        self.assertEqual(len(report.requests), 2)
        address = module.first.data_ptr()
        self.assertEqual(self.places(module), ["gpu(1)", "gpu(1)"])
        vmart.migrate([module.first.view(2, -1).t(), module.part[5:6]], "gpu0")
        self.assertEqual(self.places(module), ["gpu(0)", "gpu(0)"])
        self.assertEqual(module.first.data_ptr(), address)

    def test_an_optimizer_moves_its_states_and_not_its_parameters(self):
        module = self.model()
        optimizer = torch.optim.Adam([module.first])
        with vmart.torch.memory(tag="states"):
            state = {"step": torch.tensor(1.0), "exp_avg": tensor(4 * MIB), "exp_avg_sq": tensor(4 * MIB)}
        optimizer.state[module.first] = state
        vmart.migrate(optimizer, "host0")
        self.assertEqual(self.places(module.first), ["gpu(0)"])
        self.assertEqual(self.places([state["exp_avg"], state["exp_avg_sq"]]), ["host(0)"] * 2)
        table = vmart.torch.where(optimizer)
        self.assertEqual([row.name for row in table], ["0.step", "0.exp_avg", "0.exp_avg_sq"])
        self.assertEqual(table["0.step"].places, {"(cpu)": 4})

    def test_pytorch_memory_of_its_own_is_refused_with_advice(self):
        with self.assertRaisesRegex(vmart.UnknownPointer, "vmart.torch.memory"):
            vmart.migrate(torch.empty(5), "gpu1")
        with self.assertRaisesRegex(vmart.InvalidArgument, "layout"):
            vmart.migrate(torch.eye(3).to_sparse(), "gpu1")


class Tables(TorchCase):
    def test_values_are_read_and_written_at_the_host(self):
        array = vmart.empty((3, 4), "float32", at="host0")
        made = torch.from_numpy(array.numpy())
        made.copy_(torch.arange(12.0).view(3, 4))
        self.assertEqual(float(made.sum()), 66.0)
        self.assertEqual(vmart.torch.where(made)["tensor"].places, {"host(0)": 48})
        with self.assertRaises(vmart.Pinned):
            vmart.migrate(made, "gpu0")

    def test_names_shapes_and_shares(self):
        with vmart.torch.memory(tag="table", chunk_bytes=2 * MIB):
            raw = tensor(16 * MIB)
        module = torch.nn.Module()
        module.inner = torch.nn.Module()
        module.inner.weight = torch.nn.Parameter(raw.view(torch.float16).view(2048, -1), requires_grad=False)
        module.tied = module.inner.weight
        module.register_buffer("own", torch.zeros(()))
        vmart.migrate(vmart.targets.Range(raw.data_ptr(), 4 * MIB), "gpu1")
        table = vmart.torch.where(module)
        row = table["inner.weight"]
        self.assertEqual(row[1:4], ((2048, 4096), "float16", 16 * MIB))
        self.assertEqual(row.places, {"gpu(1)": 4 * MIB, "gpu(0)": 12 * MIB})
        self.assertEqual(table["tied"].places, row.places)
        self.assertEqual(table.total, {"gpu(1)": 4 * MIB, "gpu(0)": 12 * MIB, "(cpu)": 4})
        lines = str(table).splitlines()
        self.assertEqual(lines[0].split(), ["name", "shape", "dtype", "bytes", "where"])
        self.assertRegex(str(table), r"inner.weight +2048x4096 +float16 +16.0 MiB  gpu\(1\) 25 %, gpu\(0\) 75 %")
        self.assertRegex(str(table), r"own +scalar +float32 +4 B  \(cpu\)")
        self.assertIn("<td>16.0 MiB</td>", table._repr_html_())

    def test_state_dicts_views_and_refusals(self):
        with vmart.torch.memory(tag="dict", no_split=True):
            raw = tensor(4 * MIB)
        states = {"model": {"a": raw[:MIB], "b": raw[MIB // 2 : MIB * 3 // 2]}, "step": 3, "name": "x",
                  "list": [raw[:0]], "own": torch.zeros(3)}  # fmt: skip
        table = vmart.torch.where(states)
        self.assertEqual([row.name for row in table], ["model.a", "model.b", "list.0", "own"])
        self.assertEqual(table["list.0"].places, {})
        self.assertEqual(table.total, {"gpu(0)": MIB * 3 // 2, "(cpu)": 12})
        self.assertEqual(len(table), 4)
        with self.assertRaises(vmart.InvalidArgument):
            vmart.torch.where(5)
        with self.assertRaises(KeyError):
            table["nobody"]

    def test_dropped_memory_is_named(self):
        with vmart.torch.memory(tag="gone"):
            made = tensor(12 * MIB)
        vmart.park("gone", drop=True)
        self.assertEqual(vmart.torch.where([made])["0"].places, {"dropped": 12 * MIB})


if __name__ == "__main__":
    unittest.main()
