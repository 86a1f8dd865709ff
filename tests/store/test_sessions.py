"""Sessions: every turn is kept as it is written, and whatever is wrong is said."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.ledger.calls import NOON
from tokenbox.store.errors import (
    AmbiguousSession,
    DuplicateSession,
    InvalidSession,
    SessionChanged,
    StoreError,
    UnknownSession,
)
from tokenbox.store.stores import open_store
from tokenbox.store.turns import Turn, TurnState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tokenbox.store.sessions import StoredSession
    from tokenbox.store.stores import Store

LATER = NOON + timedelta(minutes=5)


def said(text: str, role: str = "user") -> Turn:
    return Turn({"role": role, "content": text}, NOON, tokens=len(text), exact=True)


def texts(session: StoredSession) -> list[object]:
    return [turn.message["content"] for turn in session.turns()]


@pytest.fixture
def session(store: Store) -> StoredSession:
    made = store.sessions.create("id-1", "engine", NOON, model="haiku", settings={"token_budget": 4096})
    made.append(said("one"), said("two", "assistant"))
    made.append(said("three"))
    return made


def test_turns_come_back_as_they_were_written(store: Store, session: StoredSession) -> None:
    again = store.sessions.open("engine")
    assert texts(again) == ["one", "two", "three"]
    assert [(turn.position, turn.place, turn.tokens, turn.exact) for turn in again.turns()] == [
        (0, 0, 3, True),
        (1, 1, 3, True),
        (2, 2, 5, True),
    ]
    assert again.info == session.info
    assert again.info.to_dict() == {
        "id": "id-1",
        "name": "engine",
        "created": "2026-11-21T12:00:00.000000Z",
        "updated": "2026-11-21T12:00:00.000000Z",
        "model": "haiku",
        "project": None,
        "settings": {"token_budget": 4096},
        "turns": 3,
    }


@pytest.mark.parametrize(
    "content",
    ["", "\0", "\ud800 \udfff", "日本語 🏁", "'; DROP TABLE tokenbox_turns; --", ":name %(name)s %s"],
)
def test_any_text_comes_back(store: Store, content: str) -> None:
    message = {"role": "tool", "content": content, "name": content, content: [None, 1.5, {"a": content}]}
    store.sessions.create("a", "a", NOON).append(Turn(message, NOON))
    (turn,) = store.sessions.open("a").turns()
    assert turn.message == message
    assert (turn.tokens, turn.exact, turn.pinned) == (None, False, False)


def test_what_is_no_longer_sent_stays_in_the_record(session: StoredSession) -> None:
    session.mark([0], TurnState.EVICTED)
    session.pin([2])
    assert texts(session) == ["two", "three"]
    assert [turn.pinned for turn in session.turns()] == [False, True]
    assert [turn.state for turn in session.turns(all_states=True)] == [
        TurnState.EVICTED,
        TurnState.KEPT,
        TurnState.KEPT,
    ]
    session.mark([0], TurnState.KEPT)
    session.pin([2], pinned=False)
    assert texts(session) == ["one", "two", "three"]
    assert not any(turn.pinned for turn in session.turns())


def test_a_summary_stands_where_what_it_sums_up_stood(store: Store, session: StoredSession) -> None:
    session.summarize([0, 1], said("so far", "system"))
    session.append(said("four"))
    session.summarize([2, 3], said("farther", "system"))
    assert texts(store.sessions.open("engine")) == ["farther", "four"]
    states = [(turn.message["content"], turn.state.value) for turn in session.turns(all_states=True)]
    assert states == [
        ("one", "summarized"),
        ("so far", "summarized"),
        ("farther", "kept"),
        ("two", "summarized"),
        ("three", "summarized"),
        ("four", "kept"),
    ]
    with pytest.raises(InvalidSession, match="has no turn 99: it has 6"):
        session.summarize([4, 99], said("no"))
    assert texts(session) == ["farther", "four"]


def test_two_processes_cannot_go_on_with_one_session(store: Store, session: StoredSession) -> None:
    other = store.sessions.open("engine")
    other.append(said("mine"))
    with pytest.raises(SessionChanged, match="it has another turn 3"):
        session.append(said("no, mine"), said("and mine"))
    assert texts(store.sessions.open("engine")) == ["one", "two", "three", "mine"]


def test_writing_again_what_may_have_been_written_is_safe(store: Store, session: StoredSession) -> None:
    first, second = store.sessions.open("engine"), store.sessions.open("engine")
    first.append(said("four"))
    second.append(said("four"), said("five"))
    assert texts(session) == ["one", "two", "three", "four", "five"]


def test_names_are_found_by_how_they_begin(store: Store) -> None:
    for number, name in enumerate(["engine", "engine room", "notes", "n_tes", "n%"]):
        store.sessions.create(f"id-{number}", name, NOON + timedelta(minutes=number))
    assert store.sessions.find("engine").name == "engine"
    assert store.sessions.find("engine ").name == "engine room"
    assert store.sessions.find("no").name == "notes"
    assert store.sessions.find("n_").name == "n_tes"
    assert store.sessions.find("id-2").name == "notes"
    with pytest.raises(AmbiguousSession, match=r"3 sessions begin with 'n': n%, n_tes, notes\."):
        store.sessions.find("n")
    with pytest.raises(AmbiguousSession, match="5 sessions begin with ''"):
        store.sessions.open("")
    with pytest.raises(UnknownSession, match="there is no session 'N'"):
        store.sessions.find("N")
    assert [info.name for info in store.sessions.list()] == ["n%", "n_tes", "notes", "engine room", "engine"]


def test_sessions_are_listed_by_last_use_and_by_project(store: Store) -> None:
    store.sessions.create("a", "old", NOON, project="/p").append(said("x"))
    store.sessions.create("b", "new", LATER)
    assert [(info.name, info.turns) for info in store.sessions.list()] == [("new", 0), ("old", 1)]
    store.sessions.open("old").append(Turn({"role": "user"}, LATER + timedelta(seconds=1)))
    assert [(info.name, info.turns) for info in store.sessions.list()] == [("old", 2), ("new", 0)]
    assert [info.name for info in store.sessions.list("/p")] == ["old"]


def test_a_name_is_taken_once(store: Store, session: StoredSession) -> None:
    with pytest.raises(DuplicateSession, match="there is a session 'engine' already"):
        store.sessions.create("id-2", "engine", NOON)
    other = store.sessions.create("id-2", "notes", NOON)
    with pytest.raises(DuplicateSession):
        other.change(LATER, name="engine")
    assert other.info.name == "notes"
    assert session.change(LATER, name="motor", model="opus", settings={"a": 1}).name == "motor"
    info = store.sessions.find("motor")
    assert (info.model, info.settings, info.updated, info.turns) == ("opus", {"a": 1}, LATER, 3)


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\0", "x" * 501, "\ud800"])
def test_what_is_no_name(store: Store, name: str) -> None:
    with pytest.raises(InvalidSession, match="is not a name for a session"):
        store.sessions.create("a", name, NOON)


def test_a_deleted_session_is_gone_with_every_word(store: Store, session: StoredSession) -> None:
    assert store.sessions.delete("eng").name == "engine"
    assert store.sessions.list() == []
    with store.database.reading() as transaction:
        assert transaction.rows("SELECT COUNT(*) FROM tokenbox_turns")[0][0] == 0
    gone: list[Callable[[], object]] = [
        lambda: session.append(said("x")),
        lambda: session.change(LATER, name="b"),
        lambda: store.sessions.open("engine"),
    ]
    for act in gone:
        with pytest.raises(StoreError, match=r"gone|no session"):
            act()


@pytest.mark.parametrize(
    "turn",
    [
        lambda: Turn({}, NOON),
        lambda: Turn({"role": 1}, NOON),
        lambda: Turn({"role": "user"}, NOON.replace(tzinfo=None)),
        lambda: Turn({"role": "user"}, NOON, tokens=-1),
    ],
)
def test_what_is_no_turn(turn: Callable[[], Turn]) -> None:
    with pytest.raises(InvalidSession):
        turn()


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes"])
def test_what_json_cannot_say_is_refused_and_nothing_written(session: StoredSession, value: object) -> None:
    with pytest.raises(InvalidSession, match="cannot be written as JSON"):
        session.append(said("four"), Turn({"role": "user", "content": value}, NOON))
    assert texts(session) == ["one", "two", "three"]
    session.append(said("four"))
    assert texts(session) == ["one", "two", "three", "four"]


def test_a_saved_session_can_be_loaded_elsewhere(session: StoredSession, tmp_path: Path) -> None:
    session.summarize([0, 1], said("so far", "system"))
    session.pin([2])
    saved = json.loads(json.dumps(session.saved()))
    with open_store(tmp_path / "other.db") as other:
        again = other.sessions.load(saved, "id-9", None, LATER)
        assert again.turns(all_states=True) == session.turns(all_states=True)
        assert (again.info.name, again.info.model, again.info.settings) == (
            "engine",
            "haiku",
            {"token_budget": 4096},
        )
        again.append(said("on"))
        assert other.sessions.load(saved, "id-10", "copy", LATER).info.turns == 4
        with pytest.raises(DuplicateSession):
            other.sessions.load(saved, "id-11", None, LATER)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
keys = st.sampled_from(["message", "written", "tokens", "exact", "pinned", "state", "place"])


@settings(max_examples=examples(200))
@given(
    damage=st.dictionaries(
        st.sampled_from(["tokenbox_session", "name", "model", "project", "settings", "turns"]), json_values
    ),
    turn=st.dictionaries(keys, json_values, max_size=2),
)
def test_a_damaged_file_loads_or_is_an_error_of_ours(
    memory: Store, damage: dict[str, object], turn: dict[str, object]
) -> None:
    good: dict[str, object] = {**said("x").to_dict(), **turn}
    record = {"tokenbox_session": 1, "name": "a", "turns": [said("x").to_dict(), good], **damage}
    try:
        loaded = memory.sessions.load(record, "id", None, NOON)
    except StoreError:
        assert memory.sessions.list() == []
    else:
        assert len(loaded.turns(all_states=True)) == loaded.info.turns
        memory.sessions.delete("id")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("sessions") / "a.db") as opened:
        yield opened
