import os
import stat
import subprocess
import zipfile

import pytest

from repro_kit.bundle.archive import CHECKSUMS, checksums, pack, read, unpack
from repro_kit.errors import ReproKitError

FILES = {"repro.py": b"print(1)\n", "files/a.py": b"", "README.md": b"# x\n"}


def sealed(files):
    return {**files, CHECKSUMS: checksums(files)}


def test_same_content_same_bytes(tmp_path):
    pack(tmp_path / "a.zip", sealed(FILES))
    pack(tmp_path / "b.zip", sealed(dict(reversed(FILES.items()))))
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_round_trip_and_sha256sum(tmp_path):
    pack(tmp_path / "a.zip", sealed(FILES))
    unpack(tmp_path / "a.zip", tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in FILES} == FILES
    subprocess.run(["sha256sum", "-c", "--quiet", CHECKSUMS], cwd=tmp_path / "out", check=True)


def test_unwritable_place_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReproKitError, match="Cannot write the bundle"):
        pack(tmp_path / "file" / "a.zip", FILES)


def hostile(path, name, data=b"x", mode=stat.S_IFREG | 0o644, again=False):
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, data)
        if again:
            archive.writestr(zipfile.ZipInfo(name.upper()), data)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:/x", "a\\..\\x"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    hostile(tmp_path / "a.zip", name)
    with pytest.raises(ReproKitError, match="leads out"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_are_refused(tmp_path):
    hostile(tmp_path / "a.zip", "x", b"/etc/passwd", stat.S_IFLNK | 0o777)
    with pytest.raises(ReproKitError, match="link"):
        read(tmp_path / "a.zip")


def test_doubled_names_are_refused(tmp_path):
    hostile(tmp_path / "a.zip", "x", again=True)
    with pytest.raises(ReproKitError, match="twice"):
        read(tmp_path / "a.zip")


def test_a_bomb_is_refused_by_its_claim(tmp_path, monkeypatch):
    monkeypatch.setattr("repro_kit.bundle.archive._MOST_BYTES", 1000)
    hostile(tmp_path / "a.zip", "x", b"0" * 2000)
    with pytest.raises(ReproKitError, match="unpacks to more"):
        read(tmp_path / "a.zip")


def test_a_changed_file_is_found(tmp_path):
    pack(tmp_path / "a.zip", {**sealed(FILES), "repro.py": b"print(2)\n"})
    with pytest.raises(ReproKitError, match=r"repro\.py does not have its checksum"):
        read(tmp_path / "a.zip")


def test_a_stray_file_is_found(tmp_path):
    pack(tmp_path / "a.zip", {**sealed(FILES), "sitecustomize.py": b""})
    with pytest.raises(ReproKitError, match=r"sitecustomize\.py"):
        read(tmp_path / "a.zip")


@pytest.mark.parametrize("data", [b"", b"not a zip", os.urandom(500)])
def test_not_a_bundle(tmp_path, data):
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(ReproKitError, match="not a bundle"):
        read(tmp_path / "a.zip")


def test_a_plain_zip_is_no_bundle(tmp_path):
    pack(tmp_path / "a.zip", FILES)
    with pytest.raises(ReproKitError, match="not a bundle"):
        read(tmp_path / "a.zip")
