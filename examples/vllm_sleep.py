#!/usr/bin/env python3
"""An engine of vLLM sleeps on memory of vmart, and says the same after it woke up.

vllm_sleep.py [MODEL]     needs vLLM, the package vmart and a GPU; leaves with 77 where they are not
"""

import os
import sys

EXIT_SKIPPED = 77

os.environ["VMART_VLLM"] = "1"  # Before vLLM is imported: its plugins look at it.
try:
    import torch
    from vllm import LLM, SamplingParams

    import vmart
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(EXIT_SKIPPED)


def says(llm):
    greedy = SamplingParams(temperature=0, max_tokens=16)
    return llm.generate("The address of a tensor", greedy)[0].outputs[0].text


def free_gib():
    return torch.cuda.mem_get_info()[0] / (1 << 30)


def main():
    if not torch.cuda.is_available():
        print("SKIPPED: this needs a GPU")
        return EXIT_SKIPPED
    model = sys.argv[1] if len(sys.argv) > 1 else "Qwen/Qwen3-0.6B"
    llm = LLM(model, enable_sleep_mode=True, sleep_mode_backend="vmart", gpu_memory_utilization=0.5)
    before, awake = says(llm), free_gib()
    for cycle in range(3):
        llm.sleep(level=1)
        asleep = free_gib()
        llm.wake_up(tags=["weights"])  # Weights could be updated here, while there is no KV cache.
        llm.wake_up(tags=["kv_cache"])
        print(f"cycle {cycle}: {awake:.1f} GiB free awake, {asleep:.1f} GiB asleep, vmart {vmart.__version__}")
        if says(llm) != before:
            print("the engine says something else")
            return 1
    return 0


if __name__ == "__main__":  # vLLM starts processes that import this file.
    sys.exit(main())
