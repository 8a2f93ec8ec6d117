"""Which settings of torch to flip in search of the one that makes a failure go away, and what each flip costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro_kit.probe.repro_probe.protocol.queries import SettingData

#: Settings that do not change what is compiled, or that nobody would set to keep working.
_NEVER = re.compile(
    r"""TYPE_CHECKING | TESTING | test | inject | fx_wrapper | predispatch | nightly | descriptive_names | real_tensors
    # What is printed and saved.
    | debug | verbose | progress | trace\. | log | profile | report | metrics | record | comment | dump | save_ | warn
    | annotate | visualize | pycode | hook
    # How compiling is done, and long searches (autotuning).
    | cache | pgo | worker | pool | subproc | launch | precompile | pickle | quiesce | gc_after | cubin | lookup_table
    | autotune | benchmark | coordinate_descent | autoheuristic | search_space | choice | tuning | template
    # More checks.
    | (?<!suppress_)error | strict | crossref | crosscheck | validate | verify | raise | fail_on | nan_asserts | lint
    # Promises about the program that may not hold.
    | unsafe | fast_math | assume_(aligned|32bit) | vec_isa_ok | ignore | force_ | freezing | offload | reload
    # Other products than a compiled function; distributed runs.
    | cpp_wrapper | for_aot | aot_compile | wrap_inductor | wrap_top_frame | repro_ | same_two | issue_
    | bucket | reduce_scatter | collective | distributed | fsdp | ddp | micro_pipeline | _tp$ | p2p | ranks | torchrec
    # Settings that compile nothing at all.
    | dynamo\.disable$ | dynamo\.compiled_autograd$ | dont_skip_tracing | non_builtin | use_fp64 | constexpr
    # Settings that need more than their own change.
    | selective_decompose | functionalize_rng
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Settings of code for an accelerator, or of a compiler other than the default one.
_DEVICES = re.compile(
    r"\.(triton|cuda|cutlass|rocm|xpu|mtia|halide|aot_inductor\w*|tpu|nvgemm)[._]|_backend$|cudagraph"
)
_CPU = re.compile(r"\.cpp\.")

#: What is lost with a flip that does not fix anything.
_LIMITS = (
    (re.compile(r"dynamo\.suppress_errors$"), "runs in eager what fails to compile"),
    (re.compile(r"inductor\.(fallback_by_default|disable_cpp_codegen)$"), "leaves operators to eager's kernels"),
    (re.compile(r"_asserts?$|assertions?$|^inductor\.assert_"), "turns a check off, which may only hide the failure"),
)

#: The config modules that each backend reads: a failure of Dynamo does not depend on what comes after Dynamo.
_READ_BY = {
    "eager": ("dynamo",),
    "aot_eager": ("dynamo", "functorch"),
    "aot_eager_decomp_partition": ("dynamo", "functorch", "inductor"),
}


@dataclass(frozen=True)
class FlipCandidate:
    """Another value of one setting: `value` in place of `before`."""

    name: str
    value: object
    before: object

    @property
    def limits(self) -> str:
        """What the flip costs besides speed, as far as the setting's name shows; "" otherwise."""
        return next((words for pattern, words in _LIMITS if pattern.search(self.name)), "")


def groups(flips: Sequence[FlipCandidate], size: int) -> list[list[int]]:
    """Indices of `flips`, in groups of up to `size` to flip together.

    A group has one value per setting. A flip with `limits` is alone in its group.
    """
    made: list[list[int]] = []
    for at, flip in enumerate(flips):
        fits = [
            group
            for group in made
            if len(group) < size and not flip.limits and not any(_apart(flip, flips[other]) for other in group)
        ]
        if fits:
            fits[0].append(at)
        else:
            made.append([at])
    return made


def _apart(flip: FlipCandidate, other: FlipCandidate) -> bool:
    return flip.name == other.name or bool(other.limits)


def candidates(settings: Iterable[SettingData], backend: str, accelerator: bool) -> list[FlipCandidate]:
    """The flips to try where `backend` fails; `settings` as `probe/repro_probe/change/capabilities.py` lists them."""
    modules = _READ_BY.get(backend, ("dynamo", "functorch", "inductor"))
    flips = []
    for setting in settings:
        name = setting["name"]
        elsewhere = _CPU if accelerator else _DEVICES
        if name.split(".")[0] in modules and not _NEVER.search(name) and not elsewhere.search(name):
            flips += [FlipCandidate(name, value, setting["value"]) for value in setting["others"]]
    return flips
