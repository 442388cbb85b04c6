"""The events of a Chrome trace, one by one: such files can be larger than memory."""

import codecs
import json
import re

from vmart.lab.importers.input_lines import opened

READ_BYTES = 1 << 20
EVENT_CHARACTERS_MAX = 1 << 20
BEGIN, BARE = re.compile(r'"traceEvents"\s*:\s*\['), re.compile(r"\s*\[")
BEGIN_CHARACTERS = 256  # More than it may have.
BETWEEN = re.compile(r"[\s,]*")


class Text:
    """The text of a file as far as it is needed."""

    def __init__(self, file):
        self.text = ""
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read_more(self, used):
        """Forgets what was used. Returns whether there was more."""
        data = self._file.read(READ_BYTES)
        self.text = self.text[used:] + self._decoder.decode(data)
        return bool(data)


def begin_events(text):
    """Returns where the first event may begin; None if there are no events."""
    more = text.read_more(0)
    if found := BARE.match(text.text):
        return found.end()
    while not (found := BEGIN.search(text.text)):
        if not more:
            return None
        more = text.read_more(max(0, len(text.text) - BEGIN_CHARACTERS))
    return found.end()


def events_of(path):
    """Yields the number of each event, from 1 on, and its members. Raises ValueError with the file and the event."""
    with opened(path) as file:
        text = Text(file)
        at = begin_events(text)
        if at is None:
            raise ValueError(f"{path}: has no traceEvents")
        decoder, number = json.JSONDecoder(), 1
        while True:
            at = BETWEEN.match(text.text, at).end()
            if text.text[at:at + 1] == "]":
                return
            try:
                event, at = decoder.raw_decode(text.text, at)
            except (ValueError, RecursionError) as error:
                left = len(text.text) - at
                if left <= EVENT_CHARACTERS_MAX and text.read_more(at):
                    at = 0
                    continue
                reason = f"has more than {EVENT_CHARACTERS_MAX} characters" if left > EVENT_CHARACTERS_MAX else error
                raise ValueError(f"{path}: event {number}: is cut off, or no JSON: {reason}") from None
            if not isinstance(event, dict):
                raise ValueError(f"{path}: event {number}: is not an object")
            yield number, event
            number += 1
