"""Compile nothing, whatever becomes of ``TORCH_COMPILE_DISABLE`` on its way, and note what is compiled all the same."""

import functools

from repro_probe.common.imports import when_imported

#: Where every graph of Dynamo, and every graph that Inductor makes code of, passes: module, class, method.
_BORDERS = (
    ("torch._dynamo.output_graph", "OutputGraph", "call_user_compiler"),
    ("torch._inductor.graph", "GraphLowering", "compile_to_module"),
)


def install(place, fix):
    """Switch Dynamo off from inside, for good (`fix`), and watch the compiler's borders."""
    when_imported("torch._dynamo.config", lambda config: fix(config, "disable", True))
    for name, cls, method in _BORDERS:
        when_imported(name, functools.partial(_watch, place=place, cls=cls, method=method))


def _watch(module, place, cls, method):
    owner = getattr(module, cls)
    original = getattr(owner, method)

    @functools.wraps(original)
    def noted(self, *arguments, **named):
        place.append("compiled", f"{cls}.{method}")
        return original(self, *arguments, **named)

    setattr(owner, method, noted)
