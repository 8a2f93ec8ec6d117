"""Bundles, archives and files that an attacker may send, for the tests and for the trust bench."""

from __future__ import annotations

import gzip
import io
import json
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums
from repro_kit.bundle.story.story import Story, write_story
from repro_kit.case.stage_results import Environment
from repro_kit.diagnosis.cell import Ablation
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.serialize import dumps, to_data

MIB = 1 << 20
REPRO = "raise ValueError('boom')\n"
_PROGRAM = "# repro-kit program 1\nimport torch\n\nRECIPE = {}\n\n\ndef graph(x):\n"


def story_of(text: str = "boom", **fields: object) -> Story:
    """A story with `text` in every field that is text."""
    environment = Environment(
        text, text, text, text, text, text, {text: text}, {text: text}, {text: text}, 1, text
    )  # fmt: skip
    about: dict[str, object] = dict.fromkeys(
        ("reason", "evidence", "command", "captured", "minimized", "bisected", "log"), text
    )
    signature = Signature(Kind.RUNTIME_ERROR, (text,), text)
    content = {**about, "insights": (text,), "others": (text,), "left_out": (text,), **fields}
    return Story(signature, text, environment, "script", **content)  # type: ignore[arg-type]


def bundle_of(story: Story | None = None, **files: bytes) -> dict[str, bytes]:
    """The files of a bundle that can be shown and run; `files` by name, with ``/`` and ``.`` written out."""
    story = story or story_of()
    manifest = {"schema": 1, "torch": None, "signature": to_data(story.signature)}
    return {
        "story.json": write_story(story).encode(),
        "env.json": dumps(story.environment),
        "repro.py": REPRO.encode(),
        "manifest.json": json.dumps(manifest).encode(),
        **files,
    }


def sealed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """With their checksums."""
    return {**files, CHECKSUMS: checksums(files)}


