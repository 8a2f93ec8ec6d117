"""Dynamic shapes: which sizes and numbers are symbols, why, and which values a setting keeps constant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import Guard, parse_guard, whole_source
from repro_kit.trace.insights.compile_index import CodeFrame, CompileIndex
from repro_kit.trace.insights.recompiles import reasons_of
from repro_kit.trace.places import CodeKey, CompileRef, ref_of, user_frame
from repro_kit.trace.record import Record

_PGO_SUGGESTS = re.compile(r'TORCH_COMPILE_DYNAMIC_SOURCES="([^"]*)"')
_PGO_SOURCE = re.compile(r"^  (?P<source>.+?): (?P<state>.*\?.*)$", re.MULTILINE)
_CONSTEXPR = re.compile(r"(?P<name>\w+)\s*:\s*[\"']?tl\.constexpr")
_KERNEL = re.compile(r"@triton\.jit\s*\ndef (?P<name>\w+)\((?P<args>[^)]*)\)")
_ARGUMENT = re.compile(r"^L\['\w+'\](?:\[\d+\])*$")
_ON_MODULE = re.compile(r"^L\['self'\]|^L\['(?:mod|module|model)'\]|\._modules\[|\._parameters\[|\._buffers\[")
_EXAMPLES = 20


class SymbolOrigin(StrEnum):
    """Why a size or number became symbolic."""

    DYNAMIC = "dynamic=True or a mark"  # symbolic in the first compile of its code
    AUTOMATIC = "automatic dynamic"  # changed since the compile before
    PGO = "PGO"  # an earlier run recorded that it changes
    UNBACKED = "unbacked"  # the value is not known at compile time


class Block(StrEnum):
    """The setting that keeps a changing value constant."""

    PARAMETER = "torch._dynamo.config.force_parameter_static_shapes"
    PROPERTY = "torch._dynamo.config.force_nn_module_property_static_shapes"
    INTEGER = "torch._dynamo.config.allow_unspec_int_on_nn_module"
    STATIC = "torch._dynamo.config.automatic_dynamic_shapes"  # dynamic=False sets it


@dataclass(frozen=True)
class Symbol:
    """A symbol, in all compiles of one function."""

    symbol: str
    source: str
    origin: SymbolOrigin
    hints: tuple[str, ...] = ()  # values of the symbol
    range: str = ""
    where: Frame | None = None  # the user's line that first used it
    code: Frame | None = None
    count: int = 0
    compiles: tuple[CompileRef, ...] = ()


@dataclass(frozen=True)
class Blocked:
    """A value that changed at least twice, but that a setting keeps constant: a parameter, an attribute …"""

    source: str
    setting: Block
    values: tuple[str, ...]
    code: Frame | None = None
    compiles: tuple[CompileRef, ...] = ()


@dataclass(frozen=True)
class KernelConstants:
    """``tl.constexpr`` arguments of a user's Triton kernel. Every new value is a new kernel."""

    kernel: str
    arguments: tuple[str, ...]
    compiles: tuple[CompileRef, ...] = ()


