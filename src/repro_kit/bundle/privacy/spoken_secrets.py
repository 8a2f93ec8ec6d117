"""Find secrets in sentences: "the password of the staging box is …", "use … as the passphrase"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_PASSWORD = (
    r"(?:pass(?:word|wd|phrase|code|-word|-phrase| phrase)s?|pwd|p/w|pws?|pin(?:[ -]?(?:code|number))?|"
    r"credentials?|creds|logins?|passwort|kennwort|mot de passe|contrase[nñ]a|senha|wachtwoord|l[oö]senord|пароль|密码)"
)
_KEY = (
    r"(?:(?:secret|api|access|auth\w*|licen[cs]e|private|signing|master|encryption|vault|recovery|unlock|"
    r"activation|product|serial|registration|deploy|service|storage|backup)"
    r"[ _-]?(?:key|token|code|phrase)|secret|token|"
    r"(?:alarm|door|safe|gate|lock|entry|access) code|"
    r"code (?:for|of|to) the (?:alarm|door|safe|gate|lock|box|vault|room)|"
    r"(?:security|secret|recovery) answer|answer (?:to|for) (?:the|my|our|your) (?:security|secret|recovery) question)"
)
_NOUN = rf"(?<![\w/.-])(?:{_PASSWORD}|{_KEY})(?![\w(\[])"
_QUOTED = r"[\"'`\u201c\u2018](?P<quoted>[^\"'`\n\u201c\u201d\u2018\u2019]{4,60})[\"'`\u201d\u2019]"
_BARE = r"(?P<bare>[^\s\"'`,;()<>\[\]{}\u201c\u2018]{4,64})"
_GIVEN = rf"\(?(?:\*\*)?(?:{_QUOTED}|{_BARE})"
_BETWEEN = r"(?:,? [\w'./@:#&-]+){0,9}?,?"  # of one sentence
_FILLER = (
    r"(?:(?:now|still|just|currently|simply|set|changed|reset|to|called|always|probably|again|actually|really|back|"
    r"this|as|literally|today|only|going|be)[ ,]+)*"
)
_LINK = (
    rf"(?:\s*(?:=>?|:|->|→|\u2014|\u2013|--?(?= ))\s*|\s+(?:is|was|are|were|will be|has been|had been|being|became"
    rf"|equals|remains|stays|"
    rf"to|reads|it is|it's|says|ist|est|es|lautet)[ :]+|'s\s+){_FILLER}"
)
#: From the noun to the end of its sentence, in which the value may follow any of the verbs.
_SUBJECT = re.compile(rf"(?i){_NOUN}(?P<clause>(?:[^\n.;!?]|[.;!?](?=\S)){{0,120}})")
_TOLD = re.compile(rf"(?i)(?={_LINK}{_GIVEN})")
#: Between a user and his password.
_PARTED = r"(?:\s[/|]\s|:\s|[/:|])"
_OWN = r"(?:the|your|my|its|our|a|an|his|her|their|this|that|all|every|for|of|to)"
_STRICT, _LOOSE, _NUMBER = "strict", "loose", "number"
#: (how much a value must look like a secret, pattern).
_SENTENCES = tuple(
    (how, re.compile(rf"(?i){pattern}"))
    for how, pattern in (
        (_NUMBER, rf"(?:\b(?-i:PIN|Pin|OTP)|(?<![\w.])(?:pin|pass|unlock|security|access|door|verification"
                  rf"|confirmation|one-time|login|sms|2fa|(?:two-|second-|2-)?factor|authenticator)[ -]?(?:code"
                  rf"|number))\b{_BETWEEN}(?:{_LINK}|[ ])(?P<bare>\d{{4,8}})\b"),
        (_NUMBER, rf"\b(?:pin|{_PASSWORD})\b{_BETWEEN}\s(?:is|was|to)\s{_FILLER}(?P<bare>\d{{4,8}})\b"),
        (_LOOSE, rf"(?:with|using|and|has|had|by|via|plus|,|/|&|\buser\s+\S+|login\s+\S+|as\s+\S+)\s+(?:{_OWN} )?"
                 rf"(?:\w+ )?{_PASSWORD}\s+{_GIVEN}"),
        (_STRICT, rf"{_NOUN},?\s+{_GIVEN}"),
        (_LOOSE, rf"{_NOUN}\s+\({_BARE}\)"),
        (_LOOSE, rf"{_PASSWORD}\s+\([\w.@+-]+\s*[/:|,]\s*{_BARE}\)"),
        (_LOOSE, rf"\b{_PASSWORD}{_BETWEEN}[,:;]\s+(?:just |then |please )*(?:give|type|enter|use|say|answer|send|put"
                 rf"|try|reply)\s+{_GIVEN}"),
        (_STRICT, rf"\b{_PASSWORD}{_BETWEEN},? (?:and|then|so|but) (?:i |we |you |he |she |they |just |then )*(?:give"
                  rf"|gave|type|typed|enter|entered|use|used|answer|answered|send|sent|put|try|tried)\s+{_GIVEN}"),
        (_STRICT, rf"\b{_PASSWORD}\s+of\s+{_GIVEN}"),
        (_STRICT, rf"{_NOUN}{_BETWEEN},\s+{_GIVEN},"),
        (_STRICT, rf"\bpass (?:for|of|to) [\w.@-]+ (?:is|was|=)\s+{_GIVEN}"),
        (_STRICT, rf"\b(?:is|was)\s+{_GIVEN}\s+(?:still |really |not )*{_OWN} (?:[\w'-]+ ){{0,3}}{_NOUN}"),
        (_STRICT, rf"\buse[ds]?\s+[\w.@+-]+/{_GIVEN}\s+(?:to|for)\s+(?:log|sign|connect|access|authenticat)"),
        (_STRICT, rf"{_NOUN}\s*\|\s*{_GIVEN}"),
        (_STRICT, rf"\b(?:credentials?|creds|logins?){_BETWEEN}[,:]\s+(?:user(?:name)?\s+)?[\w.@+-]+\s*"
                  rf"(?:[/:|,]|and|with)\s*{_GIVEN}"),
        (_LOOSE, rf"{_NOUN}\s+(?:{_OWN} \w+ )?{_QUOTED}"),
        (_LOOSE, rf"\b(?:use|uses|used|using|enter|entered|type|typed|try|tried|with|give|gave|set|put|send|sent"
                 rf"|supply|supplied|pass|passed|take|took|keep|kept|chose|choose|picked|pick|accepts|got|told"
                 rf"|remember|and)\s+(?:me |us |him |her |them |you |it )?{_GIVEN}\s+(?:as|for|at)\s+(?:{_OWN} )*"
                 rf"(?:[\w-]+ ){{0,3}}{_NOUN}"),
        (_STRICT, rf"(?:^|[.:;,!?(]\s*|\b(?:that|because|says?|think|know|and|so|yes)\s+){_GIVEN}\s+(?:is|was|works as"
                  rf"|serves as|became|will be)\s+(?:still |now |also |only )?{_OWN} (?:[\w'-]+ ){{0,3}}{_NOUN}"),
        (_LOOSE, rf"(?m:^){_BARE} (?:is|was) (?:still |now )?{_OWN} (?:[\w'-]+ ){{0,3}}{_NOUN}"),
        (_STRICT, rf"{_NOUN}{_BETWEEN} but {_GIVEN}"),
        (_STRICT, rf"{_NOUN}\s+(?:by|with)\s+{_GIVEN}"),
        (_STRICT, rf"{_PASSWORD}[:?]?[\"'\u201d\u2019]\s+(?:i |we |you |he |she |they )*(?:answer|typ|enter|gave|give"
                  rf"|said|say|sent|send)\w*\s+{_GIVEN}"),
        (_STRICT, rf"{_GIVEN}\s+(?:is|was)\s+what\s+(?:[\w']+ ){{1,6}}{_NOUN}"),
        (_STRICT, rf"\b(?:log ?in|sign ?in)\b[^\n.]{{0,60}}?\buse\s+[\w.@+-]+\s+and\s+(?:then\s+)?{_GIVEN}"),
        (_STRICT, rf"\baccounts?\s+\([\w.@+-]+\s*[/:|,]\s*{_BARE}\)"),
        (_STRICT, rf"\b(?:credentials?|creds)\s+[\w.@+-]+\s+{_GIVEN}"),
        (_STRICT, rf"\bproxy\b{_BETWEEN}\s+(?:with|as|using)\s+[\w.@+-]+:{_GIVEN}"),
        (_STRICT, rf"\b(?:user(?:name)?|login|account|host|server)\b[^\n]{{0,60}}?[\s,;/](?:pass|pw|pwd)\s?[:=]?\s"
                  rf"{_GIVEN}"),
        (_STRICT, rf"{_GIVEN} as {_OWN} (?:[\w'-]+ ){{0,3}}{_PASSWORD}\b"),
        (_STRICT, rf"\b(?:connect|log|sign|authenticat|access)\w*\s+(?:[\w'.@-]+ ){{0,6}}?(?:with|as|using)\s+"
                  rf"[\w.@+-]+[/:]{_GIVEN}"),
        (_STRICT, rf"{_NOUN}[!.:;]?\s+(?:i |was |we )?(?:expected|got|tried|given|received|wanted|used)\s+{_GIVEN}"),
        (_STRICT, rf"{_NOUN}{_BETWEEN} from {_GIVEN}"),
        (_STRICT, rf"{_NOUN}{_BETWEEN} from \S+ to {_GIVEN}"),
        (_STRICT, r"\b(?-i:(?:[A-Z][A-Z0-9]*_)+(?:PASS[A-Z]*|PWD?|SECRET|TOKEN|KEY))\s+(?:(?:is|was|has been) "
                  r"(?:set|changed|reset|equal) to|to|is|was|as|with)\s+"
                  rf"{_GIVEN}"),
        (_STRICT, rf"\b(?:unlock|decrypt|unzip|authenticat|log|sign|connect|ssh|protect|encrypt)\w*\s+"
                  rf"(?:[\w'./@-]+ ){{0,6}}?(?:with|using|by typing|via)\s+{_GIVEN}"),
        (_LOOSE, rf"\b{_PASSWORD}{_BETWEEN}{_LINK}[\w.@+-]+\s*(?:[/:|]|and|with)\s*{_GIVEN}"),
        (_STRICT, rf"\b{_PASSWORD}{_BETWEEN}\s+[\w.@+-]+{_PARTED}{_GIVEN}"),
        (_STRICT, rf"\b(?:log ?in|sign ?in|accounts?|user(?:name)?)\b{_BETWEEN}:?\s+[\w.@+-]+{_PARTED}{_GIVEN}"),
        (_STRICT, rf"{_NOUN}{_BETWEEN}\s+{_GIVEN}(?=\s*(?:$|[.,;!?)\n]))"),
    )
)  # fmt: skip
#: A password by its look: digits or marks among letters, or capitals in odd places.
_MARKED = re.compile(
    r"(?=.*[A-Za-z])(?=.*[\d!@#$%^&*+?~=])\S+|(?=.*\d)(?=.*[!@#$%^&*+?~-])\S+|[a-z]+[A-Z]+[a-z]+\w*|(?="
    r"(?:[^A-Z]*[A-Z]){2})(?=(?:[^a-z]*[a-z]){2})[A-Za-z]{7,}|\d{4,12}|(?:[a-z]+-){2,}[a-z]+|"
    r"(?:[A-Z0-9]{4}-){2,}[A-Z0-9]{4}|(?=.*[a-z][A-Z])(?=.*_)[A-Za-z_]{8,}"
)
_SERIAL = re.compile(r"(?:[A-Z0-9]{4}-){2,}[A-Z0-9]{4}")  # which may look like a version
#: Numbers, versions, shapes, names in code, paths, options, addresses in memory, names of devices and types.
_TECHNICAL = re.compile(
    r"v?\d+(?:\.\d+)+\S*|0x[0-9a-fA-F]+[uUlL]*|[\w.]*[(\[].*|[\w.-]*/[\w/.:%-]+|--?\w.*|[a-z]+(?:_[a-z0-9]+)+|[A-Z]+"
    r"(?:_[A-Z0-9]+)*\d*|"
    r"[A-Za-z_]+(?:\.[A-Za-z_]\w*)+|[a-z]+:\d+|(?:float|int|uint|bfloat|complex|arg|buf|tmp|s|u|i|f|x)\d+[a-z_]*\d*"
    r"|[A-Z][a-z]+(?:[A-Z][a-z]+)+|"
    r"\d+(?:%|s|ms|us|m|h|x|k|M|G|B|kB|MB|GB|KiB|MiB|GiB|th|st|nd|rd)|\d{1,3}|<.*|\$.*|%.*|\*+|\.+|#\d+"
    r"|[\w.+-]+@[\w.-]+\.\w+|https?:.*"
)
#: Endings of words that say how something is, not what it is.
_SAYS_HOW = re.compile(
    r"(?i).+(?:ed|ing|ly|able|ible|ive|ous|ful|less|ary|ent|ant|ory|ic|al|tion|ment|ness|ised|ized|word|own|en|ong|ore"
    r"|ity|ism|"
    r"ogy|phy|ship|ward|wards|ure|ance|ence|ist|ists|ers?|ors?|ions|ments|ities|ences|ances|ings|ize|ise|ify)"
)
_SHORTEST = 4
_ABOUT = re.compile(
    rf"(?i)(?<![a-z])(?:{_PASSWORD}|{_KEY}|(?:unlock|decrypt|unzip|authenticat|connect|protect|encrypt)\w*|"
    r"log(?:ged|ging)? ?in|sign(?:ed|ing)? ?in|"
    r"ssh|user(?:name)?|accounts?|proxy|pass|otp|"
    r"(?:factor|authenticator) code|(?:verification|confirmation|security|one-time|sms|2fa)[ -]?code)\b"
)
_LONG = 12  # letters of a word that hardly any sentence has


def sentences_in(text: str, is_common: Callable[[str], bool]) -> Iterator[str]:
    """The secrets that sentences of `text` tell. `is_common`: whether a value is a word that everybody has."""
    for how, match in _found(text):
        groups = match.groupdict()
        quoted = groups.get("quoted")
        value = (quoted or groups.get("bare") or "").rstrip(".,;:!?)")
        if len(value) >= _SHORTEST and _is_secret(value, how, is_common, quoted=bool(quoted)):
            yield value


def _found(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for told in lines_about(text, _ABOUT):
        for subject in _SUBJECT.finditer(told):
            yield from ((_LOOSE, match) for match in _TOLD.finditer(told, *subject.span("clause")))
        for how, pattern in _SENTENCES:
            yield from ((how, match) for match in pattern.finditer(told))


def lines_about(text: str, words: re.Pattern[str]) -> Iterator[str]:
    """The lines of `text` with one of the `words` that a secret may stand beside, each with the line after it."""
    end = 0
    for word in words.finditer(text):
        if word.start() >= end:
            start = text.rfind("\n", 0, word.start()) + 1
            end = text.find("\n", word.end())
            end = text.find("\n", end + 1) if end >= 0 else end
            end = end if end >= 0 else len(text)
            yield text[start:end]


def _is_secret(value: str, how: str, is_common: Callable[[str], bool], *, quoted: bool) -> bool:
    if how == _NUMBER:
        return True
    if _TECHNICAL.fullmatch(value) or (is_common(value) and not _SERIAL.fullmatch(value)):
        return False
    if _MARKED.fullmatch(value):
        return True
    if quoted:
        return how == _LOOSE
    enough = how == _LOOSE or len(value) >= _LONG
    return enough and value.isalpha() and value.islower() and not _SAYS_HOW.fullmatch(value)
