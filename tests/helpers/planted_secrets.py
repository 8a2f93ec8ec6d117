"""A case with fifty secrets, planted wherever a bundle takes texts from, half of them of no known form."""

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import Capture, Environment, GitState, Observation, ObservedFailure
from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.repro_run.running import Check, ReproRun
from repro_kit.stages.bundle import checking

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
    run = ReproRun(Verdict(Status.FAIL), output, 1, outcome=RunOutcome.FAILS_ALIKE)
    return Check((run,), ReproRun(Verdict(Status.PASS), ""))


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
    monkeypatch.setattr(checking, "check_repro", passing_check)
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
