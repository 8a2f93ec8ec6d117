from repro_kit.graph.reading.graph_record import GraphRecord, InputRecord
from repro_kit.runner.read_findings import Recorded, RecordedEvent


def graph(number: int, compile_id: str = "0/0") -> GraphRecord:
    return GraphRecord(number, 1, compile_id, inputs=(InputRecord("tensor", "x", shape=(2,)),))


def events(*words: str) -> tuple[RecordedEvent, ...]:
    """`"compile-begin 0"` → an event of graph 0."""
    pairs = [word.split() for word in words]
    return tuple(RecordedEvent(name, int(number), float(at)) for at, (name, number) in enumerate(pairs))


def test_a_graph_that_failed_comes_before_one_that_was_left_open_and_the_last_backward() -> None:
    recorded = Recorded(
        1,
        (graph(0), graph(1), graph(2)),
        events(
            "compile-begin 0", "compile-end 0", "call-begin 0", "call-end 0", "backward-begin 0",
            "compile-begin 1", "compile-fail 1", "compile-begin 2",
        ),
    )  # fmt: skip
    assert recorded.suspects() == [1, 2, 0]


def test_nothing_points_at_graphs_that_ended_well() -> None:
    ended = events("compile-begin 0", "compile-end 0", "call-begin 0", "call-end 0")
    assert Recorded(1, (graph(0),), ended).suspects() == []


def test_a_call_of_torch_compile_is_of_no_graph() -> None:
    called = RecordedEvent("compile-call", None, 0.0, settings={"backend": "eager", "dynamic": True, "mode": None})
    recorded = Recorded(1, (), (called,))
    assert recorded.suspects() == []
    assert recorded.compile_settings()["backend"] == "eager"


def test_calls_keep_their_order_and_the_first_has_the_inputs_of_the_graph() -> None:
    later = (InputRecord("tensor", "x", shape=(7,)),)
    recorded = Recorded(
        1,
        (graph(0), graph(1, "0/1")),
        (
            RecordedEvent("call-begin", 0, 0.0),
            RecordedEvent("call-begin", 1, 1.0),
            RecordedEvent("call-begin", 0, 2.0, call=1, inputs=later),
            RecordedEvent("call-begin", 0, 3.0, call=2, problem="TypeError: a subclass"),
        ),
    )
    assert [(number, inputs[0].shape) for number, inputs in recorded.calls_of([0, 1])] == [
        (0, (2,)),
        (1, (2,)),
        (0, (7,)),
    ]
