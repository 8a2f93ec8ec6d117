"""Find secrets in settings, headers, command lines, and code of any language."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

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
    r"(?i)pass|pswd|pwd|pw\b|psk|cred|secret|token|key|kennwort|auth|log_?in|sign_?in|cookie|%3A|^[\w.*-]+:(?:\d|\*)",
    re.M,
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
        rf"\b(?:setx|setenv|set(?=\s+-)|(?:Set-Item|si)\s+env:|config(?::|\s+)set|secrets?\s+set|user-secrets\s+set)(?:\s+--?\w+)*"
        rf"\s*[\"']?{_NAME}[\"']?\s+{_PERHAPS_QUOTED}",
        # What a parser of arguments says of a value that it refuses: argparse, and click.
        rf"\bargument\s+(?:-\w/)?--?(?:[\w-]*[_-])?{_SAYS}:\s+invalid [^:\n]{{1,40}}:\s+{_PERHAPS_QUOTED}",
        rf"\bInvalid value for '[^\n:]*?--(?:[\w-]*[_-])?{_SAYS}':\s+{_PERHAPS_QUOTED}",
        # The value on the next line: a block of YAML, the default of a variable of Terraform.
        rf"^[ \t]*(?:- )?[\"']?{_NAME}[\"']?:[ \t]*[>|][+-]?[ \t]*\r?\n[ \t]+{_BARE}",
        rf"\bvariable\s+\"{_NAME}\"\s*\{{\s*default\s*=\s*{_QUOTED}",
        # XML: an element, and, as in JSON and YAML, the name in one and the value in another field.
        rf"<(?:{_NAME}|pass|pin|token)(?:\s[^<>\n]*)?>(?P<value>[^<>\s]{{4,120}})</",
        rf"\b(?:name|key|id|variable)\\*[\"']?\s*[=:]\s*\\*[\"']?{_NAME}\\*[\"']?,?\s+\\*[\"']?value\\*[\"']?\s*[=:]\s*"
        rf"{_PERHAPS_QUOTED}",
        # A user and a secret.
        rf"\b(?:login|authenticate|log_?in|sign_?in|\w*basic_?auth|\w*digest_?auth)\(\s*{_USER},\s*{_QUOTED}",
        rf"(?<![A-Za-z])(?:login|authenticate|log_in|sign_?in)\([^()\n]{{0,80}}?\b(?:key|token|pin|code)\s*[=:]\s*{_QUOTED}",
        rf"\b(?:auth|credentials?|creds|login)\\*[\"']?\s*[=:]\s*[(\[]\s*{_USER},\s*{_QUOTED}",
        rf"\b(?:auth|credentials?|creds|login|userpwd)\\*[\"']?\s*[=:]\s*\\*[\"']?[\w.@+-]+:{_BARE}",
        r"^[\w.*-]+:(?:\d{2,5}|\*):[\w*.-]+:[\w*.@-]+:(?P<value>[^\s:]{4,})$",  # .pgpass
        r"%3A(?:%2F){2}[\w.%+-]*?%3A(?P<value>(?:(?!%40)[\w.%+-]){4,60})%40",  # a URL within a URL
        # Headers.
        rf"\b(?:x-[\w-]*(?:key|token|auth|secret)[\w-]*|api-?key|private-token|job-token)\\*[\"']?:\s*{_PERHAPS_QUOTED}",
        rf"\bcookie\\*[\"']?:\s*[\w.-]+={_BARE}",
        rf"\b(?:proxy-)?authorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:basic|bearer|digest|token|apikey)\s+{_BARE}",
    )
)  # fmt: skip
#: The name of a field in a multipart form. Its value stands behind an empty line, or both are strings of a list.
_FIELD = rf"(?i)\bform-data;[^\n]*?\bname=\\*[\"']?(?:{_NAME}|(?:[\w.-]*[_-])?(?:pass|token|pin|otp|key|auth))\\*[\"']?"
_IN_FORMS = (
    re.compile(
        rf"{_FIELD}(?:;[^\n]*)?\r?\n(?:[\w-]+:[^\n]*\n)*\s*?\n(?P<value>[^\r\n]{{3,200}}?)(?=\s*(?:\\*[\"'][,)\]}}\s]*)?$)",
        re.MULTILINE,
    ),
    re.compile(
        rf"{_FIELD}[\"'],(?:\s*[bB]?(?:\"\"|''),)*\s*[bB]?(?P<quote>[\"'])(?P<value>[^\"'\n]{{3,200}})(?P=quote)"
    ),
)
#: Values that are names, types, code or marks for a value.
_NO_VALUE = re.compile(
    r"[$%&*<{\[(@/?.-].*|[\w.]*[(\[].*|(?:self|args|cfg|config|os|torch|process|env|settings|options)\..*|[x*.]+|\d{1,3}"
    r"|(?:true|false|none|null|undefined|string|str|bytes|required|optional|file|stdin|prompt|https?)\b.*|\W+",
    re.IGNORECASE,
)


def settings_in(text: str) -> Iterator[str]:
    """The secrets that names in `text` announce."""
    named = (match for lines in lines_about(text, _WORD) for form in _FORMS for match in form.finditer(lines))
    of_forms = (match for form in _IN_FORMS if "form-data" in text for match in form.finditer(text))
    for match in itertools.chain(named, of_forms):
        value = match["value"].rstrip(".,;:!?)")
        if not _NO_VALUE.fullmatch(value):
            yield value


#: A word of a command line, perhaps in quotes.
_SHELL_WORD = r"(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s|;&<>\"'`]+)"
_VALUE = rf"(?P<value>{_SHELL_WORD})"
#: The rest of one command: up to a pipe, the next command or the end of the line.
_REST = re.compile(r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\n|;&])*")
_WORDS = re.compile(r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'])+")


@dataclass(frozen=True)
class _Tool:
    """The options of a tool that hold secrets, each set as a regular expression.

    The value of an option is the next word, or stands behind ``=``. `logins`: a user, a mark and the secret. `joined`:
    the secret stands right behind the option. `within`: a word that must stand before the option.
    """

    values: str = ""
    logins: str = ""
    joined: str = ""
    within: str = ""


_DATABASE = _Tool(values=r"--password\d?", joined="-p")
_MONGO = _Tool(values=r"-p|--password", joined="-p(?=..)")
_ARCHIVE = _Tool(joined=r"-h?p")
_REGISTRY = _Tool(values=r"-p|--password|--registry-password", within="login|push|pull|copy")
_LDAP = _Tool(values=r"-[wasW]|--bindPassword", joined="-w(?=..)")
_SAMBA = _Tool(values=r"--password", logins=r"-U|--user")
_SQL = _Tool(values=r"-P|--password", joined="-P(?=..)")
_TOOLS: dict[str, _Tool] = {
    "curl|curlie": _Tool(values=r"--pass|--proxy-pass|--key-pass", logins=r"-u|--user|-U|--proxy-user", joined=""),
    "http|https|xh": _Tool(logins=r"-a|--auth"),
    "wget|wget2|aria2c|axel": _Tool(values=r"--(?:http-|ftp-|proxy-)?passw(?:or)?d"),
    "mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb|mariadb-dump|mycli|xtrabackup": _DATABASE,
    "sshpass": _Tool(values="-p", joined="-p"),
    "redis-cli|valkey-cli|redis-benchmark": _Tool(values=r"-a|--pass"),
    "docker|podman|nerdctl|oras|crane|helm|az|oc|cf|npm|heroku|ibmcloud|argocd|snowsql|vault": _REGISTRY,
    "unzip|zip|zipcloak|funzip": _Tool(values="-P|--password", joined="-P(?=..)"),
    "7z|7za|7zr|7zz|rar|unrar": _ARCHIVE,
    "openssl": _Tool(values=r"-(?:pass|passin|passout|k|K|password)"),
    "ldapsearch|ldapadd|ldapmodify|ldapdelete|ldappasswd|ldapwhoami|ldapcompare": _LDAP,
    "smbclient|smbget|rpcclient|smbmap|net|nmblookup|smbcacls|winexe": _SAMBA,
    "lftp|lftpget|ftp|ncftp|ncftpget|ncftpput|sftp|cadaver": _Tool(values=r"-p|--password", logins=r"-u|--user"),
    "mongo|mongosh|mongodump|mongorestore|mongoimport|mongoexport|mongostat": _MONGO,
    "rabbitmqadmin|rabbitmqctl|cqlsh|evil-winrm|rdesktop|twine|cbq|couchbase-cli|hydra|crackmapexec|nxc": _MONGO,
    "sqlcmd|bcp|osql|isql|tsql|freebcp|ipmitool|mosquitto_pub|mosquitto_sub|xsos|vncviewer": _SQL,
    "keytool|jarsigner|apksigner": _Tool(values=r"-(?:src|dest)?(?:store|key)pass|-new|--?ks-pass|--?key-pass"),
    "gpg|gpg2|gpgsm": _Tool(values=r"--passphrase"),
    "useradd|usermod|steghide|stegseek|pdfcrack|fcrackzip": _Tool(values=r"-p|--password"),
    "ssh-keygen": _Tool(values=r"-[NP]"),
    "pdftotext|pdftoppm|pdfinfo|pdfimages|pdftocairo": _Tool(values=r"-[uo]pw"),
    "x11vnc|sendemail|sendEmail": _Tool(values=r"-passwd|-viewpasswd|-xp"),
    "swaks": _Tool(values=r"-ap|--auth-password"),
    "ccrypt|ccat|ccdecrypt|mcrypt|mdecrypt": _Tool(values=r"-[Kk]|--key", joined=r"-[Kk](?=..)"),
    "arj": _Tool(joined=r"-g"),
    "mutool": _Tool(values="-p"),
    "dsconf|dsidm|dsctl|kadmin|kadmin.local|security": _Tool(values=r"-w|-W|-pw", joined=r"-w(?=..)"),
    "doctl|kaggle|tailscale|netlify|hatch|flyctl|surge|vercel": _Tool(values=r"-[tva]|--auth(?:-?key)?|--token"),
    "ab|nikto|sqlmap|testssl|testssl.sh|wfuzz|gobuster|ffuf": _Tool(
        logins=r"-A|-P|-id|--(?:basic-?)?auth(?:-cred)?|--basic"
    ),
    "p4|mssql-cli|usql": _Tool(values="-P|--password", joined="-P(?=..)"),
    "psexec|PsExec|PsExec64|paexec|schtasks": _Tool(values="-p|/rp|/p"),
    "etcdctl|skopeo|buildah|crictl": _Tool(logins=r"--user|--(?:src-|dest-)?creds"),
    "snmpwalk|snmpget|snmpset|snmpbulkwalk": _Tool(values="-[AXc]"),
    "clickhouse-client|clickhouse|influx|cypher-shell|impala-shell|beeline|trino|presto": _Tool(
        values=r"--?password|-p|-w"
    ),
    "kubectl|gcloud|rclone|svn|hg|restic|borg|duplicity|pg_restore|psql|mvn|gradle|nmcli|pwsh|terraform": _Tool(
        values=r"--?(?:docker-|root-|admin-)?password"
    ),
}
_TOOL_OF = {name: tool for names, tool in _TOOLS.items() for name in names.split("|")}
_NAMES = re.compile(rf"(?<![\w./-])(?:[\w./~-]*/)?(?P<name>{'|'.join(map(re.escape, _TOOL_OF))})(?:\.exe)?(?=[ \t])")

#: The last part of an option or a name that says what it holds.
_SECRET = r"(?:pass(?:word|wd|phrase|code)?|passwort|pwd|pw|(?:store|key|user)pass|secret|passin|passout)"
#: What stands for a secret, or says where it is.
_SERVICE = (
    "db|ftp|smtp|mail|imap|user|admin|root|my|pg|sql|mysql|redis|mongo|ldap|http|proxy|basic|auth|login|service|svc"
    "|app|vpn|"
    "wifi|ssh|sudo|become|ansible|key|trust|store|cert|bot|svn|git"
)
#: In the name of a pass that no user types.
_OF_COMPILERS = r"[\w.-]*(?:grad|custom|graph|fusion|joint|fx|opt|compil|induct|pre_|post_|lower)"
_NO_SHELL_VALUE = re.compile(
    r"[$%&*<{\[(.@:/?-].*|(?:file|env|fd|stdin|prompt|ask|none|null|true|false|yes|no|null)\b.*|[x*.]+|\d{1,3}|\W+",
    re.IGNORECASE,
)
_CODE = re.compile(r"[\w.]*[(\[].*|(?:self|args|cfg|config|os|torch|getpass|options|settings)\..*")
#: Patterns for what no option names; the secret is ``value``.
_SHELL_FORMS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # Options of any tool, of a list of arguments and of Windows.
        rf"(?i)(?<![\w-])--?(?:[a-z0-9]+[-_.])*{_SECRET}\d?(?:=|[ \t]+|:(?!//)){_VALUE}",
        rf"(?i)(?<![\w-])-D[\w.-]*(?:{_SECRET}|login|token)={_VALUE}",
        rf"(?i)(?<![\w/])/(?:p|pass|password|pw):{_VALUE}",
        # A user and a secret, of any tool; what is a number is a port.
        rf"[ \t](?:-[uUl]|--(?:user(?:name)?|login))(?:=|[ \t]+)[^\s|;&]+(?:[ \t]+[^\n|;&]*?)?[ \t]-[pP][ \t]+"
        rf"(?!\d+\b)(?!-){_VALUE}",
        # Variables and settings.
        rf"\b(?:[A-Z][A-Z0-9]*_)*(?:[A-Z0-9]*PASS(?:WORD|WD|PHRASE|CODE)?|PWD?|PSW|[A-Z0-9]+_AUTH"
        rf"|REDISCLI_AUTH)\d?[ ]?=[ ]?{_VALUE}",
        rf"(?i)\b(?:[\w.-]*(?:password|passwd|passphrase|passwort)|{_SECRET})=(?!=){_VALUE}",
        rf"(?i)(?<![a-z])(?:{_SERVICE})[_.-]?(?:pass|pw|pwd)[ ]?[=:][ ]?{_VALUE}",
        rf"(?i)(?P<quote>\\*[\"'])(?:(?:{_SERVICE})?[_.-]?(?:pass|pw|pwd|pin|auth|creds?)|(?!{_OF_COMPILERS})[\w.-]+[_.-]pass|[\w.-]*(?:(?<=[a-z])"
        rf"(?-i:Pass|Pwd|Pw)|password|passwd|passphrase|passcode))"
        r"(?P=quote)\s*(?::|=>|,)\s*(?P=quote)(?P<value>[^\"'\\\n]{3,})(?P=quote)",
        r"\b\w*[a-z](?:Pass|Pswd|Pwd|Pw|Password|Passphrase)[ ]?[=:][ ]?" + _VALUE,
        # Pipes into what asks for a password.
        rf"\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*(?:[\"']%s(?:\\n|\n)?[\"'][ \t]+)?{_VALUE}[ \t]*\|"
        r"[ \t]*(?:sudo[ \t]+-S|"
        r"(?:sudo[ \t]+)?(?:kinit|passwd|su|cryptsetup|openconnect|gpg2?|rclone|vpnc|ecryptfs\S*)\b|"
        r"[^|\n]*(?:stdin|-S\b|/dev/stdin|--passphrase-fd|passwd\b|\blogin\b|\bauth\b|--with-token))",
        rf"\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*(?:[\"']%s(?:\\n|\n)?[\"'][ \t]+)?{_VALUE}[ \t]*>>?[ \t]*"
        r"[^\s|;&]*(?i:pass|secret|token|cred|\.key|netrc)[^\s|;&]*",
        rf"<<<[ \t]*{_VALUE}",
        r"(?i:pass|auth|secret|token|login|key)[^\s|;&]*[= \t]<\([ \t]*(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*[\"']?"
        r"(?:[\w.@-]+\\n)?(?P<value>[^\s\"')\\]+)",
        r"[ \t:](?:remote|local)?pass=(?P<value>[^\s\"';&|]+)",
        rf"\b(?:mkpasswd|bw[ \t]+unlock|bw[ \t]+login[ \t]+\S+|upwd[ \t]+[\w.-]+|add-authtoken)[ \t]+"
        rf"(?:--?[\w-]+[ \t]+(?:(?:sha|md|bcrypt|des|yescrypt)\S*[ \t]+)?)*(?!-){_VALUE}",
        rf"\bqpdf\b[^\n|;&]*?--encrypt[ \t]+(?!-){_VALUE}",
        r"\b(?:create_superuser|create_user)\((?:[^()\n]*?,)?\s*(?P<value>\"[^\"\n]+\"|'[^'\n]+')\s*\)",
        r"\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*[\"']?[\w.-]+:(?P<value>[^\s\"'|]+)[\"']?[ \t]*\|[^|\n]*chpasswd",
        r"-command[= \t]+[\"']?(?:echo|printf)[ \t]+(?P<value>[^\s\"']+)",
        # Words by their place.
        rf"\bhtpasswd[ \t]+(?=(?:-\w+[ \t]+)*-\w*b)(?:[^\s|;&]+[ \t]+)+{_VALUE}(?=[ \t]*(?:$|[|;&>\"'`)]))",
        rf"\bhtpasswd[ \t]+(?=(?:-\w+[ \t]+)*-\w*b)(?:-\w+[ \t]+)+(?:[\w./-]+[ \t]+){{1,2}}{_VALUE}",
        rf"\bnet[ \t]+use[ \t]+(?:[A-Za-z]:[ \t]+)?\S+[ \t]+(?!/){_VALUE}",
        rf"\bnet[ \t]+use\b[^\n|;&]*/user:\S+[ \t]+(?!/){_VALUE}",
        rf"\bnet(?:\.exe)?[ \t]+user[ \t]+[\w.-]+[ \t]+(?!/){_VALUE}",
        r"\b(?:sqlplus|sqlldr|expdp|impdp|exp|imp|rman|tnsping|sqlcl|sql)[ \t]+(?:-\S+[ \t]+)*(?:userid="
        r"|target[ \t]+)?[\"']?[\w$#.-]+/(?P<value>[^\s\"']+(?=@)|[^\s\"'@]+)",
        rf"\b(?:add_user|change_password|authenticate_user)[ \t]+[\w.-]+[ \t]+{_VALUE}",
        rf"\brclone[ \t]+(?:obscure|reveal)[ \t]+{_VALUE}|\brclone[ \t]+config\b[^\n|;&]*?\bpass[ \t]+"
        rf"(?P<second>{_SHELL_WORD})",
        rf"\bconfigure[ \t]+set[ \t]+[\w.]*(?:secret|token|key|password)[\w.]*[ \t]+{_VALUE}",
        rf"\bconfig\w*[ \t]+(?:--)?set[ \t]+\S*(?i:secret|token|password|passwd|pass)\S*[ \t]+{_VALUE}",
        rf"\bconfig\w*[ \t]+(?:create|update|add|edit)\b[^\n|;&]*?[ \t][\w.-]*(?i:secret|token|passwd"
        rf"|password|secret_\w*key|api_?key)[ \t=]+{_VALUE}",
        rf"\b(?:alias[ \t]+set|config[ \t]+host[ \t]+add)[ \t]+\S+[ \t]+\S+[ \t]+\S+[ \t]+{_VALUE}",
        rf"\b(?:mysqladmin|pdftk|nmcli|ipmitool|svn|rclone)\b[^\n|;&]*?[ \t](?:password|(?:input|owner|user)_pw"
        rf"|[\w-]+\.psk)[ \t]+{_VALUE}",
        rf"\b(?:keyvault[ \t]+secret|SecureString|secretsmanager|gh[ \t]+secret)\b[^\n|;&]*?[ \t]--?(?:value|body"
        rf"|secret-string)(?:=|[ \t]+){_VALUE}",
        rf"(?i)\bConvertTo-SecureString[ \t]+(?:-String[ \t]+)?{_VALUE}",
        r"\b(?:login|auth)[ \t]+(?:-\S+[ \t]+)*(?P<value>(?=[A-Za-z]*\d)[A-Za-z0-9_-]{6,})"
        r"(?=[ \t]*(?:$|[|;&>\"'`)]))",
        rf"\bhttp-basic\.\S+[ \t]+\S+[ \t]+{_VALUE}|:_(?:authToken|password|auth)(?:=|[ \t]+)(?P<second>{_SHELL_WORD})",
        rf"\bisql[ \t]+(?!-)[\w.-]+[ \t]+(?!-)[\w.-]+[ \t]+(?!-){_VALUE}|\bcf[ \t]+auth[ \t]+\S+[ \t]+"
        rf"(?P<second>{_SHELL_WORD})",
        r"(?:\bmysqlsh\b|--(?:uri|url|dsn|connect))[^\n|;&]*?[= \t][\"']?[\w.+-]+:(?P<value>[^\s:@/\"']+)@",
        rf"--auth-type(?:=|[ \t]+)\w+[^\n|;&]*?[ \t](?:-a|--auth)(?:=|[ \t]+){_VALUE}",
        rf"(?i)(?<!\w)[\w.-]*(?:token|secret)=(?![a-z_]\w*(?:\.[a-z_]\w*)+)(?=\S*[A-Za-z])(?=\S*\d){_VALUE}",
        r"\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*[\"'](?P<value>[^\s\"'\\]{4,})(?:\\n|\n)(?P=value)(?:\\n|\n)?"
        r"[\"'][ \t]*\|",
        r"\bopen\b[^\n|&]*?[ \t]-u[ \t]+[\w.@+-]+,(?P<value>[^\s'\"]+)",
        rf"(?i)\b(?:user(?:name)?|login|host)\b[\"']?[ \t]*[:=][^\n]*\n[ \t]*(?:pass|pw|pwd)[ \t]*[:=][ \t]*{_VALUE}",
        rf"\bwpa_passphrase[ \t]+{_SHELL_WORD}[ \t]+{_VALUE}",
        rf"\b(?:wifi[ \t]+connect|connection)\b[^\n|;&]*[ \t]password[ \t]+{_VALUE}",
        rf"\bvault[ \t]+login[ \t]+(?:-\S+[ \t]+)*{_VALUE}",
        rf"\bsmbclient[ \t]+[\"']?(?://|\\\\)\S+[ \t]+(?!-){_VALUE}",
        r"(?i)\b(?:identified[ \t]+by|with[ \t]+(?:encrypted[ \t]+)?password|password[ \t]*=)[ \t]*"
        r"(?P<value>'[^'\n]+'|\"[^\"\n]+\")",
        rf"\b(?:requirepass|masterauth|AUTH)[ \t]+(?:[a-z]\w*[ \t]+)?{_VALUE}",
        # What `expect` sends after it has waited for a password, and the file .netrc.
        r"(?i)\bexpect\b[^\n]*p?ass(?:word|phrase)[^\n]*[\n;][ \t]*send(?:[ \t]+--?)?[ \t]+\"(?P<value>[^\"\\\n]+)",
        r"(?i)\bpassword:?\*?[\"'}]+[ \t]*(?:\{[ \t]*)?(?:send|exp_send)(?:[ \t]+--?)?[ \t]+[\"']"
        r"(?P<value>[^\"'\\\n]+)",
        r"\bsend[ \t]+(?:--[ \t]+)?\"(?P<value>[^\"\\\s]+)(?:\\[rn]|[\r\n])\"",
        rf"\b(?:machine|default)\b[^\n]*\blogin[ \t]+\S+[ \t]+password[ \t]+{_VALUE}",
        rf"\b(?:ftp|user|USER|login)[ \t]+[\w.@-]+[ \t]+(?:PASS|pass)[ \t]+{_VALUE}",
        rf"^[ \t]*PASS[ \t]+{_VALUE}",
    )
)  # fmt: skip


def commands_in(text: str) -> Iterator[str]:
    """The secrets in the command lines of `text`."""
    for value in _found(text):
        plain = value.strip("\"'`").removeprefix("pass:").removesuffix("\\r").removesuffix("\\n").rstrip(",;)}]'\"`")
        if not (_NO_SHELL_VALUE.fullmatch(plain) or _CODE.fullmatch(plain)):
            yield plain


def _found(text: str) -> Iterator[str]:
    for match in _NAMES.finditer(text):
        rest = _REST.match(text, match.end())
        words = [word[0] for word in _WORDS.finditer(rest[0] if rest else "")]
        yield from _given(words, _TOOL_OF[match["name"]])
    for pattern in _SHELL_FORMS:
        for match in pattern.finditer(text):
            yield match["value"] or match.groupdict().get("second", "")


def _given(words: list[str], tool: _Tool) -> Iterator[str]:
    """The secrets among the `words` after the name of `tool`."""
    if tool.within and not any(re.fullmatch(tool.within, word) for word in words):
        return
    for at, word in enumerate(words):
        option, given, value = word.partition("=")
        value = value if given else next(iter(words[at + 1 :]), "")
        if tool.values and re.fullmatch(tool.values, option):
            yield value
        elif tool.logins and re.fullmatch(tool.logins, option):
            yield from _secret_of_login(value)
        elif tool.joined and (joined := re.match(tool.joined, word)):
            yield word[joined.end() :]
        elif tool.logins and (joined := re.match(r"-[uUa](?=.)", word)) and not word.startswith("--"):
            yield from _secret_of_login(word[joined.end() :])


def _secret_of_login(login: str) -> Iterator[str]:
    parted = re.fullmatch(r"[\"']?(?:[\w.@\\+-]*[\\/])?[\w.@+-]*[:%,](?P<secret>.+)", login)
    if parted:
        yield parted["secret"]
