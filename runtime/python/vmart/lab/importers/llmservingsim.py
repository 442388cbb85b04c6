"""Requests of a real vLLM run, as published with LLMServingSim's benchmarks: JSON lines with "input_toks",
"output_toks", "queued_ts", "scheduled_ts", "first_token_ts" and "last_token_ts" in seconds.

Each request is a `KvRequest` with the measured times. Its line number is its number. It starts when it was
scheduled, since it has no cache before that. Time 0 is when the first request was queued. Requests may be
scheduled in any order, so all events are held until the end of the file: such files are short."""

from vmart.lab.importers.input_lines import Refused, each_json_line
from vmart.lab.importers.kv_requests import REQUESTS, SERVED, TOKEN_BYTES, TOKENS_MAX, KvRequest, KvRequests
from vmart.lab.importers.random_numbers import rounded

PARAMETERS = (REQUESTS, TOKEN_BYTES, *SERVED)
SECONDS_MAX = 1e9


def convert(source, order):
    requests = KvRequests(order, source.values)
    number, first = 0, None

    def read(members):
        nonlocal number, first
        number += 1
        prompt_tokens = members.integer("input_toks", 0, TOKENS_MAX)
        output_tokens = members.integer("output_toks", 0, TOKENS_MAX)
        times = [0]
        for key in ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts"):
            times.append(members.number(key, times[-1], SECONDS_MAX))
        if prompt_tokens + output_tokens == 0:
            raise Refused("has no tokens")
        begin = times[1] if first is None else first
        if times[2] < begin:
            raise Refused("was scheduled before the first request was queued")
        first = begin
        measured = [rounded((seconds - begin) * 1e9) for seconds in times[2:]]
        requests.add(KvRequest(number, prompt_tokens, output_tokens, *measured))

    each_json_line(source.path, source.bad, source.values["requests"], read)
