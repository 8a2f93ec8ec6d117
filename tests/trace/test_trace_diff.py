"""Two traces side by side."""

from pathlib import Path

import pytest

from repro_kit.serialize import from_data, to_data
from repro_kit.trace.insights import gather
from repro_kit.trace.trace_diff import Fate, TraceDifference, difference

FIXTURES = Path(__file__).parent / "fixtures" / "insights"


def of(name):
    return gather(FIXTURES / f"{name}.log")


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.log")))
def test_a_trace_does_not_differ_from_itself(name):
    found = difference(of(name), of(name))
    assert found == TraceDifference(phases=found.phases)
    assert all(phase.before == phase.after for phase in found.phases) and found.phases[0].phase == "all"


def test_one_graph_for_all_sizes_against_one_a_size():
    found = difference(of("four_sizes_static"), of("four_sizes_dynamic"))
    (frame,) = found.frames
    assert (frame.fate, frame.name, len(frame.before), len(frame.after)) == (Fate.CHANGED, "<lambda>", 4, 1)
    assert not frame.recompiles_more and frame.ops == (8, 2)
    settings = {setting.what: (setting.fate, setting.after) for setting in found.settings}
    assert settings["torch._dynamo.config.assume_static_by_default"] == (Fate.APPEARED, "False")
    assert settings["torch._dynamo.config.automatic_dynamic_shapes"] == (Fate.VANISHED, "")
    assert any(guard.fate == Fate.APPEARED and "size=[None, None]" in guard.what for guard in found.guards)
    assert from_data(to_data(found), TraceDifference) == found


def test_more_recompiles_say_why():
    found = difference(of("four_sizes_dynamic"), of("four_sizes_static"))
    (frame,) = found.frames
    assert frame.recompiles_more and frame.reasons == ("tensor 'x' size mismatch at index 0. expected 3, actual 4",)


def test_frames_and_breaks_that_appear_and_vanish():
    found = difference(of("breaks_on_item"), of("breaks_on_data"))
    assert {(frame.fate, frame.code.line) for frame in found.frames if frame.name == "f"} == {
        (Fate.VANISHED, of("breaks_on_item").overview.compiles[0].code.line),
        (Fate.APPEARED, of("breaks_on_data").overview.compiles[0].code.line),
    }
    gone, new = found.breaks
    assert "item()" in gone.what and gone.fate == Fate.VANISHED and gone.where.code == "return x * x.sum().item()"
    assert "Data-dependent" in new.what and new.fate == Fate.APPEARED


def test_other_graphs_of_the_same_function(tmp_path):
    text = (FIXTURES / "four_sizes_dynamic.log").read_text()
    (tmp_path / "a.log").write_text(text.replace("torch.relu(", "torch.tanh("))
    (frame,) = difference(of("four_sizes_dynamic"), gather(tmp_path / "a.log")).frames
    assert frame.graphs_differ and frame.before == frame.after == ("ok",)


def test_ranks_of_one_directory(tmp_path):
    for rank, name in enumerate(("four_sizes_static", "four_sizes_automatic")):
        text = (FIXTURES / f"{name}.log").read_text().replace('"frame_id"', f'"rank": {rank}, "frame_id"')
        (tmp_path / f"{rank}.log").write_text(text)
    (frame,) = difference(gather(tmp_path, rank=0), gather(tmp_path, rank=1)).frames
    assert (len(frame.before), len(frame.after)) == (4, 2)
