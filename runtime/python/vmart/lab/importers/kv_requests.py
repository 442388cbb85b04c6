"""Requests to language models with their KV caches, which several formats share."""

import heapq
from typing import NamedTuple

from vmart.lab.importers.event_order import (NO_TASK, OBJECT_BYTES_MAX, ClosedLoop, allocation, begun_use,
                                             ended, free, hint, timed, use)
from vmart.lab.importers.input_lines import Refused
from vmart.lab.importers.parameters import CLOSED, HINTS, Parameter

TOKENS_MAX = 100_000_000  # Per request; a larger number is a mistake in the file.
FIRST_WEIGHTS = 1 << 62  # No file has such numbers.
FIRST_GROWTH = 1 << 33  # Of the objects of growing caches. Others have the numbers of requests.

REQUESTS = Parameter("requests", 0, 0, 1e9, "requests to take, the first ones of the file; 0: all")
TOKEN_BYTES = Parameter("token_bytes", 131_072, 1, 1e9, "KV cache size per token (Llama-3-8B in bf16)")
TOKEN_TIME = Parameter("token_us", 30_000, 0, 1e7, "time per output token")
PREFILL = Parameter("prefill_tokens_s", 0, 0, 1e9, "prompt tokens processed per second; 0: all at once")
GROW = Parameter("grow_tokens", 0, 0, 1e8, "closed loops: output tokens by which the KV cache grows; 0: all "
                 "its memory is there at once")
WEIGHTS = Parameter("weight_bytes", 0, 0, 1e13, "size of the model's weights, a copy on each GPU; 0: left out")
SERVING_GPUS = Parameter("gpus", 4, 1, 9999, "GPUs that serve requests; without weights, the router chooses")
SERVED = (CLOSED, GROW, WEIGHTS, SERVING_GPUS, HINTS)


class KvRequest(NamedTuple):
    """Processes the prompt from `start` to `first_token`, then generates the output tokens one by one until
    `end`, in ns."""

    number: int  # Also of its object.
    prompt_tokens: int
    output_tokens: int
    start: int
    first_token: int
    end: int

    def token_time(self):
        """Requires: there are output tokens."""
        return (self.end - self.first_token) // self.output_tokens

    def tokens_read(self):
        """Those that all output tokens together read."""
        output = float(self.output_tokens)
        return output * self.prompt_tokens + output * (output - 1) / 2


def assumed_request(number, prompt_tokens, output_tokens, start, values):
    """One with the times of the assumed speed of the model. Raises Refused without tokens."""
    if prompt_tokens + output_tokens == 0:
        raise Refused("has no tokens")
    rate = values["prefill_tokens_s"]
    first_token = start + (int(prompt_tokens / rate * 1e9) if rate > 0 else 0)
    end = first_token + output_tokens * values["token_us"] * 1000
    return KvRequest(number, prompt_tokens, output_tokens, start, first_token, end)


class Server(NamedTuple):
    """A GPU that serves a request; by default the router chooses it, and there are no weights."""

    gpu: int | None = None
    weights: int = 0  # Object.
    batch: int = 1  # Requests that it serves, with this one.


class ServedModel:
    """The weights of the model that requests use, if "weight_bytes" is not 0: a copy on each of "gpus" GPUs,
    an object tagged "weights" that lives to the end. Then each request has a GPU, since it reads that GPU's
    copy: the one with the fewest requests in progress by the times of a machine without memory bottleneck.
    Prompts read the weights once. Each output token reads them once for all requests that its GPU serves at
    the time of the first one, as an engine that batches them does: a share of a pass for each."""

    def __init__(self, order, values):
        self._bytes = values["weight_bytes"]
        self._ends = [[] for _ in range(values["gpus"] if self._bytes else 0)]  # Of requests in progress.
        for gpu in range(len(self._ends)):
            order.add(0, timed(0, allocation(FIRST_WEIGHTS + gpu, self._bytes, "weights")))

    def serve(self, start, end):
        if not self._ends:
            return Server()
        for gpu, ends in enumerate(self._ends):
            self._ends[gpu] = [one for one in ends if one > start]
        sizes = [len(ends) for ends in self._ends]
        gpu = sizes.index(min(sizes))
        self._ends[gpu].append(end)
        return Server(gpu, FIRST_WEIGHTS + gpu, len(self._ends[gpu]))

    def reads(self, server, passes):
        """A read of the weights, in a list, which is empty if there are none."""
        return [use(server.weights, self._bytes, passes=passes)] if self._bytes else []


