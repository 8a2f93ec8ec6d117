"""Follow an output's indices to the values that they select, and decide whether other indices are as good.

Any index of equal values is right. Therefore indices are judged by the values that they select, and by their range.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from repro_probe.record.values import pointer_of
from repro_probe.run import outputs
from repro_probe.run.outputs import RunnableCalls

if TYPE_CHECKING:
    from repro_probe.judge.compare_outputs import Tolerance

#: Operators that choose the largest (1) or smallest (-1) value; a cumulative operator (0) chooses several.
_EXTREME = {"argmax": 1, "argmin": -1, "max": 1, "min": -1, "cummax": 0, "cummin": 0}
_PERMUTING = {"sort", "argsort", "topk"}  # no index may occur twice
_POOLS = {
    **dict.fromkeys(("max_pool2d_with_indices", "adaptive_max_pool2d", "fractional_max_pool2d"), 2),
    **dict.fromkeys(("max_pool3d_with_indices", "adaptive_max_pool3d", "fractional_max_pool3d"), 3),
}
CHOOSERS = {*_EXTREME, *_PERMUTING, *_POOLS, "median", "nanmedian", "mode", "kthvalue"}
#: Operators, besides views, that only change the order or the type of elements.
_MOVING = {"clone", "_to_copy", "flip", "roll", "index_select", "repeat", "cat", "stack", "_unsafe_view"}


def is_index(leaf: Any) -> bool:
    """Whether `leaf` is a tensor that may hold indices."""
    return isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.int64, torch.int32)


class _ChoiceSource:
    """The values that one operator chose from, as rows, and the row that each index belongs to."""

    def __init__(self, name: str, values: torch.Tensor, index: torch.Tensor, dim: int | None) -> None:
        self.permuting = name in _PERMUTING
        values = values.detach()
        if name in _POOLS:
            values, dim = values.flatten(-_POOLS[name]), None
            shape = values.shape[:-1]
            self.rows = torch.arange(shape.numel()).reshape(*shape, *[1] * (index.dim() - len(shape)))
        elif dim is None:
            values = values.reshape(1, -1)
            self.rows = torch.zeros([1] * index.dim(), dtype=torch.int64)
        else:
            kept = index.dim() == values.dim()
            values = values.unsqueeze(0) if not values.dim() else values.movedim(dim, -1)
            self.rows = torch.arange(values.shape[:-1].numel()).reshape(values.shape[:-1])
            if kept and index.dim():
                self.rows = self.rows.unsqueeze(-1).movedim(-1, dim)
        self.rows = self.rows.expand(index.shape).flatten()
        self.values = values.reshape(-1, values.shape[-1]).cpu()


class Choice:
    """The origin of an output's indices: for each element a position, counted over all `sources`."""

    def __init__(self, sources: list[tuple[int, _ChoiceSource]], positions: torch.Tensor) -> None:
        self.sources = sources  # [(first position, source)]
        self.positions = positions.cpu()

    def wrong(self, eager: torch.Tensor, compiled: torch.Tensor, tolerance: Tolerance) -> tuple[torch.Tensor, str]:
        """Return a mask of the elements of `compiled` that are wrong choices, and the reason for the first of them.

        `eager` and `compiled` are in double precision.
        """
        wrong, why = torch.zeros(eager.shape, dtype=torch.bool), ""
        for start, source in self.sources:
            here = (self.positions >= start) & (self.positions < start + source.rows.numel())
            if here.any():
                bad, reason = self._wrong(source, start, eager, compiled, here, tolerance)
                wrong[here] = bad
                why = why or reason
        return wrong, why

    def _wrong(
        self,
        source: _ChoiceSource,
        start: int,
        eager: torch.Tensor,
        compiled: torch.Tensor,
        here: torch.Tensor,
        tolerance: Tolerance,
    ) -> tuple[torch.Tensor, str]:
        rows = source.rows[self.positions[here] - start]
        expected, others = eager[here], compiled[here]
        size = source.values.shape[-1]
        outside = ~((others >= 0) & (others < size) & (others == others.floor()))
        if outside.any():
            return outside, f"index {others[outside][0].item():g} is outside of 0…{size - 1}"
        expected, others = expected.long(), others.long()
        wide = source.values.to(torch.float64)
        wanted, selected = wide[rows, expected], wide[rows, others]
        rtol, atol = tolerance.of(source.values.dtype) if source.values.is_floating_point() else (0.0, 0.0)
        near = torch.isclose(selected, wanted, rtol=rtol, atol=atol, equal_nan=True)
        if not near.all():
            first = (~near).nonzero()[0]
            value, other = wanted[first].item(), selected[first].item()
            return ~near, f"eager's index selects {value:g}, the compiled one {other:g}"
        if source.permuting:
            pairs = rows * size + others
            _, back, counts = pairs.unique(return_inverse=True, return_counts=True)
            allowed = (rows * size + expected).unique(return_counts=True)[1].max()
            twice = counts[back] > allowed
            if twice.any():
                return twice, "an index occurs more than once"
        return torch.zeros_like(near), ""


