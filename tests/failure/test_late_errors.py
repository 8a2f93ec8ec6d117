"""Errors that an accelerator's runtime raises later than their cause."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.failure.classify import failure_from_text
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import asserted, printed_assertion
from repro_kit.failure.signature import Strength, in_words, signature_of

#: What torch 2.11 printed on an H200, shortened.
IN_BACKWARD = """\
/tmp/inductor/bp/cbp73cj.py:70: unknown: block: [0,0,0], thread: [0,0,0] Assertion `index out of bounds: 0 <= tmp37 < 5` failed.
/tmp/inductor/bp/cbp73cj.py:70: unknown: block: [0,0,0], thread: [1,0,0] Assertion `index out of bounds: 0 <= tmp37 < 5` failed.
Traceback (most recent call last):
  File "/home/me/train.py", line 8, in <module>
    loss.backward()
  File "/venv/lib/python3.12/site-packages/torch/_inductor/compile_fx.py", line 1245, in codegen_and_compile
    with preserve_rng_state():
  File "/venv/lib/python3.12/site-packages/torch/cuda/random.py", line 42, in get_rng_state
    return default_generator.get_state()
torch._inductor.exc.InductorError: AcceleratorError: CUDA error: device-side assert triggered
Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""  # noqa: E501 - as torch prints it
IN_EAGER = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    print(loss.item())
torch.AcceleratorError: CUDA error: device-side assert triggered
Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
"""  # noqa: E501 - as torch prints it


def test_the_error_of_a_kernel_is_no_compile_error_wherever_it_is_raised():
    failure = failure_from_text(IN_BACKWARD)
    assert failure is not None and failure.kind is Kind.RUNTIME_ERROR
    assert not signature_of(failure).frames


def test_it_is_the_same_failure_wherever_it_is_raised():
    compiled, eager = failure_from_text(IN_BACKWARD), failure_from_text(IN_EAGER)
    assert compiled is not None and eager is not None
    assert signature_of(compiled).matches(signature_of(eager), Strength.STRICT)


def test_another_error_of_a_kernel_is_another_failure():
    other = failure_from_text(
        IN_EAGER.replace("device-side assert triggered", "an illegal memory access was encountered")
    )
    failure = failure_from_text(IN_EAGER)
    assert failure is not None and other is not None
    assert not signature_of(failure).matches(signature_of(other), Strength.REBASED)


def test_the_words_have_the_condition_that_the_kernel_printed():
    assert asserted(printed_assertion(IN_BACKWARD)) == "index out of bounds: 0 <= tmp37 < 5"
    failure = failure_from_text(IN_BACKWARD)
    assert failure is not None
    words = in_words(signature_of(failure), replace(failure, text=printed_assertion(IN_BACKWARD)))
    assert words == "AcceleratorError: CUDA error: device-side assert triggered: index out of bounds: 0 <= tmp37 < 5"
