"""The commands around what was said, files that a question brings, retries, caps, and what is noticed."""

from __future__ import annotations

import base64
import json
import os
import pickle
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from aiohttp import web

from tests.providers.fake import serving, sse
from tests.shell.test_servers import COUNTING, delta, done, says, script
from tokenbox.catalog import Price, PriceTier
from tokenbox.engine.steps import WindowAction, WindowReason, WindowStep
from tokenbox.providers.counting import TokenCount
from tokenbox.render.lines import ASCII, cells, plain
from tokenbox.shell.commands.again import code_blocks
from tokenbox.shell.context import ContextKind, ContextRow
from tokenbox.shell.loop import take
from tokenbox.shell.memory import Memory
from tokenbox.shell.picture import picture, warning
from tokenbox.store.calls import Calls
from tokenbox.store.errors import StoreBusy, StoreFull
from tokenbox.store.sessions import StoredSession

if TYPE_CHECKING:
    from pathlib import Path

    from tests.providers.fake import FakeServer
    from tests.shell.conftest import Begin
    from tokenbox.shell.session import Session

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def routes(*answers: bytes, models: tuple[str, ...] = ("m", "other")) -> dict[str, Any]:
    return {
        "/v1/models": {"data": [{"id": name} for name in models]},
        "/v1/chat/completions": script(*answers),
    }


def messages(session: Session) -> list[Any]:
    return [message["content"] for message in session.context.messages()]


def sent(server: FakeServer) -> list[Any]:
    """The bodies of the chats."""
    return [asked.body for asked in server.asked if asked.path == "/v1/chat/completions"]


def test_retry_asks_the_same_question_again(start: Begin) -> None:
    with serving(routes(says("one"), says("two"), says("three"))) as server:
        session, heard = start(server.url)
        take(session, "hello")
        take(session, "and now?")
        take(session, ":retry")
        assert messages(session) == ["hello", "one", "and now?", "three"]
        assert sent(server)[-1]["messages"] == sent(server)[-2]["messages"]
        stored = session.record.stored
        assert stored is not None
        assert [turn.message["content"] for turn in stored.turns()] == ["hello", "one", "and now?", "three"]
        assert heard.problems == []


def test_a_retry_that_fails_loses_nothing(start: Begin) -> None:
    failing: list[object] = []
    answer = script(says("one"), says("two"))

    async def chat(request: web.Request) -> object:
        return failing.pop() if failing else await answer(request)

    with serving({**routes(), "/v1/chat/completions": chat}) as server:
        session, heard = start(server.url)
        take(session, "hello")
        failing.append((400, {"error": {"message": "no"}}))
        take(session, ":retry")
        assert [error.code for error in heard.problems] == ["request_rejected"]
        assert messages(session) == ["hello", "one"]
        stored = session.record.stored
        assert stored is not None
        assert [turn.message["content"] for turn in stored.turns()] == ["hello", "one"]
        take(session, ":undo")
        assert messages(session) == []
        assert stored.turns() == []


@pytest.mark.parametrize("line", [":retry", ":edit hello again"])
def test_what_asks_again_without_an_answer_leaves_the_exchange_and_the_offers(
    start: Begin, line: str
) -> None:
    failing: list[object] = []
    answer = script(says("one"), says(""), says("two"))

    async def chat(request: web.Request) -> object:
        return failing.pop() if failing else await answer(request)

    with serving({**routes(), "/v1/chat/completions": chat}) as server:
        session, heard = start(server.url)
        take(session, "!echo first")
        take(session, "hello")
        take(session, ":pin 0")
        take(session, "!echo second")
        exchange = messages(session)
        failing.append((400, {"error": {"message": "no"}}))
        take(session, line)  # the server refuses
        heard.interrupt_waiting = True
        take(session, line)  # Ctrl-C before the first word
        heard.interrupt_waiting = False
        take(session, line)  # the answer is empty
        os.mkfifo(fifo := session.place.path("pipe"))
        take(session, f":edit what is in @{fifo}?")  # it cannot be attached
        assert [error.code for error in heard.problems] == ["request_rejected", "path_unusable"]
        take(session, ":edit")
        assert session.begun == ":edit hello"
        assert messages(session) == exchange  # until the new question has an answer
        assert [offer.command for offer in session.context.offers] == ["echo second"]
        assert all(item.pinned for item in session.context.conversation.items() if item.number is not None)
        again, _ = start(server.url, resume=True)
        assert messages(again) == exchange
        take(session, ":edit hello again")
        first, second, question = messages(session)[0].split("\n\n")
        assert (first.split("\n")[0], second.split("\n")[0]) == ("$ echo first", "$ echo second")
        assert (question, messages(session)[1]) == ("hello again", "two")
        assert session.context.offers == []
        assert messages(start(server.url, resume=True)[0]) == messages(session)


