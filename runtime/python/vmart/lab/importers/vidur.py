"""Request lengths as processed by Vidur, one request per line:
num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio.

Each request is a `KvRequest`. The file has no times: requests arrive at random with exponential gaps that
depend on the seed, "requests_s" per second on average."""

from vmart.lab.importers.input_lines import each_csv_line, whole_number
from vmart.lab.importers.kv_requests import (PREFILL, REQUESTS, SERVED, TOKEN_BYTES, TOKEN_TIME, TOKENS_MAX,
                                             KvRequests, assumed_request)
from vmart.lab.importers.parameters import Parameter
from vmart.lab.importers.random_numbers import RandomNumbers

PARAMETERS = (REQUESTS, TOKEN_BYTES, TOKEN_TIME, PREFILL, *SERVED,
              Parameter("requests_s", 1, 1e-3, 1e6, "average requests per second", whole=False))
HEADER = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio"


def convert(source, order):
    requests = KvRequests(order, source.values)
    gap_ns = 1e9 / source.values["requests_s"]
    random = RandomNumbers(source.seed)
    number = now = 0

    def read(prefill, decode, total, _):
        nonlocal number, now
        number += 1
        prompt_tokens = whole_number(prefill, "num_prefill_tokens", 0, TOKENS_MAX)
        output_tokens = whole_number(decode, "num_decode_tokens", 0, TOKENS_MAX)
        request = assumed_request(number, prompt_tokens, output_tokens, now, source.values)
        whole_number(total, "num_total_tokens", prompt_tokens + output_tokens, prompt_tokens + output_tokens)
        order.advance(now)
        requests.add(request)
        now += random.exponential(gap_ns)

    each_csv_line(source.path, HEADER, source.bad, source.values["requests"], read)
