import json
import shlex
from urllib.parse import quote

import pytest

from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.redact_files import recompute_payload_sums
from repro_kit.bundle.privacy.secret_scan import Secret

GITHUB = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
SECRETS = {
    "github": (f"login with {GITHUB}", GITHUB),
    "keyword": ('password = "correct-horse-9"', "correct-horse-9"),
    "environment": ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIxK7MDENGbPxRfiCY", "wJalrXUtnFEMIxK7MDENGbPxRfiCY"),
    "url": ("remote https://alice:s3cretpw@git.corp/x.git", "s3cretpw"),
    "bearer": ("Authorization: Bearer abcdef0123456789xyz", "abcdef0123456789xyz"),
    "argument": ("train.py --api-key k3y-of-mine-77", "k3y-of-mine-77"),
    "query": ("https://host/data?token=aGVsbG8td29ybGQ", "aGVsbG8td29ybGQ"),
    "hub": ("hf_abcdefghijklmnopqrstuvwxyz0123", "hf_abcdefghijklmnopqrstuvwxyz0123"),
    "own": ('session_token = "plain4words5with6digits"', "plain4words5with6digits"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_replaced(name):
    text, secret = SECRETS[name]
    redactor = Redactor()
    redactor.learn(text)
    assert secret not in redactor.redact(text).text


def test_a_whole_private_key_goes():
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"
    assert "MIIE" not in Redactor()(f"before\n{key}\nafter")


def test_same_value_same_token_in_every_file():
    redactor = Redactor()
    redactor.learn('password = "correct-horse-9"', "a.py")
    first = redactor.redact('password = "correct-horse-9"', "a.py")
    second = redactor.redact("somewhere else: correct-horse-9")
    assert first.text == 'password = "REDACTED_SECRET_1"' and first.count == 1
    assert second.text == "somewhere else: REDACTED_SECRET_1"


def test_redacting_twice_changes_nothing():
    redactor = Redactor([("/home/alice", "<home>")], [("alice", "<user>")])
    once = redactor('password = "correct-horse-9"  # alice, /home/alice/x')
    assert redactor(once) == once


def test_compiler_output_is_left_alone():
    text = (
        'File "/usr/lib/python3.11/site-packages/torch/_inductor/compile_fx.py", line 1059, in _compile_fx_inner\n'
        "nvidia-cublas-cu12 12.4.5.8\nbuf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)\n"
        "token = x[0]; tokens = tokenizer(text); key = query @ key.transpose(-2, -1)\n"
    )
    assert Redactor()(text) == text


def test_a_commit_is_no_secret():
    commit = "cb0eb2d1bd0a6e6a7c66dd5fbd5b3ebc7a6e2c11"
    assert commit in Redactor(allowed=[commit])(f'"torch_git": "{commit}"')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/proj/train.py", "<cwd>/train.py"),
        ("/home/alice/other", "<home>/<file-1>"),
        ("/home/alice", "<home>"),
        ("in /home/alice.", "in <home>."),
        (
            r'{"at": "x\n/home/alice/proj/a.py\n/data/team/b.py\nalice"}',
            r'{"at": "x\n<cwd>/a.py\n<dir-1>/b.py\n<user>"}',
        ),
        (
            "g++ -I/home/alice/proj/inc -L/data/team/lib/x -isystem/home/alice/y",
            "g++ -I<cwd>/inc -L<dir-1>/x -isystem<home>/y",
        ),
        ("-o &lt;scratch&gt;/tmp1/a/b.so", "-o &lt;scratch&gt;/tmp1/a/b.so"),
        ("/opt/corp/lib/python3.11/site-packages/torch/x.py", "<dir-1>/lib/python3.11/site-packages/torch/x.py"),
        (
            "/usr/lib/x /tmp/a/b https://host/a/b torch/_x/y.py a/b/c /pytorch/aten/src/ATen/native/Pool.h:61",
            "/usr/lib/x /tmp/a/b https://host/a/b torch/_x/y.py a/b/c /pytorch/aten/src/ATen/native/Pool.h:61",
        ),
        ("/home/alicecooper/x", "<dir-1>/x"),
        ("/run/media/alicia/disk/x /run/lock/x", "<dir-1>/x /run/lock/x"),
        ("/home/alice-2/x", "<dir-1>/x"),
    ],
)
def test_deepest_path_wins_and_neighbours_stay(text, expected):
    redactor = Redactor([("/home/alice", "<home>"), ("/home/alice/proj", "<cwd>")], [("alice", "<user>")])
    assert redactor(text) == expected


