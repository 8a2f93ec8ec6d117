"""Made-up keys and tokens in the forms that services issue, and texts in which they appear."""

from __future__ import annotations

import base64
import html
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

LOWER = string.ascii_lowercase
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URL_SAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"
SLACK = "https://hooks.slack.com/services/"
BLOB = "https://acct.blob.core.windows.net/c/f?sv=2024-11-04&sr=c&sp=rl&sig="
UPPER = string.ascii_uppercase + string.digits

Maker = Callable[[random.Random], str]


@dataclass(frozen=True)
class Sample:
    """A text with a secret in it."""

    form: str
    context: str
    secret: str
    spelt: str  # the secret, as the text spells it
    text: str
    name: str  # of the file that the text is from


def _of(alphabet: str, length: int) -> Maker:
    return lambda rng: "".join(rng.choices(alphabet, k=length))


def _after(prefix: str, alphabet: str, length: int) -> Maker:
    return lambda rng: prefix + "".join(rng.choices(alphabet, k=length))


def _base64(length: int) -> Maker:
    return lambda rng: base64.b64encode(rng.randbytes(length)).decode()


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _jwt(rng: random.Random) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    claims = {"sub": "".join(rng.choices(LOWER, k=8)), "iat": rng.randrange(10**9, 2 * 10**9)}
    return ".".join(map(part, (json.dumps({"alg": "HS256"}).encode(), json.dumps(claims).encode(), rng.randbytes(32))))


def _json_in_base64(rng: random.Random) -> str:
    data = {"api_address": "https://app.neptune.ai", "api_key": _uuid(rng)}
    return base64.b64encode(json.dumps(data).encode()).decode()


