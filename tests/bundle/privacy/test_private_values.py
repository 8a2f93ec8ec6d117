"""Names and values that are private by where they stand are in no bundle, and words of torch and the report stay."""

import json
from pathlib import Path

import pytest

from planted_secrets import PROGRAM
from private_values import (
    PRIVATE,
    SHOWN,
    TOLD,
    VARIABLES,
    bundle_of,
    left_in,
    plant,
    problems_of,
    small_case,
    with_program,
    with_trace,
)
from repro_kit.bundle.privacy.private_values import Private, arguments, of_repository, parts_of, teach, variables
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.vocabulary import Vocabulary, shareable
from repro_kit.case.stage_results import Environment, GitState
from repro_kit.options.stages import BundleOptions

GRAPH = PROGRAM.replace("TENSOR0", "a").replace("TENSOR1", "b")


@pytest.mark.parametrize("level", ["script", "program"])
def test_nothing_private_is_in_a_bundle(tmp_path: Path, level: str) -> None:
    case = small_case(tmp_path, TOLD)
    plant(case)
    with_trace(case, [({"str": [f"/srv/{TOLD}/x.py", 3]}, f"# {TOLD}\nclass G: pass"), ({"artifact": {}}, '{"a": 1}')])
    if level == "program":
        with_program(case, GRAPH)
    files = bundle_of(case, VARIABLES, BundleOptions(trace="yes"))
    assert list(left_in(files, PRIVATE)) == []
    assert problems_of(files) == []
    assert "git" not in json.loads(files["env.json"])
    command = json.loads(files["story.json"])["command"]
    for shown in ("train.py", "-p ", "--password ", "--data ", "--name=", "--epochs 3", "--lr 1e-3", "inductor", "-v"):
        assert shown in command


def test_an_empty_variable_harms_nothing(tmp_path: Path) -> None:
    files = bundle_of(small_case(tmp_path), {"DEPLOY_TOKEN": "", "CUSTOMER": ""}, BundleOptions())
    assert problems_of(files) == []


@pytest.mark.parametrize(
    ("remote", "names"),
    [
        ("https://git.gooseberry.example/badgerling/otter.git", {"git.gooseberry.example", "badgerling/otter"}),
        ("git@git.gooseberry.example:badgerling/otter.git", {"git.gooseberry.example", "badgerling/otter"}),
        ("/srv/gooseberry/otter.git", {"srv/gooseberry/otter"}),
        ("file:///srv/gooseberry/otter", {"srv/gooseberry/otter"}),
    ],
)
def test_a_remote_is_private_with_its_host_or_as_a_path(remote: str, names: set[str]) -> None:
    values = {private.value for private in of_repository(GitState("/x", None, None, remotes=(remote,)), ())}
    assert names <= values
    redactor = Redactor()
    teach(redactor, of_repository(GitState("/x", None, None, remotes=(remote,)), ()))
    text = f"cloned from {remote} today"
    assert not any(name in redactor(text) for name in ("gooseberry", "badgerling", "otter"))


def test_the_values_of_arguments_go_in_where_the_user_says_so(tmp_path: Path) -> None:
    case = small_case(tmp_path)
    plant(case)
    files = bundle_of(case, {}, BundleOptions(include_values=True))
    assert "gooseberry" in files["repro.py"] and "badgerling" in files["repro.py"]
    assert not any(secret in "".join(files.values()) for secret in ("Sunflower!", "482193"))


def test_a_value_that_is_a_word_of_torch_harms_nothing_and_is_reported_as_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "aten.avg_pool2d failed in inductor with dtype torch.bfloat16"
    plain, words = small_case(tmp_path / "a", message), small_case(tmp_path / "b", message)
    values = {"LOSS_NAME": "avg_pool2d", "BACKEND": "inductor", "PASSWORD": "bfloat16", "NOTIFY_ON": "compile-error"}
    monkeypatch.setattr("getpass.getuser", lambda: "pytorch")
    for case in (plain, words):
        with_program(case, GRAPH)
    before, after = bundle_of(plain, {}, BundleOptions()), bundle_of(words, values, BundleOptions())
    for name in SHOWN:
        assert after[name] == before[name], name
    assert "github.com/pytorch/pytorch" in after["issue.md"] and message in after["issue.md"]
    kept = json.loads(after["redactions.json"])["kept"]
    assert {"what": "environment variable", "reason": "a word of torch", "values": 3} in kept
    assert {"what": "environment variable", "reason": "a word of the report", "values": 1} in kept
    assert any(entry["what"] == "name of a user" for entry in kept)
    assert "avg_pool2d" not in after["redactions.json"]


