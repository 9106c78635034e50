"""Which connection ends where there are too many."""

from __future__ import annotations

from dataclasses import dataclass, field

from halocline_service.serving.connections import Connections, Stage, Wait


@dataclass(eq=False)
class Fake:
    peer: str
    waits: Wait | None = None
    ended: list[str] = field(default_factory=list[str])

    def wait(self) -> Wait | None:
        return self.waits

    def end(self, reason: str) -> None:
        self.ended.append(reason)


def header(left: float) -> Wait:
    return Wait(Stage.HEADER, left)


def test_the_one_that_has_waited_longest_ends() -> None:
    connections = Connections(10, 2)
    some = [Fake("a", header(3)), Fake("a", header(2)), Fake("a", header(9)), Fake("b", header(1))]
    for each in some:
        connections.admit(each)
    reason = "there are more than 2 of this address"
    assert [each.ended for each in some] == [[], [reason], [], []]
    assert len(connections) == 3


def test_those_that_send_or_read_end_after_those_that_do_nothing() -> None:
    connections = Connections(10, 2)
    some = [Fake("a", Wait(Stage.BODY, -5)), Fake("a", Wait(Stage.READING, -9)), Fake("a")]
    for each in some:
        connections.admit(each)
    assert [bool(each.ended) for each in some] == [True, False, False]


def test_a_new_one_ends_where_the_server_is_at_work_for_all_others() -> None:
    connections = Connections(10, 2)
    some = [Fake("a"), Fake("a"), Fake("a", header(20))]
    for each in some:
        connections.admit(each)
    assert [bool(each.ended) for each in some] == [False, False, True]


def test_the_address_with_most_gives_way_in_all() -> None:
    connections = Connections(3, 2)
    some = [Fake("b", header(1)), Fake("a", header(8)), Fake("a", header(9)), Fake("c", header(20))]
    for each in some:
        connections.admit(each)
    assert [bool(each.ended) for each in some] == [False, True, False, False]
    assert some[1].ended == ["there are more than 3"]


def test_what_is_gone_is_not_counted() -> None:
    connections = Connections(10, 1)
    for _ in range(5):
        one = Fake("a", header(1))
        connections.admit(one)
        connections.release(one)
        connections.release(one)
        assert not one.ended
    assert len(connections) == 0