def test_a_retry_that_breaks_off_replaces_the_answer(start: Begin) -> None:
    cut = sse(delta(content="tw")).removesuffix(b"data: [DONE]\n\n")
    with serving(routes(says("one"), cut)) as server:
        session, heard = start(server.url)
        take(session, "hello")
        take(session, ":retry")
        assert [error.code for error in heard.problems] == ["stream_cut"]
        assert messages(session) == ["hello", "tw"]
        stored = session.record.stored
        assert stored is not None
        assert [turn.message["content"] for turn in stored.turns()] == ["hello", "tw"]


def test_an_export_has_what_was_said_after_the_store_failed(start: Begin, tmp_path: Path) -> None:
    with serving(routes(says("one"), says("two"))) as server:
        session, heard = start(server.url)
        take(session, "hello")
        with patch.object(StoredSession, "append", side_effect=StoreFull("no space is left.")):
            take(session, "and now?")
        assert any("not stored" in notice for notice in heard.notices)
        take(session, ":save talk.json")
        assert "is not stored" in heard.problems[-1].message
        take(session, ":export talk.md")
        talk = (tmp_path / "folder" / "talk.md").read_text()
        assert (
            talk == "## user\n\nhello\n\n## assistant\n\none\n\n## user\n\nand now?\n\n## assistant\n\ntwo\n"
        )


def test_no_note_of_two_shells_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "memory.txt"

    def note(name: str) -> None:
        for number in range(40):
            Memory(path).add(f"{name} {number}")

    shells = [threading.Thread(target=note, args=(name,)) for name in "ab"]
    for shell in shells:
        shell.start()
    for shell in shells:
        shell.join()
    assert len(Memory(path).notes) == 80


def test_the_counts_of_a_long_session_do_not_hold_its_requests(start: Begin) -> None:
    with serving(routes(*[says("ok")] * 12)) as server:
        session, _ = start(server.url, flags={"shell.token_budget": 100_000})
        for number in range(12):
            take(session, f"{number} " + "hello world " * 300)
        assert len(pickle.dumps(list(session.models._counts))) < 20_000  # noqa: SLF001  # 1 kB a turn


def test_what_cannot_be_attached_says_what_is_left_for_it(start: Begin, tmp_path: Path) -> None:
    (tmp_path / "folder" / "a.txt").write_text("word\n" * 2_000)
    session, heard = start(flags={"shell.token_budget": 60})
    take(session, ":file a.txt")
    (problem,) = heard.problems
    assert problem.code == "nothing_fits"
    assert "half of the budget of 60, less what is on offer" in problem.message
    assert ":drop last" in problem.message


@pytest.mark.parametrize("output", ["\udcff", "done", "word " * 500])
def test_a_long_command_is_cut_as_its_output_is(start: Begin, output: str) -> None:
    session, _ = start(flags={"shell.output_tokens": 100})
    take(session, f"!echo '{output}' # {'x y ' * 2_000}")
    (offer,) = session.context.offers
    assert session.models.count_text(offer.text).value <= 100
    assert offer.text.startswith("$ echo")


def test_undo_and_edit_take_the_last_question_back(start: Begin) -> None:
    with serving(routes(*(says(str(n)) for n in range(5)))) as server:
        session, heard = start(server.url)
        for line in ("a", "b", "c"):
            take(session, line)
        take(session, ":undo")
        assert messages(session) == ["a", "0", "b", "1"]
        take(session, ":edit better b")
        assert messages(session) == ["a", "0", "better b", "3"]
        take(session, ":edit")
        assert session.begun == ":edit better b"
        for line in (":undo", ":undo", ":undo"):
            take(session, line)
        assert [error.code for error in heard.problems] == ["no_such_item"]


