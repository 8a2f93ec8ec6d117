"""The user's own TORCH_LOGS_OUT and TORCH_TRACE: added to, never overwritten, and looked at before a long run."""

from __future__ import annotations

import os

import pytest

from repro_kit.errors import ReproKitError
from repro_kit.subject import users_environment
from repro_kit.ui import SilentUi


class Told(SilentUi):
    """Keeps the warnings."""

    def __init__(self):
        super().__init__()
        self.said = []

    def warn(self, sentence):
        self.said.append(sentence)


@pytest.fixture
def ran(tmp_path):
    """What a run has left."""
    place = tmp_path / "observe"
    (place / "logs").mkdir(parents=True)
    (place / "logs" / "torch.txt").write_text("new line\n")
    (place / "trace").mkdir()
    (place / "trace" / "dedicated_log_torch_trace_x.log").write_text("new trace\n")
    return place


def test_logs_are_appended(tmp_path, ran):
    mine = tmp_path / "mine.txt"
    mine.write_text("my notes of a week\n")
    mine.chmod(0o600)
    for times in (1, 2):
        users_environment.give_back_users_logs(ran, Told(), {"TORCH_LOGS_OUT": str(mine)})
        assert mine.read_text() == "my notes of a week\n" + times * "new line\n"
    assert mine.stat().st_mode & 0o777 == 0o600


def test_a_log_that_is_not_there_is_made(tmp_path, ran):
    users_environment.give_back_users_logs(ran, Told(), {"TORCH_LOGS_OUT": str(tmp_path / "new.txt")})
    assert (tmp_path / "new.txt").read_text() == "new line\n"


def test_a_trace_of_the_same_name_stays(tmp_path, ran):
    mine = tmp_path / "traces"
    mine.mkdir()
    (mine / "dedicated_log_torch_trace_x.log").write_text("old trace\n")
    users_environment.give_back_users_logs(ran, Told(), {"TORCH_TRACE": str(mine)})
    assert {path.name: path.read_text() for path in mine.iterdir()} == {
        "dedicated_log_torch_trace_x.log": "old trace\n",
        "dedicated_log_torch_trace_x_2.log": "new trace\n",
    }


def test_a_link_in_the_trace_s_place_is_not_followed(tmp_path, ran):
    mine, victim = tmp_path / "traces", tmp_path / "victim"
    mine.mkdir()
    victim.write_text("precious")
    (mine / "dedicated_log_torch_trace_x.log").symlink_to(victim)
    users_environment.give_back_users_logs(ran, Told(), {"TORCH_TRACE": str(mine)})
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("place", ["gone/mine.txt", "/dev/full", "pipe", "directory"])
def test_what_cannot_be_written_afterwards_is_said_and_kept(tmp_path, ran, place):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    ui = Told()
    users_environment.give_back_users_logs(ran, ui, {"TORCH_LOGS_OUT": str(tmp_path / place)})
    (sentence,) = ui.said
    assert str(tmp_path / place) in sentence and str(ran / "logs" / "torch.txt") in sentence
    assert (ran / "logs" / "torch.txt").read_text() == "new line\n"


def test_a_trace_s_directory_that_is_a_file_is_said_and_kept(tmp_path, ran):
    (tmp_path / "file").write_text("mine")
    ui = Told()
    users_environment.give_back_users_logs(ran, ui, {"TORCH_TRACE": str(tmp_path / "file")})
    assert len(ui.said) == 1 and (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TORCH_LOGS_OUT", "gone/mine.txt", "there is no directory"),
        ("TORCH_LOGS_OUT", "directory", "it is a directory"),
        ("TORCH_LOGS_OUT", "file/mine.txt", "there is no directory"),
        ("TORCH_TRACE", "file", "is not a directory"),
        ("TORCH_TRACE", "file/deep/er", "is not a directory"),
        ("TORCH_DTRACE", "file", "is not a directory"),
    ],
)
def test_what_cannot_work_is_refused_before(tmp_path, name, value, expected):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(ReproKitError, match=expected) as caught:
        users_environment.check_users_logs({name: str(tmp_path / value)})
    assert str(caught.value).startswith(name) and "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("name", ["TORCH_LOGS_OUT", "TORCH_TRACE"])
def test_what_must_not_be_written_is_refused_before(tmp_path, name):
    (tmp_path / "directory").mkdir(mode=0o500)
    with pytest.raises(ReproKitError, match="cannot be written"):
        users_environment.check_users_logs({name: str(tmp_path / "directory" / "mine")})


@pytest.mark.parametrize(
    "env", [{}, {"TORCH_LOGS_OUT": ""}, {"TORCH_TRACE": "new/deep"}, {"TORCH_LOGS_OUT": "mine.txt"}]
)
def test_what_works_is_not_refused(tmp_path, monkeypatch, env):
    monkeypatch.chdir(tmp_path)
    users_environment.check_users_logs(env)
    assert list(tmp_path.iterdir()) == []
