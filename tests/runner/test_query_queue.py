"""Which query is sent next, and which is asked again. No process runs here."""

from typing import Any, cast

from repro_kit.probe.repro_probe.protocol.queries import Query, Reply
from repro_kit.runner.server import QueryQueue

KILLED = {"signal": "SIGKILL"}
NO_MEMORY = {"exceptions": [{"type": "torch.OutOfMemoryError"}]}


def queue_of(number: int, jobs: int = 1) -> QueryQueue:
    """A queue whose queries have the ids 10, 11 …"""
    return QueryQueue([cast(Query, {"id": 10 + index}) for index in range(number)], jobs)


def send(queue: QueryQueue) -> list[int]:
    """Send all that may be sent now; their ids."""
    sent = []
    while (query := queue.next_to_send()) is not None:
        queue.start()
        sent.append(query["id"])
    return sent


def answered(queue: QueryQueue, identity: int, reply: dict[str, Any] | None = None) -> int | None:
    return queue.answered(cast(Reply, {"id": identity, **(reply or {})}))


def test_as_many_run_as_there_are_jobs() -> None:
    queue = queue_of(3, jobs=2)
    assert send(queue) == [10, 11]
    assert [query["id"] for query in queue.running] == [10, 11]
    assert answered(queue, 11) == 1
    assert send(queue) == [12]
    assert (answered(queue, 12), answered(queue, 10)) == (2, 0)
    assert queue.is_done


def test_a_reply_to_a_query_that_is_not_under_way_is_no_answer() -> None:
    queue = queue_of(1)
    send(queue)
    assert answered(queue, 7) is None
    assert not queue.is_done


def test_a_query_that_was_killed_from_outside_is_sent_once_more() -> None:
    queue = queue_of(2)
    send(queue)
    assert answered(queue, 10, KILLED) is None
    assert send(queue) == [10], "before the others"
    assert answered(queue, 10, KILLED) == 0


def test_what_a_dead_server_left_is_sent_once_more_in_its_order() -> None:
    queue = queue_of(3, jobs=2)
    send(queue)
    assert queue.server_died() == []
    assert not queue.running
    assert send(queue) == [10, 11]
    assert queue.server_died() == [0, 1]
    assert send(queue) == [12]
    assert answered(queue, 12) == 2
    assert queue.is_done


def test_a_query_that_killed_two_servers_takes_no_other_with_it() -> None:
    queue = queue_of(2, jobs=2)
    assert (queue.next_to_send() or {}).get("id") == 10
    queue.start()
    assert queue.server_died() == []
    assert send(queue) == [10, 11]
    assert queue.server_died() == [0]
    assert send(queue) == [11]


def test_a_query_that_lacked_the_devices_memory_beside_others_is_asked_again_alone() -> None:
    queue = queue_of(4, jobs=3)
    assert send(queue) == [10, 11, 12]
    assert answered(queue, 10, NO_MEMORY) is None
    assert send(queue) == [], "while others run"
    assert (answered(queue, 11), answered(queue, 12)) == (1, 2)
    assert send(queue) == [10], "and no other beside it"
    assert answered(queue, 10, NO_MEMORY) == 0
    assert send(queue) == [13]


def test_a_query_that_lacked_memory_with_the_device_for_itself_has_its_answer() -> None:
    queue = queue_of(2)
    send(queue)
    assert answered(queue, 10, NO_MEMORY) == 0


def test_a_query_that_is_asked_again_alone_was_sent_twice() -> None:
    queue = queue_of(2, jobs=2)
    send(queue)
    assert answered(queue, 10, NO_MEMORY) is None
    assert answered(queue, 11) == 1
    assert send(queue) == [10]
    assert answered(queue, 10, KILLED) == 0
