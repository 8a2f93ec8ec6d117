"""What stands after a word for secrets is gone, in any literal; what only looks like that stays."""

import pytest

from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.redact_files import learn_file, redact_file


def redacted(text: str, name: str) -> str:
    redactor = Redactor()
    learn_file(text, name, "code", redactor)
    return redact_file(text, name, "code", redactor).text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ('PASSWORD = b"hunter2-plover"', "hunter2"),
        ('password = b"hunter2xx"', "hunter2"),
        ("password = Rb'hunter2-plover'", "hunter2"),
        ('password: str = "correct-horse-battery"', "horse"),
        ('config["password"] = "correct-horse-battery"', "horse"),
        ('passphrase = "correct-horse-battery"', "horse"),
        ("x = b'passphrase: correct-horse-battery'", "horse"),
        ("x = 'user: me\\npassphrase: correct horse battery staple\\npin: 48151623\\n'", "staple"),
        ("x = 'user: me\\npassphrase: correct horse battery staple\\npin: 48151623\\n'", "4815"),
        ("x = '{\\'password\\': \\'hunter2-plover\\'}'", "hunter2"),
        ("x = {'pin': 99887766}", "99887766"),
        ("x = {'password': 12345678}", "12345678"),
        ("password = '12345678'", "12345678"),
        ("pin = 99_887_766", "99_887"),
        ("password = f'{user}-hunter2xx'", "hunter2"),
        ("main(['--password', 'correct-horse'])", "horse"),
        ("x = b'form-data; name=\"password\"\\r\\n\\r\\ncorrect horse battery\\r\\n--x--'", "horse"),
        ("x = ['form-data; name=\"token\"', '', 'lagoonwalnut']", "walnut"),
        ('main(["--azure-key",\n      "k3y-of-mine-77"])', "k3y-of-mine"),
    ],
)
def test_a_value_in_python_is_gone(text: str, private: str) -> None:
    shown = redacted(f"{text}\n", "files/train.py")
    assert private in text and private not in shown
    compile(shown, "train.py", "exec")


@pytest.mark.parametrize(
    ("text", "name", "private"),
    [
        ("passphrase: correct horse battery staple\npin: 48151623\n", "a.yaml", "staple"),
        ("passphrase: correct horse battery staple\npin: 48151623\n", "a.yaml", "48151623"),
        ("PASSPHRASE=correct-horse-battery\n", "a.env", "horse"),
        ("secret = swordfish\n", "a.ini", "swordfish"),
        ('{"pin": 48151623}', "a.json", "48151623"),
        ('--x\r\nform-data; name="db_pass"\r\n\r\nlagoon&walnut\r\n--x--', "log.txt", "lagoon&walnut"),
        ("form-data; name=token; size=9\nContent-Type: text/plain\n\nwide lagoon\n--x--", "log.txt", "lagoon"),
        ("login failed, password: correct-horse-battery, host 3", "log.txt", "horse"),
        ('{"argv": ["train.py", "--db-password", "correct-horse-battery"]}', "a.json", "horse"),
        ("train.py: error: argument -p/--db-password: invalid int value: 'lagoonwalnut77'", "log.txt", "walnut"),
        ("Error: Invalid value for '-p' / '--password': 'lagoonwalnut77' is not an integer.", "log.txt", "walnut"),
        ("set -gx WANDB_API_KEY lagoonwalnut77", "log.txt", "walnut"),
        ("db:\n  password: >-\n    lagoonwalnut77\n", "a.yaml", "walnut"),
        ('variable "db_password" {\n  default = "lagoonwalnut77"\n}', "a.tf", "walnut"),
        ("next=https%3A%2F%2Fetl%3Alagoonwalnut77%40host%2Fx", "log.txt", "walnut"),
        ("\x1b[31mpassword\x1b[0m: \x1b[1mlagoonwalnut77\x1b[0m", "log.txt", "walnut"),
    ],
)
def test_a_value_in_another_file_is_gone(text: str, name: str, private: str) -> None:
    assert private in text and private not in redacted(text, name)


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader(pin_memory=True, pin_memory_device='cuda', pinned=1234567)",
        "pin: memory, pin = 'memory', pinned: 48151623, spin: 48151623",
        "password is required; secret: invalid; passphrase: the words that you know",
        "api_key: str = None, session_token: session_token, max_tokens: 1234567",
        'form-data; name="epochs"\n\nlagoonwalnut77x\nform-data; name="password"\n\n{password}',
        "password = 1234, password = args.password, cookie = cookie_name",
        "    KEY = base64.b64encode(os.environ['DEMO_API_KEY'])",
        'add_argument("--token", "--access-token2", "--key", "-k", help="a token")',
        'main(["--key", "value", "--tokens", "1234567"])',
    ],
)
def test_what_is_no_value_stays(text: str) -> None:
    assert redacted(text, "log.txt") == text
    assert redacted(f"x = '''{text}'''\n", "files/train.py") == f"x = '''{text}'''\n"


def test_a_number_is_not_replaced_within_another_one() -> None:
    text = "pin: 48151623, 148151623, 0.48151623, 48151623.5, n48151623"
    assert redacted(text, "a.txt") == "pin: REDACTED_SECRET_1, 148151623, 0.48151623, 48151623.5, nREDACTED_SECRET_1"
