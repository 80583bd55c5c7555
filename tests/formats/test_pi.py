"""pi session files: every line accounted for, whatever state the file is in."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.errors import NothingUsable
from roost.formats.lines import ImportedEntry, Origin, Skipped, Warned
from roost.formats.pi import NAME_BYTES_MAX, PiReader, looks_like_pi, read_pi

SAMPLES = Path(__file__).parent.parent / "data" / "pi"
ALL_SAMPLES = {path.stem: path.read_bytes() for path in sorted(SAMPLES.rglob("*.jsonl"))}
HEADER = '{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}'


@dataclass(frozen=True)
class Result:
    reader: PiReader
    entries: list[ImportedEntry]
    skipped: list[Skipped]
    warned: list[Warned]

    def parents(self) -> list[tuple[str, str | None]]:
        return [(entry.origin.position, entry.parent) for entry in self.entries]

    def types(self) -> list[str]:
        return [entry.type for entry in self.entries]


def read(content: bytes) -> Result:
    reader = read_pi(io.BytesIO(content))
    items = list(reader)
    return Result(
        reader,
        [item for item in items if isinstance(item, ImportedEntry)],
        [item for item in items if isinstance(item, Skipped)],
        [item for item in items if isinstance(item, Warned)],
    )


def file(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in (HEADER, *lines)).encode()


def user(id_: str, parent: str | None, text: str = "hi") -> str:
    message = {"role": "user", "content": text}
    return json.dumps({"type": "message", "id": id_, "parentId": parent, "timestamp": "t", "message": message})


def lines_not_blank(content: bytes) -> int:
    return sum(1 for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())


# --- each sample ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "entries", "headers", "skipped_offsets", "warned_offsets"),
    [
        ("full_tree_v3", 27, 1, [], []),
        ("forkFrom_whole_v3", 27, 1, [], []),
        ("forked_path_v3", 16, 1, [], []),
        ("harness_v3_with_leaf", 17, 1, [], []),
        ("v1_migrated_to_v3", 5, 1, [], []),
        ("v4_upgraded_from_v3", 23, 1, [], []),
        ("bom", 1, 1, [], []),
        ("compaction_in_kept", 7, 1, [], []),
        ("compaction_missing_kept", 4, 1, [], [623]),
        ("corrupt_mid", 3, 1, [255], [316]),
        ("crlf", 2, 1, [], []),
        ("cycle2", 2, 1, [], [93]),
        ("dup_id", 3, 1, [], [627]),
        ("forward_parent", 2, 1, [], [93]),
        ("garbage_then_header", 1, 1, [0], []),
        ("harness_leaf", 5, 1, [], []),
        ("header_only_no_nl", 0, 1, [], []),
        ("marker_no_id", 3, 1, [], []),
        ("missing_parent", 3, 1, [], [255]),
        ("non_object", 2, 1, [255, 258, 263, 269], []),
        ("nul_and_surrogate", 1, 1, [], []),
        ("null_content", 1, 1, [], []),
        ("self_parent", 1, 1, [], [93]),
        ("torn_invalid", 1, 1, [255], []),
        ("torn_valid", 2, 1, [], []),
        ("two_headers", 2, 2, [], []),
        ("unknown_type", 3, 1, [], []),
        ("version99", 1, 1, [], []),
    ],
)
def test_every_line_of_a_sample_is_an_entry_a_header_or_skipped_with_its_offset(
    sample: str, entries: int, headers: int, skipped_offsets: list[int], warned_offsets: list[int]
) -> None:
    content = ALL_SAMPLES[sample]
    result = read(content)

    assert len(result.entries) == result.reader.entries == entries
    assert result.reader.headers == headers
    assert [skipped.offset for skipped in result.skipped] == skipped_offsets
    assert [warned.offset for warned in result.warned] == warned_offsets
    assert result.reader.entries + result.reader.skipped == lines_not_blank(content) - headers
    assert looks_like_pi(content[:4096])


@pytest.mark.parametrize("sample", ["empty", "whitespace", "garbage"])
def test_only_empty_blank_and_all_garbage_files_hold_nothing_usable(sample: str) -> None:
    with pytest.raises(NothingUsable):
        read(ALL_SAMPLES[sample])
    assert not looks_like_pi(ALL_SAMPLES[sample])


@pytest.mark.parametrize("sample", sorted(set(ALL_SAMPLES) - {"empty", "whitespace", "garbage"}))
def test_entries_hold_their_line_byte_by_byte_and_continue_only_what_came_before(sample: str) -> None:
    content = ALL_SAMPLES[sample]
    lines = [line.removesuffix(b"\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    seen: set[str] = set()
    for entry in read(content).entries:
        assert entry.raw in lines
        assert entry.parent is None or entry.parent in seen
        assert entry.origin.position not in seen
        seen.add(entry.origin.position)
        json.dumps([entry.data, entry.content, entry.sender], ensure_ascii=False, allow_nan=False).encode()


# --- what lines become ----------------------------------------------------------------------------------------------


def test_the_whole_tree_is_kept_with_its_branches_and_both_roots() -> None:
    result = read(ALL_SAMPLES["full_tree_v3"])
    parents = dict(result.parents())

    assert [name for name, parent in parents.items() if parent == "bc65ad70"] == ["3158daa5", "b184ba9e", "692c7e02"]
    assert [name for name, parent in parents.items() if parent is None] == ["878d662a", "0fa386d5"]
    assert result.reader.title == "Demo session"
    assert result.reader.header is not None
    assert (result.reader.header.cwd, result.reader.header.version) == ("/tmp", 3)  # noqa: S108 - text of the sample


def test_pi_types_become_roost_types() -> None:
    types = {str(entry.data["type"]): entry.type for entry in read(ALL_SAMPLES["full_tree_v3"]).entries}
    kept_name = set(types) - {"message", "compaction", "branch_summary"}
    assert {name: types[name] for name in kept_name} == {name: name for name in kept_name}
    assert types["compaction"] == types["branch_summary"] == "summary"
    assert len(types) == 11


def test_an_assistant_message_names_its_model_and_shows_each_tool_call_in_one_line() -> None:
    entry = next(e for e in read(ALL_SAMPLES["full_tree_v3"]).entries if e.origin.position == "5efad054")
    assert entry.sender == "assistant:claude-sonnet-4-5"
    assert entry.content == 'Reading.\nread {"path":"a.txt"}\nedit {"path":"b.txt","edits":[]}'
    assert entry.at == 1_796_072_583_021_000


def test_a_tool_result_is_sent_by_its_tool() -> None:
    results = [entry for entry in read(ALL_SAMPLES["full_tree_v3"]).entries if entry.type == "tool_result"]
    assert [(entry.sender, entry.content) for entry in results] == [("read", "hello"), ("edit", "no match")]


def test_a_leaf_selects_an_entry_or_the_root() -> None:
    selects = [entry for entry in read(ALL_SAMPLES["harness_v3_with_leaf"]).entries if entry.type == "select"]
    assert [(entry.parent, entry.target) for entry in selects] == [
        ("108e687e", "7a3b3353"),
        ("786c758b", None),
        ("4a1b303f", "108e687e"),
    ]


def test_what_goes_on_after_a_leaf_or_a_marker_continues_it_so_that_neither_opens_a_branch() -> None:
    leaf = '{"type":"leaf","id":"L","parentId":"b","timestamp":"t","targetId":"a"}'
    result = read(file(user("a", None), user("b", "a"), leaf, '{"marker":1}', user("c", "b"), user("d", "c")))
    marker = result.entries[3].origin.position
    assert result.parents() == [("a", None), ("b", "a"), ("L", "b"), (marker, "L"), ("c", marker), ("d", "c")]


def test_a_marker_before_the_first_entry_opens_no_second_root() -> None:
    result = read(file('{"marker":1}', user("a", None), user("b", None)))
    marker = result.entries[0].origin.position
    assert result.parents() == [(marker, None), ("a", marker), ("b", None)]


def test_an_entry_without_parent_continues_the_one_before_it_and_is_reported() -> None:
    result = read(file(user("a", None), '{"type":"message","id":"b","message":{"role":"user","content":"x"}}'))
    assert result.parents() == [("a", None), ("b", "a")]
    assert len(result.warned) == 1


def test_a_leaf_to_an_unknown_entry_selects_nothing() -> None:
    leaf = '{"type":"leaf","id":"L","parentId":"a","timestamp":"t","targetId":"gone"}'
    result = read(file(user("a", None), leaf))
    assert result.entries[1].type == "custom"
    assert len(result.warned) == 1


def test_a_v1_file_is_one_chain_and_its_index_names_the_first_kept_entry() -> None:
    header = '{"type":"session","id":"v1s","timestamp":"2025-11-20T00:00:00.000Z","cwd":"/work","provider":"p"}'
    message = '{"type":"message","timestamp":"2025-11-20T00:00:0%d.000Z","message":{"role":"user","content":"%d"}}'
    compaction = '{"type":"compaction","summary":"S","firstKeptEntryIndex":2,"tokensBefore":5}'
    hook = '{"type":"message","message":{"role":"hookMessage","customType":"h","content":"hook"}}'
    result = read("\n".join((header, message % (1, 1), message % (2, 2), compaction, hook)).encode())

    positions = [entry.origin.position for entry in result.entries]
    assert [entry.parent for entry in result.entries] == [None, *positions[:-1]]
    assert result.entries[2].target == positions[1]
    assert result.types() == ["message", "message", "summary", "custom_message"]
    assert result.warned == []


def test_a_v4_transaction_is_one_entry_and_its_newest_name_is_the_title() -> None:
    result = read(ALL_SAMPLES["v4_upgraded_from_v3"])
    assert result.types()[-4:] == ["custom"] * 4
    assert result.reader.title == "renamed"


def test_an_unknown_type_is_kept_under_its_name() -> None:
    entry = read(ALL_SAMPLES["unknown_type"]).entries[1]
    assert (entry.type, entry.data["type"], entry.at) == ("custom", "future_thing", 0)


def test_a_cleared_name_clears_the_title() -> None:
    named = '{"type":"session_info","id":"n","parentId":null,"name":"first"}'
    assert read(file(named, named.replace("first", "").replace('"n"', '"m"'))).reader.title is None


def test_nuls_and_lone_surrogates_survive_as_text_that_can_be_encoded() -> None:
    entry = read(ALL_SAMPLES["nul_and_surrogate"]).entries[0]
    assert entry.content == "x\x00y \ufffd z"
    assert rb"x\u0000y \ud83d z" in entry.raw


def test_bytes_that_are_no_utf8_are_kept_and_reported() -> None:
    result = read(file(user("a", None)).replace(b"hi", b"h\xff"))
    assert (result.entries[0].content, b"h\xff" in result.entries[0].raw) == ("h\ufffd", True)
    assert [warned.offset for warned in result.warned] == [len(HEADER) + 1]


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        ('"2026-01-01T00:00:00.000001Z"', 1_767_225_600_000_001),
        ('"2026-01-01T02:00:00+02:00"', 1_767_225_600_000_000),
        ('"2026-01-01T00:00:00"', 1_767_225_600_000_000),
        ('"yesterday"', 7_000),
        ('"0001-01-01T00:00:00+23:59"', 7_000),
        ('"9999-12-31T23:59:59-23:59"', 7_000),
        ("1767225600000", 1_767_225_600_000_000),
        ("1e308", 7_000),
        ("-5", 7_000),
        ("true", 7_000),
    ],
)
def test_an_unreadable_time_gives_way_to_the_messages_own(timestamp: str, at: int) -> None:
    line = f'{{"type":"message","id":"a","parentId":null,"timestamp":{timestamp},"message":{{"timestamp":7}}}}'
    assert read(file(line)).entries[0].at == at


# --- origins --------------------------------------------------------------------------------------------------------


def test_an_origin_is_tool_session_and_position() -> None:
    assert read(file(user("a", None))).entries[0].origin == Origin("pi", "s1", "a")


@pytest.mark.parametrize("sample", ["full_tree_v3", "harness_v3_with_leaf", "dup_id", "marker_no_id", "two_headers"])
def test_a_file_that_grows_keeps_the_origins_and_parents_it_had(sample: str) -> None:
    lines = ALL_SAMPLES[sample].splitlines(keepends=True)
    whole = read(ALL_SAMPLES[sample]).entries
    for count in range(1, len(lines)):
        torn = b"".join(lines[:count]) + lines[count][: len(lines[count]) // 2]
        grown = read(torn).entries
        assert grown == whole[: len(grown)]


def test_a_file_without_header_keeps_its_origins_when_it_grows_or_the_garbage_before_it_changes() -> None:
    body = f"{user('a', None)}\n{user('b', 'a')}\n".encode()
    origins = [entry.origin for entry in read(body).entries]

    assert [entry.origin for entry in read(body + user("c", "b").encode()).entries][:2] == origins
    assert [entry.origin for entry in read(b"garbage\n" + body).entries] == origins
    assert [entry.origin for entry in read(body + HEADER.encode()).entries] == origins
    assert origins[0].session != read(f"{user('x', None)}\n".encode()).entries[0].origin.session


def test_a_fork_shares_entry_ids_and_no_origins() -> None:
    tree, fork = (
        {entry.origin for entry in read(ALL_SAMPLES[sample]).entries}
        for sample in ("full_tree_v3", "forkFrom_whole_v3")
    )
    assert {origin.position for origin in tree} == {origin.position for origin in fork}
    assert not tree & fork


def test_positions_are_unique_even_if_an_id_looks_like_a_numbered_one() -> None:
    same = '{"marker":1}'
    result = read(file(user("a", None), user("a", "a"), user("a#2", "a"), user("a", "a#2"), same, same))
    positions = [entry.origin.position for entry in result.entries]
    assert positions[:4] == ["a", "a#2", "a#2#2", "a#3"]
    assert positions[5] == positions[4] + "#2"
    assert [entry.parent for entry in result.entries[:4]] == [None, "a", "a#2", "a#2#2"]


def test_overlong_ids_are_replaced_by_their_hash_and_still_found_as_parents() -> None:
    result = read(file(user("é" * 5000, None), user("b", "é" * 5000)).replace(b'"s1"', b'"' + b"s" * 5000 + b'"'))
    origin = result.entries[0].origin
    assert max(len(origin.session.encode()), len(origin.position.encode())) <= NAME_BYTES_MAX
    assert result.entries[1].parent == origin.position


def test_ten_thousand_markers_and_duplicates_keep_their_own_positions() -> None:
    lines = [user("a", None), *(['{"marker":1}', user("a", "a")] * 5_000)]
    result = read(file(*lines))
    assert len({entry.origin.position for entry in result.entries}) == len(lines)


# --- which format ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"user","message":{"role":"user","content":"x"},"uuid":"u","parentUuid":null,"sessionId":"s"}',
        '{"type":"summary","summary":"x","leafUuid":"u"}',
        '{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"u","cwd":"/work"}}',
        '{"type":"message","role":"user","content":[]}',
        "42",
    ],
)
def test_files_of_other_tools_do_not_look_like_pi(line: str) -> None:
    assert not looks_like_pi(line.encode())


def test_a_file_that_lost_its_header_still_looks_like_pi() -> None:
    assert looks_like_pi(b"garbage\n" + user("a", None).encode() + b'\n{"type":"mess')


# --- damage ---------------------------------------------------------------------------------------------------------


def check_accounts(content: bytes) -> None:
    reader = read_pi(io.BytesIO(content))
    seen: set[str] = set()
    try:
        for item in reader:
            if isinstance(item, ImportedEntry):
                assert item.parent is None or item.parent in seen
                assert item.target is None or item.target in seen | {item.origin.position}
                assert item.origin.position not in seen
                assert 0 <= item.at < 1 << 53
                assert item.raw in content
                json.dumps([item.data, item.content], ensure_ascii=False, allow_nan=False).encode()
                seen.add(item.origin.position)
    except NothingUsable:
        assert not reader.entries + reader.headers
    assert reader.entries + reader.skipped == lines_not_blank(content) - reader.headers


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(ALL_SAMPLES)),
    st.lists(st.tuples(st.integers(0, 1 << 14), st.binary(max_size=3), st.integers(0, 40)), max_size=6),
)
def test_no_damage_raises_anything_else_or_loses_count_of_a_line(
    sample: str, damages: list[tuple[int, bytes, int]]
) -> None:
    content = ALL_SAMPLES[sample]
    for place, replacement, removed in damages:
        at = place % (len(content) + 1)
        content = content[:at] + replacement + content[at + removed :]
    check_accounts(content)


names = st.sampled_from(["a", "b", "c", "a#2", "", None, 5, "root"])
odd = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4)
fields = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "leaf", "label", "compaction", "session", "session_info", "custom", "x"])},
    optional={
        "id": names,
        "parentId": names,
        "targetId": names,
        "firstKeptEntryId": names,
        "firstKeptEntryIndex": st.integers(-2, 9),
        "kind": st.sampled_from(["entry", "usage", "header"]),
        "message": odd | st.fixed_dictionaries({}, optional={"role": odd, "content": odd, "model": odd}),
        "timestamp": odd | st.floats(),
        "name": odd,
        "summary": odd,
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(fields | st.lists(fields, max_size=3), max_size=12))
def test_no_odd_field_id_or_parent_raises_anything_or_breaks_the_tree(records: list[object]) -> None:
    check_accounts("\n".join(json.dumps(record) for record in records).encode())
