"""Python source: what is no code is searched whatever stands beside it; code stays as it is."""

import ast

import pytest

from repro_kit.bundle.privacy.python_parts import literal_spans, parts_of
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.secret_scan import Secret

MAIL, WIKI, LOGIN = (
    "jane.doe@acme-widgets.com",
    "https://git.corp-internal.lan/payments",
    "git@git.corp.lan:pay/model.git",
)


def redacted(source: str, name: str = "files/train.py") -> str:
    redactor = Redactor()
    redactor.learn(source, name)
    return redactor.redact(source, name).text


@pytest.mark.parametrize("value", [MAIL, WIKI, LOGIN, "10.20.30.40", "db7.corp-internal.lan"])
@pytest.mark.parametrize(
    "around",
    [
        r"x = 'usage: train\nquestions: {}\n'",
        r"x = 'a\n'; y = '{}'; z = 'b\n'",
        r"print('done\n', '{}', sep='\t')",
        r"x = 'a\tb'  # ask {}",
        "x = 'a\\n'\ny = '''\nfirst\n{}\n'''",
        r"x = f'{{x}}\n{} {{y:>{{w}}}}'",
        "x = '\\n'\r\ny = '\x0c{}'\r\n",
        "x = 'a\\n'\nprint('{}'",  # a bracket is open
        "x = 'a\\n\ny = '{}'",  # a string is not closed
        "!pip install\nx = 'a\\n{}'",  # a line of a notebook
    ],
)
def test_an_address_is_found_beside_escapes_and_in_what_is_no_python(around: str, value: str) -> None:
    source = around.replace("{}", value).replace("{{", "{").replace("}}", "}")
    assert value in source and value not in redacted(source)


@pytest.mark.parametrize(
    "code",
    [
        "KEY = base64.b64encode(os.environ['DEMO_API_KEY'].encode()).decode()",
        "api_key = client.get_parameter_Value3('x')",
        "secret = hashlib.sha256(x)",
        "password = sha256_crypt.hash(text)",
        "x = f'key {base64.b64encode(key_4x9)}'",
        "y = rate /alpha/beta",
        "y = a@b.museum + threads.prod",
        "loader = DataLoader(data, pin_memory=True, pin_memory_device='cuda12', pinned=1234567)",
    ],
)
def test_code_stays(code: str) -> None:
    for name in ("files/train.py", "train.py"):
        assert redacted(f"{code}\n", name) == f"{code}\n"
    assert redacted(f"{code}\nx = 'a\\n'\n") == f"{code}\nx = 'a\\n'\n"


def test_a_secret_by_its_neighbour_goes_from_strings_but_not_from_code() -> None:
    source = "api_key = 'load_v2_weights'\nmodel.load_v2_weights()  # api_key: load_v2_weights\n"
    token = "REDACTED_SECRET_1"
    assert redacted(source) == f"api_key = '{token}'\nmodel.load_v2_weights()  # api_key: {token}\n"


def test_a_secret_by_its_look_goes_from_code_too() -> None:
    source = "w_Zk4Qw8Rt2Yp6Lm9Xv3Nb = 1\nprint(w_Zk4Qw8Rt2Yp6Lm9Xv3Nb)\n"
    assert redacted(source) == "w_REDACTED_SECRET_1 = 1\nprint(w_REDACTED_SECRET_1)\n"


def test_a_number_behind_a_strong_word_stays_a_number() -> None:
    source = "login = {'pin': 99887766, 'password': 12345678}\nsize = 12345678, 99887766.5\n"
    shown = redacted(source)
    one, two = (f'len("REDACTED_SECRET_{number}")' for number in (1, 2))
    assert shown == f"login = {{'pin': {one}, 'password': {two}}}\nsize = {two}, 99887766.5\n"
    assert redacted(shown) == shown


def test_the_fields_of_an_f_string_are_code() -> None:
    redactor = Redactor(names=[("cooper", "<user>")])
    source = "x = f'cooper {cooper.x:>{cooper}} {{cooper}} {d[\"cooper\"]}'\n"
    expected = "x = f'<user> {cooper.x:>{cooper}} {{<user>}} {d[\"<user>\"]}'\n"
    assert redactor.redact(source, "files/x.py").text == expected
    assert redacted(f"x = f'{WIKI}/{{team}}/runbook-of-payments'\n") == (
        "x = f'REDACTED_SECRET_1{team}REDACTED_SECRET_2'\n"
    )


def test_a_key_in_several_strings_is_gone_and_the_source_compiles() -> None:
    source = (
        'KEY = ("-----BEGIN RSA PRIVATE KEY-----\\n"\n  "MIIEowIBAAKCAQEAabcdefgh1234\\n"\n'
        '  "-----END RSA PRIVATE KEY-----")\n'
    )
    assert "MIIE" not in redacted(source)
    ast.parse(redacted(source))


@pytest.mark.parametrize(
    "between", [" ", "\n       ", "  # the weights\n       ", " \\\n"], ids=["space", "line", "comment", "backslash"]
)
def test_a_url_in_several_strings_is_gone_whole(between: str) -> None:
    """Its first piece looks like a URL; the others are words like any others."""
    pieces = f'"{WIKI}/" {between}"team-falcon/quiet-model" {between}f"/{{name}}.pt"'
    shown = redacted(f"url = ({pieces})\n")
    assert "corp" not in shown and "falcon" not in shown and "quiet" not in shown
    assert "{name}.pt" in shown
    ast.parse(shown)


def test_strings_that_python_does_not_join_stay() -> None:
    assert "team-falcon" in redacted(f"url, team = '{WIKI}/', 'team-falcon'\n")
    public = "url = ('https://pytorch.org/docs/'\n       'stable/falcon-notes')\n"
    assert redacted(public) == public


@pytest.mark.parametrize("literal", ["'a\\nx'", "b'a\\nx'", "f'a\\nx{y}'", '"""a\\nx"""'])
def test_source_compiles_whatever_a_secret_takes_with_it(literal: str) -> None:
    redactor = Redactor()
    redactor.add(
        [Secret("nx" + literal[-1], "planted"), Secret(literal[:-1] + "\\", "planted"), Secret("nx{", "planted")]
    )
    shown = redactor.redact(f"v = {literal}\n", "files/x.py").text
    ast.parse(shown)


def test_parts_are_where_the_tokens_are() -> None:
    source = "x = 1_000  # one\r\n\x0cy = b'two' 'th\u2028ree' + '''fo\nur'''\n"
    parts = parts_of(source)
    assert parts is not None
    texts = ["1_000", "# one", "b'two'", "'th\u2028ree'", "'''fo\nur'''"]
    assert [source[part.start : part.end] for part in parts] == texts
    assert parts_of("x = 'a") is None and parts_of("x = (") is None and parts_of("x = $") is None


def test_spans_of_a_literal_leave_out_its_fields() -> None:
    literal = "rf'a{{b}}{c[\"d{\"]:{e}}f'"
    spans = ["rf'a{{b}}", '"d{"', "}f'"]
    assert [literal[start:end] for start, end in literal_spans(literal)] == spans
    assert [*literal_spans("'{x}'")] == [(0, 5)]
