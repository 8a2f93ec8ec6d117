"""Find secrets in settings, headers and code of any language: a name that says what it holds, and its value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repro_kit.bundle.privacy.spoken_secrets import lines_about

#: Where a word begins, also inside of a name (``dbPassword``, ``SMTP_PASS``).
_START = r"(?:(?<![A-Za-z])|(?-i:(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])))"
#: The last word of a name that says that it holds a secret.
_SAYS = (
    r"(?:pass(?:word|wd|phrase|code)|passwort|kennwort|pswd|pwd|pw|psk|credentials?|creds|secrets?|"
    r"(?:client|shared|auth|access|api|bearer|refresh|session|bot|registry|deploy|private)[_-]?(?:token|secret|key)|"
    r"(?:secret|account|storage|signing|encryption|master)[_-]?key(?:[_-]?base)?|(?-i:(?<=_)PASS|(?<=[a-z])Pass))(?:_?\d)?"
)
_LAST = rf"{_START}{_SAYS}"
_NAME = rf"(?:[\w.$:-]{{0,60}}{_START})?{_SAYS}"
_WORD = re.compile(
    r"(?i)pass|pswd|pwd|pw\b|psk|cred|secret|token|key|kennwort|auth|log_?in|sign_?in|cookie|^[\w.*-]+:(?:\d|\*)", re.M
)
_QUOTED = r"[bBrRfFuU]?(?P<quote>\\*[\"'`])(?P<value>[^\"'`\\\s]{4,120})(?P=quote)"
_BARE = r"(?P<value>[^\s\"'`<>,;&|(){}\[\]]{4,120})"
_PERHAPS_QUOTED = r"\\*[\"'`]?" + _BARE
#: A user, before a secret.
_USER = r"\\*[\"'](?:[\w.@+-]+)\\*[\"']"
_FORMS = tuple(
    re.compile(rf"(?i){pattern}", re.MULTILINE)
    for pattern in (
        # A name and a string: of JSON, TOML, an array, a comparison, a call.
        rf"{_LAST}\\*[\"'`]?\]?\s*(?::\s*[\w.\[\]| ]{{1,40}}(?==))?(?:={{1,3}}|:=|=>|:|,)\s*(?:\[\s*(?=[^\],]*\]))?"
        rf"{_QUOTED}",
        rf"{_START}(?:password|passwd|passphrase|secret|pw|login\w{{0,30}})\((?:[^()\"'\n]{{0,60}},|{_USER},)?\s*{_QUOTED}",
        rf"\b(?:bcrypt|argon2\w*|scrypt|pbkdf2\w*|hash(?:er)?|ph)(?:\.|::)(?:hash\w*|make|verify)\((?:\w+,)?\s*{_QUOTED}",
        rf"{_LAST}\\*[\"'`]?[\])]*\.\w{{1,30}}\(\s*{_QUOTED}",
        # What a program takes where a variable is not set.
        rf"{_LAST}\\*[\"'`]?[\])]?\s*(?:\|\||\?\?|\bor\b|:-)\s*{_PERHAPS_QUOTED}",
        # A name and a value without quotes: of Dockerfiles, of Windows, of a table.
        rf"^\s*(?:ENV|ARG)\s+{_NAME}\s+{_PERHAPS_QUOTED}",
        rf"\b(?:setx|setenv|(?:Set-Item|si)\s+env:|config(?::|\s+)set|secrets?\s+set|user-secrets\s+set)(?:\s+--?\w+)*"
        rf"\s*[\"']?{_NAME}[\"']?\s+{_PERHAPS_QUOTED}",
        # XML: an element, and, as in JSON and YAML, the name in one and the value in another field.
        rf"<(?:{_NAME}|pass|pin|token)(?:\s[^<>\n]*)?>(?P<value>[^<>\s]{{4,120}})</",
        rf"\b(?:name|key|id|variable)\\*[\"']?\s*[=:]\s*\\*[\"']?{_NAME}\\*[\"']?,?\s+\\*[\"']?value\\*[\"']?\s*[=:]\s*"
        rf"{_PERHAPS_QUOTED}",
        # A user and a secret.
        rf"\b(?:login|authenticate|log_?in|sign_?in|\w*basic_?auth|\w*digest_?auth)\(\s*{_USER},\s*{_QUOTED}",
        rf"\b(?:auth|credentials?|creds|login)\\*[\"']?\s*[=:]\s*[(\[]\s*{_USER},\s*{_QUOTED}",
        rf"\b(?:auth|credentials?|creds|login|userpwd)\\*[\"']?\s*[=:]\s*\\*[\"']?[\w.@+-]+:{_BARE}",
        r"^[\w.*-]+:(?:\d{2,5}|\*):[\w*.-]+:[\w*.@-]+:(?P<value>[^\s:]{4,})$",  # .pgpass
        # Headers.
        rf"\b(?:x-[\w-]*(?:key|token|auth|secret)[\w-]*|api-?key|private-token|job-token)\\*[\"']?:\s*{_PERHAPS_QUOTED}",
        rf"\bcookie\\*[\"']?:\s*[\w.-]+={_BARE}",
    )
)  # fmt: skip
#: Values that are names, types, code or marks for a value.
_NO_VALUE = re.compile(
    r"[$%&*<{\[(@/?.-].*|[\w.]*[(\[].*|(?:self|args|cfg|config|os|torch|process|env|settings|options)\..*|[x*.]+|\d{1,3}"
    r"|(?:true|false|none|null|undefined|string|str|bytes|required|optional|file|stdin|prompt|https?)\b.*|\W+",
    re.IGNORECASE,
)


def settings_in(text: str) -> Iterator[str]:
    """The secrets that names in `text` announce."""
    for match in (match for lines in lines_about(text, _WORD) for form in _FORMS for match in form.finditer(lines)):
        value = match["value"].rstrip(".,;:!?)")
        if not _NO_VALUE.fullmatch(value):
            yield value
