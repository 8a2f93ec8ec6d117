"""Patterns of keys and tokens that services issue; and whether a string is random or was written by a person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Where a token may begin: not after a letter or digit, unless it ends an escape (a line end, ``%3D``, a colour).
START = (
    r"(?:(?<![A-Za-z0-9])(?!(?<=\\)[nrt])|(?<=\\[nrtbf])|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u00[0-9a-fA-F]{2})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=\[\d;\d\dm))"
)
_WITH_DIGIT = r"(?=[A-Za-z_.~-]*(?:\d|[a-z][A-Z]{2}))"  # or with capitals that no word has
_STARTS = re.compile(START)


@dataclass(frozen=True)
class Form:
    """The kind of a token, its pattern, and whether it must begin a word."""

    kind: str
    pattern: str
    at_start: bool = False


def _at_start(kind: str, prefixes: str, tail: str) -> Form:
    return Form(kind, rf"(?:{prefixes}){_WITH_DIGIT}{tail}", at_start=True)


def _anywhere(kind: str, prefixes: str, tail: str) -> Form:
    return Form(kind, rf"(?:{prefixes}){tail}")


_FORMS = (
    # Hosts of code and packages.
    _anywhere("GitHub token", "gh[pousr]_", r"[A-Za-z0-9]{16,}"),
    _anywhere("GitHub token", "github_pat_", r"[A-Za-z0-9_]{20,}"),
    _anywhere("GitLab token", r"gl(?:pat|dt|ft|soat|rt|imt|ptt|agent|cbt|oas|ffct)-|GR1348941", r"[A-Za-z0-9_.-]{16,}"),
    _anywhere("Atlassian token", "ATATT3x|ATCTT3x|ATBB", r"[A-Za-z0-9_=-]{20,}"),
    _anywhere("npm token", "npm_", r"[A-Za-z0-9]{30,}"),
    _anywhere("PyPI token", "pypi-", r"[A-Za-z0-9_-]{30,}"),
    _anywhere("RubyGems token", "rubygems_", r"[a-f0-9]{32,}"),
    _at_start("crates.io token", "cio", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _anywhere("Docker Hub token", "dckr_[a-z]{2,4}_", r"[A-Za-z0-9_-]{20,}"),
    _anywhere("CI token", "bkua_|CCIP(?:AT|RJ)_", r"[A-Za-z0-9_]{20,}"),
    _at_start("Sourcegraph token", "sgp_|slk_", r"[A-Za-z0-9_]{32,}"),
    # Models, data and experiments.
    _at_start("OpenAI-like key", "sk-(?:proj-|svcacct-|admin-|ant-|or-|lf-|None-)?|csk-|pk-lf-", r"[A-Za-z0-9_-]{16,}"),
    _at_start("Groq key", "gsk_", r"[A-Za-z0-9]{20,}"),
    _at_start("xAI key", "xai-", r"[A-Za-z0-9_-]{20,}"),
    _at_start("Perplexity key", "pplx-", r"[A-Za-z0-9]{20,}"),
    _at_start("Hugging Face token", "hf_|api_org_", r"[A-Za-z0-9]{20,}"),
    _at_start("Replicate token", "r8_", r"[A-Za-z0-9]{20,}"),
    _at_start(
        "model service key",
        "jina_|tvly-|nvapi-|tgp_v1_|pcsk_|lsv2_[a-z]{2}_|(?:rpa_|fw_|pa-|al-|ls__|re_|napi_)(?=[a-z0-9_-]*[A-Z])",
        r"[A-Za-z0-9_-]{20,}",
    ),
    _at_start("Databricks token", "dapi|dkea|dose|doss", r"[a-h0-9]{32}(?:-\d{1,2})?"),
    _at_start("Weights & Biases key", "wandb_v1_", r"[A-Za-z0-9_]{20,}"),
    _at_start("Kaggle token", "KGAT_", r"[A-Za-z0-9]{20,}"),
    _anywhere("base64 of JSON", "eyJ", r"[A-Za-z0-9+/_=-]{20,}(?:\.[A-Za-z0-9_=-]*){0,4}"),
    # Clouds and machines.
    _at_start(
        "AWS key id",
        "AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA|A3T[A-Z0-9]",
        r"[A-Z0-9]{16}(?![A-Z0-9])",
    ),
    _anywhere("Google key", "AIza", r"[A-Za-z0-9_-]{30,}"),
    _at_start("Google OAuth token", r"ya29\.", r"[A-Za-z0-9_.-]{20,}"),
    _anywhere("Google OAuth secret", "GOCSPX-", r"[A-Za-z0-9_-]{16,}"),
    _at_start("Google refresh token", "1//0", r"[A-Za-z0-9_-]{30,}"),
    _at_start("Alibaba or Tencent key id", "LTAI|AKID|AKLT", r"[A-Za-z0-9_-]{16,}"),
    Form("Azure key", r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/%]{30,}={0,2})"),
    Form("Azure secret", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}", at_start=True),
    Form(
        "SAS signature",
        r"(?i)(?:[?&;]|&amp;|\\u0026|%26)(?:sig|signature|x-amz-signature|x-goog-signature)(?:="
        r"|%3D)(?P<secret>[A-Za-z0-9%+/=_-]{16,})",
    ),
    _at_start("DigitalOcean token", "do[opr]_v1_", r"[a-f0-9]{40,}"),
    _at_start("Vault token", r"hv[sbr]\.", r"[A-Za-z0-9_-]{20,}"),
    _at_start("Terraform token", r"[A-Za-z0-9]{14}\.atlasv1\.", r"[A-Za-z0-9_=-]{40,}"),
    _at_start("Pulumi token", "pul-", r"[a-f0-9]{40}"),
    _at_start("Doppler token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,35}\.)?", r"[A-Za-z0-9]{30,}"),
    _at_start("Tailscale key", "tskey-[a-z]{1,12}-", r"[A-Za-z0-9-]{16,}"),
    _at_start("database token", r"pscale_(?:tkn|pw|oauth)_|sbp_|sb_secret_", r"[A-Za-z0-9_.-]{20,}"),
    _at_start("hosting token", "nfp_|nfc_|FlyV1 |fm2_|fo1_|rnd_|vercel_|vc[piark]_|HRKU-", r"[A-Za-z0-9_+/=,-]{20,}"),
    _at_start("Dynatrace token", r"dt0[a-z]\d\d\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _at_start("Grafana token", "glc_|glsa_", r"[A-Za-z0-9_+/=]{30,}"),
    _at_start("New Relic key", "NR(?:AK|JS|II|AA|RA)-", r"[A-Za-z0-9_-]{18,}"),
    _at_start("Sentry token", "sntry[su]_", r"[A-Za-z0-9_+/=.-]{30,}"),
    Form("Sentry DSN", r"https?://[0-9a-f]{16,}(?::[0-9a-f]{16,})?@[\w.-]+/\d+"),
    _at_start("PostHog key", "ph[cxs]_", r"[A-Za-z0-9]{30,}"),
    _at_start("PlanetScale or Prefect key", "pn[ub]_", r"[A-Za-z0-9]{30,}"),
    _at_start("1Password token", "ops_eyJ", r"[A-Za-z0-9+/_=-]{40,}"),
    _anywhere("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{30,}"),
    Form(
        "SSH key",
        r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d+"
        r"|sk-ssh-ed25519@openssh\.com)[ +](?P<secret>AAAA[A-Za-z0-9+/=]{30,})",
    ),
    # Messages, mail and offices.
    _anywhere("Slack token", "xox[a-z](?:\\.xox[a-z])?-|xapp-|xwfp-", r"[A-Za-z0-9-]{16,}"),
    Form(
        "Slack webhook",
        r"hooks\.slack(?:-gov)?\.com/(?P<secret>(?:services|workflows|triggers)/[A-Za-z0-9_/+-]{16,})",
    ),
    Form(
        "webhook",
        r"(?:discord(?:app)?\.com/api/webhooks"
        r"|[\w-]+\.webhook\.office\.com/webhookb2)/(?P<secret>[A-Za-z0-9_/@.-]{20,})",
    ),
    _at_start("Discord token", r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.", r"[A-Za-z0-9_-]{25,45}"),
    Form("Telegram token", r"(?<!\d)\d{8,10}:[A-Za-z0-9_-]{34,36}(?![A-Za-z0-9_-])"),
    _at_start("Twilio key", "AC|SK", r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    _at_start("SendGrid key", r"SG\.[A-Za-z0-9_-]{16,32}\.", r"[A-Za-z0-9_-]{16,64}"),
    _at_start("mail service key", "xkeysib-|xsmtpsib-", r"[A-Za-z0-9_-]{20,}"),
    _at_start("Mailgun key", "key-", r"[a-f0-9]{32}"),
    _at_start("Mailchimp key", r"[0-9a-f]{32}-us", r"\d{1,2}"),
    _at_start("Linear or Notion key", "lin_(?:api|oauth|wh)_|secret_|ntn_", r"[A-Za-z0-9]{30,}"),
    _at_start("Airtable token", r"pat[A-Za-z0-9]{14}\.", r"[a-f0-9]{40,}"),
    _at_start("Figma token", "fig[duo][a-z]?_", r"[A-Za-z0-9_-]{20,}"),
    _at_start("Postman key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    _at_start("office service key", "tfp_|CFPAT-|dropbox_|sl\\.[A-Z]?\\.?|pk_\\d+_", r"[A-Za-z0-9_-]{30,}"),
    # Shops and money.
    _at_start("Stripe key", "(?:sk|rk|pk)_(?:live|test|prod)_|whsec_", r"[A-Za-z0-9+/=]{16,}"),
    _at_start("Shopify token", "shp(?:at|ca|pa|ss|ua|tka)_", r"[A-Fa-f0-9]{32}"),
    _at_start("Square token", "sq0[a-z]{3}-|EAAA", r"[A-Za-z0-9_-]{22,}"),
    _at_start("Facebook token", "EAA[A-Z]", r"[A-Za-z0-9]{60,}"),
    _at_start("Mapbox token", r"[pst]k\.eyJ", r"[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]{8,})?"),
    # Forms that gitleaks knows besides (config/gitleaks.toml), where a random string would not show it.
    _at_start(
        "service key",
        r"p8e-|rdme_|tk-us-|fio-u-|ico-|s-s4t2(?:ud|af)-|dnkey-|gloas-|duffel_(?:test|live)_|shippo_(?:test|live)_|sm_[aps]at_"
        r"|sq[upa]_|FLW(?:SEC|PUB)K(?:_TEST)?-|EZ[AT]K|AKCp|cmVmd|ABSK|bedrock-api-key-|fm1[ar]_|AQVN|CLOJARS_|sha256~"
        r"|access-(?:sandbox|development|production)-",
        r"[A-Za-z0-9+/_=-]{16,}",
    ),
    Form("1Password key", r"A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){3,5}(?![A-Za-z0-9])", at_start=True),
    Form("Octopus key", r"API-[A-Z0-9]{26}(?![A-Za-z0-9])", at_start=True),
    Form("Cloudflare key", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}", at_start=True),
    Form("Harness key", r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}", at_start=True),
    Form("MaxMind key", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", at_start=True),
    Form("Facebook token", r"(?<!\d)\d{15,16}(?:\||%7C)[A-Za-z0-9_-]{27,40}", at_start=True),
    Form("GitLab session", r"_gitlab_session=(?P<secret>[0-9a-z]{32})"),
    # Not specific to one service.
    Form(
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY("
        r"?: BLOCK)?-----|\Z)",
    ),
    Form("PuTTY key", r"PuTTY-User-Key-File-\d(?s:.*?)(?:Private-MAC: [0-9a-f]+|\Z)"),
    Form(
        "UUID next to a word for secrets",
        r"(?i)(?:key|token|secret|auth\w*|password|credential|license|heroku|pinecone|bearer)\b.{0,24}?[^0-9a-f-]"
        r"(?P<secret>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![0-9a-f-])",
    ),
)  # fmt: skip

_COMPILED = tuple((form, re.compile(form.pattern)) for form in _FORMS)


def tokens_in(text: str) -> Iterator[tuple[str, str]]:
    """(kind, value) of every token of a known form in `text`."""
    for form, pattern in _COMPILED:
        for match in pattern.finditer(text):
            if not form.at_start or _STARTS.match(text, match.start()):
                yield form.kind, match["secret"] if "secret" in pattern.groupindex else match[0]


#: Written by people: words, with a capital or not, and the rest of a number.
_WORD = re.compile(r"ReLU6?|Bn(?=[A-Z])|[1-3]d(?![a-z])|[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{4,}(?![a-z])")
#: Text that a person wrote can be spoken: it has vowels, and no long run of consonants.
_UNSPEAKABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}|^[bcdfghjklmnpqrstvwxz]*$")
#: Where the kind of character changes, except after the capital of a word.
_TURN = re.compile(r"(?<=[a-z])(?=[A-Z\d])|(?<=[A-Z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_SEGMENT = re.compile(rf"{START}[A-Za-z0-9]+")
_MANGLED = re.compile(r"(?<![A-Za-z0-9])_Z[A-Z0-9]\w+")
_CACHE_KEY = re.compile(r"[a-z]?[a-z2-7]{50,52}|[A-Z2-7]{52}")
_KERNEL = re.compile(r"[a-z0-9]{1,20}(?:_+[a-z0-9]{1,20}){3,}")
#: Keys of the compiler's caches (base 32), mangled C++ names, checksums and addresses stand in every log.
_COMPILERS = re.compile(
    r"[a-z]?[a-z2-7]{50,52}|[A-Z2-7]{52}|_?Z[A-Z]+\d.*|[0-9a-f]+|[0-9A-F]+|0[xX][0-9A-Fa-f]+[uUlL]*|\d+"
)
_CHANGE = re.compile(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)")  # between letters and digits

_RANDOM = 0.5  # share of characters that belong to no word
_TURNS_OF_WORDS = 0.2  # written text changes its kind of character less often
_LONG, _RANDOM_LONG = 32, 0.3  # from this length on, this share is enough
_RANDOM_IN_TURNS, _TURNS = 0.2, 0.32  # this share is enough if the kind changes this often per character
_IN_TURNS = 20  # shortest string for the rule above
_CHANGES_ALONE = 6  # changes between letters and digits in a long lower-case string
_CHANGES = 4  # changes between letters and digits; hardly any word has so many
_LOWER = re.compile(rf"{START}[a-z0-9]{{24,}}(?![A-Za-z0-9])")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])(?=[A-Za-z0-9]*[+/])[A-Za-z0-9+/]{30,}={0,2}(?![A-Za-z0-9+/=])")
_HEX = re.compile(rf"{START}(?:[0-9a-f]{{16,128}}|[0-9A-F]{{16,128}})(?![A-Za-z0-9])")
#: The extension of a file that is named by its hash.
_HASHED_FILE = re.compile(
    r"\.(?:py|pyc|cpp|cu|h|o|so|json|cubin|ptx|pt|lock|html|txt|main|kernel|llir|ttir|ttgir|log)\b"
)
#: Text before hex digits that a report needs: checksums, commits, cache keys.
_PUBLIC_HEX = re.compile(
    r"(?i)(?:hash\w*|commit\w*|sha-?\d*|md5|digest|checksum\w*|revision|payload|fingerprint|etag|cache[_ -]?key|"
    r"git[ _](?:version|sha|rev\w*)|torch_git|head is(?: now)? at|"
    r"/(?:commits?|tree|blob|raw|snapshots|objects)/|git\+\S{1,120}@|(?:cache|inductor|triton)\w*/\S{0,80})"
    r"(?: (?:is|was|of|by|be|to|at|the|now|still))*[\s\"'=:\\(<`\[]{0,8}$"
)
_SECRET_HEX = re.compile(r"(?i)(?:password|passwd|secret|token|credential|api[_-]?key)\w*[\s\"'=:]{0,6}$")
_LOOK_BACK = 140  # characters before a hex string that may say what it is

_ANYWHERE = 16  # shortest random string that counts in any context
_HEX_UNQUOTED, _HEX_QUOTED = 24, 16  # digits of a key
_HEX_VARIETY = 7  # different ones among them
_IN_CONTEXT = 8  # shortest random string next to a word for secrets


def random_segments(text: str) -> list[str]:
    """The parts of `text` that look random: upper and lower case and digits, and hardly a word."""
    text = _MANGLED.sub(" ", text)
    mixed = [part for part in _SEGMENT.findall(text) if len(part) >= _ANYWHERE and _has_all(part)]
    base64 = [part for part in _BASE64.findall(text) if _has_all(part) and not _is_path(part)]
    lower = [part for part in _LOWER.findall(text) if len(_CHANGE.findall(part)) >= _CHANGES_ALONE]
    return [part for part in (*mixed, *base64, *lower) if _is_wordless(part)]


def hex_keys(text: str) -> Iterator[tuple[str, str]]:
    """(kind, value) of the hex strings in `text` that are not known to be checksums or commits."""
    for match in _HEX.finditer(text):
        value = match[0]
        before = text[max(0, match.start() - _LOOK_BACK) : match.start()]
        quoted = before.endswith(("'", '"')) and text[match.end() : match.end() + 1] in ("'", '"', "\\")
        shortest = _HEX_QUOTED if quoted else _HEX_UNQUOTED
        if len(value) < shortest or value.isdigit() or value.isalpha() or len(set(value)) < _HEX_VARIETY:
            continue
        if _SECRET_HEX.search(before) or not (_PUBLIC_HEX.search(before) or _HASHED_FILE.match(text, match.end())):
            yield "string of hex digits", value


def is_compilers(text: str) -> bool:
    """Whether `text` has a form that compilers write: a cache key, mangled name, checksum or address."""
    return bool(_COMPILERS.fullmatch(text) or _KERNEL.fullmatch(text))


def is_cache_key(text: str) -> bool:
    """Whether `text` has the form of a compiler's cache key."""
    return _CACHE_KEY.fullmatch(text) is not None


