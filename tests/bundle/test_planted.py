"""Fifty secrets, planted wherever a bundle takes texts from, half of them of no known form: none is in the bundle."""

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import pytest

from repro_kit.bundle.judge import Ending, Reading
from repro_kit.case import Case, StageRecord, Subject
from repro_kit.model.failure import ExceptionLink, Failure, Kind
from repro_kit.model.results import Capture, Environment, GitState, Observation, ObservedFailure
from repro_kit.model.signature import Signature
from repro_kit.program import parse
from repro_kit.stages import bundle
from repro_kit.stages.check import Check, RunOfRepro
from repro_kit.stages.options import Options
from repro_kit.trace import read
from repro_kit.ui import SilentUi

KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUA
QyNTUxOQAAACDjPLANTED
-----END OPENSSH PRIVATE KEY-----"""

#: By the place where they are planted; "|" ends the ones of a known form.
PLANTED = {
    "environment": [
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "AKIAIOSFODNN7PLANTED",
        "|",
        "zebra-quartz-lantern",
        "hunter2!",
        "Bluefalcon Initiative",
        "9f8e7d6c5b4a3f2e1d0c9b8a",
        "q1.w2/e3+r4==",
        "Nightingale-7",
        "pypi.corp.internal:8080",
    ],
    "runnable": [
        "hf_abcdefghijklmnopqrstuvwxyz0123",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "AC0123456789abcdef0123456789abcdef",
        "|",
        "two words of mine",
        "tell-nobody-of-this-9",
        "Amber#Otter#77",
        "10.20.30.40:8443/internal",
    ],
    "arguments": [
        "glpat-XyZ12345678901234567",
        "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx",
        "|",
        "moonlit-passage-41",
        "t7Gq2LpXw9Zr4mN7bVc1",
        "k3y-of-mine-77",
        "plumtree",
    ],
    "source": [
        "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkPLANT",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "SG.abcdefghijklmnopqrstuv.wxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabc",
        "YWxpY2U6b3BlbnNlc2FtZTEy",
        "alice.cooper@corp.example.com",
        "|",
        "correct horse battery staple",
        "Xq7Rk2Vn9Lp4Wt8Zb3Hd",
        "swordfish",
        "Mb4Xz7Qt1Lv8Rn5Kc2Ws",
    ],
    "remote": ["pa55w0rd-of-git", "|", "oauth2tokenoftheremote"],
    "tensors": ["|", "Zk4Qw8Rt2Yp6Lm9Xv3Nb", "Hq7Zw2Xs9Ed4Rf6Tg1Yh"],
    "exception": [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "planted0header0value1",
        "s3cretpwPLANTED",
        "|",
        "open-sesame-1",
        "V7kP2mX9qL4wZ8",
        "PLANTED-SERIAL-0042",
    ],
    "files": ["|", "Wv5Nc8Kj3Fh7Ds2Ga9Pm", "Yd3Lk6Vt9Bq2Xm8Rz5Hc"],
    "trace": [
        "pypi-AgEIcHlwaS5vcmcCJDU3PLANTED0123456789abcdef",
        "AccountKey0PLANTED0abcdefghijklmnopqrstuvwxyz0123456789ABCDEF==",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXPLANTEDXXXXXXXXXXXXX",
        KEY.splitlines()[1],
        "|",
        "velvet-hammer-12",
        "Jb6Tn1Qz8Cx4Vd9Ks3Mw",
        "Nc8Wq3Zt6Kp1Vm5Xd9Lr",
    ],
}
VALUES = [value for values in PLANTED.values() for value in values if value != "|"]
UNKNOWN = sum(len(values) - values.index("|") - 1 for values in PLANTED.values())

PROGRAM = """# repro-kit program 1
import torch

RECIPE = {}


def graph(w_TENSOR0, x):
    layer_TENSOR1 = w_TENSOR0 * x
    relu = torch.relu(layer_TENSOR1)
    return (relu,)


def calls():
    w_TENSOR0 = torch.randn(4)
    x = torch.randn(4)
    return [(w_TENSOR0, x)]