def write_zip(path: Path, files: Mapping[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> None:
    """A zip file with these names, valid or not."""
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def write_tar(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """A tar of these entries as they are."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for entry, data in entries:
            archive.addfile(entry, io.BytesIO(data))


def _entry(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry


def write_tar_of(path: Path, files: Mapping[str, bytes]) -> None:
    """A tar of these files."""
    write_tar(path, [(_entry(name, len(data)), data) for name, data in files.items()])


@dataclass(frozen=True)
class Hostile:
    """An archive, and whether repro-kit must refuse it. One that may be accepted must at least cost little."""

    name: str
    write: Callable[[Path], None]
    refused: bool = True
    shown_only: bool = False  # the archive can be shown, and must not be run
    ending: str = ".zip"


# -- names -------------------------------------------------------------------------------------------------------------

NAMES = (
    "../x", "a/../../x", "/etc/x", "//x", "./x", "a//b", "a/./b", "C:/x", "c:x", "\\\\host\\x", "a\\..\\x", "..", ".",
    "", " /../x", "a/..", "\x1b[2Jx", "a\u202ex", "a\u200bx", "x\0y", "a\nb", "\x9bx", "x" * 300, "a/" * 30 + "x",
    "/".join(["y" * 150] * 8), "~/../x",
)  # fmt: skip


def _zip_name(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        entry = zipfile.ZipInfo("placeholder")
        entry.filename = name
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(entry, b"x")

    return write


def _tar_name(name: str) -> Callable[[Path], None]:
    return lambda path: write_tar(path, [(_entry(name, 1), b"x")])


# -- sizes -------------------------------------------------------------------------------------------------------------


def _bomb_zip(name: str, size: int) -> Callable[[Path], None]:
    """A valid bundle with `size` zero bytes in file `name`, and a valid checksum."""

    def write(path: Path) -> None:
        write_zip(path, sealed({**bundle_of(), name: bytes(size)}))

    return write


def _bomb_tar(name: str, size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        write_tar_of(path, sealed({**bundle_of(), name: bytes(size)}))

    return write


def _gzipped(path: Path, *pieces: tuple[bytes, int]) -> None:
    """Each piece repeated, without holding the whole in memory."""
    with gzip.open(path, "wb", compresslevel=9) as file:
        for piece, count in pieces:
            for _ in range(count):
                file.write(piece)


def _header(kind: bytes, size: int, fill: bytes) -> Callable[[Path], None]:
    """A tar whose header of type `kind` is `size` bytes long."""
    block = _entry("x", 0, kind).tobuf(tarfile.GNU_FORMAT)

    def write(path: Path) -> None:
        entry = bytearray(block)
        entry[124:136] = b"%011o\0" % size
        entry[148:156] = b" " * 8
        entry[148:156] = b"%06o\0 " % sum(entry)
        _gzipped(path, (bytes(entry), 1), (fill * (MIB // len(fill)), -(-size // MIB)))

    return write


def _sparse(path: Path) -> None:
    """A sparse file with a map of many holes."""
    pax = b"".join(
        _record(key, value)
        for key, value in ((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"x"))
    )
    head = _entry("pax", len(pax), tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT)
    body = _entry("x", 1 << 30).tobuf(tarfile.GNU_FORMAT)
    numbers = b"99999999\n" + b"0\n" * 251
    _gzipped(path, (head, 1), (pax.ljust(512, b"\0"), 1), (body, 1), (numbers[:512] * 2048, 200))


def _record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    length += len(str(length + len(str(length))))
    return b"%d %s=%s\n" % (length, key, value)


def _many_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(20_000):
            archive.writestr(f"files/{number}.py", b"")


def _many_tar(path: Path) -> None:
    block = _entry("x").tobuf()
    with gzip.open(path, "wb", compresslevel=1) as file:
        for number in range(50_000):
            entry = bytearray(block)
            entry[:12] = b"files/%06d" % number
            entry[148:156] = b" " * 8
            entry[148:156] = b"%06o\0 " % sum(entry)
            file.write(entry)


def _overlapping(path: Path) -> None:
    """Many directory entries that share one piece of data."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("files/a.py", bytes(64 * MIB))
        first = archive.infolist()[0]
        for number in range(500):
            twin = zipfile.ZipInfo(f"files/{number}.py")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(twin, field, getattr(first, field))
            archive.filelist.append(twin)


def _patched(at: int, size: str, value: int, mark: bytes = b"PK\x01\x02", **files: bytes) -> Callable[[Path], None]:
    """A valid bundle with one header changed."""

    def write(path: Path) -> None:
        write_zip(path, sealed({**bundle_of(), **files}))
        data = bytearray(path.read_bytes())
        position = data.rfind(mark) + at
        data[position : position + struct.calcsize(size)] = struct.pack(size, value)
        path.write_bytes(data)

    return write


def _hidden_end(path: Path) -> None:
    """A zip with a second end-of-directory record inside the first, which a search from the end finds first."""
    write_zip(path, {f"files/{number}.py": b"" for number in range(20_000)})
    data = bytearray(path.read_bytes())
    directory = data[-10:-6]
    data[-6:-2] = b"PK\x05\x06"
    data[-10:-6] = directory
    path.write_bytes(data)


def _raw(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None


def _random(seed: int) -> Callable[[Path], None]:
    """A valid bundle with some bytes changed, cut off, or doubled."""

    def write(path: Path) -> None:
        dice = random.Random(seed)
        (write_zip if path.suffix == ".zip" else write_tar_of)(path, sealed(bundle_of()))
        data = bytearray(path.read_bytes())
        for _ in range(dice.randint(1, 30)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        if dice.random() < 0.3:
            del data[dice.randrange(len(data)) :]
        if dice.random() < 0.2:
            data = data * 2
        path.write_bytes(data)

    return write


# -- texts -------------------------------------------------------------------------------------------------------------


def _with_story(**files: bytes) -> Callable[[Path], None]:
    return lambda path: write_zip(path, sealed({**bundle_of(), **files}))


def _story(**fields: object) -> Callable[[Path], None]:
    return lambda path: write_zip(path, sealed(bundle_of(story_of(**fields))))  # type: ignore[arg-type]


def _wide(size: int) -> bytes:
    data = json.loads(write_story(story_of()))
    data["unknown"] = None
    return json.dumps(data).encode().replace(b"null}", b"[" + b"[]," * (size // 3) + b"[]]}")


def _cells(count: int) -> bytes:
    data = to_data(Ablation("program"))
    cell = {"name": "c", "compiled": True, "recipe": {}, "verdict": {"status": "pass"}}
    return json.dumps({**data, "cells": [{**cell, "name": str(number)} for number in range(count)]}).encode()


def _long_program(statements: int) -> str:
    lines = [f"    v{number} = x + {number}" for number in range(statements)]
    return (
        _PROGRAM
        + "\n".join(lines)
        + "\n    return (v0,)\n\n\ndef calls():\n    x = torch.zeros(1)\n    return [(x,)]\n"
    )


def archives(*, large: bool) -> Iterator[Hostile]:
    """Every kind; `large` ones are as large as archives get."""
    big = (900 if large else 64) * MIB
    for number, name in enumerate(NAMES):
        yield Hostile(f"zip name {number}", _zip_name(name))
        yield Hostile(f"tar name {number}", _tar_name(name), ending=".tar.gz")
    for kind in ("SYMTYPE", "LNKTYPE", "CHRTYPE", "BLKTYPE", "FIFOTYPE", "CONTTYPE", "GNUTYPE_SPARSE"):
        entry = _entry("files/x", 0, getattr(tarfile, kind), linkname="/etc/passwd")
        if kind != "CONTTYPE":
            yield Hostile(
                f"tar {kind}", lambda path, tar_entry=entry: write_tar(path, [(tar_entry, b"")]), ending=".tar.gz"
            )
    for mode in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK):
        yield Hostile(f"zip mode {mode:o}", lambda path, unix_mode=mode: _with_mode(path, unix_mode))
    for name in ("story.json", "repro.py", "ablation.json", "files/a.py", "trace/a.log", "MANIFEST.sha256"):
        yield Hostile(f"zip bomb in {name}", _bomb_zip(name, big))
        yield Hostile(f"tar bomb in {name}", _bomb_tar(name, big), ending=".tar.gz")
    for kind, fill in (("XHDTYPE", b"8 a=bcd\n"), ("XGLTYPE", b"8 a=bcd\n"), ("GNUTYPE_LONGNAME", b"a")):
        yield Hostile(f"tar header {kind}", _header(getattr(tarfile, kind), big, fill), ending=".tar.gz")
    yield Hostile("tar header longlink", _header(tarfile.GNUTYPE_LONGLINK, big, b"a"), ending=".tar.gz")
    yield Hostile("tar of holes", _sparse, ending=".tar.gz")
    yield Hostile("zip of 20,000 files", _many_zip)
    yield Hostile("tar of 50,000 files", _many_tar, ending=".tar.gz")
    yield Hostile("zip with shared data", _overlapping)
    yield Hostile("zip with a hidden end", _hidden_end)
    yield Hostile("zip that claims less", _patched(24, "<L", 10, **{"files/a.py": bytes(5 * MIB)}))
    yield Hostile("zip that claims more", _patched(24, "<L", 1 << 31))
    yield Hostile("zip with a foreign offset", _patched(42, "<L", 1 << 30))
    yield Hostile("zip with an absurd directory", _patched(12, "<L", 1 << 30, b"PK\x05\x06"))
    yield Hostile("zip that says it is encrypted", _patched(8, "<H", 1))
    yield Hostile("zip packed in an unknown way", _patched(10, "<H", 99))
    yield Hostile("zip by lzma", lambda path: write_zip(path, sealed(bundle_of()), zipfile.ZIP_LZMA))
    yield Hostile("zip by bz2", lambda path: write_zip(path, sealed(bundle_of()), zipfile.ZIP_BZIP2))
    yield Hostile("nothing", _raw(b""))
    yield Hostile("text", _raw(b"hello"))
    yield Hostile("zeros", _raw(bytes(10 * MIB)))
    yield Hostile("gzip of zeros", lambda path: _gzipped(path, (bytes(MIB), big // MIB)), ending=".tar.gz")
    yield Hostile("gzip in gzip", lambda path: path.write_bytes(gzip.compress(gzip.compress(bytes(MIB)))) and None)
    for seed in range(200 if large else 6):
        yield Hostile(f"damaged zip {seed}", _random(seed), refused=False)
        yield Hostile(f"damaged tar {seed}", _random(seed), refused=False, ending=".tar.gz")
    yield Hostile("values of nothing", _bomb_zip("inputs/a.pt", big), refused=False)
    yield Hostile("nested zip", lambda path: _nested(path, big), refused=False)
    yield Hostile("deep story", _with_story(**{"story.json": b"[" * MIB + b"]" * MIB}), shown_only=True)
    yield Hostile("unknown schema", _with_story(**{"manifest.json": b'{"schema": 99}', "story.json": b"{}"}))
    yield Hostile("wide story", _with_story(**{"story.json": _wide(3 * MIB)}), refused=False)
    yield Hostile("many cells", _with_story(**{"ablation.json": _cells(30_000)}), refused=False)
    yield Hostile("long program", _story(program=_long_program(60_000)), refused=False)
    yield Hostile("many sentences", _story(insights=("a",) * 500_000), refused=False)
    yield Hostile("one long word", _story(reason="a" * (3 * MIB)), refused=False)
    yield Hostile("many lines", _story(log="\n" * (3 * MIB), reason="a\n" * MIB), refused=False)
    sources = {f"files/{number}.py": b"a = 1\n" * (MIB // 6) for number in range(12)}
    yield Hostile("many sources", _with_story(**sources), refused=False)
    yield Hostile("long script", _with_story(**{"repro.py": b"a = 1\n" * (4 * MIB // 6)}), refused=False)


def _with_mode(path: Path, mode: int) -> None:
    entry = zipfile.ZipInfo("files/x")
    entry.external_attr = (mode | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, b"/etc/passwd")


def _nested(path: Path, size: int) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("story.json", bytes(size))
    write_zip(path, sealed({**bundle_of(), "files/inner.zip": inner.getvalue()}))


# -- what would run unlisted -------------------------------------------------------------------------------------------

#: Names beside `repro.py`, or in `files/`, that an interpreter imports or runs by itself; binary ones are compiled.
BESIDE = (
    "torch.py", "re.py", "os.py", "json.py", "sys.py", "encodings.py", "typing.py", "site.py", "sitecustomize.py",
    "usercustomize.py", "conftest.py", "numpy.py", "torch/__init__.py", "json/__init__.py", "re/__init__.py",
    "__init__.py", "__main__.py", "evil.pth", "site-packages/evil.pth", "lib/torch.py", "inputs/torch.py",
    "inputs/json.py", "trace/json.py", "artifacts/json.py", "logs/json.py", "test_repro.py", "setup.py", "pyvenv.cfg",
    "json.cpython-311-x86_64-linux-gnu.so", "json.abi3.so", "json.so", "json.pyc", "__pycache__/json.cpython-311.pyc",
    "__pycache__/repro.cpython-311.pyc", "files/json.pyc", "files/__pycache__/helper.cpython-311.pyc", "files/json.so",
    "files/json.cpython-311-x86_64-linux-gnu.so", "files/evil.zip", "python", "bin/python", "pytest.ini",
)  # fmt: skip