def _pem(rng: random.Random) -> str:
    kind = rng.choice(["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "])
    lines = [base64.b64encode(rng.randbytes(48)).decode() for _ in range(4)]
    return "\n".join([f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"])


def _joined(*makers: Maker | str) -> Maker:
    return lambda rng: "".join(part if isinstance(part, str) else part(rng) for part in makers)


def _digits(length: int) -> Maker:
    return lambda rng: str(rng.randrange(10 ** (length - 1), 10**length))


#: (the service, as messages name it; how its keys are made) by the name of the form.
FORMS: dict[str, Maker] = {
    "databricks": _after("dapi", HEX, 32),
    "databricks, second": _joined(_after("dapi", HEX, 32), "-2"),
    "slack bot": _joined("xoxb-", _digits(12), "-", _digits(13), "-", _of(ALNUM, 24)),
    "slack user": _joined("xoxp-", _digits(12), "-", _digits(12), "-", _digits(12), "-", _of(HEX, 32)),
    "slack app": _joined("xapp-1-A", _of(UPPER, 10), "-", _digits(13), "-", _of(HEX, 64)),
    "slack webhook": _joined(SLACK, "T", _of(UPPER, 8), "/B", _of(UPPER, 10), "/", _of(ALNUM, 24)),
    "aws key id": _after("AKIA", UPPER, 16),
    "aws session key id": _after("ASIA", UPPER, 16),
    "aws secret": _base64(30),
    "google key": _after("AIza", URL_SAFE, 35),
    "google oauth": _after("ya29.a0", URL_SAFE, 120),
    "google client secret": _after("GOCSPX-", URL_SAFE, 28),
    "groq": _after("gsk_", ALNUM, 52),
    "xai": _after("xai-", ALNUM, 80),
    "openai": _after("sk-", ALNUM, 48),
    "openai project": _after("sk-proj-", URL_SAFE, 124),
    "anthropic": _joined("sk-ant-api03-", _of(URL_SAFE, 93), "AA"),
    "deepseek": _after("sk-", HEX, 32),
    "openrouter": _after("sk-or-v1-", HEX, 64),
    "hugging face": _after("hf_", ALNUM, 34),
    "github": _after("ghp_", ALNUM, 36),
    "github oauth": _after("gho_", ALNUM, 36),
    "github server": _after("ghs_", ALNUM, 36),
    "github fine-grained": _joined("github_pat_", _of(ALNUM, 22), "_", _of(ALNUM, 59)),
    "gitlab": _after("glpat-", URL_SAFE, 20),
    "npm": _after("npm_", ALNUM, 36),
    "pypi": _after("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 150),
    "stripe": _after("sk_live_", ALNUM, 24),
    "stripe restricted": _after("rk_live_", ALNUM, 99),
    "twilio account": _after("AC", HEX, 32),
    "twilio key": _after("SK", HEX, 32),
    "twilio auth token": _of(HEX, 32),
    "sendgrid": _joined("SG.", _of(URL_SAFE, 22), ".", _of(URL_SAFE, 43)),
    "mailgun": _after("key-", HEX, 32),
    "mailchimp": _joined(_of(HEX, 32), "-us", _digits(2)),
    "azure storage": _joined("AccountKey=", _base64(64)),
    "azure key": _base64(64),
    "azure sas": _joined(BLOB, lambda rng: quote(_base64(32)(rng), safe="")),
    "azure client secret": _joined(_of(ALNUM, 3), "8Q~", _of(URL_SAFE + "~", 34)),
    "jwt": _jwt,
    "private key": _pem,
    "login in a url": _joined("https://deploy:", _of(ALNUM, 20), "@git.umbrella.example/x.git"),
    "docker hub": _after("dckr_pat_", URL_SAFE, 27),
    "digitalocean": _after("dop_v1_", HEX, 64),
    "linear": _after("lin_api_", ALNUM, 40),
    "notion": _after("secret_", ALNUM, 43),
    "notion, new": _after("ntn_", ALNUM, 46),
    "replicate": _after("r8_", ALNUM, 37),
    "cohere": _of(ALNUM, 40),
    "wandb": _of(HEX, 40),
    "wandb, new": _joined("wandb_v1_", _of(ALNUM, 22), "_", _of(ALNUM, 50)),
    "kaggle": _of(HEX, 32),
    "langsmith": _joined("lsv2_pt_", _of(HEX, 32), "_", _of(HEX, 10)),
    "pinecone": _joined("pcsk_", _of(ALNUM, 6), "_", _of(ALNUM, 63)),
    "perplexity": _after("pplx-", ALNUM, 48),
    "comet": _of(ALNUM, 25),
    "neptune": _json_in_base64,
    "discord": _joined("M", _of(ALNUM, 23), ".", _of(URL_SAFE, 6), ".", _of(URL_SAFE, 38)),
    "telegram": _joined(_digits(10), ":AA", _of(URL_SAFE, 33)),
    "heroku": _uuid,
    "heroku, new": _joined("HRKU-AA", _of(URL_SAFE, 58)),
    "vault": _after("hvs.CAES", URL_SAFE, 90),
    "age": _after("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "sentry dsn": _joined("https://", _of(HEX, 32), "@o", _digits(6), ".ingest.sentry.io/", _digits(7)),
    "mapbox": _joined("pk.eyJ1Ijoi", _of(ALNUM, 60), ".", _of(URL_SAFE, 22)),
    "shopify": _after("shpat_", HEX, 32),
    "airtable": _joined("pat", _of(ALNUM, 14), ".", _of(HEX, 64)),
    "figma": _after("figd_", URL_SAFE, 40),
    "nvidia": _after("nvapi-", URL_SAFE, 64),
    "grafana": _joined("glsa_", _of(ALNUM, 32), "_", _of(HEX, 8)),
    "postman": _joined("PMAK-", _of(HEX, 24), "-", _of(HEX, 34)),
    "new relic": _after("NRAK-", UPPER, 27),
    "tailscale": _joined("tskey-auth-k", _of(ALNUM, 16), "-", _of(ALNUM, 32)),
    "terraform": _joined(_of(ALNUM, 14), ".atlasv1.", _of(URL_SAFE, 67)),
    "planetscale": _after("pscale_tkn_", URL_SAFE, 43),
    "supabase": _after("sbp_", HEX, 40),
    "rubygems": _after("rubygems_", HEX, 48),
    "adobe": _after("p8e-", LOWER + "0123456789", 32),
    "1password": _joined("A3-", _of(UPPER, 6), "-", _of(UPPER, 11), *("-", _of(UPPER, 5)) * 3),
    "octopus": _after("API-", UPPER, 26),
    "harness": _joined("pat.", _of(URL_SAFE, 22), ".", _of(ALNUM, 24), ".", _of(ALNUM, 20)),
    "maxmind": _joined(_of(ALNUM, 6), "_", _of(ALNUM, 29), "_mmk"),
    "openshift": _after("sha256~", URL_SAFE, 43),
    "plaid": _joined("access-production-", _uuid),
    "duffel": _after("duffel_live_", LOWER + "0123456789_-", 43),
    "sonar": _after("squ_", HEX, 40),
    "facebook app": _joined(_digits(15), "|", _of(LOWER + "0123456789_-", 30)),
}  # fmt: skip

#: Parts of a secret that are not secret: prefixes that documentation shows, and hosts.
PREFIXES = (
    SLACK, BLOB, "github_pat_", "pypi-AgEIcHlwaS5vcmc", "AGE-SECRET-KEY-1", "sk-ant-api03-", "sk-proj-", "AccountKey=",
    "https://deploy:", "@git.umbrella.example/x.git", ".ingest.sentry.io/", "tskey-auth-", ".atlasv1.", "pscale_tkn_",
    "rubygems_", "pk.eyJ1Ijoi", "hvs.CAES", "wandb_v1_", "secret_", "lin_api_", "dckr_pat_", "sk-or-v1-", "lsv2_pt_",
    "sk_live_", "rk_live_", "GOCSPX-", "-----BEGIN ", "-----END ", "PRIVATE KEY-----", "OPENSSH ", "ENCRYPTED ",
    "xapp-1-A", "duffel_live_",
)  # fmt: skip


def _json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _python(value: str) -> str:
    return repr(value)[1:-1]


def _twice_json(value: str) -> str:
    return _json(_json(value))


def _quoted(value: str) -> str:
    return quote(value, safe="")


def _as_is(value: str) -> str:
    return value


@dataclass(frozen=True)
class Context:
    """A text with a place for a value, how the value is spelt there, and the name of the file that it is from."""

    before: str
    after: str
    spell: Callable[[str], str] = _as_is
    name: str = "text.txt"


#: `{service}` is the name of the form's service: a message that names none has nothing to say about a UUID.
CONTEXTS: dict[str, Context] = {
    "message": Context("RuntimeError: {service} refused the key ", " (status 401)"),
    "message, end": Context("ValueError: invalid {service} API key: ", ""),
    "repr": Context("<Client {service} auth='", "' retries=3>", _python),
    "json": Context('{"service": "{service}", "api_key": "', '", "retries": 3}', _json),
    "json in json": Context('{"name": "x", "text": "{\\"{service}_key\\": \\"', '\\"}"}', _twice_json),
    "log in json": Context('{"at": "loading {service} auth\\n', '\\nnext"}', _json),
    "url parameter": Context("GET https://api.{service}.example/v1/runs?key=", "&page=2 failed", _quoted),
    "url path": Context("POST https://api.{service}.example/auth/", "/send failed", _quoted),
    "traceback line": Context(
        '  File "/home/me/train.py", line 3, in main\n    client = {service}.Client(auth="', '")\n', _python
    ),
    "argv": Context("argv: ['train.py', '--{service}-key', '", "', '--epochs', '3']", _python),
    "command line": Context("$ python train.py --{service}-key ", " --epochs 3"),
    "assignment": Context("{service}_auth=", ""),
    "shell export": Context('export {SERVICE}_KEY="', '"\npython train.py\n'),
    "yaml": Context("service: {service}\nauth: ", "\nretries: 3\n"),
    "toml": Context('[{service}]\nkey = "', '"\nretries = 3\n', _json, "settings.toml"),
    "python dict": Context("OPTIONS = {'service': '{service}', 'auth': '", "', 'retries': 3}\n", _python, "train.py"),
    "python comment": Context("x = 1  # {service} key: ", "\n", _python, "train.py"),
    "http header": Context("> GET /v1 HTTP/1.1\n> X-{service}-Key: ", "\n> Accept: */*\n"),
    "authorization": Context("Authorization: Bearer ", "\r\nHost: localhost\r\n"),
    "log line": Context("2026-03-01 12:00:00,123 INFO {service}.client: auth ", " accepted in 12 ms"),
    "markdown": Context("Log in to {service} with the key `", "`, then run it.\n", _as_is, "README.md"),
    "docker": Context("docker run --rm -e {SERVICE}_KEY=", " image:latest"),
    "curl": Context("curl -H 'X-{service}-Key: ", "' localhost"),
    "html": Context("<td>{service} key</td><td>", "</td>", html.escape, "report.html"),
    "csv": Context("service,key,retries\n{service},", ",3\n"),
    "colours": Context("{service} auth: \x1b[31m", "\x1b[0m\n"),
}  # fmt: skip


def samples(count: int, seed: int = 0) -> Iterator[Sample]:
    """`count` samples, over all forms and contexts in turn."""
    rng = random.Random(seed)
    pairs = [(form, context) for form in FORMS for context in CONTEXTS]
    rng.shuffle(pairs)
    for at in range(count):
        yield sample(*pairs[at % len(pairs)], rng)


def sample(form: str, context: str, rng: random.Random) -> Sample:
    """A secret of `form` in `context`."""
    secret, context_of_value = FORMS[form](rng), CONTEXTS[context]
    service = form.split(maxsplit=1)[0].strip(",")
    spelt = context_of_value.spell(secret)

    def about(text: str) -> str:
        return text.replace("{service}", service).replace("{SERVICE}", service.upper())

    return Sample(
        form,
        context,
        secret,
        spelt,
        about(context_of_value.before) + spelt + about(context_of_value.after),
        context_of_value.name,
    )


def left_of(case: Sample, redacted: str, longest: int = 5) -> str:
    """The longest piece of the secret, over `longest` characters, that is still in `redacted`; empty for none."""
    for spelt in {case.secret, case.spelt}:
        core = spelt
        for prefix in PREFIXES:
            core = core.replace(prefix, "\0").replace(quote(prefix, safe=""), "\0")
        for part in core.split("\0"):
            for start in range(len(part) - longest):
                if part[start : start + longest + 1] in redacted:
                    return _extended(part, start, longest + 1, redacted)
    return ""


def _extended(part: str, start: int, length: int, text: str) -> str:
    while start + length < len(part) and part[start : start + length + 1] in text:
        length += 1
    return part[start : start + length]
