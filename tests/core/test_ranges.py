"""A set of positions kept as ranges is the set that it stands for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.core.graph import Position
from roost.core.ranges import Range, Ranges, spans

a_range = st.builds(
    lambda stretch, low, length: Range(stretch, low, low + length),
    st.integers(0, 2),
    st.integers(0, 20),
    st.integers(0, 6),
)


def members(ranges: Ranges) -> set[Position]:
    return {Position(stretch, seq) for stretch, low, high in ranges for seq in range(low, high + 1)}


@given(st.lists(st.tuples(st.booleans(), a_range), max_size=30))
def test_adding_and_removing_is_that_of_sets(steps: list[tuple[bool, Range]]) -> None:
    ranges, model = Ranges(), set[Position]()
    for adds, one in steps:
        meant = {Position(one.stretch, seq) for seq in range(one.low, one.high + 1)}
        if adds:
            ranges.add(one)
            model |= meant
        else:
            ranges.remove(one)
            model -= meant
        assert members(ranges) == model
        assert len(ranges) == len(model)
        assert bool(ranges) == bool(model)
        assert all((position in ranges) == (position in model) for position in meant)


def test_what_is_added_in_a_row_is_one_range() -> None:
    ranges = Ranges(Range(1, seq, seq) for seq in range(1000))
    assert list(ranges) == [Range(1, 0, 999)]


def test_spans_are_the_shortest_ranges_that_hold_all() -> None:
    assert spans([Position(1, 4), Position(2, 1), Position(1, 6), Position(1, 2)]) == [Range(1, 2, 6), Range(2, 1, 1)]
