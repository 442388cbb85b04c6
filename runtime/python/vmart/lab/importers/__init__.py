"""Importers: they turn files that others published into the events of a trace. One module a format, which has
PARAMETERS, `convert(source, order)`, and perhaps `files(path)`, all files that it reads for an input."""

import importlib
import json
import os
from typing import NamedTuple

from vmart.lab.importers.event_order import EventOrder
from vmart.lab.importers.input_lines import BAD_LINES_MAX, BadLines, Refused
from vmart.lab.importers.parameters import values_of, values_text


class Format(NamedTuple):
    """A foreign format, which the module of its name imports."""

    name: str
    meaning: str  # One line.
    origin: str
    licence: str

    def module(self):
        return importlib.import_module(f"vmart.lab.importers.{self.name}")

    def files(self, path):
        """All files that are read for an input. Raises ValueError if one is missing."""
        return getattr(self.module(), "files", lambda only: [only])(path)

    def description(self):
        """What `vmart-lab` knows of it."""
        parameters = [one._asdict() for one in self.module().PARAMETERS]
        return {**self._asdict(), "parameters": parameters}


FORMATS = {one.name: one for one in (
    Format("azure", "Azure LLM inference requests: AzureLLMInferenceTrace_*.csv",
           "Azure/AzurePublicDataset (Patel et al., Splitwise, ISCA 2024)", "CC-BY-4.0"),
    Format("chakra", "kernels and tensors of a rank: Chakra execution traces, *.et", "mlcommons/chakra", ""),
    Format("dlrm", "locality statistics of embedding look-ups: locality_stats_*.txt",
           "facebookresearch/dlrm_datasets", "MIT"),
    Format("experts", "experts that a router chose for each token and layer: *_routes.jsonl", "a log of a router", ""),
    Format("g10", "kernels and tensors of training: *_kernels.jsonl with *_tensors.csv",
           "derived from platformxlab/G10", "Apache-2.0"),
    Format("llmservingsim", "requests of a run of vLLM: *.vllm_requests.jsonl", "casys-kaist/LLMServingSim", "MIT"),
    Format("mooncake", "requests with shared prefixes: *_trace.jsonl", "kvcache-ai/Mooncake (FAST 2025)",
           "Apache-2.0"),
    Format("oraclegeneral", "requests to a cache: *.oracleGeneral.bin", "1a1a11a/libCacheSim", ""),
    Format("servegen", "arrivals and lengths of clients: chunk-*-trace.csv, or a folder of them",
           "alibaba/ServeGen (Xiang et al., 2025)", "Apache-2.0"),
    Format("torch_profile", "kernels and allocations of a PyTorch profiler trace: *.json", "PyTorch's profiler", ""),
    Format("torch_snapshot", "allocations of a PyTorch memory snapshot: *.pickle", "PyTorch's caching allocator", ""),
    Format("vidur", "request lengths: *_lengths.csv", "microsoft/vidur", "MIT"),
    Format("vscsi", "I/O of a virtual disk: cloudPhysicsIO.csv",
           "CloudPhysics (Waldspurger et al., FAST 2015), as in 1a1a11a/libCacheSim", ""))}


class Source(NamedTuple):
    """The input of an importer: the file, the assumptions, and the counter of bad lines."""

    path: str
    values: dict
    seed: int  # For importers that sample what the file lacks.
    bad: BadLines


def format_of(name):
    if name not in FORMATS:
        raise ValueError(f'"{name}" is not a format; known are {", ".join(["trace", *sorted([*FORMATS, "recording"])])}')
    return FORMATS[name]


def header(form, path, seed, values):
    """The first line of the trace. What is unknown is left out."""
    file = os.fsencode(os.path.basename(path)).decode("utf-8", "replace")
    members = {"vmart_trace": 1, "name": f"{form.name} {file}", "origin": f"{form.origin}: {file}",
               "licence": form.licence,
               "made": f"vmart-lab convert {form.name} seed={seed} {values_text(values)}"}
    return {key: value for key, value in members.items() if value}


def write_events(name, path, write, *, given=(), seed=1, bad_lines_max=BAD_LINES_MAX):
    """Passes the lines of a trace in JSON to `write`: a header, and the events in order of time. `given` is a
    list of "parameter=value". Returns the BadLines. Raises ValueError with the file and the line, or another
    fault."""
    form = format_of(name)
    module = form.module()
    values = values_of(module.PARAMETERS, given)
    write(json.dumps(header(form, path, seed, values)) + "\n")
    order = EventOrder(write)
    bad = BadLines(path, bad_lines_max)
    try:
        module.convert(Source(path, values, seed, bad), order)
    except Refused as reason:  # Of events that belong to no line.
        raise ValueError(f"{path}: {reason}") from None
    order.finish()
    return bad
