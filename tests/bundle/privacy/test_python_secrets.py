"""Secrets in Python source are found by the name that they are given to."""

import pytest

from repro_kit.bundle.privacy.secret_scan import secrets_in

VALUE = "Tr0ub4dor-and-3"


@pytest.mark.parametrize(
    "code",
    [
        'host = os.getenv("DB_PASSWORD", "{}")',
        'os.environ.setdefault("VAULT_PASSWORD", "{}")',
        'API_PASSWORD = ("{}")',
        'USER, PASSWORD = "carol", "{}"',
        'secret = SecretStr("{}")',
        'class Settings:\n    password: str = field(default="{}")',
        'parser.add_argument("--password", default="{}")',
        'SMTP_AUTH = ("carol", "{}")',
        'self.creds = {{"carol": "{}"}}',
        'passwords = ["{}"]',
        'setattr(x, "password", "{}")',
        'pairs = [("password", "{}")]',
        'if (password := "{}"): pass',
        'password = x if y else "{}"',
        'password = os.getenv("P") or "{}"',
        'settings = {{"password": {{"value": "{}"}}}}',
        'def connect(user, *, password="{}"): pass',
        'ok = user.password == "{}"',
        'password = """\n{}\n"""',
        'password = b"{}"',
    ],
)
def test_a_string_that_a_name_for_secrets_is_given_is_one(code: str) -> None:
    assert VALUE in {secret.value for secret in secrets_in(code.format(VALUE), "settings.py")}
    assert "M0nkey-wrench" in {secret.value for secret in secrets_in(code.format("M0nkey-wrench"), "settings.py")}


@pytest.mark.parametrize(
    "code",
    [
        'name = os.getenv("DB_PASSWORD")',
        'secret = load("utf-8")',
        'mode = "max-autotune"',
        'password = ask("password")',
    ],
)
def test_other_strings_are_none(code: str) -> None:
    assert not list(secrets_in(code, "settings.py"))