"""


def plain(place: str) -> list[str]:
    return [value for value in PLANTED[place] if value != "|"]


def record(event: str, payload: str, **more: object) -> str:
    digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    data = {event: {}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, "has_payload": digest, **more}
    lines = "\n".join("\t" + line for line in payload.split("\n"))
    return f"V1120 17:29:56.314000 42 torch/_dynamo/x.py:1] {json.dumps(data)}\n{lines}\n"


def passing_check(*_: object, **__: object) -> Check:
    exception, serial = plain("exception")[0], plain("exception")[-1]
    output = f"RuntimeError: denied {exception} and {serial}"
    run = RunOfRepro(Reading(Ending.FAILS), output, 1.0, same=True)
    return Check((run,), RunOfRepro(Reading(Ending.PASSES), "", 1.0))


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    environment = dict(
        zip(
            ["GH_THING", "CLOUD_ID", "CODENAME", "DB_PASSWORD", "PROJECT", "RUN", "X_AUTH", "BIRD", "INDEX"],
            plain("environment"),
            strict=True,
        )
    )
    for name, value in {**environment, "CLUSTER": plain("exception")[-1], "LOGIN_WORD": plain("trace")[4]}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(bundle, "check_repro", passing_check)
    file_name, directory = plain("files")
    google, npm, grid, basic, mail, horse, random, fish, other = plain("source")
    (tmp_path / f"helper_{file_name}.py").write_text("SIZE = 3\n")
    (tmp_path / f"p_{directory}").mkdir()
    (tmp_path / f"p_{directory}/__init__.py").write_text("")
    (tmp_path / "train.py").write_text(
        f"import p_{directory}\nfrom helper_{file_name} import SIZE\nKEY = '{google}'  # ask {mail}\nnpm = '{npm}'\n"
        f"mail_key = '{grid}'\npassword = '{horse}'\nlicence = '{random}'\nheader = 'Basic {basic}'\n"
        f"db = connect('postgres://me:{fish}@db/x', {other}=1)\nproxy = '{' '.join(plain('environment'))}'\n"
    )
    options = ["--token", "--slack", "--wandb-password", "--run", "--api-key"]
    words = [word for pair in zip(options, plain("arguments")[:-1], strict=True) for word in pair]
    words.append(f"--session={plain('arguments')[-1]}")
    subject = Subject("script", ("train.py", "--epochs", "3", *words), str(tmp_path), sys.executable)
    made = Case.create(tmp_path / "x.repro", subject, "2030-01-01T00:00:00+00:00")
    jwt, header, password, sesame, license_key, serial = plain("exception")
    message = (
        f"denied: {jwt}, Authorization: Bearer {header}, postgres://me:{password}@db/x, password is '{sesame}', "
        f"license key: {license_key} for {serial}"
    )
    failure = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("BackendFailed", message),), text=message)
    signature = Signature(Kind.COMPILE_ERROR, ("BackendFailed",), message)
    observed = (ObservedFailure(failure, signature),)
    argv = ("python", *subject.argv)
    made.write("observe/run.json", Observation(argv, 1, None, False, 5.0, 0, sys.executable, "2", observed))
    remote = "https://bob:{}@git.corp/x.git https://{}@git.corp/y.git".format(*plain("remote")).split()
    env = Environment(
        "3.11", sys.executable, "Linux", "2.13.0", git=GitState(str(tmp_path), None, None, remotes=tuple(remote))
    )
    made.write("env.json", env)
    made.record(StageRecord("observe", "done"))
    made.update(signature=signature)
    runnable, trace = plain("runnable"), plain("trace")
    header_lines = "\n".join(f"os.environ['MY_TORCH_{at}'] = '{value}'" for at, value in enumerate(runnable))
    place = made.path / "observe"
    (place / "artifacts").mkdir(parents=True)
    (place / "artifacts/0_0.py").write_text(header_lines + "\nimport torch\n")
    (place / "logs").mkdir()
    (place / "logs/torch.txt").write_text(f"{message}\nkey of {tmp_path}: {' '.join(plain('environment'))}\n")
    (place / "trace").mkdir()
    payload = f"{header_lines}\nNOTE = '{trace[0]}'\nAccountKey={trace[1]}\n{trace[2]}\n{KEY}\n{trace[4]} {trace[5]}"
    text = record("dynamo_output_graph", payload) + record(
        "artifact", f"class G:\n    {trace[5]} = 1  # {tmp_path}/x.py"
    )
    (place / "trace/dedicated_log_torch_trace_a.log").write_text(text)
    return made


def texts(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def with_program(made: Case) -> None:
    one, two = plain("tensors")
    (made.path / "capture").mkdir()
    (made.path / "capture/program.py").write_text(PROGRAM.replace("TENSOR0", one).replace("TENSOR1", two))
    made.write("capture/capture.json", Capture("program", "dynamo", 1, "0/0", 1, signature=made.file.signature))
    made.record(StageRecord("capture", "done"))


def test_there_are_fifty_and_half_of_them_have_no_known_form() -> None:
    assert len(set(VALUES)) == 50 and UNKNOWN >= 25


@pytest.mark.parametrize("level", ["script", "program"])
def test_none_is_found_in_the_bundle(case: Case, level: str) -> None:
    if level == "program":
        with_program(case)
    bundle.run(case, Options(trace="yes"), SilentUi())
    packed = texts(case.path.with_name("x.repro.zip"))
    left = {value: [name for name, text in packed.items() if value in name + text] for value in VALUES}
    assert {value: names for value, names in left.items() if names} == {}
    assert not [name for name, text in packed.items() if str(case.path.parent) in text]
    # The rest is as it was: the code still runs, and the trace still reads.
    for name, text in packed.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
    reader = read(case.path / "bundle/trace")
    assert [it.intact for it in reader] == [True, True] and not reader.problems.stray
    if level == "script":
        renamed = next(name for name in packed if name.startswith("files/helper_"))
        assert f"from {Path(renamed).stem} import SIZE" in packed["files/train.py"]
        assert "'--epochs', '3'" in packed["repro.py"] or '"--epochs", "3"' in packed["repro.py"]
    else:
        assert "torch.relu(" in packed["repro.py"] and packed["repro.py"].count("REDACTED_SECRET_") > 3


def test_the_report_has_tokens_and_no_originals(case: Case) -> None:
    bundle.run(case, Options(trace="yes"), SilentUi())
    packed = texts(case.path.with_name("x.repro.zip"))
    report = json.loads(packed["redactions.json"])
    manifest = json.loads(packed["manifest.json"])
    assert sum(it["places"] for it in report) == sum(it["redactions"] for it in manifest["files"])
    for it in report:
        assert set(it) == {"token", "what", "places", "files"} and it["what"]
        assert all(it["token"] in packed[name] for name in it["files"])


def test_a_stranger_to_the_gate_gets_no_model_code(case: Case) -> None:
    bundle.run(case, Options(yes=True), SilentUi(yes=True))
    names = set(texts(case.path.with_name("x.repro.zip")))
    assert not [name for name in names if name.startswith(("trace", "artifacts", "logs"))]


def test_a_redacted_trace_has_no_code(case: Case) -> None:
    log = case.path / "observe/trace/dedicated_log_torch_trace_a.log"
    stack = [{"line": 1, "name": "f", "filename": 0, "loc": "secret_sauce(x)"}]
    more = record("chromium_event", '{"name": "compile"}') + record("dynamo_start", "p", stack=stack)
    log.write_text(log.read_text() + more + record("create_symbol", "s0 of the model"))
    bundle.run(case, Options(trace="redacted"), SilentUi())
    packed = texts(case.path.with_name("x.repro.zip"))
    assert [name for name in packed if name.startswith(("trace", "artifacts", "logs"))] == [f"trace/{log.name}"]
    text = packed[f"trace/{log.name}"]
    assert "compile" in text and "dynamo_start" in text
    assert not any(it in text for it in ("class G", "secret_sauce", "s0 of the model", "NOTE"))
    assert all(it.intact for it in read(case.path / "bundle/trace"))


def test_a_dry_run_lists_and_writes_nothing(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    from repro_kit.stages.stop import Stop
    from repro_kit.ui import Ui

    with pytest.raises(Stop, match="Nothing was written"):
        bundle.run(case, Options(dry_run=True), Ui())
    shown = capsys.readouterr().out
    assert "files/train.py" in shown and "your own file" in shown and "REDACTED_SECRET_1" in shown
    assert not any(value in shown for value in VALUES)
    assert not case.path.with_name("x.repro.zip").exists() and not case.has("bundle.json")


def test_code_of_the_example_is_left_as_it_is() -> None:
    from repro_kit.bundle.redact import Redactor

    for path in sorted(Path(__file__).parents[2].glob("examples/*.py")):
        redactor = Redactor()
        redactor.learn(path.read_text(), path.name)
        assert redactor.redact(path.read_text(), path.name).tokens == {}, path
    assert parse(PROGRAM)
