"""Secrets in English sentences and in command lines, and lines of a report that hold none.

A third of the texts has templates that are held out: these were written after the patterns of the redactor, which were
not changed for them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from samples import held_out_secrets, secret_templates

_WORDS = (
    "kestrel",
    "marzipan",
    "quagmire",
    "bramblewick",
    "zeppelin",
    "walnut",
    "tangerine",
    "obsidian",
    "swordfish",
    "lagoon",
    "monsoon",
    "granite",
    "saffron",
    "thistle",
)
_USERS = ("alice", "deploy", "j.doe", "svc-train", "bob", "etl")
_HOSTS = ("db3.lagoon.corp", "10.3.4.5", "build7", "nas.lab.local", "registry.walnut.example")


@dataclass(frozen=True)
class Spoken:
    """A text and the secret in it. `held_out`: no pattern was written for its template."""

    template: str
    text: str
    secret: str
    held_out: bool


def spoken(count: int, seed: int) -> Iterator[Spoken]:
    """`count` texts: a third of held-out templates, half of them sentences and half command lines, in turn."""
    chance = random.Random(seed)
    for at in range(count):
        is_held_out = at // 2 % 3 == 2
        module = held_out_secrets if is_held_out else secret_templates
        templates = (module.SENTENCES, module.COMMANDS)[at % 2]
        template = templates[at // (6 if is_held_out else 2) % len(templates)]
        secret = str(chance.randrange(1000, 999999)) if "{n}" in template else _secret(chance)
        text = template.format(s=secret, n=secret, u=chance.choice(_USERS), h=chance.choice(_HOSTS))
        yield Spoken(template, text, secret, is_held_out)


def _secret(chance: random.Random) -> str:
    """What people take: words with digits and marks, drawn letters, rare words."""
    word, other = chance.sample(_WORDS, 2)
    drawn = "".join(chance.choices("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=chance.randint(8, 14)))
    return chance.choice(
        (
            f"{word}{chance.randrange(10, 9999)}",
            f"{word.capitalize()}{chance.randrange(10, 99)}{chance.choice('!#*')}",
            f"{word}-{other}-{chance.randrange(9)}",
            f"{word[:3]}{chance.choice('@!$')}{other[:4].upper()}{chance.randrange(10, 99)}",
            drawn,
            f"{word}{other}",
            f"{word}{chance.randrange(10)}",
            f"{word.capitalize()}{other.capitalize()}{chance.randrange(10)}",
            f"{word.capitalize()}@{chance.randrange(1990, 2026)}",
            word.translate(str.maketrans("aeio", "4310")),
            "-".join("".join(chance.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=4)) for _ in range(3)),
            "".join(chance.choices("abcdefghjkmnpqrstuvwxyz23456789", k=chance.randint(8, 12))),
            "".join(chance.choices("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!#*_+", k=12)),
        )
    )


#: Sentences and commands in which the words stand, and no secret.
_NOTHING_TOLD = (
    "the password is stored in the keyring", "no password was given", "The password is too short.",
    "enter the password for user root", "use the token as the password for git", "password is required by the server",
    "a password prompt appears when the key is missing", "the API key is read from the environment",
    "Your credentials are wrong or expired", "the secret is mounted by the operator",
    "login failed for an unknown reason",
    "log in with your account and open the settings", "sign in with a browser", "connect with the debugger attached",
    "unlock the mutex with the guard", "the pin memory thread is running", "tokens per second: 1834.2",
    "max_new_tokens=128, eos_token_id=50256, pad_token='<pad>'", "tokenizer.pad_token = tokenizer.eos_token",
    "the post_grad pass remove_noop_ops is disabled", "pass 3 of 7: fuse_attention",
    "The pass was reordered after lowering",
    "key: (2, 3), value: torch.float32", "cache key: fxgraph-hash", "KeyError: 'hidden_states'",
    "assert key in state_dict",
    "mkdir -p runs/x", "ssh -p 2222 build", "docker run -p 8080:80 image", "python -u train.py", "sort -u names.txt",
    "cp -u a b", "git push -u origin main", "curl -u is for users", "7z x weights.7z", "unzip -p weights.zip a.txt",
    "zip -r out.zip runs", "mysql -P 3306 -h db", "openssl req -new -key server.key",
    "gpg --passphrase-file f -d a.gpg",
    "docker login --password-stdin", "ldapsearch -x -W", "az login --use-device-code",
    "helm install -f values.yaml web .",
    "kubectl logs -p pod", "psql -W metrics", "redis-cli -p 6379 ping", "export PASSWORD=$SECRET",
    "password = args.password",
    "parser.add_argument('--password', default=None)", "--password-file /run/secrets/x", "PASSWORD=${DB_PASSWORD}",
    "getpass.getpass('Password: ')", "raise ValueError('password must not be empty')", "self.password = password",
    "if not password: raise PermissionError", "auth = (user, password)", "echo $HOME | cat", "cat log | grep token",
    "ENV PASSWORD_FILE /run/secrets/db", "ARG TORCH_VERSION=2.13.0", "export DB_PASSWORD",
    "<password>${DB_PASSWORD}</password>", "password: str = ''", "password: Optional[str] = None", "credentials: none",
    "secrets: inherit", "- name: password", "  valueFrom: {secretKeyRef: {name: db, key: password}}",
    "client.login(user, password)", "auth=(user, password)", "check_password(password, hashed)",
    "token=tokenizer.eos_token", "pad_token=tokenizer.pad_token", "key=lambda x: x[0]",
    "process.env.DB_PASSWORD || ''", "os.getenv('DB_PASSWORD', '')", "x-request-id: 17", "train.py:12:34: note: here",
    "ssh-keygen -t ed25519 -f k", "echo done > log.txt", "echo secret is set", "wandb login --relogin",
    "gh auth login", "docker run --user 1000:1000 image", "nmcli dev wifi list", "git config set user.name",
    "python -m pip config set global.timeout 60", "the pw column is empty", "the secret of good compilers",
    "the token of the request is missing", "a pass of the optimizer",
)  # fmt: skip
_TRAPS = re.compile(r"(?i)pass\b|passes|pwd|password|token|secret|login|credential|\bpin\b|\bauth|\bkey\b")
_FOLDERS = ("_inductor", "_dynamo", "_functorch", "distributed", "fx", "_export", "nn", "optim")


def harmless(count: int, seed: int) -> list[str]:
    """`count` lines without a secret: of torch's own code, the half with a word that a secret may stand beside.

    The first ones are sentences and commands in which nothing is told, and lines of tracebacks through torch. A few
    lines are drawn from a few files: most of the time is for reading.
    """
    root = Path(find_spec("torch").origin or "").parent
    chance = random.Random(seed)
    files = [path for folder in _FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    lines: list[str] = []
    traps: list[str] = []
    frames: list[str] = []
    for path in chance.sample(files, min(count // 3, len(files))):
        name = f"/usr/local/lib/python3.11/site-packages/torch/{path.relative_to(root).as_posix()}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                (traps if _TRAPS.search(line) else lines).append(line)
                frames.append(f'  File "{name}", line {number}, in call\n    {line.strip()}')
    rest = count - len(_NOTHING_TOLD)
    parts = ((frames, rest // 5), (traps, rest * 2 // 5), (lines, rest - rest // 5 - rest * 2 // 5))
    return [*_NOTHING_TOLD, *(line for source, some in parts for line in chance.sample(source, some))]
