"""Decide which file names are private: names of data files are; names of code, tools and compiler caches are not."""

from __future__ import annotations

import re

from repro_kit.bundle.privacy.entropy import is_compilers

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
