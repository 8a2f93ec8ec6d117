"""Which of torch's settings are worth flipping to see whether a failure goes away, and what is lost with each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro_kit.probe.repro_probe.protocol.queries import Setting

#: Names of settings that do not change what is compiled, or that nobody would set to go on working.
_NEVER = re.compile(
    r"""TYPE_CHECKING | TESTING | test | inject | fx_wrapper | predispatch | nightly | descriptive_names | real_tensors
    # What is shown and kept.
    | debug | verbose | progress | trace\. | log | profile | report | metrics | record | comment | dump | save_ | warn
    | annotate | visualize | pycode | hook
    # How compiling is done, and long searches.
    | cache | pgo | worker | pool | subproc | launch | precompile | pickle | quiesce | gc_after | cubin | lookup_table
    | autotune | benchmark | coordinate_descent | autoheuristic | search_space | choice | tuning | template
    # Further checks.
    | (?<!suppress_)error | strict | crossref | crosscheck | validate | verify | raise | fail_on | nan_asserts | lint
    # Promises that the program may not keep.
    | unsafe | fast_math | assume_(aligned|32bit) | vec_isa_ok | ignore | force_ | freezing | offload | reload
    # Other products than a compiled function, and many machines.
    | cpp_wrapper | for_aot | aot_compile | wrap_inductor | wrap_top_frame | repro_ | same_two | issue_
    | bucket | reduce_scatter | collective | distributed | fsdp | ddp | micro_pipeline | _tp$ | p2p | ranks | torchrec
    # Compiling nothing at all.
    | dynamo\.disable$ | dynamo\.compiled_autograd$ | dont_skip_tracing | non_builtin | use_fp64 | constexpr
    # They need more than the setting alone.
    | selective_decompose | functionalize_rng
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Settings of what compiles for an accelerator, or by another compiler than the usual one.
_DEVICES = re.compile(
    r"\.(triton|cuda|cutlass|rocm|xpu|mtia|halide|aot_inductor\w*|tpu|nvgemm)[._]|_backend$|cudagraph"
)
_CPU = re.compile(r"\.cpp\.")

#: What is lost, for settings that do not mend anything.
_LIMITS = (
    (re.compile(r"dynamo\.suppress_errors$"), "runs in eager what fails to compile"),
    (re.compile(r"inductor\.(fallback_by_default|disable_cpp_codegen)$"), "leaves operators to eager's kernels"),
    (re.compile(r"_asserts?$|assertions?$|^inductor\.assert_"), "turns a check off, which may only hide the failure"),
)

#: What a layer reads: a failure of Dynamo does not depend on what comes after it.
_READ_BY = {
    "eager": ("dynamo",),
    "aot_eager": ("dynamo", "functorch"),
    "aot_eager_decomp_partition": ("dynamo", "functorch", "inductor"),
}


@dataclass(frozen=True)
class FlipCandidate:
    """A setting's other value."""

    name: str
    value: object
    before: object

    @property
    def limits(self) -> str:
        """What is lost with it beside speed, as far as its name tells."""
        return next((words for pattern, words in _LIMITS if pattern.search(self.name)), "")


def groups(found: Sequence[FlipCandidate], size: int) -> list[list[int]]:
    """Numbers of `found` to flip together: never two values of one setting, and what mends nothing alone."""
    made: list[list[int]] = []
    for at, it in enumerate(found):
        fits = [
            group
            for group in made
            if len(group) < size and not it.limits and not any(_apart(it, found[other]) for other in group)
        ]
        if fits:
            fits[0].append(at)
        else:
            made.append([at])
    return made


def _apart(one: FlipCandidate, other: FlipCandidate) -> bool:
    return one.name == other.name or bool(other.limits)


def candidates(settings: Iterable[Setting], backend: str, accelerator: bool) -> list[FlipCandidate]:
    """The flips to try where `backend` fails; `settings` as `repro_probe/change/capabilities.py` tells them."""
    modules = _READ_BY.get(backend, ("dynamo", "functorch", "inductor"))
    found = []
    for setting in settings:
        name = setting["name"]
        elsewhere = _CPU if accelerator else _DEVICES
        if name.split(".")[0] in modules and not _NEVER.search(name) and not elsewhere.search(name):
            found += [FlipCandidate(name, value, setting["value"]) for value in setting["others"]]
    return found
