"""Replace directories of this machine, and names of files that are private, by tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from repro_kit.bundle.privacy.addresses import private_leaves
from repro_kit.bundle.privacy.credential_patterns import is_compilers
from repro_kit.bundle.privacy.encodings_of_value import spellings

_CODE = re.compile(
    r"(?:py|pyc|pyi|pyx|pyd|c|cc|cpp|cxx|cu|cuh|h|hpp|inl|s|S|ll|bc|o|a|so(?:\.\d+)*|dylib|dll|exe|lib|ptx|cubin|hsaco|"
    r"ttir|ttgir|llir|js|ts|css|sh|java|go|rs|whl|egg|pth|lock|repro|kernel|main|best_config|kernel_metadata)"
)
_DATA = re.compile(
    r"(?:csv|tsv|parquet|jsonl?|txt|pkl|pickle|pt|npy|npz|h5|hdf5|arrow|feather|db|sqlite3?|safetensors|bin|ckpt|onnx|gguf|"
    r"zip|gz|tgz|bz2|xz|zst|tar|7z|xlsx?|docx?|pptx?|pdf|png|jpe?g|gif|tiff?|bmp|svg|mp[34]|wav|flac|avi|mov|avro|orc|xml|"
    r"ya?ml|toml|ini|cfg|conf|tfrecord|mat|dat|log|bak|sql|lmdb|mdb|html?|md|rst|ipynb|nii|dcm|las|shp|geojson|pem|key|crt)",
    re.IGNORECASE,
)
_EXTENSION = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,8}){1,2}$")
#: Names of directories and of programs that many machines have.
_COMMON = re.compile(
    r"incl(?:ude)?|lib(?:32|64)?|bin|src|site-packages|dist-packages|share|home|work|data|datasets?|models?|torch|python|cache|"
    r"build|outputs?|logs?|scripts?|tests?|main|train|config|inputs?|checkpoints?|weights|results?|docs|examples?|ninja|"
    r"nvcc|ptxas|cmake|bash|conda|miniconda3|anaconda3|venv|repro|files|artifacts|trace|proj(?:ects?)?|code|repos?"
)
#: Stems of file names that reveal nothing.
_GENERIC = re.compile(
    r"(?:data|dataset|train|test|val|valid|eval|model|weights?|params|state(?:_dict)?|config|settings|env|manifest|run|case|"
    r"inputs?|outputs?|out|log|stdout|stderr|results?|report|readme|index|main|checkpoint|best|last|final|tmp|temp|file|"
    r"requirements|pyproject|setup|story|ablation|redactions|recipe|failure|observe|capture|bundle|license|changelog|"
    r"expected|program|repro|tokenizer|vocab|merges|metrics|labels?|torch|python|\d*)[-_.]?\d{0,3}",
    re.IGNORECASE,
)
_TOOL = re.compile(
    r"(?:python|pip|g\+\+|gcc|c\+\+|clang)[-\d.]*|(?:x86_64|aarch64)-linux-gnu[\w.+-]*|tmp\w{6,8}|torch(?:inductor)?_\w+|\.\w*"
)
_SHORTEST = 4
_SHORTEST_ALONE = 8  # shortest name that is replaced without a directory before it


def parts(leaf: str) -> tuple[str, str]:
    """Stem and extension of `leaf`. An extension is short and begins with a letter."""
    match = _EXTENSION.search(leaf)
    return (leaf[: match.start()], match[0]) if match and match.start() else (leaf, "")


def is_code(leaf: str) -> bool:
    """Whether `leaf` is the name of source code or compiled code."""
    return _CODE.fullmatch(leaf.partition(".")[2]) is not None or _CODE.fullmatch(leaf.rpartition(".")[2]) is not None


def is_data(leaf: str) -> bool:
    """Whether `leaf` has the extension of a data file."""
    return "." in leaf and _DATA.fullmatch(leaf.rpartition(".")[2]) is not None


def is_private(leaf: str) -> bool:
    """Whether `leaf`, the last part of a path outside of the system, may reveal something."""
    stem, extension = parts(leaf)
    if (
        len(stem) < _SHORTEST
        or (extension and is_code(leaf))
        or _TOOL.fullmatch(leaf)
        or _COMMON.fullmatch(leaf.lower())
    ):
        return False
    return not (_GENERIC.fullmatch(stem) or (len(stem) >= 16 and is_compilers(stem)))


def distinctive(leaf: str) -> list[str]:
    """The spellings of a private `leaf` without its directory: the whole name, and the stem if it is not a word."""
    stem, extension = parts(leaf)
    if not is_private(leaf):
        return []
    whole = [leaf] if extension or (len(leaf) >= _SHORTEST_ALONE and not leaf.isidentifier()) else []
    telling = not stem.isidentifier() or re.search(r"\d{4}", stem)
    return [*whole, stem] if extension and telling and len(stem) >= _SHORTEST_ALONE else whole


#: Directories that every machine has, and those of PyTorch's own builds, whose files torch's messages name.
_SHARED = ("/", "/usr", "/usr/local", "/opt", "/tmp", "/var", "/home", "/Users", "/root/.", "C:\\")
_SYSTEMS = re.compile(
    r"/(?!run/media/|var/home/)(usr|lib|lib32|lib64|bin|sbin|etc|proc|sys|dev|tmp|var|run|nix|opt/(conda|venv|python)|torch|Library|System"
    r"|(__w/pytorch/)?pytorch/(aten|c10|torch|caffe2|functorch|third_party|build))/"
)
#: Of these, the directories in which anybody makes others.
_SHARED_BY_ALL = re.compile(r"/(?:(?:var/)?tmp|dev/shm|usr/(?:local|src)|var(?!/folders/))/")
#: Names that many machines have in them. Below those of the second kind all names are a tool's, below a temporary
#: directory somebody's again.
_ANYBODYS = re.compile(
    r"(?:s?bin|etc|games|man|opt|mail|lock|spool|empty|crash|backups|www|html|secrets|cuda|rocm|nvidia|mpi|openmpi|hpcx|ucx|"
    r"apt|dpkg|docker|containerd?|kubelet|jenkins|buildkite\S*|gitlab-runner|postgresql|mysql|app|ray|snap|linux\S*|python|"
    r"pytest-\S+|pip-\S+|uv-\S+|nccl\S*|hsperfdata\S*|systemd\S*|intel\S*|node\S*|gcc\S*|llvm\S*|[a-z0-9]{1,3})[\d.-]*"
)
_TEMPORARY = re.compile(r"tmp\w*")
_TOOLS = re.compile(r"torch\w*|triton\w*|repro-kit\S*|pytest-of-\w+|[a-z]?[a-z2-7]{50,52}")
#: A letter right before a path that does not belong to it: an escaped line end, a compiler's flag; a scheme.
_GLUED = r"(?<=\\[nrt])|(?<=[\s'\"]-[A-Za-z])|(?<=-isystem)|(?<=\bdbfs:)"
_NAME = r"[\w.+@%=~-]+"
#: The directory of an absolute path, but not of a URL or after a token.
_DIRECTORY = re.compile(
    rf"(?:(?<![\w.<>/:\\~*)\]-])|{_GLUED})(?<!&gt;)(?:/{_NAME})+/(?=[\w.+@%=~-])"
    rf"|(?:(?<!\w)|{_GLUED})[A-Z]:\\{{1,2}}(?:[A-Za-z][\w.+@%~ -]+\\{{1,2}})+(?=\w)"
    rf"|(?:(?<!\w)|{_GLUED})[A-Za-z]:/(?:{_NAME}/)+(?=\w)"
)
_INSTALLED = re.compile(r"/(?=(?:lib/python\d|site-packages/|dist-packages/))")
_LEAF = re.compile(r"[\w.+@%=~-]*[\w+@%=~-]")
#: The path below a replaced directory, or below one that any user may write to.
_BELOW = re.compile(
    rf"(?P<base><(?:cwd|repo|home|code-\d+|dir-\d+)>|"
    rf"(?:(?<![\w.<>/:\\~*)\]-])|{_GLUED})(?<!&gt;)(?:~[\w-]*|/(?:var/)?tmp|/dev/shm|/var|/run|/usr/local)|\bdbfs:)"
    rf"(?P<separator>/|\\{{1,2}})(?P<within>(?:{_NAME}(?P=separator))*)(?P<leaf>{_LEAF.pattern})"
)
_WRITABLE = re.compile(r"/(?:(?:var/)?tmp|dev/shm|var|run)/")
#: Directories whose paths may be shown: the case, and the interpreter's environment.
_SHOWN = ("<case>", "<env>")
#: A path with a space, whose end is known only inside quotes.
_QUOTED = re.compile(
    r"(?<=['\"])(?:/|~/|[A-Za-z]:[\\/]{1,2})(?=[^'\"\n]* )\w[^'\"\n<>|*?]*"
    r"[/\\][^'\"\n<>|*?/\\]+\.\w{1,8}(?=\\*['\"])"
)


class Paths:
    """Replaces known directories by their tokens, others by ``<dir-N>``, and file names by ``<file-N>``.

    `pairs` are the (path, token) pairs of the known directories. Call `learn` with every text first: the name of a
    data file is then replaced without its path, too.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        token_of: dict[str, str] = {}
        for path, token in pairs:
            plain = path.rstrip("/\\")
            if plain and plain not in _SHARED:
                for spelt in spellings(plain):
                    token_of.setdefault(spelt, token)
        ordered = sorted(token_of, key=len, reverse=True)  # the longest path first
        self._known = [
            (path, re.compile(rf"(?:(?<![\w.-])|{_GLUED}){re.escape(path)}(?![\w-]|\.\w)"), token_of[path])
            for path in ordered
        ]
        self._tokens = set(token_of.values())
        self._others: dict[str, str] = {}
        self._files: dict[str, str] = {}  # tokens by stem
        self._alone: set[str] = set()  # names that are also replaced without their directories
        self._pattern = re.compile(r"(?!)")

    def what(self, token: str) -> str:
        """What `token` stands for, in words; empty if the token is not ours."""
        if token.startswith("<file-"):
            return "name of a file"
        return "directory" if token in self._tokens or token.startswith("<dir-") else ""

    def learn(self, text: str) -> None:
        """Remember the names of data files in the paths of `text`: they are private without their paths, too."""
        leaves = [*private_leaves(text), *self._leaves_of_paths(text)]
        names = {spelling for leaf in leaves for spelling in distinctive(leaf)} - self._alone
        if names:
            self._alone |= names
            ordered = "|".join(map(re.escape, sorted(self._alone, key=len, reverse=True)))
            self._pattern = re.compile(rf"(?:(?<![\w.-])|(?<=\\[nrt]))(?:{ordered})(?![\w-])")

    def _leaves_of_paths(self, text: str) -> Iterator[str]:
        for match in _DIRECTORY.finditer(text):
            directory, leaf = match[0], _LEAF.match(text, match.end())
            shown = any(token in _SHOWN and pattern.match(directory) for _, pattern, token in self._known)
            if not leaf or shown or _INSTALLED.search(directory):
                continue
            if not _SYSTEMS.match(directory) or (_WRITABLE.match(directory) and is_data(leaf[0])):
                yield leaf[0]
        yield from (match["leaf"] for match in _BELOW.finditer(text) if not match["base"].startswith("/"))
        yield from (re.split(r"[/\\]", match[0])[-1] for match in _QUOTED.finditer(text))

    def replace(self, text: str, tokens: Counter[str]) -> str:
        """`text` with tokens for directories and files, counted in `tokens`."""
        text = _QUOTED.sub(lambda match: self._spaced(match[0], tokens), text)
        for path, pattern, token in self._known:
            text, done = pattern.subn(token, text) if path in text else (text, 0)  # the pattern is slow
            tokens[token] += done
        text = _DIRECTORY.sub(lambda match: self._other(match[0], tokens), text)
        text = _BELOW.sub(lambda match: self._below(match, tokens), text)
        text = self._pattern.sub(lambda match: self._file(match[0], tokens), text)
        for token in [token for token in tokens if not tokens[token]]:
            del tokens[token]
        return text

    def _other(self, directory: str, tokens: Counter[str]) -> str:
        if _SYSTEMS.match(directory):
            return self._below_shared(directory, tokens)
        installed = _INSTALLED.search(directory)
        outside = directory[: installed.start()] if installed else directory.rstrip("/\\")
        if not outside:
            return directory
        token = self._directory(outside.replace("\\\\", "\\"), tokens)
        return token + directory[len(outside) :]

    def _below_shared(self, directory: str, tokens: Counter[str]) -> str:
        """A directory of the system, without what somebody made in one that is open to all."""
        shared, installed = _SHARED_BY_ALL.match(directory), _INSTALLED.search(directory)
        end = installed.start() if installed else len(directory) - 1
        for name in re.compile(r"[^/]+").finditer(directory, shared.end(), end) if shared else ():
            if _TOOLS.fullmatch(name[0]):
                break
            if _is_somebodys(name[0]) and not _TEMPORARY.fullmatch(name[0]):
                return directory[: name.start()] + self._directory(directory[:end], tokens) + directory[end:]
        return directory

    def _directory(self, path: str, tokens: Counter[str]) -> str:
        token = self._others.setdefault(path, f"<dir-{len(self._others) + 1}>")
        tokens[token] += 1
        return token

    def _spaced(self, path: str, tokens: Counter[str]) -> str:
        """Replace a quoted path with spaces, whose parts would otherwise look like separate paths."""
        if any(pattern.match(path) for _, pattern, _ in self._known) and " " not in re.split(r"[/\\]", path)[-1]:
            return path
        directory, _, leaf = path.replace("\\\\", "\\").replace("\\", "/").rpartition("/")
        if _SYSTEMS.match(f"{directory}/"):
            return path
        return f"{self._directory(directory, tokens)}/{self._file(leaf, tokens) if is_private(leaf) else leaf}"

    def _below(self, match: re.Match[str], tokens: Counter[str]) -> str:
        base, within, leaf = match["base"], match["within"], match["leaf"]
        if _INSTALLED.search(f"/{within}") or "torchinductor" in within:
            return match[0]
        anybodys = base.startswith("/")
        if is_private(leaf) and (is_data(leaf) or not anybodys):
            return base + match["separator"] + self._file(leaf, tokens)
        ends = not within or match.string.startswith("/", match.end())  # below a shared one, only what is a directory
        above = any(_TOOLS.fullmatch(name) for name in (*within.split("/"), leaf)) or _TEMPORARY.fullmatch(leaf)
        if anybodys and ends and not above and "." not in leaf and _is_somebodys(leaf):
            return base + match["separator"] + within + self._directory(f"{base}/{within}{leaf}", tokens)
        if within and not anybodys and is_data(leaf):  # a common name in directories that may reveal something
            return base + match["separator"] + self._file(within + leaf, tokens)
        return match[0]

    def _file(self, name: str, tokens: Counter[str]) -> str:
        stem, extension = parts(name)
        token = self._files.setdefault(stem, f"<file-{len(self._files) + 1}>")
        tokens[token] += 1
        return token + extension


def _is_somebodys(name: str) -> bool:
    """Whether `name`, of a directory in one that is open to all, may reveal something."""
    return is_private(name) and _ANYBODYS.fullmatch(name) is None