@pytest.mark.parametrize(
    ("value", "secret", "replaced"),
    [
        ("hunter2", True, True),
        ("hunter2", False, True),
        ("sunshine", True, True),
        ("train", False, False),
        ("train", True, False),  # a word of torch
        ("dev", False, False),
        ("fast", False, False),
        ("small model", False, False),
        ("customer", True, True),
        ("umbrella", False, True),
        ("Nightjar Six", False, True),
        ("cuda:0", False, False),
        ("torch.nn.functional", False, False),
        ("10.20.30.40:8443/internal", False, True),
        ("3.11.4", False, False),
        ("return", True, False),
        ("----", True, False),
        ("    ", True, False),
    ],
)
def test_what_identifies_somebody_is_replaced_and_a_word_of_anybodys_is_not(
    value: str, secret: bool, replaced: bool
) -> None:
    redactor = Redactor()
    teach(redactor, [Private(value, "environment variable", "X", secret)])
    assert (redactor.redact(f"a {value} b").text != f"a {value} b") is replaced


def test_a_password_that_begins_with_a_slash_is_no_path() -> None:
    env = {
        "DB_PASSWORD": "/Zk4Qw8\n%}}",
        "API_TOKEN": "/hunter2",
        "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1",
        "KEY_DIR": "/usr",
    }
    values = [private.value for private in variables(env)]
    assert values == ["/hunter2", "/Zk4Qw8\n%}}"]
    assert next(arguments(["--password", "/hunter2"])).value == "/hunter2"


def test_a_piece_of_an_operators_name_stays() -> None:
    redactor = Redactor(names=[("pool2d", "<user>")])
    assert redactor.redact("aten.avg_pool2d by pool2d in my_pool2d").text == "aten.avg_pool2d by <user> in my_<user>"


def test_a_value_in_a_graphs_names_is_replaced_and_the_graph_still_runs() -> None:
    redactor = Redactor()
    teach(redactor, [Private("umbrella", "environment variable", "CUSTOMER")])
    graph = "l_umbrella_weight = x\nrelu = torch.relu(l_umbrella_weight)  # umbrella\n"
    shown = "l_REDACTED_VALUE_1_weight = x\nrelu = torch.relu(l_REDACTED_VALUE_1_weight)  # REDACTED_VALUE_1\n"
    assert redactor.redact(graph, "repro.py").text == shown
    own = "import umbrella  # of umbrella\n"
    assert redactor.redact(own, "files/x.py").text == "import umbrella  # of REDACTED_VALUE_1\n"


@pytest.mark.parametrize(
    ("words", "shown", "values"),
    [
        (["a", "b"], ["", ""], ["a", "b"]),
        (["--x", "1", "--y=2"], ["--x", "", "--y="], ["", "1", "2"]),
        (["-phunter2"], ["-p"], ["hunter2"]),
        (["-vv", "-xvs", "-O2"], ["-vv", "-xvs", "-O"], ["", "", "2"]),
        (["model.name=acme"], ["model.name="], ["acme"]),
        (["-m", "pkg.train", "tests/test_a.py::test_b"], ["-m", "pkg.train", "tests/test_a.py::test_b"], ["", "", ""]),
        (["/home/me/x.py", "../x.py"], ["", ""], ["/home/me/x.py", "../x.py"]),
        (["--p!w"], ["--"], ["p!w"]),
        (["a-b@c"], [""], ["a-b@c"]),
    ],
)
def test_the_words_of_a_command_in_their_parts(words: list[str], shown: list[str], values: list[str]) -> None:
    parts = list(parts_of(words))
    assert [part.shown for part in parts] == shown
    assert [part.value for part in parts] == values


def test_an_environment_is_shared_without_repository_and_unknown_packages() -> None:
    git = GitState("/x", "c" * 40, "b", ("f",), ("https://h/r",))
    listed = "OS: Linux\n[pip3] torch==2.13\n[pip3] acme-torch==1\n[conda] acme-torch 1"
    env = Environment(
        "3.11", "python", "Linux", "2.13", collect_env=listed, packages={"acme": "1", "triton": "3"}, git=git
    )
    shown = shareable(env)
    assert shown.git is None and shown.packages == {"triton": "3"}
    assert shown.collect_env == "OS: Linux\n[pip3] torch==2.13"


def test_the_vocabulary_knows_what_torch_python_and_the_report_are_made_of() -> None:
    words = Vocabulary(["my_op"])
    kinds = {"avg_pool2d": "torch", "Conv2d": "torch", "BackendCompilerFailed": "torch", "max-autotune": "torch"}
    kinds |= {"aten.add.Tensor": "torch", "yield": "Python", "subprocess": "Python", "my_op": "this case"}
    assert {value: words.what(value) for value in kinds} == kinds
    assert not any(map(words.what, ("hunter2", "swordfish", "umbrella", "alice", "acme.internal", "torch.hunter2")))