@pytest.mark.parametrize("path", ["/home/it's/a b", '/srv/the "x"', "/srv/größe", "/srv/one\ntwo\nthree", "/a\\b/c"])
def test_a_known_directory_goes_in_each_spelling(path):
    redactor = Redactor([(path, "<cwd>")])
    for text in (path, json.dumps(path), repr(path), shlex.quote(path), json.dumps(shlex.quote(path)), quote(path)):
        shown = redactor(text)
        assert "<cwd>" in shown and len(shown) <= len("''<cwd>''"), (text, shown)
    assert redactor(f'  File "{path}/x.py", line 3') == '  File "<cwd>/x.py", line 3'


def test_names_in_python_code_stay_in_strings_they_go():
    redactor = Redactor(names=[("cooper", "<user>")])
    source = 'y = lib.cooper(x, 0, i)  # by cooper\ns = "cooper\'s"\n'
    assert redactor.redact(source, "repro.py").text == 'y = lib.cooper(x, 0, i)  # by <user>\ns = "<user>\'s"\n'


def test_names_that_many_machines_share_are_left_alone():
    assert Redactor(names=[("root", "<user>"), ("max", "<user>")])("root cause: max") == "root cause: max"


def test_payload_sums_follow_the_payload():
    record = 'V1120 17:29:56.314000 42 torch/x.py:1] {"dynamo_output_graph": {}, "has_payload": "' + "0" * 32 + '"}'
    text = f"{record}\n\tclass G:\n\t    pass\n{record.replace('output', 'input')}\n\tx\n"
    changed = recompute_payload_sums(text)
    assert '"has_payload": "' + "0" * 32 not in changed
    assert '"has_payload": "9dd4e461268c8034f5c8564e155c67a6"' in changed  # md5 of "x"


def test_no_end_is_left_of_a_token_or_of_secrets_that_overlap():
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert Redactor()(f"denied: {jwt}, more") == "denied: REDACTED_SECRET_1, more"
    redactor = Redactor()
    redactor.add([Secret("alpha-beta-gamma", "one"), Secret("gamma-delta-epsilon", "two")])
    redacted = redactor.redact("x alpha-beta-gamma-delta-epsilon y alpha-beta-gamma")
    assert redacted.text == "x REDACTED_SECRET_1 y REDACTED_SECRET_2" and redacted.count == 2


def test_versions_of_packages_with_secret_names_stay():
    listed = "[pip3] detect-secrets==1.5.0\n[pip3] django-otp==1.5.4\n[pip3] my-token==10.5.4\n"
    assert Redactor(allowed={"1.5.0", "1.5.4", "10.5.4"})(listed) == listed  # as those of the environment are
    assert Redactor()("if password == 'hunter2-and-more':") == "if password == 'REDACTED_SECRET_1':"


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.pytest.org/en/stable/how-to/capture-warnings.html",
        "https://setuptools.pypa.io/en/latest/references/keywords.html",
        "https://github.com/pytest-dev/pytest/issues/1234",
    ],
)
def test_the_pages_that_tools_of_python_point_to_stay(url: str) -> None:
    assert Redactor()(f"-- Docs: {url}") == f"-- Docs: {url}"


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("see https://docs.pytest.org.build-7.corp/en/stable", "build-7"),
        ("see https://notpytest.org/en/stable", "notpytest"),
        ("see https://me:hunter2-and-more@docs.pytest.org/en", "hunter2"),
        ("see https://docs.pytest.org/en?token=hunter2-and-more", "hunter2"),
        ("see https://docs.pytest.org/en/ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_0123"),
    ],
)
def test_a_public_host_hides_no_secret_and_no_host_that_looks_like_it(text: str, private: str) -> None:
    assert private not in Redactor()(text)
