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

_SENTENCES = (
    "the password of the staging box is {s}",
    "The password for {u} on {h} was changed to {s} last week.",
    "login {u} password {s}",
    "log in as {u} with password {s} and restart the job",
    "Use {s} as the passphrase for the key.",
    "my PIN is {n}, please do not share it",
    "pw: {s} (ask {u} if it does not work)",
    "The credentials are {u} / {s}.",
    "creds for the lab machine: {u}:{s}",
    "username {u} and password {s} worked yesterday",
    "the root password, as we agreed, is {s}",
    "the vault's passphrase is still {s}; rotate it",
    "you can unlock the notebook with {s}",
    "{s} is the password of the shared account",
    "Password: {s}",
    "enter password '{s}' when it asks",
    'type "{s}" as the password',
    "the wifi password is {s} but the VPN needs another one",
    "It says access denied, although the password ({s}) is right.",
    "the api key of our tenant is {s}, so the download works",
    "We set the admin password to {s} on all nodes.",
    "ssh {u}@{h}, password {s}, then run train.py",
    "I had to connect with user {u}, password {s}, to reproduce this.",
    "the db creds ({u}/{s}) are in the script",
    "passphrase => {s}",
    "The secret key for the bucket is {s}",
    "sign in with {u} and {s} as your password",
    "the password remains {s} until Friday",
    "Our password for the registry has been {s} since March.",
    "the PIN code of the token is {n}",
    # variations in order and in length
    "To reach the box you need a password, which is {s}, and a token.",
    "Reset the password from {s} to something better.",
    "If it asks for the password of {u}, give {s}.",
    "password for {h} = {s}",
    "the access token for the mirror is {s}, it expires soon",
    "Please keep {s} as our passcode.",
    "they gave me {s} for the password",
    "The login is {u} and the password is {s}.",
    "our jenkins account has the password {s}",
    "Wrong password! Expected {s}, got nothing.",
    "the keystore's password: {s}, see the wiki",
    "the password - {s} - is the same on all nodes",
    "I typed {s} as my password and it failed",
    "decrypt it with {s} first",
    "credentials: user {u}, password {s}",
    "user: {u}, pass: {s}, host: {h}",
    "Since Monday the password of the cluster is no longer the old one but {s}",
)
_COMMANDS = (
    "curl -u {u}:{s} https://{h}/data.bin -o data.bin",
    "curl --user '{u}:{s}' ftp://{h}/",
    "mysql -h {h} -u {u} -p{s} metrics",
    "mysqldump --password={s} metrics > dump.sql",
    "sshpass -p {s} ssh {u}@{h} hostname",
    "sshpass -p'{s}' scp model.pt {u}@{h}:",
    "redis-cli -h {h} -a {s} ping",
    "docker login -u {u} -p {s} {h}",
    "unzip -P {s} weights.zip",
    "PGPASSWORD={s} psql -U {u} -h {h} metrics",
    "openssl enc -d -aes-256-cbc -in a.enc -passin pass:{s}",
    "ldapsearch -x -D cn={u} -w {s} -b dc=x",
    "smbclient //{h}/share -U {u}%{s}",
    "wget --user={u} --password={s} https://{h}/a.tar",
    "lftp -u {u},{s} {h}",
    "wget ftp://{u}:{s}@{h}/a.tar",
    "mongo --host {h} -u {u} -p {s} admin",
    "rabbitmqadmin -u {u} -p {s} list queues",
    'ansible-playbook site.yml --extra-vars "ansible_password={s}"',
    "htpasswd -b /etc/nginx/users {u} {s}",
    "7z x -p{s} weights.7z",
    "zip -r -P {s} out.zip runs",
    "keytool -list -keystore a.jks -storepass {s}",
    "sqlplus {u}/{s}@orcl",
    "bcp metrics out a.csv -S {h} -U {u} -P {s}",
    "sqlcmd -S {h} -U {u} -P '{s}' -Q 'select 1'",
    "net use Z: \\\\{h}\\share {s} /user:{u}",
    "SSHPASS={s} sshpass -e ssh {u}@{h}",
    "echo {s} | kinit {u}",
    "gpg --batch --passphrase {s} -d a.gpg",
    "rclone config create r sftp user {u} pass {s}",
    "aws configure set aws_secret_access_key {s}",
    "az login -u {u} -p {s}",
    "gcloud sql users set-password {u} --password={s}",
    "helm install web chart --set auth.password={s}",
    "kubectl create secret generic db --from-literal=password={s}",
    "kubectl create secret docker-registry r --docker-password={s}",
    "export SMTP_PASS={s}",
    "FTP_PW={s} python fetch.py",
    '{{"user": "{u}", "pass": "{s}"}}',
    '{{"dbPassword": "{s}", "port": 5432}}',
    "db_pass = {s}",
    "sudo mount -t cifs //{h}/x /mnt -o username={u},password={s}",
    "echo '{s}' | sudo -S reboot",
    "echo {s} | docker login --username {u} --password-stdin",
    "echo '{u}:{s}' | chpasswd",
    "ALTER USER {u} WITH PASSWORD '{s}';",
    "CREATE USER {u} IDENTIFIED BY '{s}';",
    "svn checkout --username {u} --password {s} https://{h}/x",
    'expect -c \'spawn ssh {u}@{h}; expect "assword:"; send "{s}\\r"\'',
    "java -Djavax.net.ssl.keyStorePassword={s} -jar a.jar",
    "nmcli dev wifi connect lab password {s}",
    "restic -r /srv/backup --password-command 'echo {s}' snapshots",
    "cqlsh {h} -u {u} -p {s}",
    "wget --http-password='{s}' https://{h}/a",
    "machine {h} login {u} password {s}",
    "MYSQL_PWD={s} mysql -u {u} metrics",
    "mongodump --username {u} --password {s} --db x",
    "ipmitool -H {h} -U {u} -P {s} power status",
    "twine upload -u {u} -p {s} dist/*",
    "ansible all -m ping -e ansible_ssh_pass={s}",
)
_HELD_OUT_SENTENCES = (
    "The team lead told me that the VPN password would be {s}.",
    "It stopped working after somebody changed the password, now it is {s}.",
    "I cannot remember whether the password was {s} or something similar.",
    "For the record: the passphrase of the backup is {s}.",
    "hint: the password starts like this: {s}",
    "My colleague {u} uses the password {s} on {h}.",
    "try logging in with {s} as password, user {u}",
    "the credentials for {h} (user {u}, password {s}) are the same as before",
    "ask {u}, or just use the password {s}",
    "default login is {u}/{s}",
    "Your new password is {s}. Change it after the first login.",
    "I protected the archive with the password {s}",
    "the container wants a token: {s}",
    "the encryption key was {s}, which I should not write here",
    "FYI the passcode for the door is {n}",
    "it works once I set the password to {s} in the config",
    "the account {u} has the password {s}, no second factor",
    "our license key is {s}",
    "we all share one password ({s}) for the demo",
    "the old password {s} still works on {h}",
    "remember that {s} is our wifi password",
    "The password of {u} expired, so I took {s} as the new password.",
)
_HELD_OUT_COMMANDS = (
    "svnadmin --auth-password {s} --auth-username {u}",
    "curl -s -u{u}:{s} https://{h}/api",
    "curl -x http://{u}:{s}@{h}:3128 https://pypi.org/simple",
    "mariadb -u{u} -p'{s}' -e 'show tables'",
    'sshpass -p "{s}" rsync -a runs/ {u}@{h}:/srv/x',
    "redis-cli --pass {s} -u redis://{h}",
    "podman login --password {s} --username {u} {h}",
    "7za a -p{s} -mhe=on out.7z runs",
    "unrar x -hp{s} a.rar",
    "openssl pkcs12 -in a.p12 -password pass:{s} -nodes",
    "ldapmodify -x -D uid={u} -w '{s}' -f a.ldif",
    "mount.cifs //{h}/x /mnt -o user={u},pass={s}",
    "ncftpput -u {u} -p {s} {h} . a.bin",
    "mongosh 'mongodb://{u}:{s}@{h}/admin'",
    "rabbitmqctl add_user {u} {s}",
    "htpasswd -nb {u} {s}",
    "keytool -genkeypair -alias x -keypass {s} -storepass {s}",
    "osql -S {h} -U {u} -P {s} -Q 'go'",
    "printf '%s' '{s}' | cryptsetup open /dev/sdb1 x -",
    "echo {s} | sudo --stdin ls",
    "gpg --pinentry-mode loopback --passphrase='{s}' --sign a",
    "rclone obscure {s}",
    "aws configure set default.aws_secret_access_key {s}",
    "az sql server create --admin-user {u} --admin-password {s}",
    "helm registry login {h} -u {u} -p {s}",
    "RCLONE_CONFIG_PASS={s} rclone ls r:",
    "set DB_PASSWORD={s}",
    "$env:API_PASS = '{s}'",
    '{{"credentials": {{"username": "{u}", "password": "{s}"}}}}',
    "smtp_password: {s}",
    "clickhouse-client --host {h} --user {u} --password {s}",
)
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
        known, held_out = ((_SENTENCES, _HELD_OUT_SENTENCES), (_COMMANDS, _HELD_OUT_COMMANDS))[at % 2]
        is_held_out = at // 2 % 3 == 2
        templates = held_out if is_held_out else known
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
)  # fmt: skip
_TRAPS = re.compile(r"(?i)pass\b|passes|pwd|password|token|secret|login|credential|\bpin\b|\bauth|\bkey\b")
_FOLDERS = ("_inductor", "_dynamo", "_functorch", "distributed", "fx", "_export", "nn", "optim")


def harmless(count: int, seed: int) -> list[str]:
    """`count` lines without a secret: of torch's own code, the half with a word that a secret may stand beside.

    The first ones are sentences and commands in which nothing is told, and lines of tracebacks through torch.
    """
    root = Path(find_spec("torch").origin or "").parent
    lines: list[str] = []
    traps: list[str] = []
    frames: list[str] = []
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            name = f"/usr/local/lib/python3.11/site-packages/torch/{path.relative_to(root).as_posix()}"
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if line.strip():
                    (traps if _TRAPS.search(line) else lines).append(line)
                    frames.append(f'  File "{name}", line {number}, in call\n    {line.strip()}')
    chance = random.Random(seed)
    rest = count - len(_NOTHING_TOLD)
    parts = ((frames, rest // 5), (traps, rest * 2 // 5), (lines, rest - rest // 5 - rest * 2 // 5))
    return [*_NOTHING_TOLD, *(line for source, some in parts for line in chance.sample(source, some))]
