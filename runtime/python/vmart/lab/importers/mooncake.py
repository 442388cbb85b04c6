"""Mooncake's request traces: JSON lines with "timestamp" (milliseconds), "input_length", "output_length"
(tokens) and "hash_ids", one per 512 tokens of the prompt. Equal ids mean equal prefixes, which share their KV
cache.

A block of 512 tokens is an object, tagged "kv". At the time stamp of a request, blocks of the prompt that are
not cached are allocated and written once; cached ones are read once. This takes as long as the tokens that are
not cached take at "prefill_tokens_s". Then every output token reads all blocks of the prompt, over "token_us".
Of the prompt's last block only the part with tokens is used. A block is freed "keep_s" after its last use; if
it is requested later, it is allocated and written again. The cache of the output tokens has no ids and is
ignored. A request earlier than the previous one is a bad line.

In a closed loop, a request has two tasks, and is their `request` with the number of its line. The first starts
at the time stamp, and after the tasks that write the blocks that it reads. The second follows it and is
repeated for each output token. Objects are numbered from 0; a block that is allocated again is another object.
In an open loop, a request is one task, a block is an object with its id as the number, and all output tokens
together read it in one access.

With "weight_bytes", requests read the weights of a `ServedModel`."""

import heapq
from typing import NamedTuple

from vmart.lab.importers.event_order import (NO_TASK, ClosedLoop, allocation, begun, begun_use, ended, free,
                                             hint, passes_text, timed, use, written)
from vmart.lab.importers.input_lines import Refused, each_json_line, whole_numbers
from vmart.lab.importers.kv_requests import (PREFILL, REQUESTS, SERVING_GPUS, TOKEN_BYTES, TOKEN_TIME, TOKENS_MAX,
                                             WEIGHTS, OutputForecast, ServedModel, reads_announced)
from vmart.lab.importers.parameters import CLOSED, HINTS, Parameter

PARAMETERS = (REQUESTS, TOKEN_BYTES, TOKEN_TIME, PREFILL, CLOSED, WEIGHTS, SERVING_GPUS, HINTS,
              Parameter("keep_s", 300, 0, 1e6, "how long an unused block is kept; 0: forever"))
BLOCK_TOKENS = 512
MILLISECONDS_MAX = 1_000_000_000_000
END_OF_TIME = 1 << 63


class Request(NamedTuple):
    number: int
    time: int
    input_tokens: int
    output_tokens: int
    ids: list


class Block:
    """A block of the cache. In a closed loop, `last` is the one of its users that ends last."""

    __slots__ = ("last", "thing", "used_until", "writer")

    def __init__(self, thing, used_until):
        self.thing = thing
        self.used_until = used_until
        self.writer = self.last = NO_TASK


class Cache:
    """The cached blocks by id. Frees each `keep` after its last use, or never if that is 0."""

    def __init__(self, keep, free_blocks):
        self.blocks = {}
        self._keep = keep
        self._free_blocks = free_blocks
        self._expiries = []  # Times, and the ids of blocks that may not have been used since.

    def used(self, keys, end):
        """Blocks that a request uses until `end`, or others longer."""
        if self._keep:
            heapq.heappush(self._expiries, (end + self._keep, keys))

    def expire(self, now):
        """Frees the blocks that have expired at `now`."""
        expiries = self._expiries
        while expiries and expiries[0][0] <= now:
            time, keys = heapq.heappop(expiries)
            while expiries and expiries[0][0] == time:
                keys = keys + heapq.heappop(expiries)[1]
            last_use = time - self._keep
            expired = [key for key in sorted(set(keys)) if self.blocks[key].used_until == last_use]
            self._free_blocks(time, [self.blocks.pop(key) for key in expired])


