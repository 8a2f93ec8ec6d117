"""Failures of Dynamo, each of a kind of its own, for `source.py` to bury in unrelated model code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Buried:
    """A failure: its definitions, the code that runs it, the options of repro-kit, and what the result must have."""

    definitions: str
    run: str
    options: tuple[str, ...] = ()
    needs: str = ""  # regular expression


CASES = {
    "second_call": Buried(
        """
class Registry(type):
    scale = 1

    def __len__(cls):
        return 3


class Settings(metaclass=Registry):
    width = 8


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu() * Settings.scale
""",
        """
    scaled = Scaled()
    fast = torch.compile(scaled, backend="eager")
    for scale in (1, 7):
        Registry.scale = scale
        expected = scaled(x)
        actual = fast(x)
        torch.testing.assert_close(actual, expected)
""",
        needs=r"(?s)metaclass|\(type\)",
    ),
    "replaced_method": Buried(
        """
class Schedule:
    def level(self):
        return 1.0


class Decayed(torch.nn.Module):
    def __init__(self, schedule):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.schedule = schedule

    def forward(self, x):
        return self.linear(x) * self.schedule.level()


def halve(cls):
    before = cls.level
    cls.level = lambda self: before(self) / 2
""",
        """
    decayed = Decayed(Schedule())
    fast = torch.compile(decayed, backend="eager")
    fast(x)
    halve(Schedule)
    difference = (decayed(x) - fast(x)).abs().max().item()
    if difference > 1e-3:
        raise RuntimeError(f"compiled and eager differ by {difference}")
""",
        needs=r"\w\.\w+ = ",
    ),
    "cleanup": Buried(
        """
class Pool:
    def __init__(self):
        self.free = 2

    def borrow(self, x):
        self.free -= 1
        try:
            for scale in (1, 2, 3):
                yield x * scale
        finally:
            self.free += 1


def first(x, pool):
    for candidate in pool.borrow(x):
        break
    return candidate.relu() + pool.free
""",
        """
    expected = first(x, Pool())
    actual = torch.compile(first, backend="eager")(x, Pool())
    torch.testing.assert_close(actual, expected)
""",
        needs=r"finally|yield",
    ),
    "context_manager": Buried(
        """
import contextlib


class Guarded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def contexts(self):
        yield torch.no_grad()
        yield torch.autocast("cpu", enabled=False)

    def forward(self, x):
        with contextlib.ExitStack() as stack:
            for context in self.contexts():
                stack.enter_context(context)
            return self.linear(x)
""",
        """
    print(torch.compile(Guarded(), backend="eager", fullgraph=True)(x).shape)
""",
        needs=r"ExitStack|enter_context",
    ),
    "symbolic_pop": Buried(
        """
class Ensemble(torch.nn.Module):
    def __init__(self, width=8, heads=4):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(width)) for _ in range(heads))

    def forward(self, x):
        weights = list(self.weights)
        left_out = weights.pop(x.shape[0] - 3)
        return torch.stack([x * w for w in weights]).mean(0) - 0.1 * left_out
""",
        """
    model = Ensemble()
    inputs = torch.randn(5, 8)
    expected = model(inputs)
    actual = torch.compile(model, dynamic=True)(inputs)
    torch.testing.assert_close(actual, expected)
""",
        needs=r"\.pop\(",
    ),
    "subclass": Buried(
        """
class QuirkyTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [a.as_subclass(torch.Tensor) for a in args]
        return func(*args)


def activation(x):
    return torch.sin(x)
""",
        """
    quirky = torch.randn(4).as_subclass(QuirkyTensor)
    expected = activation(quirky)
    actual = torch.compile(activation, backend="eager")(quirky)
    torch.testing.assert_close(actual, expected)
""",
        needs=r"__torch_function__",
    ),
    "generator": Buried(
        """
def pieces(x):
    yield x
    return x + 1


def delegated(x):
    result = yield from pieces(x)
    yield result


def collected(x):
    return list(delegated(x))
""",
        """
    expected = collected(x)
    actual = torch.compile(collected, backend="eager")(x)
    torch.testing.assert_close(actual[1], expected[1])
""",
        needs=r"yield",
    ),
    "data_dependent": Buried(
        """
