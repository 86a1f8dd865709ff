"""Sessions that outlive their process."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tokenbox.content.message import Message
from tokenbox.providers.counting import TokenCount
from tokenbox.shell.errors import SessionFailed
from tokenbox.shell.loop import take
from tokenbox.shell.record import SessionRecord
from tokenbox.store.errors import SessionChanged, SessionError
from tokenbox.store.sessions import StoredSession
from tokenbox.store.stores import Store, open_store
from tokenbox.store.turns import Turn, TurnState

if TYPE_CHECKING:
    from pathlib import Path

    from tests.llama.server import LlamaServer
    from tests.shell.conftest import Begin

COUNTING = {"tokenize.use_endpoint": "true"}


def test_a_session_goes_on_where_it_was(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.token_budget": 150}, name="mine")
    take(session, "remember the penguin")
    take(session, ":pin 0")
    for number in range(8):
        take(session, f"question {number}")
    take(session, ":budget 170")
    messages, total = session.context.messages(), session.context.total().value
    take(session, ":cost detail")
    cost = heard.tables[-1]
    # No good-bye: what is not on disk by now is lost.
    again, heard = start(llama.url, flags=COUNTING, resume=True)
    assert heard.notices == [f"[continuing 'mine': {len(messages)} messages, {total} tokens]"]
    assert again.context.messages() == messages
    assert again.context.budget == 170
    take(again, ":cost detail")
    assert heard.tables[-1] == cost
    for number in range(8):
        take(again, f"question {number}")
    assert again.context.messages()[0]["content"] == "remember the penguin"
    assert heard.problems == []


def test_a_prompt_keeps_its_beginning_where_low_water_is_auto(start: Begin) -> None:
    cuts = {}
    for low_water in ("1", "auto"):
        session, _ = start(flags={"shell.low_water": low_water, "shell.token_budget": 400})
        context, cuts[low_water] = session.context, 0
        for number in range(120):
            context.ask(f"question {number}")
            cuts[low_water] += bool(context.evict()[0])
            assert context.total().value <= 400
            context.conversation.assistant("the answer to it")
    assert 0 < cuts["auto"] < cuts["1"] / 3


def test_sessions_of_other_projects_are_not_resumed_unasked(
    start: Begin, llama: LlamaServer, tmp_path: Path
) -> None:
    """A project chooses where its messages go, and so would get those of others."""
    session, _ = start(llama.url)
    take(session, "a secret of another folder")
    (tmp_path / "folder" / ".tokenbox").mkdir()
    again, heard = start(llama.url, resume=True)
    assert again.context.messages() == []
    assert heard.notices == ["[there is no session of this project to continue; this is a new one]"]


def test_only_a_saved_session_is_overwritten(start: Begin, llama: LlamaServer, tmp_path: Path) -> None:
    session, heard = start(llama.url)
    take(session, "hello")
    other = tmp_path / "package.json"
    other.write_text('{"name": "x"}')
    take(session, f":save {other}")
    assert heard.problems[-1].code == "session_failed"
    assert other.read_text() == '{"name": "x"}'
    for _ in range(2):
        take(session, f":save {tmp_path / 'saved.json'}")
    assert len(heard.problems) == 1


def test_a_name_that_is_taken_is_said_at_once(start: Begin, llama: LlamaServer) -> None:
    session, _ = start(llama.url, name="mine")
    take(session, "hello")
    with (
        patch.object(Store, "close", autospec=True, side_effect=Store.close) as closed,
        pytest.raises(SessionFailed, match="tokenbox shell --resume mine"),
    ):
        start(llama.url, name="mine")
    assert closed.call_count == 1  # a session that does not begin leaves no store open
    with pytest.raises(SessionError):
        start(llama.url, name=" \n ")


def test_a_question_without_an_answer_is_shown_again(start: Begin, llama: LlamaServer) -> None:
    session, _ = start(llama.url, name="mine")
    take(session, "one")
    number = session.context.ask("what was\nthe word?")
    session.record.append(
        {number: session.context.conversation.window[number].messages[0]}, session.models.count_text
    )
    again, heard = start(llama.url, name="mine", resume=True)
    assert heard.notices[0] == "[your last question was not answered; ask again: what was the word?]"
    assert [m["content"] for m in again.context.messages()][:1] == ["one"]
    assert len(again.context.messages()) == 2


@pytest.mark.slow
def test_a_summary_stands_where_it_stood(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, name="mine")
    for number in range(4):
        take(session, f"question {number}")
    take(session, ":compact --yes")
    take(session, "one more")
    take(session, ":compact --yes once more")
    again, _ = start(llama.url, name="mine", resume=True)
    assert again.context.messages() == session.context.messages()
    assert again.context.conversation.summary == session.context.conversation.summary != ""
    assert heard.problems == []


def test_sessions_are_not_listed_without_a_store(start: Begin) -> None:
    session, heard = start()
    session.record.open_store = None
    take(session, ":sessions")
    (problem,) = heard.problems
    assert problem.code == "session_failed"
    assert problem.message.endswith("Start the shell without --no-save.")


def test_save_load_and_list(start: Begin, llama: LlamaServer, tmp_path: Path) -> None:
    session, heard = start(llama.url)
    take(session, ":sessions")
    assert heard.results[-1] == "no saved sessions"
    take(session, ":save")
    assert heard.problems[-1].code == "session_failed"
    take(session, "hello")
    take(session, ":save the penguin")
    take(session, ":save out.json")
    saved = json.loads((tmp_path / "folder" / "out.json").read_text())
    assert saved["turns"][0]["message"]["content"] == "hello"
    assert ((tmp_path / "folder" / "out.json").stat().st_mode & 0o777) == 0o600
    messages = session.context.messages()
    take(session, ":reset")
    assert session.context.messages() == []
    take(session, "another")
    take(session, ":save the penguin")
    assert heard.problems[-1].code == "duplicate_session"
    take(session, ":load the pen")
    assert session.context.messages() == messages
    take(session, ":sessions")
    assert [row[0] for row in heard.tables[-1][1:]].count("*") == 1
    take(session, ":load out.json")
    assert session.context.messages() == messages
    take(session, ":load nobody")
    assert heard.problems[-1].code == "unknown_session"
    assert len(session.record.sessions()) == 3
    now = session.record.now()
    session.record.now = lambda: now
    for number in (4, 5):  # twice in one second
        take(session, ":load out.json")
        assert len(session.record.sessions()) == number


def test_a_session_is_deleted_by_its_full_name_and_its_calls_stay(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, name="mine")
    take(session, "hello")
    take(session, ":sessions delete mine")
    assert heard.problems[-1].message.endswith(":reset")
    take(session, ":reset")
    take(session, "another")
    take(session, ":sessions delete min")
    assert heard.problems[-1].code == "no_such_item"
    assert len(session.record.sessions()) == 2
    take(session, ":sessions delete mine")
    assert heard.notices[-1] == "[deleted 'mine' with 2 messages; its calls stay in tokenbox cost]"
    assert [info.id for info in session.record.sessions()] == [session.record.session_id]
    assert session.record.store.calls.totals().calls == 2
    for line, code in (
        (":sessions delete mine", "unknown_session"),
        (":sessions delete", "bad_arguments"),
        (":sessions mine", "bad_arguments"),
    ):
        take(session, line)
        assert heard.problems[-1].code == code


def test_a_session_that_another_shell_deletes_goes_on_unstored(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, name="mine")
    take(session, "hello")
    other, _ = start(llama.url)
    take(other, ":sessions delete mine")
    for line in ("and again", ":pin 0", ":drop 0", ":budget 300", "more"):
        take(session, line)
    (gone,) = [notice for notice in heard.notices if "not stored" in notice]
    assert gone.endswith("another process has deleted it. To write what you have to a file: :export talk.md")
    assert heard.problems == []
    assert len(session.context.messages()) == 4
    assert other.record.sessions() == []
    assert session.record.stored is None  # so that the shell does not end with "saved as"
    take(session, ":save again")
    assert heard.problems[-1].message.endswith(":export talk.md")


def test_a_session_goes_on_with_the_instructions_of_its_project_only(
    start: Begin, llama: LlamaServer, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    (folder / "AGENTS.md").write_text("Speak like a pirate.")
    (folder / "other.md").write_text("Speak like a king.")
    (folder / "below").mkdir()
    session, _ = start(llama.url, name="mine")
    take(session, "hello")
    take(session, ":project on")
    take(session, "!cd below")
    again, heard = start(llama.url, name="mine", resume=True)
    assert "pirate" in again.context.messages()[0]["content"]
    assert heard.notices[0] == f"[its folder was {folder}/below; to change to it: !cd {folder}/below]"
    take(again, ":project other.md")
    third, heard = start(llama.url, "[shell]\nproject = true\n", name="mine", resume=True)
    assert "pirate" in third.context.messages()[0]["content"]  # of the settings of this folder
    note = f"[its project instructions were {folder}/other.md; to send them: :project {folder}/other.md]"
    assert note in heard.notices
    take(third, ":project off")
    fourth, _ = start(llama.url, "[shell]\nproject = true\n", name="mine", resume=True)
    assert fourth.context.messages()[0]["role"] == "user"


def test_a_saved_session_that_cannot_be_used_changes_nothing(start: Begin, tmp_path: Path) -> None:
    session, heard = start()
    session.context.conversation.user("hello")
    saved = {"tokenbox_session": 1, "name": "x", "settings": {"token_budget": 10**30, "project": {}}}
    turns = [{"message": {"role": "user", "content": "hi"}, "written": "2026-11-21T12:00:00.000000Z"}]
    turns.append({**turns[0], "message": {"role": "nobody", "content": "hi"}})
    for name, some in (("bad", turns), ("good", turns[:1])):
        (tmp_path / "folder" / f"{name}.json").write_text(json.dumps({**saved, "turns": some}))
    budget = session.context.budget
    take(session, ":load bad.json")
    assert heard.problems[-1].code == "invalid_message"
    assert session.context.messages() == [{"role": "user", "content": "hello"}]
    assert session.record.session_id is None
    take(session, ":load good.json")
    assert len(heard.problems) == 1
    assert "project" not in heard.everything
    assert heard.notices[-1].startswith("[continuing 'good ")
    assert session.context.budget == budget


def test_what_was_dropped_stays_in_the_record_and_not_in_the_context(
    start: Begin, llama: LlamaServer, tmp_path: Path
) -> None:
    session, _ = start(llama.url, name="mine")
    take(session, "one")
    take(session, "two")
    take(session, ":drop 0")
    with open_store(tmp_path / "data" / "tokenbox.db") as store:
        turns = store.sessions.open("mine").turns(all_states=True)
    assert [turn.state for turn in turns] == [TurnState.DROPPED] * 2 + [TurnState.KEPT] * 2


def test_a_store_that_fails_ends_no_conversation(start: Begin, llama: LlamaServer, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tokenbox.db").write_bytes(
        b"not a database, and long enough to be seen as none" * 99
    )
    session, heard = start(llama.url)
    take(session, "hello")
    take(session, "and again")
    assert [note for note in heard.notices if "is not stored" in note] == [heard.notices[0]]
    assert len(session.context.messages()) == 4
    assert heard.problems == []


def test_nothing_is_kept_where_nothing_is_to_be(start: Begin, llama: LlamaServer, tmp_path: Path) -> None:
    session, heard = start(llama.url, keep=False)
    take(session, "hello")
    assert not (tmp_path / "data" / "tokenbox.db").exists()
    take(session, ":sessions")
    assert len(heard.problems) == 1


@pytest.mark.parametrize("line", [":save mine.json", ":export mine.json --force"])
def test_a_file_that_cannot_be_written_again_stays_as_it_was(
    start: Begin, llama: LlamaServer, tmp_path: Path, line: str
) -> None:
    session, heard = start(llama.url)
    take(session, "hello")
    take(session, line)
    saved = tmp_path / "folder" / "mine.json"
    before = saved.read_bytes()
    take(session, "and more?")
    with patch("tokenbox.files.os.fsync", side_effect=OSError(28, "No space left on device")):
        take(session, line)
    assert [error.code for error in heard.problems] == ["session_failed"]
    assert saved.read_bytes() == before
    assert saved.stat().st_mode & 0o777 == 0o600


def test_two_shells_that_begin_in_one_second_are_both_stored(tmp_path: Path) -> None:
    heard: list[str] = []
    for number in range(2):
        record = SessionRecord(
            lambda: open_store(tmp_path / "store.db"),
            lambda: datetime(2026, 11, 29, 12, tzinfo=UTC),
            lambda number=number: f"id{number}",  # type: ignore[misc]
            heard.append,
            lambda: "m",
            dict,
        )
        question = Message.of({"role": "user", "content": f"question {number}"})
        record.append({0: question}, lambda _: TokenCount(2, exact=True, source="rules"))
        record.close()
    assert heard == []
    with open_store(tmp_path / "store.db") as store:
        names = sorted(info.name for info in store.sessions.list())
    assert names == ["2026-11-29 12:00:00", "2026-11-29 12:00:00 id1"]


def test_an_answer_follows_its_question_if_another_shell_wrote_between(tmp_path: Path) -> None:
    heard: list[str] = []
    texts = {"user": ["one", "two"], "assistant": ["of one", "of two"]}

    def record() -> SessionRecord:
        return SessionRecord(
            lambda: open_store(tmp_path / "store.db"),
            lambda: datetime(2026, 11, 29, 12, tzinfo=UTC),
            lambda: "id",
            heard.append,
            lambda: "m",
            dict,
        )

    def counted(_: str) -> TokenCount:
        return TokenCount(2, exact=True, source="rules")

    shells = [record(), record()]
    shells[0].append({0: Message.of({"role": "user", "content": "zero"})}, counted)
    shells[1].resume(shells[1].store.sessions.open("id"))
    for role, said in texts.items():
        for number, (shell, text) in enumerate(zip(shells, said, strict=True)):
            shell.append({number + 1: Message.of({"role": role, "content": text})}, counted)
    assert len(heard) == 2  # each shell says once that there is another
    found = [message.text for message, _ in shells[0].history()]
    assert found == ["zero", "one", "of one", "two", "of two"]
    for shell in shells:
        shell.close()


@pytest.mark.parametrize("answers", [0, 1])
def test_a_question_that_another_shell_still_answers_is_not_lost(
    start: Begin, llama: LlamaServer, answers: int
) -> None:
    session, _ = start(llama.url, name="mine")
    take(session, "one")
    number = session.context.ask("what was the word?")
    session.record.append({number: session.context.window[number]}, session.models.count_text)
    _, heard = start(llama.url, name="mine", resume=True)
    assert heard.notices[0] == "[your last question was not answered; ask again: what was the word?]"
    for one in range(answers):
        answer = Message.of({"role": "assistant", "content": "It was parapluie."})
        session.record.append({number + 1 + one: answer}, session.models.count_text)
    again, _ = start(llama.url, name="mine", resume=True)
    found = [message["content"] for message in again.context.messages()]
    assert found[2:] == ["what was the word?", "It was parapluie."] * answers


def test_another_shell_that_is_faster_twice_does_not_end_the_storing(
    start: Begin, llama: LlamaServer
) -> None:
    session, heard = start(llama.url, name="mine")
    take(session, "hello")
    changed = SessionChanged("another process wrote to the session.")
    append, faster = StoredSession.append, [changed, changed]

    def slow(stored: StoredSession, *turns: Turn) -> list[Turn]:
        if faster:
            raise faster.pop()
        return append(stored, *turns)

    with patch.object(StoredSession, "append", slow):
        take(session, "and again")
    assert session.record.stored is not None
    assert len(session.record.history()) == 4
    assert [notice for notice in heard.notices if "not stored" in notice] == []


def test_a_file_that_cannot_be_written_is_named_with_the_reason(
    start: Begin, llama: LlamaServer, tmp_path: Path
) -> None:
    session, heard = start(llama.url)
    take(session, "hello")
    path = tmp_path / "missing/talk.md"
    take(session, f":export {path}")
    assert heard.problems[-1].message == f"{path} cannot be written: No such file or directory."
