#!/usr/bin/env python3
"""Every trace in bench/traces converts without a bad line, and the number of events matches the requests, kernels
and uses in its description: traces_test.py VMART_LAB."""

import json
import unittest

from converting import TRACES, Converting, vmart_lab

# File, allocations, accesses. A Mooncake request writes or reads each block once and reads it again while it
# generates tokens. A request with its own cache is a write, plus a read and a write while it generates tokens. The
# number of accesses is unknown for random look-ups. In the profiler's trace, a kernel
# follows each of 261 allocations but one, and precedes each of 166 frees but one.
EXPECTED = {
    "mooncake/conversation_trace.jsonl.gz": (182_790, 2 * 288_500),
    "azure/AzureLLMInferenceTrace_conv.csv.gz": (19_366, 3 * 19_366),
    "vidur/arxiv_summarization_lengths.csv.gz": (28_257, 3 * 28_257),
    "llmservingsim/Llama-3.1-8B.vllm_requests.jsonl.gz": (300, 900),
    "llmservingsim/Qwen3-30B-A3B-Instruct-2507.vllm_requests.jsonl.gz": (300, 900),
    "llmservingsim/Qwen3-32B.vllm_requests.jsonl.gz": (300, 900),
    "g10/g10_BERT_Base_bs256_kernels.jsonl.gz": (1463, 3800),
    "g10/g10_BERT_Base_bs512_kernels.jsonl.gz": (1463, 3800),
    "g10/g10_BERT_Base_bs1024_kernels.jsonl.gz": (1463, 3800),
    "g10/g10_VIT_bs1280_kernels.jsonl.gz": (1563, 4157),
    "g10/g10_Inceptionv3_bs1536_kernels.jsonl.gz": (2171, 3940),
    "g10/g10_ResNet152_bs1280_kernels.jsonl.gz": (3330, 5870),
    "g10/g10_SENet154_bs1024_kernels.jsonl.gz": (4341, 8468),
    "servegen/chunk-2-trace.csv.gz": (312, 3 * 312),
    "servegen/chunk-52-trace.csv.gz": (90, 3 * 90),
    "chakra/chakra.0.et.gz": (213, 604),
    "oraclegeneral/conversation.oracleGeneral.bin.gz": (7414, 8000),
    "torch_profile/training_rank1_profile.json.gz": (261, 425),
    "torch_profile/transformer_profile.json.gz": (123, 246),
    "torch_snapshot/transformer_snapshot.pickle.gz": (222, 246),
    "experts/mixture_routes.jsonl.gz": (64, 1096),
    "dlrm/locality_stats_2021.txt.gz": (35, None),
    "dlrm/locality_stats_2022.txt.gz": (19, None)}
SHORT = {"g10": ["iterations=1"], "mooncake": ["keep_s=0"], "dlrm": ["lookups=1e6", "batches=2"]}
ENDS = ("_kernels.jsonl.gz", "_lengths.csv.gz", "_requests.jsonl.gz", "_trace.jsonl.gz", "_conv.csv.gz", "-trace.csv.gz",
        ".et.gz", ".oracleGeneral.bin.gz", "_profile.json.gz", "_snapshot.pickle.gz", "_routes.jsonl.gz")
MEASURED = ("azure", "llmservingsim", "g10")  # They say how long work took.
BOTH_LOOPS = (*MEASURED, "mooncake", "vidur", "servegen")


class Traces(Converting):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "out.vtrace"

    def summary(self, file, *values):
        form = file.partition("/")[0]
        return self.convert(form, TRACES / file, *SHORT.get(form, []), *values)

    def test_all_convert(self):
        for file, (allocations, accesses) in EXPECTED.items():
            with self.subTest(file):
                told = self.summary(file)
                self.assertEqual((told["bad_lines"], told["counts"]["alloc"]), (0, allocations))
                self.assertEqual(vmart_lab("trace", self.output).returncode, 0)
                if accesses:
                    self.assertEqual(told["counts"]["access"], accesses)
                if file.startswith(BOTH_LOOPS):
                    self.check_open_loop(told, self.summary(file, "closed=0"))

    def check_open_loop(self, closed, opened):
        """It has the same accesses and bytes. Without microbatches it takes as long."""
        self.assertGreater(closed["counts"]["task"], 0)
        self.assertEqual(opened["counts"]["task"], 0)
        self.assertEqual(closed["counts"]["access"], opened["counts"]["access"])
        self.assertEqual(closed["bytes_live_max"] // 1024, opened["bytes_live_max"] // 1024)
        for key in ("bytes_read", "bytes_written", "end_ns"):
            self.assertAlmostEqual(closed[key] / opened[key], 1, delta=1e-6, msg=key)

    def test_work_takes_as_long_as_the_trace_says(self):
        """If everything fits into HBM. The other formats ask for more than four GPUs have, or for nothing but
        memory's time."""
        for file in EXPECTED:
            if not file.startswith(MEASURED):
                continue
            own_s = self.summary(file, "closed=0")["end_ns"] / 1e9
            for router in ("hash", "round_robin", "least_loaded"):
                with self.subTest(file, router=router):
                    done = vmart_lab("replay", self.output, "--machine", "h200x4", "--policy", "stay_put", "--json",
                                     "--hbm", "1000000GiB", "--router", router)
                    self.assertEqual(done.stderr, "")
                    self.assertAlmostEqual(json.loads(done.stdout)["metrics"]["seconds"] / own_s, 1, delta=0.02)

    def test_no_file_is_forgotten(self):
        files = {str(path.relative_to(TRACES)) for path in TRACES.rglob("*")
                 if path.name.endswith(ENDS) or path.name.startswith("locality_stats_")}
        self.assertEqual(files, set(EXPECTED))


if __name__ == "__main__":
    unittest.main()