class OutputForecast:
    """How long outputs are that a server has not generated yet: as long on average as those that have ended.
    It does not know how long a given one will be."""

    def __init__(self):
        self._coming = []
        self._tokens = self._ended = 0

    def add(self, end, tokens):
        """An output of so many tokens ends then."""
        heapq.heappush(self._coming, (end, tokens))

    def tokens(self, now):
        """The expected number; None as long as no output has ended. Requires: times do not decrease."""
        while self._coming and self._coming[0][0] <= now:
            self._tokens += heapq.heappop(self._coming)[1]
            self._ended += 1
        return self._tokens / self._ended if self._ended else None


def reads_announced(thing, size, tokens, token_time):
    """A hint that so many tokens will read it from now on, and end after that time."""
    return hint(thing, size, next_use=0, passes=tokens, until=max(1, int(tokens * token_time)))


class KvRequests:
    """Adds the events of requests. The cache of each is one object for the prompt and output tokens, tagged
    "kv", that lives from `start` to `end`. Each output token reads the cache as it is at that time: o tokens
    after a prompt of c read o*c + o*(o-1)/2 tokens.

    In a closed loop, a request has two tasks, and is their `request`. The first, which takes as long as from
    `start` to `first_token`, writes the prompt's part. The second follows it and is repeated for each output
    token: it takes its share of the time from `first_token` to `end`, reads the cache, each time what the
    output tokens read on average, and writes its share of the output's part. In an open loop, the accesses
    have these times: one write from `start` to `first_token`; then, both until `end`, one read with as many
    passes over the cache as that takes, and one write.

    With "grow_tokens", the cache of a closed loop grows, as with paged attention: the prompt's part is an
    object, and so is each part of so many output tokens, which is allocated when the one before is full and
    has a task of its own. Without, its whole memory is there from the start.

    With "hints", the output's tasks of a closed loop announce how often each part of the cache will be read,
    and by when. A server does not know how long an output will be: it expects the mean length of those that
    have ended, and nothing before one has. When the cache grows, it expects to fill the part that it has
    allocated. With "weight_bytes", requests read the weights of a `ServedModel`."""

    def __init__(self, order, values):
        self._order = order
        self._tasks = ClosedLoop(order)
        self._model = ServedModel(order, values)
        self._token_bytes = values["token_bytes"]
        self._grow_tokens = values["grow_tokens"]
        self._closed, self._hints = values["closed"], values["hints"]
        self._growths = 0  # Objects so far.
        self._forecast = OutputForecast()

    def add(self, request):
        """Requires: the request has tokens. Raises Refused if they are too many bytes."""
        server = self._model.serve(request.start, request.end)
        if not self._closed:
            self._add_open(request, server)
        elif self._grow_tokens:
            self._add_growing(request, server)
        else:
            self._add_closed(request, server)

    def _allocation(self, thing, tokens, time):
        size = tokens * self._token_bytes
        if size > OBJECT_BYTES_MAX:
            raise Refused(f"at {time} ns: its object is too large")
        return allocation(thing, size, "kv")

    def _prefill(self, request, server):
        written = use(request.number, request.prompt_tokens * self._token_bytes, "write")
        return self._tasks.declare([*self._model.reads(server, 1), written], time=request.start,
                                   compute=request.first_token - request.start, request=request.number,
                                   gpu=server.gpu)

    def _decode(self, request, server, tokens, after, uses, hints):
        """The steps of `tokens` output tokens."""
        return self._tasks.declare([*self._model.reads(server, 1 / server.batch), *uses], hints,
                                   time=request.first_token, compute=request.token_time(), repeat=tokens,
                                   request=request.number, gpu=server.gpu, after=[after])

    def _add_closed(self, request, server):
        size = (request.prompt_tokens + request.output_tokens) * self._token_bytes
        whole = self._allocation(request.number, request.prompt_tokens + request.output_tokens, request.start)
        self._order.add(request.start, timed(request.start, whole))
        last = self._prefill(request, server) if request.prompt_tokens else NO_TASK
        if request.output_tokens:
            uses = self._steps(request, size)
            last = self._decode(request, server, request.output_tokens, last, uses, self._expected(request, size))
        self._tasks.at_end(last, free(request.number))

    def _steps(self, request, size):
        """What each output token reads on average, and writes."""
        steps = request.output_tokens
        passes = request.tokens_read() / steps / (request.prompt_tokens + steps)
        written = use(request.number, steps * self._token_bytes, "write", 1 / steps,
                      request.prompt_tokens * self._token_bytes)
        return [use(request.number, size, passes=passes), written] if passes else [written]

    def _expected(self, request, size):
        if not self._hints:
            return []
        tokens = self._forecast.tokens(request.start)
        self._forecast.add(request.end, request.output_tokens)
        return [] if tokens is None else [reads_announced(request.number, size, tokens, request.token_time())]

    def _add_growing(self, request, server):
        parts, last = [], NO_TASK  # Objects and their bytes.

        def grow(thing, tokens):
            self._tasks.at_end(last, self._allocation(thing, tokens, request.start), request.start)
            parts.append((thing, tokens * self._token_bytes))

        if request.prompt_tokens:
            grow(request.number, request.prompt_tokens)
            last = self._prefill(request, server)
        for made in range(0, request.output_tokens, self._grow_tokens):
            tokens = min(self._grow_tokens, request.output_tokens - made)
            grow(FIRST_GROWTH + self._growths, tokens)
            self._growths += 1
            uses, hints = self._growing_steps(parts, tokens, request.token_time())
            last = self._decode(request, server, tokens, last, uses, hints)
        for thing, _ in parts:
            self._tasks.at_end(last, free(thing))

    def _growing_steps(self, parts, tokens, token_time):
        """Each token reads those before it: on average (tokens - 1) / 2 of the last part."""
        uses = [use(thing, size) for thing, size in parts[:-1]]
        thing, size = parts[-1]
        if tokens > 1:
            uses.append(use(thing, size, passes=(tokens - 1) / 2 / tokens))
        uses.append(use(thing, size, "write", 1 / tokens))
        if not self._hints:
            return uses, []
        return uses, [reads_announced(*part, self._grow_tokens, token_time) for part in parts]

    def _add_open(self, request, server):
        number, prompt, output = request.number, request.prompt_tokens, request.output_tokens
        size, written = (prompt + output) * self._token_bytes, prompt * self._token_bytes
        self._order.add(request.start, timed(request.start, self._allocation(number, prompt + output, request.start)))
        if prompt:
            uses = [*self._model.reads(server, 1), use(number, written, "write")]
            self._add_uses(request, server, request.start, request.first_token, uses)
        if output:
            uses = self._model.reads(server, output / server.batch)
            if request.tokens_read():
                uses.append(use(number, size, passes=request.tokens_read() / (prompt + output)))
            uses.append(use(number, output * self._token_bytes, "write", offset=written))
            self._add_uses(request, server, request.first_token, request.end, uses)
        self._order.add(request.end, timed(request.end, free(number)))

    def _add_uses(self, request, server, begin, end, uses):
        begun = begun_use(begin, duration=end - begin, task=request.number, gpu=server.gpu)
        self._order.add(begin, ended(begun, uses))
