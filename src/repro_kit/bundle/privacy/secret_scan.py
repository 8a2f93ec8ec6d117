"""Find secrets in text and in Python source: by the detectors of detect-secrets, and by patterns of our own."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.filters.heuristic import is_potential_uuid, is_sequential_string

from repro_kit.bundle.privacy.addresses import addresses_in
from repro_kit.bundle.privacy.credential_patterns import (
    hex_keys,
    is_cache_key,
    is_compilers,
    is_random,
    random_segments,
    tokens_in,
)
from repro_kit.bundle.privacy.encodings_of_value import with_line_ends
from repro_kit.bundle.privacy.python_parts import data_of
from repro_kit.bundle.privacy.setting_secrets import commands_in, settings_in
from repro_kit.bundle.privacy.spoken_secrets import sentences_in
from repro_kit.bundle.privacy.vocabulary import Vocabulary, is_allowed

IsName = Callable[[str], bool]
#: Keywords by which a function takes a value for the name in its first argument, such as ``add_argument``.
_FOR_VALUES = ("default", "const", "value", "fallback")


def strings_given(source: str, is_secret: IsName) -> Iterator[str]:
    """The strings that `source` gives to names for which `is_secret` holds; nothing if it is not valid Python.

    Looked at are assignments (several targets, ``:=``, annotated), defaults, keywords, comparisons, items of
    dictionaries and pairs, and calls with the name among the arguments (``getenv("DB_PASSWORD", "…")``).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        for name, value in _given(node):
            if is_secret(name):
                yield from _strings(value)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Pairs of a name and what it is given in `node` itself."""
    match node:
        case ast.Assign():
            for target in node.targets:
                yield from _assigned(target, node.value)
        case ast.AnnAssign() | ast.NamedExpr() | ast.AugAssign() if node.value is not None:
            yield from _assigned(node.target, node.value)
        case ast.keyword():
            yield node.arg or "", node.value
        case ast.Dict():
            yield from ((_text(key), value) for key, value in zip(node.keys, node.values, strict=True))
        case ast.Tuple(elts=[first, second]) | ast.List(elts=[first, second]):
            yield _text(first), second
        case ast.Compare(left=left, comparators=[right]):
            yield from ((_name(left), right), (_name(right), left))
        case ast.arguments():
            positional = [*node.posonlyargs, *node.args]
            yield from _defaults(positional[len(positional) - len(node.defaults) :], node.defaults)
            yield from _defaults(node.kwonlyargs, node.kw_defaults)
        case ast.Call():
            values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in _FOR_VALUES)]
            for at, argument in enumerate(node.args):
                yield from ((_text(argument), value) for value in values[at + 1 :])


def _defaults(arguments: Iterable[ast.arg], values: Iterable[ast.expr | None]) -> Iterator[tuple[str, ast.AST]]:
    yield from ((argument.arg, value) for argument, value in zip(arguments, values, strict=True) if value is not None)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """The pairs of an assignment; of several targets each with its own value, where the value lists them."""
    match target, value:
        case ((ast.Tuple() | ast.List()), (ast.Tuple() | ast.List())) if len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                yield from _assigned(one, its)
        case ((ast.Tuple() | ast.List()), _):
            yield from ((_name(one), value) for one in target.elts)
        case _:
            yield _name(target), value


def _name(node: ast.AST) -> str:
    """The last part of the name that `node` is: of an attribute, or of an item by a text."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript():
            return _text(node.slice)
        case _:
            return ""


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _strings(value: ast.AST) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (line.strip() for line in node.value.splitlines())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node.value.decode("latin-1")


@dataclass(frozen=True)
class Secret:
    """A value that must not be shown, its kind, and whether it goes from code, too, or from what is no code only.

    It goes from code if its own look says that it is a secret. A word beside it says that of any name or number.
    """

    value: str
    kind: str
    in_code: bool = True


