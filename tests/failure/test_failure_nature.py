import pytest

from repro_kit.failure.exception_origin import Nature, is_of_a_peer, nature_of
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind


def raised(kind: str, message: str) -> Failure:
    return Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink(kind, message),))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RuntimeError", "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:61615."),
        ("RuntimeError", "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation"),
        ("RuntimeError", "[gloo/transport/tcp/pair.cc:547] Application timeout caused pair closure"),
        ("RuntimeError", "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 8000 ms"),
        ("torch.distributed.DistNetworkError", "Broken pipe"),
        ("torch.distributed.DistNetworkError", "Failed to recv, got 0 bytes. Connection was likely closed."),
    ],
)
def test_what_a_rank_raises_because_of_another_one_is_no_evidence(kind: str, message: str) -> None:
    assert is_of_a_peer(raised(kind, message))
    assert nature_of(raised(kind, message)) is Nature.MACHINE


def test_an_exception_of_the_script_s_own_is_of_no_peer() -> None:
    assert not is_of_a_peer(raised("ValueError", "the loss is off"))


@pytest.mark.parametrize(
    ("kind", "file", "nature"),
    [
        ("AttributeError", "/venv/repro_probe/record/graph_recorder.py", Nature.OBSERVER),
        ("RecursionError", "/venv/repro_probe/record/graph_recorder.py", Nature.OPEN),  # the user's own recursion
        ("SystemExit", "/venv/repro_probe/change/export_stand_ins.py", Nature.OPEN),  # it stands in for torch
        ("AttributeError", "/home/someone/record/graph_recorder.py", Nature.OPEN),
    ],
)
def test_what_the_probe_raises_is_of_the_observer(kind: str, file: str, nature: Nature) -> None:
    link = ExceptionLink(kind, "planted", (Frame("/home/someone/train.py", 1, "main"), Frame(file, 2, "seen")))
    assert nature_of(Failure(Kind.RUNTIME_ERROR, exceptions=(link,))) is nature


@pytest.mark.parametrize("compiling", [False, True])
def test_what_an_import_of_torch_raises_is_the_compilers_only_while_it_compiles(compiling: bool) -> None:
    """`import torch` imports parts of the compiler: a warning that the program makes an error may end it there."""
    site = "/venv/lib/site-packages/torch"
    frames = [
        Frame("/home/someone/train.py", 1, "<module>", "import torch"),
        Frame(f"{site}/__init__.py", 9, "<module>"),
    ]
    frames += [Frame(f"{site}/_dynamo/convert_frame.py", 5, "_compile")] * compiling
    link = ExceptionLink("UserWarning", "no NumPy", (*frames, Frame(f"{site}/export/__init__.py", 3, "<module>")))
    nature = nature_of(Failure(Kind.WARNING, exceptions=(link,)))
    assert (nature is Nature.COMPILER) is compiling