def is_random(value: str) -> bool:
    """Whether `value` counts as random where a secret is likely: letters and digits, and hardly a word."""
    plain = "".join(_SEGMENT.findall(value))
    mixed = any(map(str.isalpha, plain)) and sum(map(str.isdigit, plain)) >= 2
    return len(plain) >= _IN_CONTEXT and mixed and (_share(plain) >= _RANDOM or len(_CHANGE.findall(plain)) >= _CHANGES)


def _is_path(text: str) -> bool:
    """Whether possible base64 is a path, perhaps with a commit in it."""
    parts = text.split("/")
    return len(parts) - 1 > len(text) / 8 or any(len(part) >= _ANYWHERE and is_compilers(part) for part in parts)


def _has_all(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isupper, text)) and any(map(str.islower, text))


def _is_wordless(text: str) -> bool:
    if is_compilers(text):
        return False
    share, turns = _share(text), len(_TURN.findall(text)) / len(text)
    if share >= (_RANDOM_LONG if len(text) >= _LONG else _RANDOM):
        return True
    return len(text) >= _IN_TURNS and share >= _RANDOM_IN_TURNS and turns >= _TURNS


def _share(text: str) -> float:
    """The share of characters that belong to no word."""
    turning = len(_TURN.findall(text)) >= _TURNS_OF_WORDS * len(text)  # otherwise abbreviations count as words, too
    words = (
        len(match[0])
        for match in _WORD.finditer(text)
        if not turning or match[0].isupper() or not _UNSPEAKABLE.search(match[0])
    )
    return 1 - sum(words) / len(text)
