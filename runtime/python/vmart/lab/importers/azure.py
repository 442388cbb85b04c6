"""Azure's LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens, one request per line.

Each request is a `KvRequest`. Its line number, not counting the header, is its number. It starts at its time
stamp, relative to the first request. Requests share nothing, since the file does not say what they have in
common. A request earlier than the previous one is a bad line."""

import datetime
import re

from vmart.lab.importers.input_lines import Refused, each_csv_line, whole_number
from vmart.lab.importers.kv_requests import (PREFILL, REQUESTS, SERVED, TOKEN_BYTES, TOKEN_TIME, TOKENS_MAX,
                                             KvRequests, assumed_request)

PARAMETERS = (REQUESTS, TOKEN_BYTES, TOKEN_TIME, PREFILL, *SERVED)
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII)
EPOCH = datetime.datetime(1970, 1, 1)
YEAR_MAX = 2200


def time_of(text):
    """In ns, of "2023-11-16 18:15:46.6805900"."""
    found = STAMP.fullmatch(text)
    if not found:
        raise Refused("TIMESTAMP: is not a time")
    *parts, fraction = found.groups()
    whole_number(parts[0], "TIMESTAMP", EPOCH.year, YEAR_MAX)
    try:
        since = datetime.datetime(*map(int, parts)) - EPOCH
    except ValueError:
        raise Refused("TIMESTAMP: is not a date") from None
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def convert(source, order):
    requests = KvRequests(order, source.values)
    number, first, before = 0, None, 0

    def read(stamp, context, generated):
        nonlocal number, first, before
        number += 1
        time = time_of(stamp)
        prompt_tokens = whole_number(context, "ContextTokens", 0, TOKENS_MAX)
        output_tokens = whole_number(generated, "GeneratedTokens", 0, TOKENS_MAX)
        start = time - (time if first is None else first)
        request = assumed_request(number, prompt_tokens, output_tokens, start, source.values)
        if start < before:
            raise Refused("is earlier than the request above it")
        first, before = time - start, start
        order.advance(start)
        requests.add(request)

    each_csv_line(source.path, HEADER, source.bad, source.values["requests"], read)