class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 0:
            return y.relu()
        return y.tanh()
""",
        """
    gate = Gate().eval()
    torch.compile(gate, fullgraph=True)(torch.randn(4, 8))
""",
        needs=r"if ",
    ),
    "recompiles": Buried(
        """
class Scheduled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0.0
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, name):
        self.seen = name
        return self.linear(x) * len(name) if name != "skip" else x
""",
        """
    model = torch.compile(Scheduled(), backend="eager")
    for name in ("a", "bb", "ccc", "dddd", "eeeee", "ffffff"):
        model(torch.randn(4, 8), name)
""",
        ("--check", "recompiles>3"),
        needs=r"compile\(",
    ),
    "graph_breaks": Buried(
        """
def logged(x):
    y = x * 2
    print("mean", y.mean().item())
    z = y.relu()
    torch._dynamo.graph_break()
    return z + 1
""",
        """
    step = torch.compile(logged, backend="eager")
    step(torch.randn(8))
""",
        ("--check", "graph-breaks>1"),
        needs=r"graph_break|item|print",
    ),
    "descriptor": Buried(
        """
class Doubled:
    def __get__(self, owner, cls=None):
        return owner.__dict__.get("_level", 1)

    def __set__(self, owner, value):
        owner.__dict__["_level"] = value * 2


class Schedule:
    level = Doubled()

    def advance(self):
        self.level = self.level + 1
        return self.level


class Scheduled(torch.nn.Module):
    def __init__(self, schedule):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.schedule = schedule

    def forward(self, x):
        return self.linear(x) * self.schedule.advance()
""",
        """
    plain = Scheduled(Schedule())
    other = Scheduled(Schedule())
    other.load_state_dict(plain.state_dict())
    fast = torch.compile(other, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(fast(x), plain(x))
""",
        needs=r"__set__",
    ),
    "bounded_deque": Buried(
        """
import collections


class Smoothed(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.recent = collections.deque(maxlen=window)

    def forward(self, x):
        y = self.linear(x)
        self.recent.append(y.detach().mean(0))
        return y / len(self.recent)
""",
        """
    smoothed = Smoothed(2)
    fast = torch.compile(smoothed, backend="eager")
    for _ in range(4):
        actual = fast(x)
    expected = smoothed.linear(x) / 2
    if not torch.allclose(actual, expected, atol=1e-4):
        raise AssertionError("the window is longer than two")
""",
        needs=r"maxlen|deque\(",
    ),
    "ordered_dict": Buried(
        """
from collections import OrderedDict


class Cache:
    def __init__(self, names):
        self.entries = OrderedDict((name, float(at + 1)) for at, name in enumerate(names))

    def use(self, name):
        self.entries.move_to_end(name)
        return self.entries[name]

    def oldest(self):
        return next(iter(self.entries))


def weighted(x, cache, name):
    return x.relu() * cache.use(name)
""",
        """
    cache = Cache(["first", "second", "third"])
    torch.compile(weighted, backend="eager")(x, cache, "first")
    assert cache.oldest() == "second", cache.oldest()
""",
        needs=r"move_to_end",
    ),
    "fallback_attribute": Buried(
        """
class Tuned(torch.nn.Module):
    defaults = {"scale": 3.0, "shift": 0.5}

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def __getattr__(self, name):
        if name in Tuned.defaults:
            return Tuned.defaults[name]
        return super().__getattr__(name)

    def forward(self, x):
        return self.linear(x) * self.scale + self.shift
""",
        """
    tuned = Tuned()
    fast = torch.compile(tuned, backend="eager")
    fast(x)
    tuned.scale = 5.0
    difference = (fast(x) - tuned(x)).abs().max()
    if difference > 0.01:
        raise RuntimeError("the new scale is not used")
""",
        needs=r"__getattr__",
    ),
    "late_hook": Buried(
        """
class Probe:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, module, inputs, output):
        return output * self.factor


class Wrapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).tanh()
""",
        """
    wrapped = Wrapped()
    fast = torch.compile(wrapped, backend="eager")
    fast(x)
    handle = wrapped.linear.register_forward_hook(Probe(3.0))
    torch.testing.assert_close(fast(x), wrapped(x))
    handle.remove()
""",
        needs=r"register_forward_hook",
    ),
}
