"""The line that shows a reduction."""

from repro_kit.reduce import Answer, Event, RunOutcome
from repro_kit.stages.minify.progress import shown
from repro_kit.ui import SilentUi


def test_the_line_tells_sizes_and_tries_and_nothing_of_passes_or_deadlines() -> None:
    ui = SilentUi()
    show = shown(ui, "operator")
    with ui.stage("minify") as line:
        show(Event("pass", "verify", 40, 0))
        assert line.text == "making it smaller: 40 → 40 operators, 0 tries"
        show(Event("query", "cut_end", 40, 1, Answer(RunOutcome.FAILS_ALIKE)))
        assert line.text == "making it smaller: 40 → 40 operators, 1 try"
        show(Event("accepted", "cut_end", 3, 18))
        assert line.text == "making it smaller: 40 → 3 operators, 18 tries"