def test_copy_takes_the_answer_or_its_code(start: Begin) -> None:
    answer = "Run this:\n```sh\nls -l\n```\nand this:\n```\npwd\n```\n"
    with serving(routes(says(answer))) as server:
        session, heard = start(server.url)
        take(session, ":copy")
        assert [error.code for error in heard.problems] == ["no_such_item"]
        take(session, "how?")
        for line in (":copy", ":copy code 1", ":copy code", ":copy code 3", ":copy that"):
            take(session, line)
        assert heard.copied == [answer, "ls -l\n", "pwd\n"]
        assert [error.code for error in heard.problems[1:]] == ["no_such_item", "bad_arguments"]


def test_export_writes_a_request_and_a_page_and_never_over_a_file(start: Begin, tmp_path: Path) -> None:
    with serving(routes(says("Yes."))) as server:
        session, heard = start(server.url, flags={"shell.system": "Be brief."})
        take(session, "Is it?")
        take(session, ":export talk.json")
        take(session, ":export talk.md")
        take(session, ":export talk.md")
        folder = tmp_path / "folder"
        body = json.loads((folder / "talk.json").read_text())
        assert body == {"model": "m", "messages": session.context.messages()}
        assert (folder / "talk.md").read_text() == "## user\n\nIs it?\n\n## assistant\n\nYes.\n"
        assert [error.code for error in heard.problems] == ["session_failed"]
        take(session, ":export talk.md --force")
        assert len(heard.problems) == 1


def test_set_shows_the_budget_in_force(start: Begin) -> None:
    session, heard = start()
    take(session, ":budget 2_500")
    take(session, ":set")
    assert ["shell.token_budget", "2500", "this session"] in heard.tables[-1]
    take(session, ":set token_budget")
    assert heard.results[-1] == "shell.token_budget = 2500"
    take(session, ":set token_budget 3000")
    take(session, ":set")
    assert ["shell.token_budget", "3000", ":set"] in heard.tables[-1]


def test_models_of_the_server_are_listed_and_can_be_used(start: Begin) -> None:
    settings = "[models.here]\nendpoint = 'URL'\nmodel = 'm'\n"
    with serving(routes(says("hi"), says("ho"))) as server:
        session, heard = start(None, settings.replace("URL", server.url))
        take(session, ":models")
        assert heard.tables[-1][1:] == [["*", "m"], ["", "other"]]
        take(session, ":model other")
        take(session, "hello")
        assert sent(server)[-1]["model"] == "other"
        take(session, ":model nobody")
        assert [error.code for error in heard.problems] == ["model_not_configured"]


def test_set_changes_this_session_only(start: Begin) -> None:
    with serving(routes(says("hi"))) as server:
        session, heard = start(server.url)
        for line in (
            ":set max_turns 3",
            ":set shell.low_water 0.5",
            ":set prompt {model}$ ",
            ":set token_budget 900",
        ):
            take(session, line)
        conversation = session.context.conversation
        assert (conversation.max_turns, str(conversation.low_water), conversation.token_budget) == (
            3,
            "0.5",
            900,
        )
        assert session.prompt() == "m$"
        take(session, ":set system Be brief.")
        assert session.context.messages()[0]["content"] == "Be brief."
        for line in (
            ":set",
            ":set max_turns",
            ":set max_turns none",
            ":set nothing 1",
            ":set policy.headroom 0.5",
        ):
            take(session, line)
        assert [error.code for error in heard.problems] == ["bad_arguments"] * 3
        assert ["shell.max_turns", "3", ":set"] in heard.tables[-1]


def test_a_question_brings_the_files_that_it_mentions(start: Begin, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "src").mkdir(parents=True)
    (folder / "notes.txt").write_text("The door is green.\n")
    for number in range(30):
        body = "    return 'filler words about nothing in particular'\n" * 12
        (folder / "src" / f"part{number}.py").write_text(f"def part{number}():\n{body}")
    (folder / "src" / "tide.py").write_text("def high_tide(port):\n    return 'noon at ' + port\n")
    with serving(routes(*[says("ok")] * 9)) as server:
        session, heard = start(server.url)
        take(session, "What colour has the door in @notes.txt?")
        assert "The door is green." in sent(server)[-1]["messages"][-1]["content"]
        assert "@notes.txt?" in sent(server)[-1]["messages"][-1]["content"]
        take(session, ":reset")
        take(session, "When is high_tide in @src, and who is @nobody?")
        content = sent(server)[-1]["messages"][-1]["content"]
        assert "def high_tide" in content
        assert content.count("filler") < 30 * 12
        assert session.context.total().value <= session.context.budget
        take(session, "\\mail me @notes.txt")
        assert sent(server)[-1]["messages"][-1]["content"] == "mail me @notes.txt"
        take(session, ":file src high_tide")
        assert "def high_tide" in session.context.offers[-1].text
        take(session, ":file nowhere")
        assert [error.code for error in heard.problems] == ["no_such_item"]