class _Follow(TorchDispatchMode):
    """Follows indices from the operator that chose them, and marks everything that is computed from a tie."""

    def __init__(self) -> None:
        super().__init__()
        self.tied: dict[int, Any] = {}  # storages, kept alive so that no other storage gets their address
        self.positions: dict[
            tuple[Any, ...], tuple[Any, Any]
        ] = {}  # by storage and geometry: (tensor, the position that each of its elements came from)
        self.sources: list[tuple[int, _ChoiceSource]] = []
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = function._schema.name.partition("::")[2]
        if function._schema.is_mutable:
            self._forget(args)
        elif name in CHOOSERS and args:
            self._chosen(name, args, kwargs, result)
        elif function.is_view or name in _MOVING:
            self._moved(function, name, args, kwargs, result)
        if self.touches((args, kwargs)) or (name in CHOOSERS and args and _has_ties(name, args, kwargs)):
            indices = name in CHOOSERS and not self.touches((args, kwargs))
            self._mark([leaf for leaf in tree_flatten(result)[0] if not indices or is_index(leaf)])
        return result

    def _chosen(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        dim = kwargs.get("dim", _dim(name, args))
        for leaf in tree_flatten(result)[0]:
            if is_index(leaf) and leaf.numel():
                source = _ChoiceSource(name, args[0].clone(), leaf, dim)
                places = torch.arange(self.count, self.count + leaf.numel(), device=leaf.device).reshape(leaf.shape)
                self._note(leaf, torch.empty_like(leaf, dtype=torch.int64).copy_(places))
                self.sources.append((self.count, source))
                self.count += leaf.numel()

    def _moved(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        tensors = [leaf for leaf in tree_flatten(args)[0] if isinstance(leaf, torch.Tensor)]
        if name == "index_select":
            tensors = tensors[:1]
        if not tensors or any(self.positions_of(tensor) is None for tensor in tensors):
            return
        if name == "_to_copy":
            moved = self.positions_of(args[0]).clone()
        else:
            tracked = [id(tensor) for tensor in tensors]
            swap = lambda tensor: self.positions_of(tensor) if id(tensor) in tracked else tensor  # noqa: E731
            moved = function(*tree_map_only(torch.Tensor, swap, args), **kwargs)
        for leaf, places in zip(tree_flatten(result)[0], tree_flatten(moved)[0]):
            self._note(leaf, places)

    def _note(self, leaf: torch.Tensor, places: torch.Tensor) -> None:
        self.positions[_geometry(leaf)] = (leaf, places)

    def _forget(self, args: tuple[Any, ...]) -> None:
        """Drop the positions of storages that an operator writes to."""
        written = {leaf.untyped_storage().data_ptr() for leaf in tree_flatten(args)[0] if _has_storage(leaf)}
        self.positions = {key: entry for key, entry in self.positions.items() if key[0] not in written}

    def positions_of(self, leaf: Any) -> Any:
        """Return the positions of the elements of `leaf`, or None when they are no chosen indices."""
        return self.positions.get(_geometry(leaf), (None, None))[1] if _has_storage(leaf) else None

    def _mark(self, leaves: Iterable[Any]) -> None:
        for leaf in filter(_has_storage, leaves):
            storage = leaf.untyped_storage()
            self.tied[storage.data_ptr()] = storage

    def touches(self, values: Any) -> bool:
        """Whether any tensor among `values` was computed from a tie."""
        return any(
            _has_storage(leaf) and leaf.untyped_storage().data_ptr() in self.tied for leaf in tree_flatten(values)[0]
        )


def _has_storage(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and not leaf._is_zerotensor()


def _geometry(leaf: torch.Tensor) -> tuple[Any, ...]:
    return pointer_of(leaf), leaf.storage_offset(), tuple(leaf.shape), tuple(leaf.stride())


def _dim(name: str, args: tuple[Any, ...]) -> Any:
    """Return the dimension that an operator chooses along, from its positional arguments or its default."""
    if name in ("topk", "kthvalue"):
        return args[2] if len(args) > 2 else -1
    given = next(
        (argument for argument in args[1:2] if isinstance(argument, int) and not isinstance(argument, bool)), None
    )
    return -1 if given is None and name in ("sort", "argsort", "mode") else given


def _has_ties(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether two of the values that an operator chooses from are equal up to rounding."""
    values = args[0].detach().double()
    if values.numel() < 2:
        return False
    direction = _EXTREME.get(name)
    if not direction:
        ordered = values.flatten().sort().values
        return bool(torch.isclose(ordered[1:], ordered[:-1], rtol=1e-6, atol=0).any())
    dim = kwargs.get("dim", _dim(name, args))
    values = (values.flatten() if dim is None else values.movedim(dim, -1)) * direction
    if values.shape[-1] < 2:
        return False
    first, second = values.topk(2, dim=-1).values.unbind(-1)
    return bool((torch.isclose(first, second, rtol=1e-6, atol=0) | first.isnan()).any())


def follow(program: RunnableCalls) -> tuple[dict[str, Choice], set[str]]:
    """Return the choices by the name of the output, and the names of results that depend on how ties were broken."""
    mode, choices = _Follow(), {}

    def graph(*arguments: Any) -> Any:
        result = program.graph(*arguments)
        returned.append([mode.positions_of(leaf) for _, leaf in outputs.parts_of(result)[0]])
        return result

    returned: list[list[Any]] = []
    with mode:
        outcome = outputs.run(program, graph)
    for (number, at), where in outcome.output_places().items():
        positions = returned[number][at]
        if positions is not None:
            choices[where] = Choice(mode.sources, positions.clone())
    tied = {where for where, leaf in outcome.places().items() if leaf is not None and mode.touches(leaf.value)}
    return choices, tied
