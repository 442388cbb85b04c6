"""Where the tensors of a model, an optimizer or a state dict lie, as a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from vmart import moving
from vmart.errors import InvalidArgument, UnknownPointer
from vmart.targets import Range

__all__ = ["Row", "Table", "where"]


class Row(NamedTuple):
    """One tensor. `places` maps places to bytes of the tensor: "gpu(1)", "dropped", or, for memory that
    is not vmart's, PyTorch's device in parentheses."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    places: dict[str, int]


class Table:
    """Rows, and `total`: bytes at each place, where memory that tensors share counts once."""

    _heads = ("name", "shape", "dtype", "bytes", "where")

    def __init__(self, rows: list[Row], total: dict[str, int]) -> None:
        self.rows = rows
        self.total = total

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def _cells(self) -> list[tuple[str, ...]]:
        cells = [
            (
                row.name,
                "x".join(map(str, row.shape)) or "scalar",
                row.dtype,
                _size(row.nbytes),
                _shares(row.places),
            )
            for row in self.rows
        ]
        return [*cells, ("total", "", "", _size(sum(self.total.values())), _shares(self.total))]

    def __str__(self) -> str:
        cells = [self._heads, *self._cells()]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self._heads))]
        lines = []
        for row in cells:
            parts = [
                text.rjust(width) if column == 3 else text.ljust(width)
                for column, (text, width) in enumerate(zip(row, widths))
            ]
            lines.append("  ".join(parts).rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: Iterable[str], kind: str) -> str:
            return "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells)

        body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in self._cells())
        return f"<table><tr>{line(self._heads, 'th')}</tr>{body}</table>"


def where(what: Any) -> Table:
    """Where the tensors of a module, optimizer, state dict, tensor, or a list of them lie.

        print(vmart.torch.where(model))

    Tied weights have a row for each of their names. The bytes of a row are those of the tensor, and
    not those of its storage. Raises `InvalidArgument` for anything else. Does not block.
    """
    rows, spans = [], []
    for name, tensor in _named(what, "", frozenset()):
        span = _span(tensor)
        rows.append(
            Row(
                name,
                tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
                tensor.numel() * tensor.element_size(),
                _places(span, tensor) if span.nbytes else {},
            )
        )
        if span.nbytes:
            spans.append((span, tensor))
    return Table(rows, _total(spans))


def _named(what: Any, name: str, seen: frozenset[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors with dotted names."""
    if id(what) in seen:
        return
    seen |= {id(what)}
    if isinstance(what, torch.Tensor):
        yield name or "tensor", what
    elif isinstance(what, torch.nn.Module):
        for each in (what.named_parameters, what.named_buffers):
            for part, tensor in each(remove_duplicate=False):
                yield _joined(name, part), tensor
    elif isinstance(what, torch.optim.Optimizer):
        parameters = [each for group in what.param_groups for each in group["params"]]
        for index, parameter in enumerate(parameters):
            yield from _named(what.state.get(parameter, {}), _joined(name, str(index)), seen)
    elif isinstance(what, Mapping):
        for key, value in what.items():
            if _has_tensors(value):
                yield from _named(value, _joined(name, str(key)), seen)
    elif isinstance(what, Iterable) and not isinstance(what, (str, bytes)):
        for index, value in enumerate(what):
            if _has_tensors(value):
                yield from _named(value, _joined(name, str(index)), seen)
    else:
        raise InvalidArgument(
            f"{type(what).__name__} has no tensors: pass a module, optimizer, state dict or tensor",
            "vmart.torch.where",
        )


def _has_tensors(value: Any) -> bool:
    """State dicts also have numbers and names, which are passed over."""
    kinds = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, Mapping, list, tuple, set)
    return isinstance(value, kinds)


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _span(tensor: torch.Tensor) -> Range:
    """From the tensor's first byte to its last."""
    if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.data_ptr() == 0:
        return Range(0, 0)
    steps = sum(stride * (count - 1) for stride, count in zip(tensor.stride(), tensor.shape))
    return Range(tensor.data_ptr(), (steps + 1) * tensor.element_size())


def _places(span: Range, tensor: torch.Tensor) -> dict[str, int]:
    places: dict[str, int] = {}
    try:
        extents = moving.where(span)
    except UnknownPointer:
        return {f"({tensor.device})": span.nbytes}
    for extent in extents:
        place = "dropped" if extent.dropped else str(extent.at)
        places[place] = places.get(place, 0) + extent.nbytes
    return places


def _total(spans: list[tuple[Range, torch.Tensor]]) -> dict[str, int]:
    total: dict[str, int] = {}
    end = 0
    for span, tensor in sorted(spans, key=lambda each: each[0]):
        begin = max(span.begin, end)
        stop = span.begin + span.nbytes
        if stop <= begin:
            continue
        end = stop
        for place, nbytes in _places(Range(begin, stop - begin), tensor).items():
            total[place] = total.get(place, 0) + nbytes
    return total


def _shares(places: dict[str, int]) -> str:
    whole = sum(places.values())
    if len(places) == 1:
        return next(iter(places))
    return ", ".join(f"{place} {100 * nbytes / whole:.0f} %" for place, nbytes in places.items())


def _size(nbytes: int) -> str:
    size, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{nbytes} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