def test_an_image_is_sent_as_one(start: Begin, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "folder" / "map.png").write_bytes(PNG)
    with serving(routes(says("a map"))) as server:
        session, heard = start(server.url)
        take(session, "What is on @map.png?")
        content = sent(server)[-1]["messages"][-1]["content"]
        assert content[0] == {"type": "text", "text": "What is on @map.png?"}
        assert content[1]["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        take(session, ":file map.png")
        assert [error.code for error in heard.problems] == ["bad_arguments"]


def test_files_are_not_left_on_offer_by_a_question_that_fails(start: Begin, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "folder" / "a.txt").write_text("something")
    with serving({**routes(), "/v1/chat/completions": (400, {"error": {"message": "no"}})}) as server:
        session, _ = start(server.url)
        take(session, "what is @a.txt?")
        assert session.context.offers == []
        assert messages(session) == []


def test_a_server_that_is_busy_is_asked_again_when_it_says(start: Begin) -> None:
    left: list[web.Response] = []
    answer = script(says("now"))

    async def chat(request: web.Request) -> object:
        return left.pop() if left else await answer(request)

    def busy(status: int, seconds: int) -> web.Response:
        return web.json_response(
            {"error": {"message": "busy"}}, status=status, headers={"retry-after": str(seconds)}
        )

    with serving({**routes(), "/v1/chat/completions": chat}) as server:
        session, heard = start(server.url)
        left += [busy(503, 7), busy(429, 3)]
        session.evictions += [WindowStep((0,), WindowReason.OVER, 9, 8, 1, 8, WindowAction.EVICT)]
        take(session, "hello")
        assert session.last_call is not None
        assert [step["action"] for step in session.last_call.decisions[1:]] == ["evict"]
        assert session.evictions == []
        assert (heard.waits, "".join(heard.pieces), heard.problems) == ([3, 7], "now", [])
        left += [busy(429, 3_600)]
        take(session, "again")
        assert (heard.waits, [error.code for error in heard.problems]) == ([3, 7], ["rate_limited"])


def test_a_server_that_drops_the_beginning_is_noticed(start: Begin) -> None:
    counts = {"/v1/chat/completions/input_tokens": {"input_tokens": 5_000}}
    listed = {"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}}
    short = sse(delta(content="hm"), done(prompt_tokens=2_048, completion_tokens=1))
    with serving({**routes(short), **listed, **counts}) as server:
        session, heard = start(server.url, flags={**COUNTING, "shell.token_budget": 9_000})
        take(session, "hello")
        (said,) = [notice for notice in heard.notices if "dropped" in notice]
        assert "read 2,048 prompt tokens where 5,000 were sent" in said
        # From now on its counts are estimates.
        assert not session.context.total().exact
        take(session, ":tokenize")
        assert any("0 of 1 counts" in cell for row in heard.tables[-1] for cell in row)


def test_the_guard_of_the_policy_decides_what_an_estimate_may_send(start: Begin) -> None:
    settings = "[models.m]\nmax_ctx = 500\nreserve_out = 12\nendpoint = 'URL'\n[policy]\nuncertain = 'RULE'\n"
    with serving(routes(*[says("ok")] * 9)) as server:
        for rule, sent_at_all in (("margin", True), ("bound", False)):
            text = settings.replace("URL", server.url).replace("RULE", rule)
            session, heard = start(None, text, flags={"policy.reserve_out": None})
            before = len(sent(server))
            take(session, "what is the tide? " * 30)
            assert (len(sent(server)) > before) is sent_at_all, [error.message for error in heard.problems]
            codes = [error.code for error in heard.problems]
            assert codes == ([] if sent_at_all else ["context_critical_overflow"])


def test_a_server_is_asked_for_counts_anew(start: Begin) -> None:
    can: list[bool] = []

    async def tokenize(_request: web.Request) -> object:
        return {"tokens": [1, 2, 3]} if can else (404, {"error": "no"})

    with serving({**routes(says("hi")), "/tokenize": tokenize}) as server:
        session, heard = start(server.url, flags=COUNTING)
        take(session, ":tokenize")
        assert any("no; :tokenize probe asks again" in cell for row in heard.tables[-1] for cell in row)
        can.append(True)
        take(session, ":tokenize probe")
        assert ["'hello world' is", f"3 tokens ({server.url}/tokenize)"] in heard.tables[-1]


def test_the_server_counts_each_request_once(start: Begin) -> None:
    async def count(request: web.Request) -> object:
        body = await request.json()
        return {"input_tokens": 10 + sum(len(str(m["content"]).split()) + 4 for m in body["messages"])}

    async def tokenize(request: web.Request) -> object:
        return {"tokens": [1] * len((await request.json())["content"].split())}

    listed = {"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}}
    counts = {"/v1/chat/completions/input_tokens": count, "/tokenize": tokenize}
    with serving({**routes(*[says("word " * 30)] * 25), **listed, **counts}) as server:
        session, heard = start(server.url, flags={**COUNTING, "shell.token_budget": 1_200})
        for number in range(25):
            session.prompt()
            take(session, f"question {number} " + "a b c " * 10)
        assert heard.problems == []
        paths = server.paths()
        assert paths.count("/v1/chat/completions/input_tokens") <= 25 + 5  # some more where something left
        assert paths.count("/tokenize") <= 2 * 25


def test_the_tokens_of_a_text_are_shown(start: Begin) -> None:
    settings = "[models.gpt-4o]\ntokenizer = 'o200k_base'\nendpoint = 'http://127.0.0.1:9'\n"
    session, heard = start(None, settings)
    take(session, ":tokenize hello world, unbelievable")
    assert heard.results[-1].startswith("[hello][ world][,]")
    take(session, ":set low_water 1")


def test_a_day_has_a_cap_over_all_its_sessions(start: Begin) -> None:
    settings = '[catalog.m]\nprice_input = "1000"\nprice_output = "1000"\ndate = 2026-11-01\n'
    with serving(routes(*[says("ok")] * 9)) as server:
        codes = []
        for _ in range(2):
            session, heard = start(server.url, settings, flags={"cost.cap_per_day": "0.1"})
            take(session, "hello")
            codes.append([error.code for error in heard.problems])
        assert codes == [[], ["cost_cap_exceeded"]]


@pytest.mark.parametrize("fails", ["totals", "record"])
def test_while_the_store_cannot_be_asked_the_cap_of_a_day_holds_all_back(start: Begin, fails: str) -> None:
    """It was that of this session then, as if no other had spent anything."""
    settings = '[catalog.m]\nprice_input = "1000"\nprice_output = "1000"\ndate = 2026-11-01\n'
    with serving(routes(says("ok"))) as server:
        session, heard = start(server.url, settings, flags={"cost.cap_per_day": "1000"})
        with patch.object(Calls, fails, side_effect=StoreBusy("it is locked.")):
            take(session, "hello")
        take(session, "and now?")
        assert [error.code for error in heard.problems] == ["session_failed"] * 2
        assert "it is locked. Nothing is sent under cost.cap_per_day." in heard.problems[0].message
        assert "/v1/chat/completions" not in server.paths()
        assert session.context.messages() == [], "the questions are taken back"


def test_two_shells_that_check_a_cap_at_once_cannot_both_send(
    start: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have checked before either has recorded its call, as if this shell had seen nothing."""
    monkeypatch.setattr("tokenbox.shell.turn.check_cap", lambda *_: None)
    settings = '[catalog.m]\nprice_input = "1000"\nprice_output = "1000"\ndate = 2026-11-01\n'
    with serving(routes(*[says("ok")] * 2)) as server:
        one, _ = start(server.url, settings, flags={"cost.cap_per_day": "0.1"})
        take(one, "hello")
        other, heard = start(server.url, settings, flags={"cost.cap_per_day": "0.1"})
        take(other, "hello")
        assert [error.code for error in heard.problems] == ["cost_cap_exceeded"]
        assert server.paths().count("/v1/chat/completions") == 1
        assert other.context.messages() == [], "the question is taken back"
        assert other.record.spent_today().held == 0, "a refused call holds nothing"


def test_a_cap_counts_with_the_rates_that_an_estimate_may_reach(
    start: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(routes(*[says("ok")] * 9)) as server:
        for above, codes in ((20, ["cost_cap_exceeded"]), (10_000, [])):
            session, heard = start(server.url, flags={"cost.cap_at_dollars": "1"})
            dear = PriceTier(above, Decimal(10**6), Decimal(10**6))
            price = Price(Decimal(1), Decimal(1), tiers=(dear,))
            monkeypatch.setattr(session.models, "price", lambda _, price=price: price)
            assert session.context.total().value < 20
            take(session, "hello")
            assert [error.code for error in heard.problems] == codes


def test_a_call_of_an_unknown_cost_is_sent_under_a_cap_only_if_the_settings_allow_it(start: Begin) -> None:
    capped = {"cost.cap_at_dollars": "1"}
    with serving(routes(*[says("ok")] * 9)) as server:
        session, heard = start(server.url, flags=capped)
        take(session, "hello")
        (refused,) = heard.problems
        assert (refused.code, server.paths().count("/v1/chat/completions")) == ("cost_cap_unknown", 0)
        assert refused.details["remedies"][-1:] == [":set cost.unpriced allow"]  # type: ignore[index]
        assert "tokenbox config set" not in refused.message
        session, heard = start(server.url, flags={**capped, "cost.unpriced": "allow"})
        take(session, "hello")
        assert heard.problems == []


def test_a_budget_and_a_setting_are_written_as_elsewhere(start: Begin) -> None:
    session, heard = start()
    for line, budget in ((":budget 8k", 8000), (":budget 12,000", 12_000), (":budget 900 tokens", 900)):
        take(session, line)
        assert session.context.budget == budget
    take(session, ":set token_budget 8k")
    assert heard.problems[-1].message.endswith("not '8k'. Write 8000.")
    take(session, ":set cap_at_dollars 2.5")
    assert str(session.settings.cap) == "2.5"
    for name in ("cost.max_turns", "nothing", "models.x.endpoint", "shell."):
        take(session, f":set {name} 3")
        assert heard.problems[-1].message.startswith(f"there is no setting {name!r}")


def test_a_cap_reads_the_sum_of_a_session_and_not_each_call_of_it(start: Begin) -> None:
    settings = '[catalog.m]\nprice_input = "1"\nprice_output = "1"\ndate = 2026-11-01\n'
    with serving(routes(*[says("ok")] * 9)) as server, patch.object(Calls, "each") as each:
        session, heard = start(server.url, settings, name="mine", flags={"cost.cap_at_dollars": "5"})
        for line in ("one", "two", ":reset", "three"):
            take(session, line)
        assert session.record.spent().calls == 3  # also of what :reset ended
        take(session, ":load mine")
        take(session, "four")
        take(session, ":cost")
        assert heard.results[-1] == "$0.000069 of $5 for 3 calls: 60 tokens in, 9 out"
        assert heard.problems == []
    assert each.call_count == 0


def test_a_session_that_two_use_loses_no_call(start: Begin) -> None:
    with serving(routes(*[says("ok")] * 9)) as server:
        one, heard_one = start(server.url, name="both")
        take(one, "first")
        two, heard_two = start(server.url, name="both", resume=True)
        for session in (one, two, one, two):
            take(session, "more")
        stored = two.record.stored
        assert stored is not None
        assert len(one.record.store.sessions.open("both").turns()) == 10
        assert ["the messages of both are stored" in notice for notice in heard_one.notices] == [True]
        for session, heard in ((one, heard_one), (two, heard_two)):
            take(session, ":cost")
            assert heard.problems == []
            assert "for 5 calls" in heard.results[-1]


@pytest.fixture
def items() -> list[ContextRow]:
    kinds = (
        ContextKind.SYSTEM,
        ContextKind.USER,
        ContextKind.ASSISTANT,
        ContextKind.TOOL,
        ContextKind.OFFER,
        ContextKind.TEMPLATE,
    )
    return [ContextRow(kind, "about", 40 * (n + 1), exact=True) for n, kind in enumerate(kinds)]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("budget", [0, 100, 840, 2_000, 100_000])
def test_the_picture_fits_its_width_and_its_bar_adds_up(
    items: list[ContextRow], width: int, budget: int
) -> None:
    lines = picture(items, TokenCount(840, exact=True, source="x"), budget, width)
    assert all(sum(cells(span.text) for span in line) <= width for line in lines)
    assert sum(cells(span.text) for span in lines[1]) == min(width - 2, 100)
    assert "840 of" in plain(lines)
    assert plain(picture(items, TokenCount(840, exact=True, source="x"), budget, width, ASCII)).isascii()


def test_a_context_that_is_nearly_full_is_said_once(start: Begin) -> None:
    assert warning(TokenCount(80, exact=True, source="x"), 100) is None
    assert warning(TokenCount(81, exact=True, source="x"), 100)
    with serving(routes(*[says("word " * 60)] * 9)) as server:
        session, heard = start(server.url, flags={"shell.token_budget": 400, "shell.low_water": "0.95"})
        for _ in range(6):
            take(session, "hello " * 20)
        assert len([notice for notice in heard.notices if "full; the oldest" in notice]) >= 1


def test_an_undone_question_is_as_it_was_typed_and_edit_offers_its_outputs_again(start: Begin) -> None:
    with serving(routes(says("hi"), says("hi"))) as server:
        session, heard = start(server.url)
        take(session, "!echo some output")
        take(session, "what is that?")
        take(session, ":edit")
        assert session.begun == ":edit what is that?"
        take(session, session.begun)
        assert messages(session)[0].startswith("$ echo some output")
        take(session, ":undo")
        assert "removed: what is that?" in heard.notices[-1]


def test_the_options_of_the_command_line_win_over_the_resumed_session(start: Begin) -> None:
    with serving(routes(says("hi"))) as server:
        session, _ = start(server.url, name="mine")
        take(session, "hello")
        take(session, ":budget 2000")
        session.close()
        assert start(server.url, name="mine", resume=True)[0].context.budget == 2000
        flags = {"shell.token_budget": 700}
        assert start(server.url, name="mine", resume=True, flags=flags)[0].context.budget == 700


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (":project pipe.json", "no_such_item"),
        (":project a\0b", "no_such_item"),
        (":load pipe.json", "session_failed"),
        (":load a\0b.json", "session_failed"),
        (":file pipe.json", "path_unusable"),
        (":file a\0b", "no_such_item"),
        (f":save {'x/' * 3000}a.json", "session_failed"),
        (f":memory drop {'9' * 5000}", "bad_arguments"),
        (f":copy code {'9' * 5000}", "bad_arguments"),
        (":copy code ²", "bad_arguments"),
        (":pin ²", "bad_arguments"),
        (":budget 1_000_000_000_001", "bad_arguments"),
        (":set max_turns 1__0", "bad_arguments"),
        (":model \ud800", "model_not_configured"),
    ],
)
def test_what_is_no_file_number_or_name(start: Begin, tmp_path: Path, line: str, code: str) -> None:
    os.mkfifo(tmp_path / "folder" / "pipe.json")
    session, heard = start()
    take(session, line)
    assert [error.code for error in heard.problems] == [code]


def test_notes_and_instructions_that_are_pipes_are_not_waited_for(start: Begin, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "folder" / "AGENTS.md")
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / "memory.txt")
    session, heard = start(flags={"shell.project": True})
    assert session.context.messages() == []
    assert heard.problems == []


def test_code_is_found_in_one_pass() -> None:
    assert code_blocks("```py\na\n```\n~~~~\n```\n~~~\n~~~~~\n```x``` b\n``` \nc\n```\nd") == [
        "a\n",
        "```\n~~~\n",
        "c\n",
    ]
    assert (
        code_blocks("```a\nx\n" * 50_000) == []
    )  # none is closed: for a search from each this takes minutes


def test_a_note_may_have_half_a_character(start: Begin) -> None:
    session, heard = start()
    take(session, ":memory add a\udc80b")
    assert (session.memory.notes, heard.problems) == (("a?b",), [])


def test_what_the_guard_refuses_is_told_with_the_limit_of_the_model(start: Begin) -> None:
    """Not with the smaller budget into which older messages were evicted."""
    settings = '[models.m]\nendpoint = "{}"\nmax_ctx = 4000\n[policy]\nuncertain = "bound"\n'
    with serving(routes(says("yes"))) as server:
        session, heard = start(settings=settings.format(server.url), flags={"model": "m"})
        take(session, "hello")
        take(session, "word " * 600)
    (problem,) = heard.problems
    assert "the budget is 3,988" in problem.message
    assert "more than the budget of 3,988." in heard.asked[0]
    assert "raise the budget of this session" not in heard.asked[0]
    assert session.context.budget == 3988
