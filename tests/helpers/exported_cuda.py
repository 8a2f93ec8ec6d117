"""A stand-in for an exported program of CUDA: one of the CPU, with the names of its devices in the file changed."""

import io
import zipfile
from pathlib import Path

_SWAPS = (
    (b'{"type": "cpu", "index": null}', b'{"type": "cuda", "index": 0}'),
    (b'{"as_string": "cpu"}', b'{"as_string": "cuda"}'),
)


def as_of_cuda(source: Path, target: Path) -> Path:
    """Write the program in `source` to `target` as it would be if its tensors had been on ``cuda:0``."""
    target.write_bytes(_archive(source.read_bytes()))
    return target


def _archive(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, _record(name, old.read(name)))
    return out.getvalue()


def _record(name: str, data: bytes) -> bytes:
    if data.startswith(b"PK\3\4"):
        return _archive(data)
    if name.endswith("data.pkl"):
        return data.replace(b"X\3\0\0\0cpu", b"X\6\0\0\0cuda:0")
    if name.endswith(".json"):
        for cpu, cuda in _SWAPS:
            data = data.replace(cpu, cuda)
    return data
