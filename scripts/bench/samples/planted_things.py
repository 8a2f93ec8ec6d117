"""Private things in a user's files, in what they print and in the paths there, each an invented word."""

from __future__ import annotations

#: Of the script and its module: what nobody gets without a yes. The first ones are secrets, which go even then.
SECRETS = ("plover-4471", "Gannet!83", "tern-bishop-9", "Kittiwake77#", "avocet-lantern-3", "curlew.9431")
SOURCE = (
    "fulmar",
    "gadwall",
    "wigeon",
    "pochard",
    "garganey",
    "smewpond",
    "whimbrel",
    "godwit",
    "dunlin",
    "pelicanstore",
)
SCRIPT = '''"""The fulmar forecast, for the board of gadwall."""
import torch
import pelicanstore

db_pass = "plover-4471"
LOGIN = {"user": "u", "pass": "Gannet!83"}
URL = "postgres://etl:tern-bishop-9@db/x"  # the password of the box is Kittiwake77#
# curl -u etl:avocet-lantern-3 https://x


class wigeonHead(torch.nn.Module):
    """Trained on pochard."""

    def score_garganey(self, x):
        # as smewpond does it
        return x * pelicanstore.SCALE


print("whimbrel starts")
os_environ = dict(SMTP_PASS="curlew.9431")
raise RuntimeError("godwit")
'''
#: Of the definitions that a program takes along.
OPERATOR = ("bitternfield", "egretworks", "heronpass", "spoonbillco", "ibisdata", "storkmind", "craneway", "shelduckia")
DEFINITIONS = '''# for bitternfield
@torch.library.custom_op("mine::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    """Scales as egretworks wants."""
    # heronpass measured it
    return x * 2  # spoonbillco


@scale.register_fake
def _(x):
    """ibisdata"""
    return torch.empty_like(x)


class Holder:
    """Holds what storkmind sends."""

    value = 1
    "craneway"
    # shelduckia
'''
PROGRAM = f"""# repro-kit program 1
import torch

RECIPE = {{}}


{DEFINITIONS}

def graph(x):
    scale = torch.ops.mine.scale(x)
    return (scale,)


def calls():
    x = torch.randn(4)
    return [(x,)]
"""
MODULE = f"import torch\n# {SOURCE[8]} wants 3\nSCALE = 3\n{DEFINITIONS}"

#: Of the message: sentences, commands and paths, and the words in them.
MESSAGES = {
    "the password of the staging box is {}": "merganser6",
    "login etl password {} and retry": "Shoveler!44",
    "FTP_PASS={} was set": "teal-harbour-2",
    "ran mysql -uetl -p{} db": "goldeneye91",
    "ran sshpass -p {} ssh etl@db": "Scoter#2207",
    "ran redis-cli -a {} ping": "eiderdown55",
    '{{"pass": "{}"}}': "razorbill8x",
    "ran docker login -u etl -p {} reg": "guillemot-7",
    "ran unzip -P {} a.zip": "puffin$4410",
    "use {} as the passphrase": "skua-meadow-11",
    "ran curl -u etl:{} https://x": "Petrel99x",
    "the PIN of the token is {}": "730914",
    "cache in /tmp/{}/x.bin": "turnstone-cache",
    "read /usr/local/{}/a.csv": "lapwingsoft",
    "wrote /var/lib/{}/b.pt": "snipefield",
    "mapped /dev/shm/{}/c": "sanderling-run",
    "from dbfs:/mnt/{}/d.parquet": "dotterel-lake",
    "TORCHINDUCTOR_CACHE_DIR=/tmp/{}": "phalarope-builds",
    "below /srv/{}/e": "ruffstore",
    "from /data/{}/f.csv": "knotfarm",
}
MESSAGE = "\n".join(text.format(word) for text, word in MESSAGES.items())
TOLD = tuple(MESSAGES.values())
