import gzip
import io
import os
import stat
import struct
import subprocess
import tarfile
import zipfile

import pytest

from repro_kit.bundle.archive.archive import CHECKSUMS, FORMS, checksums, pack, read, unpack
from repro_kit.errors import ReproKitError

FILES = {"repro.py": b"print(1)\n", "files/a.py": b"", "README.md": b"# x\n"}


def sealed(files):
    return {**files, CHECKSUMS: checksums(files)}


@pytest.mark.parametrize("form", FORMS)
def test_same_content_same_bytes(tmp_path, form):
    pack(tmp_path / f"a{form}", sealed(FILES))
    pack(tmp_path / f"b{form}", sealed(dict(reversed(FILES.items()))))
    assert (tmp_path / f"a{form}").read_bytes() == (tmp_path / f"b{form}").read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_round_trip_and_sha256sum(tmp_path, form):
    pack(tmp_path / f"a{form}", sealed(FILES))
    unpack(tmp_path / f"a{form}", tmp_path / "out")
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


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/../../x", "C:/x", "a\\..\\x", "a//x", "./x", "\x1b[2Jx", "a\u202ex", "x" * 300]
)
def test_names_that_lead_out_are_refused(tmp_path, name):
    hostile(tmp_path / "a.zip", name)
    with pytest.raises(ReproKitError, match="lies outside"):
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
    monkeypatch.setattr("repro_kit.bundle.archive.members.MOST_BYTES", 1000)
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


def tar_with(path, *entries):
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, data in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size = kind, len(data)
            entry.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("../x", tarfile.REGTYPE, b""), "lies outside"),
        (("/x", tarfile.REGTYPE, b""), "lies outside"),
        (("x", tarfile.SYMTYPE, b""), "link or a device"),
        (("x", tarfile.LNKTYPE, b""), "link or a device"),
        (("x", tarfile.CHRTYPE, b""), "link or a device"),
        (("x", tarfile.FIFOTYPE, b""), "link or a device"),
    ],
)
def test_hostile_tars_are_refused(tmp_path, entry, message):
    tar_with(tmp_path / "a.tar.gz", entry)
    with pytest.raises(ReproKitError, match=message):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tar_that_claims_an_absurd_size_is_refused_before_it_is_read(tmp_path):
    entry = tarfile.TarInfo("x")
    entry.size = 1 << 40
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(entry.tobuf())
    with pytest.raises(ReproKitError, match="unpacks to more"):
        read(tmp_path / "a.tar.gz")


def test_a_tar_with_an_absurd_header_is_refused_before_it_is_read(tmp_path):
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 1 << 40
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(entry.tobuf() + bytes(1 << 20))
    with pytest.raises(ReproKitError, match=r"unpacks to more|not a bundle"):
        read(tmp_path / "a.tar.gz")


def test_a_tar_that_is_cut_off_is_damaged(tmp_path):
    pack(tmp_path / "a.tar.gz", sealed({"x": os.urandom(9000)}))
    (tmp_path / "b.tar.gz").write_bytes((tmp_path / "a.tar.gz").read_bytes()[:5000])
    with pytest.raises(ReproKitError, match="not a bundle, or is damaged"):
        read(tmp_path / "b.tar.gz")


def test_a_zip_with_an_absurd_directory_is_refused(tmp_path):
    pack(tmp_path / "a.zip", sealed(FILES))
    data = bytearray((tmp_path / "a.zip").read_bytes())
    at = data.rfind(b"PK\x05\x06")
    data[at + 12 : at + 16] = struct.pack("<L", 1 << 30)
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(ReproKitError, match="more than 10000 files"):
        read(tmp_path / "a.zip")


def test_unusual_packing_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x", b"1")
    with pytest.raises(ReproKitError, match="unusual way"):
        read(tmp_path / "a.zip")


def test_what_a_stranger_wrote_reaches_no_terminal(tmp_path):
    hostile(tmp_path / "a.zip", "\x1b]0;owned\x07x")
    with pytest.raises(ReproKitError) as raised:
        read(tmp_path / "a.zip")
    assert "\x1b" not in str(raised.value)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.zip")
    with pytest.raises(ReproKitError, match="it is not a file"):
        read(tmp_path / "a.zip")


def test_only_what_is_wanted_is_kept(tmp_path):
    pack(tmp_path / "a.tar.gz", sealed({**FILES, "trace/a.log": b"0" * (9 << 20)}))
    assert read(tmp_path / "a.tar.gz", lambda name: name == "repro.py") == {"repro.py": FILES["repro.py"]}
    with pytest.raises(ReproKitError, match=r"its trace/a\.log is larger than 4 MiB"):
        read(tmp_path / "a.tar.gz")
    unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "trace" / "a.log").stat().st_size == 9 << 20


@pytest.mark.parametrize("form", FORMS)
def test_what_is_refused_while_it_is_unpacked_leaves_nothing(tmp_path, form):
    pack(tmp_path / f"a{form}", {**sealed(FILES), "repro.py": b"print(2)\n"})
    with pytest.raises(ReproKitError, match="checksum"):
        unpack(tmp_path / f"a{form}", tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(ReproKitError, match="checksum"):
        unpack(tmp_path / f"a{form}", tmp_path / "there")
    assert not (tmp_path / "out").exists() and list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("form", FORMS)
def test_long_and_foreign_names_come_back(tmp_path, form):
    files = sealed({"files/" + "é" * 150 + ".py": b"1", "files/" + "/".join("abcdefgh") + "/" + "x" * 150: b"2"})
    pack(tmp_path / f"a{form}", files)
    assert read(tmp_path / f"a{form}") == files


def test_texts_that_are_mostly_nothing_are_refused_and_values_are_not(tmp_path):
    pack(tmp_path / "a.zip", sealed({"trace/a.log": bytes(40 << 20)}))
    with pytest.raises(ReproKitError, match="its texts unpack to more than 16 MiB"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    pack(tmp_path / "b.zip", sealed({"inputs/a.pt": bytes(40 << 20)}))
    unpack(tmp_path / "b.zip", tmp_path / "out")


def test_an_entry_without_a_name_is_refused(tmp_path):
    entry = zipfile.ZipInfo("x")
    entry.filename = ""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry, b"x")
    with pytest.raises(ReproKitError, match="not a file name"):
        read(tmp_path / "a.zip")
