"""What functions found out about nodes stays with the nodes, and changes nothing else."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import pytest

from halocline_engine.ir.remember import Remembering, hashed_once, remembered


@dataclass(frozen=True, slots=True)
class Node(Remembering):
    name: str


def test_a_function_is_evaluated_once_for_each_node_and_each_argument() -> None:
    asked: list[tuple[str, int]] = []

    @remembered
    def times(node: Node, count: int) -> str:
        asked.append((node.name, count))
        return node.name * count

    @remembered
    def length(node: Node) -> int:
        return len(node.name)

    one, other = Node("ab"), Node("ab")
    assert [times(one, 2), times(one, 2), times(one, 3)] == ["abab", "abab", "ababab"]
    assert [times(other, 2), length(one), length(one)] == ["abab", 2, 2]
    assert asked == [("ab", 2), ("ab", 3), ("ab", 2)]
    assert length(replace(one, name="abc")) == 3


def test_results_are_no_part_of_a_value() -> None:
    @remembered
    def first(node: Node) -> str:
        return node.name[0]

    one, fresh = Node("ab"), Node("ab")
    first(one)
    assert (one, hash(one), repr(one)) == (fresh, hash(fresh), repr(fresh))
    assert pickle.dumps(one) == pickle.dumps(fresh)


def test_what_raises_is_not_remembered() -> None:
    @remembered
    def initial(node: Node) -> str:
        return node.name[0]

    nameless = Node("")
    for _ in range(2):
        with pytest.raises(IndexError):
            initial(nameless)


def test_a_hash_that_is_computed_once_is_the_same() -> None:
    asked: list[str] = []

    class Part:
        def __hash__(self) -> int:
            asked.append("part")
            return 7

    part = Part()

    @hashed_once
    @dataclass(frozen=True, slots=True)
    class Whole(Remembering):
        part: Part

    one, other = Whole(part), Whole(part)
    assert hash(one) == hash(one) == hash((part,))
    assert len(asked) == 2
    assert {one: 1}[other] == 1