#: Version numbers of four parts look like public addresses; credentials in URLs have their own patterns below.
#: For hex strings, only the text before them says whether they are checksums: `hex_keys` decides.
_LEFT_OUT = {"IPPublicDetector", "BasicAuthDetector", "HexHighEntropyString"}
_BY_WORD = "Secret Keyword"  # the one detector that goes by the word before a value
#: Shorter strings of hex digits are colours, sizes and hashes of kernels.
_SHORTEST_ENTROPIC = 16
#: A shorter result of a detector is only the prefix that it searches for.
_SHORTEST_PLAIN = 8
#: An identifier of several words, a dotted name, a version.
_WORDY = re.compile(r"[A-Za-z]+(?:[_.-]+[A-Za-z]+)+[\\]*|[A-Z_]+|v?\d+(?:\.\d+)+[\w.+]*|[A-Za-z]+\\+")

_STRONG = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|credentials?|otp|pin[_ -]?code|(?:api|access|auth|private|secret|"
    r"account|license|encryption|signing|session|master|ssh)[_ -]?(?:key|token|secret|id)|"
    r"(?:bearer|refresh|id)[_ -]token|cookie)"
)
#: A name in code: of the words above, and short forms that a sentence has in other senses.
_STRONG_NAME = re.compile(rf"(?i)(?<![a-z]){_STRONG}s?(?![a-z])|(?:^|_)(?:auth|creds|pass|pw)$")
#: A quote, perhaps escaped; before it, the letters of a Python literal.
_QUOTE, _LETTERS = r"\\*['\"]", r"[bBrRfFuU]{0,2}"
#: From the end of a name to its value, perhaps with an annotation in between.
_GIVEN = rf"(?:{_QUOTE})?\]?(?:\s*:\s*[\w.\[\]| ]{{1,40}}(?==))?\s*(?:==?(?!=)>?|:|\bis\b)\s*"
_NAMED = rf"(?i)(?<![a-z]){_STRONG}{_GIVEN}"
_NAMED_OR_PIN = rf"(?i)(?<![a-z])(?:{_STRONG}|pin){_GIVEN}"  # before digits only: `pin` is a word of torch, too
#: From an option to its value: on a command line, or as the next string of a list of arguments.
_TO_VALUE = rf"(?:==?(?!=)| |{_QUOTE},\s*{_LETTERS}{_QUOTE}(?!-))"
_AFTER_WORD = "after a word for secrets"
#: Words that a sentence about a secret goes on with.
_ABOUT = (
    r"(?:an?|the|your|this|is|are|was|must|should|may|can|will|has|not|no|none|if|whether|or|and|for|of|in|on|to|see|from|"
    r"\w+ed|read|kept|given|taken|found|set|optional|required|invalid|incorrect|wrong|missing|expired|denied|unknown|str|string|bytes|await|lambda)"
)
#: (kind, pattern); the secret is the group of that name, else the whole match.
_FURTHER = (
    ("password in a URL", r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"'<]*:(?P<secret>[^\s/\"'<]+)@"),
    ("login in a URL", r"\b[a-z][a-z0-9+.-]*://(?P<secret>[^\s/:@\"'<]{4,})(?=(?::[^\s/@\"']*)?@)(?<!//git)(?<!//ssh)"),
    ("authorization header", r"\b(?:Bearer|Basic|Token)\s+(?P<secret>(?=\S*\d)[A-Za-z0-9._~+/-]{12,}=*)"),
    (
        "environment variable",
        r"\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?|COOKIE|_DSN|_AUTH)"
        rf"(?:_[A-Z0-9_]+)?['\"]?\]?\s*[=:]\s*(?:{_LETTERS}['\"])?(?P<secret>[^\s'\",;]{{6,}})",
    ),
    (
        "keyword",
        r"(?i)\b\w*(?:token|secret|passwd|password|api_?key|credential)\w*['\"]?\s*[=:]\s*"
        rf"{_LETTERS}['\"](?P<secret>(?=[^'\"]*\d)[^'\"\s]{{16,}})['\"]",
    ),
    (
        _AFTER_WORD,
        rf"{_NAMED}{_LETTERS}(?P<quote>{_QUOTE})(?P<secret>[^'\"\n]{{6,120}}?)(?P=quote)",
    ),
    (
        _AFTER_WORD,
        rf"{_NAMED_OR_PIN}(?:{_LETTERS}{_QUOTE})?"
        r"(?P<secret>(?=[^\s'\",;()\[\]{}]*\d)(?![\d.]+\b)[^\s'\",;()\[\]{}<>]{6,})(?<!\\)",
    ),
    (_AFTER_WORD, rf"{_NAMED_OR_PIN}(?:{_LETTERS}{_QUOTE})?(?P<secret>\d[\d_]{{5,}})(?![\w.])"),
    (
        "argument",
        rf"(?i)--?(?:[\w-]+-)?(?:{_STRONG}|token|key|login|user){_TO_VALUE}(?P<secret>(?=\S*\d)(?![\d:]+\b)[^\s'\"]{{6,}})",
    ),
    (
        "argument",
        r"(?i)(?<![\w-])--?(?:[\w-]+[-_])?(?:token|secret|password|passwd|(?:api|account|access|secret|storage)[-_]?key|secret-string|psk)"
        rf"{_TO_VALUE}(?P<secret>[^\s'\"]{{6,}})",
    ),
    (
        "parameter of a URL",
        r"(?i)[?&][\w-]*(?:token|key|sig|signature|credential|auth|pass|secret|code|sas)[\w-]*=(?P<secret>[^\s&'\"]{8,})",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _FURTHER)
_PUBLIC = re.compile(r"https://docs\.google\.com/\S+")  # torch's messages point there
_ASSIGNED = re.compile(r"os\.environ\[['\"](?P<name>\w+)['\"]\]\s*=\s*(?P<quote>['\"])(?P<secret>.+?)(?P=quote)")
_NEAR = re.compile(
    rf"(?i)(?<![a-z])(?:{_STRONG}|token|key|auth\w*|login|licen[cs]e|salt|webhook|nonce)\b\W{{0,3}}(?:\w+\W{{1,3}}){{0,2}}?"
    r"(?P<secret>[A-Za-z0-9][A-Za-z0-9_+/=.-]{7,}[A-Za-z0-9=])"
)
#: A value without quotes, perhaps of several words, to the end of the line, the literal or the item.
_PLAIN = r"[^\W_](?:[\w-]|'(?=\w))*"
_PHRASE = re.compile(rf"(?m){_NAMED}(?!{_ABOUT}\b)(?P<secret>{_PLAIN}(?: {_PLAIN}){{0,7}})(?=\s*(?:$|[\\'\",;)\]}}]))")
_NAMES_ONE = re.compile(rf"(?i){_STRONG}|token|key")  # ``session_token``: the name of a secret, in its place
_SHORTEST_GIVEN = 4  # of what a command line names
_SHORTEST_PIECE = 6  # of a phrase, and between the fields of an f-string
_CALLED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\(")  # ``base64.b64encode(`` in a quoted line of code
_FIELD = re.compile(r"\{[^{}]*\}")  # of an f-string
_HEX_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]+[uUlL]*(?![A-Za-z0-9+/])")
_COLOUR = re.compile(r"(?:\x1b|\\x1b|\\u001b|\\033)\[[\d;]*m")  # of a terminal, as it is or spelt out
_TOKEN = re.compile(r"REDACTED_[A-Z]+_\d|^<[\w-]+>$")
_CODE = re.compile(r"[\w.]*[(\[].*|(?:self|torch|os|args|cfg|config)\..*|None|True|False|\$\{?\w+\}?|%\(?\w+.*")


def secrets_in(text: str, name: str = "text.txt") -> Iterator[Secret]:
    """Every secret in `text`; its language follows from `name`.

    In Python source, code is no secret because of the words beside it, and no address.
    """
    flat = with_line_ends(text)
    data = data_of(text) if name.endswith(".py") else text
    data = f"{data}\n{with_line_ends(data)}"
    for hit in _certain(text, flat, name):
        yield from (piece for piece in _without_code(hit, data) if not _TOKEN.search(piece.value))
    given = _given_in_python(text) if name.endswith(".py") else ()
    plain = _COLOUR.sub("", flat)
    beside = [*_beside_words(flat), *(_beside_words(plain) if plain != flat else ())]
    for hit in (*_random(flat), *_detected(flat, name), *beside, *given):
        for piece in _without_code(hit, data):
            if piece.value and not (_TOKEN.search(piece.value) or _CODE.fullmatch(piece.value) or _is_harmless(piece)):
                yield piece


def _without_code(hit: Secret, data: str) -> Iterator[Secret]:
    """`hit`, or what stands of it in `data` around the fields of an f-string; nothing if all of it is code."""
    if hit.in_code or hit.value in data:
        yield hit
        return
    pieces = _FIELD.split(hit.value)
    yield from (replace(hit, value=piece) for piece in pieces if len(piece) >= _SHORTEST_PIECE and piece in data)


def _certain(text: str, flat: str, name: str) -> Iterator[Secret]:
    yield from (Secret(value, kind) for kind, value in (*tokens_in(flat), *hex_keys(flat)))
    yield from (Secret(value, kind, in_code=False) for kind, value in addresses_in(text, name))


def _random(text: str) -> Iterator[Secret]:
    yield from (Secret(value, "random") for value in random_segments(_PUBLIC.sub("", text)))


def _beside_words(text: str) -> Iterator[Secret]:
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield Secret(match["secret"] if "secret" in pattern.groupindex else match[0], kind, in_code=False)
    for value in commands_in(text):
        if len(value) >= _SHORTEST_GIVEN and not _names_one(value):
            yield Secret(value, "argument", in_code=False)
    for value in (*settings_in(text), *sentences_in(text, _vocabulary().is_common)):
        if not _names_one(value):
            yield Secret(value, _AFTER_WORD, in_code=False)
    for match in _PHRASE.finditer(text):
        phrase = match["secret"]
        if len(phrase) >= _SHORTEST_PIECE and not (_NAMES_ONE.search(phrase) or _vocabulary().is_common(phrase)):
            yield Secret(phrase, _AFTER_WORD, in_code=False)
    for match in _ASSIGNED.finditer(text):
        if not is_allowed(match["name"]) and len(match["secret"]) >= 6:
            yield Secret(match["secret"], "environment variable", in_code=False)
    for match in _NEAR.finditer(text):
        called = _CALLED.match(text, match.start("secret"))
        if is_random(match["secret"]) and not (is_cache_key(match["secret"]) or called):
            yield Secret(match["secret"], "random, next to a word for secrets", in_code=False)


def _names_one(value: str) -> bool:
    """Whether `value` is the name of a secret in its place: ``db_password``."""
    return _NAMES_ONE.search(value) is not None and not any(map(str.isdigit, value))


def _given_in_python(source: str) -> Iterator[Secret]:
    for value in strings_given(source, lambda name: _STRONG_NAME.search(name) is not None):
        if len(value) >= _SHORTEST_PIECE and not _names_one(value):  # as in getenv("DB_PASSWORD")
            yield Secret(value, _AFTER_WORD, in_code=False)


def _detected(text: str, name: str) -> Iterator[Secret]:
    for line in text.splitlines():
        for detector in _detectors() if len(line) >= _SHORTEST_PLAIN else ():
            for hit in detector.analyze_line(filename=name, line=line):
                yield Secret(_whole(detector, hit.secret_value or "", line), hit.type, hit.type != _BY_WORD)


def _whole(detector: Any, value: str, line: str) -> str:
    """The whole secret, if a detector returned only its prefix (``ghp``)."""
    if len(value) >= _SHORTEST_PLAIN:
        return value
    matches = (match for pattern in getattr(detector, "denylist", ()) for match in pattern.finditer(line))
    return max((match_[0] for match_ in matches if value in match_[0]), key=len, default=value)


def _is_harmless(hit: Secret) -> bool:
    """Whether a hit that rests only on randomness, or only on the word before it, is not a secret."""
    value, kind = hit.value, hit.kind
    measured = "Entropy" in kind
    if kind == _AFTER_WORD:  # a phrase may be a password, a number a code
        return _WORDY.fullmatch(value) is not None and _vocabulary().is_common(value)
    if (measured or kind == "environment variable" or kind.lower().endswith("keyword")) and _WORDY.fullmatch(value):
        return True
    if value.isdigit() or _HEX_NUMBER.match(value):
        return True
    if measured and is_compilers(value):
        return True
    return measured and (len(value) < _SHORTEST_ENTROPIC or is_sequential_string(value) or is_potential_uuid(value))


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary()


@cache
def _detectors() -> tuple[Any, ...]:
    classes: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    return tuple(
        detector() for detector in sorted(classes, key=lambda cls: cls.__name__) if detector.__name__ not in _LEFT_OUT
    )