class Prompts:
    """What both loops have in common: the cached blocks, and how long a prompt takes."""

    def __init__(self, order, values):
        self.order = order
        self.model = ServedModel(order, values)
        self.cache = Cache(values["keep_s"] * 1_000_000_000, self.free)
        self.token_bytes = values["token_bytes"]
        self.block_bytes = BLOCK_TOKENS * self.token_bytes
        self.token_time = values["token_us"] * 1000
        self._prefill_tokens_s = values["prefill_tokens_s"]

    def finish(self):
        self.cache.expire(END_OF_TIME)

    def sizes(self, request):
        """The prompt's last block is used only as far as it has tokens."""
        rest = request.input_tokens - (len(request.ids) - 1) * BLOCK_TOKENS
        return [self.block_bytes] * (len(request.ids) - 1) + [rest * self.token_bytes]

    def prefill_time(self, request):
        """How long it takes to process the part of the prompt that is not cached."""
        if not self._prefill_tokens_s:
            return 0
        size = sum(size for key, size in zip(request.ids, self.sizes(request)) if key not in self.cache.blocks)
        return int(size // self.token_bytes / self._prefill_tokens_s * 1e9)


class OpenPrompts(Prompts):
    def free(self, time, blocks):
        self.order.add(time, "".join([timed(time, free(block.thing)) for block in blocks]))

    def add(self, request):
        self.cache.expire(request.time)
        self.order.advance(request.time)
        prefill, decode = self.prefill_time(request), self.token_time * request.output_tokens
        begin, first_token = request.time, request.time + prefill
        server = self.model.serve(begin, first_token + decode)
        of_prompt = begun_use(begin, duration=prefill, task=request.number, gpu=server.gpu)
        of_output = begun_use(first_token, duration=decode, task=request.number, gpu=server.gpu)
        lines = [ended(of_prompt, self.model.reads(server, 1))]
        later = lines if first_token == begin else []  # Events of one time keep their order.
        if request.output_tokens:
            later.append(ended(of_output, self.model.reads(server, request.output_tokens / server.batch)))
        self.cache.used(request.ids, first_token + decode)
        passes = passes_text(request.output_tokens)
        for key, size in zip(request.ids, self.sizes(request)):
            read = first_use = use(key, size)
            if self._use_until(key, first_token + decode):
                lines.append(timed(begin, allocation(key, self.block_bytes, "kv")))
                first_use = written(read)
            lines.append(f"{of_prompt}{first_use}}}\n")
            if request.output_tokens:
                later.append(f"{of_output}{read}{passes}}}\n")
        self.order.add(begin, "".join(lines))
        if later is not lines:
            self.order.add(first_token, "".join(later))

    def _use_until(self, key, end):
        """Returns whether the block was not cached, and caches it."""
        block = self.cache.blocks.get(key)
        if block is None:
            self.cache.blocks[key] = Block(key, end)
            return True
        block.used_until = max(block.used_until, end)
        return False


class ClosedPrompts(Prompts):
    def __init__(self, order, values):
        super().__init__(order, values)
        self._tasks = ClosedLoop(order)
        self._things = 0
        self._hints = values["hints"]
        # What the server knows that gives hints.
        self._forecast = OutputForecast()
        self._ending = []  # Ends of requests, in the order of their numbers where equal; with blocks and tasks.
        self._paused_s = self._pauses = 0  # Between the uses of a block by two requests.

    def free(self, time, blocks):
        self.order.add(time, "".join([timed(time, free(block.thing), block.last) for block in blocks]))

    def finish(self):
        self._announce_idle(END_OF_TIME)
        super().finish()

    def add(self, request):
        self._announce_idle(request.time)
        self.cache.expire(request.time)
        self.order.advance(request.time)
        after = self._writers(request)
        compute = self.prefill_time(request)
        server = self.model.serve(request.time, request.time + compute + self.token_time * request.output_tokens)
        blocks, first_uses, reads = self._use_blocks(request)
        prefill = last = self._tasks.declare(
            [*self.model.reads(server, 1), *first_uses], time=request.time, compute=compute, request=request.number,
            gpu=server.gpu, after=after)
        if request.output_tokens:
            last = self._tasks.declare(
                [*self.model.reads(server, 1 / server.batch), *reads], self._expected(request, blocks),
                time=request.time, compute=self.token_time, repeat=request.output_tokens, request=request.number,
                gpu=server.gpu, after=[prefill])
        self._used(request, blocks, prefill, last)

    def _writers(self, request):
        """The tasks that write the cached blocks of the request."""
        cached = self.cache.blocks
        return sorted({cached[key].writer for key in request.ids if key in cached})

    def _use_blocks(self, request):
        """The blocks of the request, which are cached from now on; their first uses, which are writes of new
        ones; and reads of all."""
        cached, begin = self.cache.blocks, request.time
        blocks, first_uses, reads, new = [], [], [], []
        for key, size in zip(request.ids, self.sizes(request)):
            block = cached.get(key)
            is_new = block is None
            if is_new:
                block = cached[key] = Block(self._things, begin)
                self._things += 1
                new.append(allocation(block.thing, self.block_bytes, "kv"))
            elif block.used_until < begin:
                self._paused_s += (begin - block.used_until) / 1e9
                self._pauses += 1
                block.used_until = begin
            read = use(block.thing, size)
            blocks.append(block)
            first_uses.append(written(read) if is_new else read)
            reads.append(read)
        self.order.add(begin, ended(begun(begin), new))
        return blocks, first_uses, reads

    def _used(self, request, blocks, prefill, last):
        self._forecast.add(last.end, request.output_tokens)
        self.cache.used(request.ids, last.end)
        for block in blocks:
            if not block.writer.number:
                block.writer = prefill
            if last.end >= block.last.end:
                block.used_until = last.end
                block.last = last
        if self._hints:
            heapq.heappush(self._ending, (last.end, last.number, blocks, last))

    def _expected(self, request, blocks):
        """What the output's task announces: that it will read the blocks."""
        tokens = self._forecast.tokens(request.time)
        if not self._hints or tokens is None:
            return []
        return [reads_announced(block.thing, size, tokens, self.token_time)
                for block, size in zip(blocks, self.sizes(request))]

    def _announce_idle(self, now):
        """Requests that end by `now` announce that their blocks are idle, if no other request uses them: for
        as long as blocks that were used again had been, on average."""
        while self._ending and self._ending[0][0] <= now:
            _, _, blocks, last = heapq.heappop(self._ending)
            if not self._pauses:
                continue
            pause = int(self._paused_s / self._pauses * 1e9)
            for block in blocks:
                if block.last.number == last.number:
                    self._tasks.at_end(last, hint(block.thing, self.block_bytes, next_use=pause, passes=0,
                                                  until=pause))


def read_request(members, number, before):
    time = members.integer("timestamp", 0, MILLISECONDS_MAX) * 1_000_000
    input_tokens = members.integer("input_length", 1, TOKENS_MAX)
    output_tokens = members.integer("output_length", 0, TOKENS_MAX)
    ids = whole_numbers(members.list("hash_ids"), "hash_ids: contains something other than a whole number")
    expected = -(-input_tokens // BLOCK_TOKENS)
    if len(ids) != expected:
        raise Refused(f"hash_ids: are {len(ids)}, and {input_tokens} tokens have {expected}")
    if time < before:
        raise Refused("is earlier than the request above it")
    return Request(number, time, input_tokens, output_tokens, ids)


def convert(source, order):
    prompts = (ClosedPrompts if source.values["closed"] else OpenPrompts)(order, source.values)
    number = before = 0

    def read(members):
        nonlocal number, before
        number += 1
        request = read_request(members, number, before)
        before = request.time
        prompts.add(request)

    each_json_line(source.path, source.bad, source.values["requests"], read)
    prompts.finish()