@dataclass(frozen=True)
class DynamicShapes:
    """The dynamic shapes. `suggested`: sources that PyTorch suggests for ``TORCH_COMPILE_DYNAMIC_SOURCES``."""

    symbols: tuple[Symbol, ...] = ()
    suggested: tuple[str, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    kernels: tuple[KernelConstants, ...] = ()


@dataclass
class _Group:
    symbol: Symbol
    count: int = 0
    hints: dict[str, None] = field(default_factory=dict)
    compiles: dict[CompileRef, None] = field(default_factory=dict)


@dataclass
class Shapes:
    """Collects symbols by function and source."""

    names: ClassVar = (
        "create_symbol", "create_unbacked_symbol", "chromium_event", "get_local_code_state", "get_remote_code_state",
        "put_local_code_state", "recompile_reasons", "fx_graph_runnable", "inductor_output_code",
    )  # fmt: skip

    index: CompileIndex
    groups: dict[tuple[CodeKey, str], _Group] = field(default_factory=dict)
    suggested: dict[str, None] = field(default_factory=dict)
    pgo: set[str] = field(default_factory=set)
    values: dict[CodeKey, dict[str, dict[str, CompileRef]]] = field(default_factory=dict)
    kernels: dict[str, tuple[tuple[str, ...], dict[CompileRef, None]]] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use symbols, the records of PGO, and values that did not become symbols."""
        ref = ref_of(record)
        if ref is None:
            return
        match record.name:
            case "create_symbol" | "create_unbacked_symbol":
                self._symbol(ref, record)
            case "chromium_event" if record.payload and '"pgo.dynamic_whitelist"' in record.payload:
                self._whitelist(record)
            case "get_local_code_state" | "get_remote_code_state" | "put_local_code_state":
                self._pgo(record)
            case "recompile_reasons":
                self.recompiled(ref, reasons_of(record))
            case "inductor_output_code" | "fx_graph_runnable" if "@triton.jit" in (record.payload or ""):
                self._kernels(ref, record.payload or "")

    def _symbol(self, ref: CompileRef, record: Record) -> None:
        unbacked = record.event == "create_unbacked_symbol"
        symbol, source = record.text("symbol"), record.text("source")
        stack = record.frames("user_stack")
        made = Symbol(
            symbol,
            source,
            SymbolOrigin.UNBACKED if unbacked else self._origin(ref, source),
            range=record.text("vr"),
            where=user_frame(stack),
            code=self.index.code(ref),
        )
        self.add(ref, made, record.text("val"))

    def _origin(self, ref: CompileRef, source: str) -> SymbolOrigin:
        first = self.index.frame(ref).compiles[0].ref == ref
        if any(source.startswith(prefix) for prefix in self.pgo):
            return SymbolOrigin.PGO
        return SymbolOrigin.DYNAMIC if first else SymbolOrigin.AUTOMATIC

    def add(self, ref: CompileRef, symbol: Symbol, hint: str) -> None:
        """Count a symbol."""
        key = ref.code_key, symbol.source or symbol.symbol
        group = self.groups.setdefault(key, _Group(symbol))
        group.count += 1
        if len(group.compiles) < _EXAMPLES:
            group.compiles.setdefault(ref)
            if hint:
                group.hints.setdefault(hint)

    def _whitelist(self, record: Record) -> None:
        event = record.json()
        args = event.get("args") if isinstance(event, dict) else None
        names = str(args.get("missing_dynamic_whitelist") or "") if isinstance(args, dict) else ""
        for source in filter(None, names.split(",")):
            self.suggested.setdefault(source)

    def _pgo(self, record: Record) -> None:
        text = record.payload or ""
        for match in _PGO_SUGGESTS.finditer(text):
            for source in filter(None, match[1].split(",")):
                self.suggested.setdefault(source)
        if record.name.startswith("get"):
            self.pgo.update(match["source"] for match in _PGO_SOURCE.finditer(text))

    def recompiled(self, ref: CompileRef, reasons: list[str]) -> None:
        """Record the numbers that guards on attributes of modules expected."""
        for reason in reasons:
            against, _, text = reason.partition(": ")
            guard = parse_guard(text)
            if guard.kind == Guard.VALUE and guard.expected.lstrip("-").isdigit():
                source = whole_source(guard.source)
                values = self.values.setdefault(ref.code_key, {}).setdefault(source, {})
                values.setdefault(guard.expected, replace(ref, compile_id=against))

    def _kernels(self, ref: CompileRef, text: str) -> None:
        for kernel in _KERNEL.finditer(text):
            names = tuple(_CONSTEXPR.findall(kernel["args"]))
            if names and not kernel["name"].startswith("triton_"):  # Inductor's own kernels begin so
                entry = self.kernels.setdefault(kernel["name"], (names, {}))
                if len(entry[1]) < _EXAMPLES:
                    entry[1].setdefault(ref)

    def result(self) -> DynamicShapes:
        """The collected shapes."""
        for group in self.groups.values():
            if group.symbol.origin == SymbolOrigin.AUTOMATIC and self.index.frame(next(iter(group.compiles))).dynamic:
                group.symbol = replace(group.symbol, origin=SymbolOrigin.DYNAMIC)
        symbols = tuple(
            replace(group.symbol, hints=tuple(group.hints), count=group.count, compiles=tuple(group.compiles))
            for group in self.groups.values()
        )
        blocked = [
            blocked_source for key, frame in self.index.frames.items() for blocked_source in self._blocked(key, frame)
        ]
        kernels = (KernelConstants(name, args, tuple(refs)) for name, (args, refs) in self.kernels.items())
        return DynamicShapes(symbols, tuple(self.suggested), tuple(blocked), tuple(kernels))

    def _blocked(self, key: CodeKey, frame: CodeFrame) -> Iterator[Blocked]:
        """Values that changed at least twice and never became a symbol."""
        for source in dict.fromkeys(name for compile_ in frame.compiles for name in compile_.tensors):
            specs = [tensors[source] for tensors in map(frame.tensors, frame.compiles) if source in tensors]
            sizes = dict.fromkeys(spec.sizes for spec in specs)
            symbolic = any((key, f"{source}.size()[{at}]") in self.groups for at in range(len(specs[0].sizes)))
            if len(sizes) < 3 or symbolic:
                continue
            block = (
                Block.PARAMETER if specs[0].parameter else Block.PROPERTY if _ON_MODULE.match(source) else Block.STATIC
            )
            values = tuple(str(list(size)) for size in list(sizes)[:_EXAMPLES])
            yield Blocked(
                source, block, values, frame.code, tuple(compile_.ref for compile_ in frame.compiles[:_EXAMPLES])
            )
        for source, seen in self.values.get(key, {}).items():
            if len(seen) < 2 or (key, source) in self.groups:
                continue
            if _ON_MODULE.match(source):
                yield Blocked(source, Block.INTEGER, tuple(seen), frame.code, tuple(seen.values())[:_EXAMPLES])
            elif frame.static and not frame.dynamic and _ARGUMENT.match(source):
                yield Blocked(source, Block.STATIC, tuple(seen), frame.code, tuple(seen.values())[:_EXAMPLES])
