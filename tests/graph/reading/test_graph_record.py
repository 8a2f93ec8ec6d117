from repro_kit.graph.reading.graph_record import GraphRecord


def test_a_graph_is_named_with_the_rank_that_compiled_it() -> None:
    assert GraphRecord(0, 1, "0/0").named == "graph 0/0"
    world = {"size": 4, "rank": 2, "groups": {}}
    assert GraphRecord(0, 1, "0/0", recipe={"world": world}).named == "graph 0/0 of rank 2"
