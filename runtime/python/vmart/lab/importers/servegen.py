"""Clients of ServeGen: statistics of who sends requests to a served model, and how long these are. The input is a
client's chunk-N-trace.csv, with its chunk-N-dataset.json beside it, or a folder of such files: all its clients.

The files have no requests, so the converter samples them as ServeGen does. In each window of a client (600 s), as many
requests arrive as its rate says, times "rate_scale". Their gaps have a Gamma or Weibull distribution of the window's
shape, and are scaled to fill the window. The lengths of a request are at the same quantile of the distributions that
hold in that window; images, audio and video are tokens of the prompt. Everything drawn depends on the seed.

Windows are taken that begin from "from_s" on and before "from_s" plus "seconds" (0: to the end). Time 0 is the begin
of the first one in which a request arrives. Each request is a `KvRequest`."""

import math

from vmart.lab.importers.input_lines import Refused
from vmart.lab.importers.kv_requests import (PREFILL, REQUESTS, SERVED, TOKEN_BYTES, TOKEN_TIME, KvRequests,
                                             assumed_request)
from vmart.lab.importers.parameters import Parameter
from vmart.lab.importers.random_numbers import RandomNumbers, sum_of
from vmart.lab.importers.servegen_clients import MEDIA, Client, dataset_path, trace_paths

PARAMETERS = (REQUESTS, TOKEN_BYTES, TOKEN_TIME, PREFILL, *SERVED,
              Parameter("from_s", 0, 0, 1e9, "begin of the first window to take"),
              Parameter("seconds", 0, 0, 1e9, "from there to the begin of the first window to leave out; 0: all"),
              Parameter("rate_scale", 1, 1e-6, 1e6, "requests for each one of the file", whole=False))
WINDOW_S = 600  # The last window of a file, whose end it does not say.
WINDOW_REQUESTS_MAX = 10_000_000


def files(path):
    """The windows and the lengths of each client. Raises ValueError if a file is missing."""
    return [file for trace in trace_paths(path) for file in (trace, dataset_path(trace))]


def normal(random):
    """By the polar method of Marsaglia."""
    while True:
        x, y = 2 * random.uniform() - 1, 2 * random.uniform() - 1
        square = x * x + y * y
        if 0 < square < 1:
            return x * math.sqrt(-2 * math.log(square) / square)


def gamma(random, shape):
    """Of scale 1, by the method of Marsaglia and Tsang, 2000."""
    if shape < 1:
        return gamma(random, shape + 1) * (1 - random.uniform()) ** (1 / shape)
    d = shape - 1 / 3
    while True:
        x = normal(random)
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(1 - random.uniform()) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v


def weibull(random, shape):
    """Of scale 1."""
    return (-math.log(1 - random.uniform())) ** (1 / shape)


DRAW = {"Gamma": gamma, "Weibull": weibull}


class Arrivals:
    """The requests of all clients, drawn one window after the other."""

    def __init__(self, clients, values, seed):
        self._clients = clients
        self._begin = values["from_s"]
        self._end = self._begin + values["seconds"] if values["seconds"] else math.inf
        self._rate_scale = values["rate_scale"]
        self._random = RandomNumbers(seed)

    def draw(self):
        """Yields the second of each request, and its tokens of prompt and output, in order."""
        windows = []
        for number, client in enumerate(self._clients):
            ends = [one.begin for one in client.windows[1:]]
            ends.append(client.windows[-1].begin + WINDOW_S if client.windows else 0)
            windows += [(window.begin, number, window, end) for window, end in zip(client.windows, ends)
                        if window.kind and window.rate and self._begin <= window.begin < self._end]
        waiting = []
        for begin, number, window, end in sorted(windows):
            waiting.sort()
            ready = [one for one in waiting if one[0] < begin]
            yield from ready
            waiting = waiting[len(ready):] + self._requests(self._clients[number], window, end)
        yield from sorted(waiting)

    def _requests(self, client, window, end):
        lengths, seconds = client.lengths(window.begin), end - window.begin
        count = math.ceil(window.rate * self._rate_scale * seconds)
        if count > WINDOW_REQUESTS_MAX:
            raise Refused(f"{count} requests from second {window.begin} on, at most {WINDOW_REQUESTS_MAX}")
        if lengths is None:
            return []
        gaps = [DRAW[window.kind](self._random, window.shape) for _ in range(count)]
        total, passed, requests = sum_of(gaps), 0.0, []
        for gap in gaps:
            passed += gap
            quantile = self._random.uniform()
            requests.append((window.begin + min(1.0, passed / total if total else 0.0) * seconds,
                             *self._tokens(lengths, quantile)))
        return requests

    @staticmethod
    def _tokens(lengths, quantile):
        drawn = {field: one.at(quantile) for field, one in lengths.items()}
        prompt = drawn.get("input_tokens", drawn.get("text_tokens", 0))
        prompt += sum(drawn[f"{one}_tokens"] * drawn[f"{one}_count"] for one in MEDIA if f"{one}_tokens" in drawn)
        return prompt, drawn["output_tokens"]


def convert(source, order):
    clients = [Client(path, source.bad) for path in trace_paths(source.path)]
    requests = KvRequests(order, source.values)
    first, number = None, 0
    for second, prompt, output in Arrivals(clients, source.values, source.seed).draw():
        if first is None:
            first = int(second) // WINDOW_S * WINDOW_S
        if not prompt + output:
            continue
        number += 1
        start = int((second - first) * 1e9)
        order.advance(start)
        requests.add(assumed_request(number, prompt, output, start, source.values))
        if number == source.values["requests"]:
            break
