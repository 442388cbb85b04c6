"""Which experts a router chose: JSON lines with "layer", "token_idx", "topk_ids" (the experts of a token in a layer) and
perhaps "req_id" (the request of the token). Lines whose "type" is another than "route" are ignored, such as those that
describe the model.

An expert of a layer is an object of "expert_bytes", tagged "expert", allocated at its first use, which lives to the
end. Lines of a layer that follow each other are tokens of one batch, at most "batch_tokens". Requests belong to "gpus"
GPUs by turns, in the order of their first lines; without them, tokens do. For each GPU with tokens in the batch there is
a task: it reads each expert that one of them chose once, in full, however many chose it. It takes "layer_us", and
follows all tasks of the previous batch, since layers exchange tokens. The file has no times."""

from vmart.lab.importers.event_order import NO_TASK, ClosedLoop, allocation, free, use
from vmart.lab.importers.input_lines import Refused, each_json_line, whole_numbers
from vmart.lab.importers.parameters import Parameter

PARAMETERS = (
    Parameter("expert_bytes", 17_301_504, 1, 1e13, "size of an expert of a layer (Qwen1.5-MoE-A2.7B in bf16)"),
    Parameter("gpus", 4, 1, 64, "GPUs that process requests, or tokens, by turns"),
    Parameter("batch_tokens", 256, 1, 1e6, "tokens of a batch at most"),
    Parameter("layer_us", 100, 0, 1e7, "time per layer of a batch"))

LAYERS_MAX, EXPERTS_MAX, TOKEN_MAX = 10_000, 1_000_000, 1 << 53


class Layers:
    """Gathers the tokens of a batch, and turns each batch into tasks."""

    def __init__(self, order, values):
        self._order = order
        self._tasks = ClosedLoop(order)
        self._values = values
        self._things = {}  # Objects by layer and expert.
        self._turns = {}  # GPUs by request or token.
        self._last = [NO_TASK]  # The tasks of the previous batch.
        self._layer, self._tokens, self._chosen = None, 0, {}  # Experts of the batch, by GPU.

    def add(self, layer, whose, experts):
        if layer != self._layer or self._tokens == self._values["batch_tokens"]:
            self.run()
            self._layer = layer
        self._tokens += 1
        gpu = self._turns.setdefault(whose, len(self._turns) % self._values["gpus"])
        self._chosen.setdefault(gpu, {}).update(dict.fromkeys(experts))

    def run(self):
        """The tasks of the batch, if it has tokens."""
        if not self._tokens:
            return
        before = self._last
        self._order.advance(before[0].end)
        for experts in self._chosen.values():
            for expert in experts:
                self._allocate((self._layer, expert), before[0])
        self._last = [self._tasks.declare(
            [use(self._things[self._layer, expert], self._values["expert_bytes"]) for expert in experts], gpu=gpu,
            compute=self._values["layer_us"] * 1000, after=before) for gpu, experts in sorted(self._chosen.items())]
        self._tokens, self._chosen = 0, {}

    def free_all(self):
        for thing in self._things.values():
            self._tasks.at_end(self._last[0], free(thing))

    def _allocate(self, key, before):
        if key not in self._things:
            self._things[key] = len(self._things)
            self._tasks.at_end(before, allocation(self._things[key], self._values["expert_bytes"], "expert"))


def convert(source, order):
    layers = Layers(order, source.values)

    def read(members):
        if members.members.get("type", "route") != "route":
            return
        layer = members.integer("layer", 0, LAYERS_MAX)
        token = members.integer("token_idx", 0, TOKEN_MAX)
        experts = whole_numbers(members.list("topk_ids"), "topk_ids: contains something other than a whole number")
        if not experts or max(experts) > EXPERTS_MAX:
            raise Refused(f"topk_ids: are not experts from 0 to {EXPERTS_MAX}")
        request = members.members.get("req_id", token)
        if not isinstance(request, (int, str)):
            raise Refused("req_id: is neither a text nor a whole number")
        layers.add(layer, request, experts)

    each_json_line(source.path, source.bad, 0, read)
    layers.run()
    layers.free_all()
