"""The public names of functions that a graph calls by torch's private ones."""

from __future__ import annotations

import re

#: Functions of ``torch._C._nn`` that torch.nn.functional has under the same name: the same objects in torch 2.13.
_SAME_IN_FUNCTIONAL = frozenset(
    [
        "avg_pool2d",
        "avg_pool3d",
        "elu_",
        "gelu",
        "hardtanh_",
        "leaky_relu_",
        "linear",
        "one_hot",
        "scaled_dot_product_attention",
        "softplus",
        "softshrink",
    ]
)

_NN = re.compile(r"(?<![\w.])torch\._C\._nn\.(?P<name>\w+)(?=\()")
_IN_MODULE = re.compile(r"(?<![\w.])torch\._C\._(?P<module>special|linalg|fft)\.(?P=module)_(?P<name>[a-z]\w*)(?=\()")
_VARIABLE_FUNCTIONS = re.compile(r"(?<![\w.])torch\._C\._VariableFunctions(?:Class)?\.(?P<name>[a-z]\w*)(?=\()")
#: What only Python has, and no operator: pads and losses whose arguments differ from those of the operator.
_NO_OPERATOR = frozenset({"_parse_to", "flatten_dense_tensors", "unflatten_dense_tensors", "pad_sequence"})


_FUNCTIONAL = re.compile(r"(?<![\w.])torch\.nn\.functional\.(?=\w+\()")


def public(code: str, *, short: bool = True) -> str:
    """`code` with public names for torch's private ones, where a public one takes the same arguments.

    `short`: torch.nn.functional is `F`.
    """
    code = _NN.sub(_of_nn, code)
    code = _FUNCTIONAL.sub("F.", code) if short else code
    code = _IN_MODULE.sub(r"torch.\g<module>.\g<name>", code)
    return _VARIABLE_FUNCTIONS.sub(r"torch.\g<name>", code)


def _of_nn(call: re.Match[str]) -> str:
    name = call["name"]
    if name in _SAME_IN_FUNCTIONAL:
        return f"torch.nn.functional.{name}"
    return call[0] if name in _NO_OPERATOR else f"torch.ops.aten.{name}"
