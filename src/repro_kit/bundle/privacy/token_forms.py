"""Patterns for keys and tokens that services issue.

The secret is the group of that name in the pattern, else the whole match. A form with a long, distinctive prefix is
also found inside words; a form with a short prefix only at the start of a word.
"""

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
