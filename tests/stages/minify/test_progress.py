"""The line that shows a reduction."""

from repro_kit.reduce import Answer, Event, RunOutcome
from repro_kit.stages.minify.progress import shown
from repro_kit.ui import SilentUi


def test_the_line_tells_size_rate_pass_and_time() -> None:
    ui, now = SilentUi(), [100.0]
    show = shown(ui, 1800.0, lambda: now[0])
    with ui.stage("minify") as line:
        show(Event("pass", "verify", 40, 0))
        assert line.text == "40 statements left, 0 queries, 0 accepted, verify, ≤ 30 min left"
        for at in range(20):
            now[0] += 0.5
            show(Event("query", "cut_end", 40, at + 1, Answer(RunOutcome.FAILS_ALIKE)))
        show(Event("accepted", "cut_end", 1, 20))
        assert line.text == "1 statement left, 20 queries (2.0/s), 1 accepted, cut end, ≤ 30 min left"
        now[0] += 1725.0
        show(Event("pass", "to_input", 1, 20))
        assert line.text == "1 statement left, 20 queries (0.0/s), 1 accepted, to input, ≤ 65 s left"
        now[0] += 1000.0
        show(Event("pass", "to_input", 1, 20))
        assert line.text.endswith("no time left")
