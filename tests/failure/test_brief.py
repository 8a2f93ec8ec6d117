from repro_kit.failure.failure import ExceptionLink, Failure, Frame, Status, Verdict
from repro_kit.failure.frames import brief, brief_failure, shortened
from repro_kit.failure.kinds import Kind


def test_a_long_text_loses_its_middle_and_says_so() -> None:
    assert shortened("a" * 10 + "b" * 10, head=5, tail=5) == "aaaaa\n[… 10 characters left out …]\nbbbbb"
    assert shortened("short") == "short"


def test_a_long_failure_keeps_its_beginning_and_its_innermost_frames() -> None:
    frames = tuple(Frame("f.py", line, "f") for line in range(100))
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("E", "error: x" + "w" * 90_000, frames),))
    short = brief_failure(failure).exceptions[0]
    assert short.message.startswith("error: x")
    assert len(short.message) < 6000
    assert short.frames[-1].line == 99
    assert brief(Verdict(Status.PASS)) == Verdict(Status.PASS)


def test_the_users_own_frames_stay_however_deep_torch_goes_below_them() -> None:
    user, torchs = Frame("train.py", 12, "forward"), Frame("/env/torch/_ops.py", 1, "call")
    frames = (torchs, user, *[torchs] * 100)
    short = brief_failure(Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("E", "", frames),)))
    assert short.exceptions[0].frames == (user, *[torchs] * 30)
