"""Sessions against a real llama.cpp server."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.proof.examples import MADE
from tests.providers.fake import serving
from tests.shell.test_servers import says, script
from tests.waiting import SECONDS
from tokenbox.cli.replaying import replayed, texts_of
from tokenbox.engine.steps import WindowAction, WindowReason, WindowStep
from tokenbox.ledger.totals import cells
from tokenbox.proof.bundle import VOLATILE, build
from tokenbox.proof.contents import read_contents
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.verify import MemoryFiles, verify
from tokenbox.shell.context import ContextKind
from tokenbox.shell.loop import take

if TYPE_CHECKING:
    from pathlib import Path

    from tests.llama.server import LlamaServer, StartLlama
    from tests.shell.conftest import Begin

COUNTING = {"tokenize.use_endpoint": "true"}


def test_what_is_shown_is_what_the_server_counts(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.system": "Be brief."})
    for line in ("hello there", "!seq 300", "and this? naïve 🧑‍🚀", "!echo more"):
        take(session, line)
        before = session.context.total()
        offered = session.context.total(offered=True)
        items = session.context.items()
        assert sum(item.tokens for item in items) == offered.value
        assert before.exact
    take(session, "the last")
    assert heard.problems == []
    sent = session.record.last_call
    assert sent is not None
    assert sent.usage.input_tokens == sent.predicted.input_tokens
    assert sent.predicted.exact
    take(session, ":context --json")
    record = json.loads(heard.results[-1])
    assert record["total"] == sum(item["tokens"] for item in record["items"])
    assert record["exact"] is True
    take(session, ":context")
    assert heard.tables[-1][-1][2] == f"{record['total']:,}"
    assert session.prompt() == f"{session.models.label} {record['total']:,}/4,096> "


def test_without_leave_to_ask_nothing_is_asked_and_figures_are_estimates(
    start: Begin, llama: LlamaServer
) -> None:
    session, heard = start(llama.url)
    take(session, "hello world")
    assert not session.context.total().exact
    assert "~" in session.prompt()
    take(session, ":tokens hello world")
    assert heard.results[-1] == "~3 (tokenizer two-vocabularies)"
    take(session, ":tokenize")
    assert ["counts texts at /tokenize", "not known yet"] in heard.tables[-1]


def test_an_item_is_counted_as_the_request_is(start: Begin, llama: LlamaServer) -> None:
    """Without a known vocabulary, figures were counted by characters, and requests by two vocabularies."""
    session, heard = start(llama.url)
    take(session, "hello world")
    before = session.context.total().value
    take(session, "!seq 1 400")
    said = re.search(r"~(\d+) tokens on offer", heard.notices[-1])
    assert said is not None
    offered = int(said[1])
    after = session.context.total(offered=True).value
    assert offered <= after - before <= offered + 40  # the markers of a message
    rows = session.context.items()
    texts = sum(row.tokens for row in rows if row.kind is not ContextKind.TEMPLATE)
    assert texts > after * 3 // 4


def test_what_was_shortened_is_named_by_its_handle(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={"shell.token_budget": 600})
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    text = "\n".join(f"line {number}" for number in range(400))
    session.context.conversation.extend(
        [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": text},
        ]
    )
    take(session, "and now?")
    (notice,) = [one for one in heard.notices if ":expand" in one]
    handle = re.search(r":expand ([0-9a-f]+) shows", notice)
    assert handle is not None
    take(session, f":expand {handle[1]}")
    assert heard.results[-1] == text


def test_what_was_evicted_can_be_shown_and_exported(start: Begin, llama: LlamaServer, tmp_path: Path) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.token_budget": 150})
    take(session, ":expand")
    assert heard.results[-1] == "nothing is left out"
    questions = [f"question {number}: {'why ' * number}" for number in range(8)]
    for question in questions:
        take(session, question)
    sent = [message["content"] for message in session.context.messages()]
    assert questions[0].strip() not in sent
    take(session, ":expand")
    (handle,) = [row[0] for row in heard.tables[-1] if row[2].startswith("question 1")]
    take(session, f":expand {handle}")
    assert heard.results[-1].strip() == questions[1].strip()
    take(session, ":undo")  # what the user took back is not part of the talk
    take(session, ":export talk.md")
    page = (tmp_path / "folder" / "talk.md").read_text()
    assert page.count("## user") == page.count("## assistant") == 7
    assert all(question.strip() in page for question in questions[:7])


def test_eviction_is_at_the_budget_and_not_at_max_turns(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.token_budget": 150})
    totals = []
    for number in range(12):
        take(session, f"question {number}")
        call = session.record.last_call
        assert call is not None
        assert call.predicted.input_tokens == call.usage.input_tokens
        assert call.usage.input_tokens is not None
        totals.append(call.usage.input_tokens)
    assert max(totals) <= 150
    evicted = [notice for notice in heard.notices if notice.startswith("[evicted the oldest")]
    assert evicted
    assert re.search(r"was [1-9]\d* tokens? over the budget of 150", evicted[0])
    assert session.context.conversation.status.exchanges < 12 < session.settings.max_turns
    assert heard.problems == []


def test_what_cannot_fit_is_refused_and_loses_nothing(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={"shell.token_budget": 2_000})
    take(session, "hello")
    before = session.context.messages()
    take(session, ":budget 30")
    take(session, "word " * 200)
    assert "more than the budget of 30" in heard.asked[-1]
    assert [error.code for error in heard.problems] == ["context_critical_overflow"]
    assert session.context.messages() == before
    answers = len(heard.pieces)
    heard.choices = ["s"]
    take(session, "word " * 200)  # sent once, because the person said so
    assert len(heard.pieces) > answers
    assert len(heard.problems) == 1


def test_a_question_that_cannot_fit_is_cut_or_the_budget_is_raised(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.token_budget": 100})
    heard.choices = ["c"]
    take(session, f"first {'word ' * 200} last")
    (sent,) = [message["content"] for message in session.context.messages() if message["role"] == "user"]
    assert sent.startswith("first")
    assert sent.endswith("last")
    call = session.record.last_call
    assert call is not None
    assert call.usage.input_tokens is not None
    assert 90 <= call.usage.input_tokens <= 100
    heard.choices = ["r"]
    take(session, "word " * 200)
    call = session.record.last_call
    assert call is not None
    assert call.usage.input_tokens is not None
    assert 200 <= call.usage.input_tokens <= session.context.budget < 300
    assert len(heard.asked) == 2
    assert heard.problems == []


def test_meta_commands_never_reach_the_model(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url)
    for line in (
        ":help",
        ":context",
        ":cost detail",
        ":models",
        ":config",
        ":add notes.md",
        ":tokens secret words",
        "/context",
        "/EXIT",
    ):
        take(session, line)
    take(session, "hello")
    assert session.context.messages()[0]["content"] == "hello"
    assert len(session.context.messages()) == 2
    assert [error.code for error in heard.problems] == ["unknown_meta"] * 3
    assert heard.problems[0].message == "there is no command :add. Did you mean :file?"
    assert heard.problems[1].message == (
        "a command begins with a colon: :context. To send the text: \\/context"
    )


def test_ctrl_c_stops_the_answer_and_keeps_what_came(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={"policy.reserve_out": 400})
    heard.interrupt_after = 5
    take(session, "hello")
    answer = session.context.messages()[-1]
    assert answer == {"role": "assistant", "content": "".join(heard.pieces)}
    assert heard.notices[-1] == "[stopped; the partial answer is kept]"
    assert session.record.last_call is not None
    assert session.record.last_call.outcome.value == "stopped"
    take(session, "go on")
    assert len(session.context.messages()) == 4


def test_ctrl_c_before_the_first_word_leaves_no_question(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url)
    heard.interrupt_waiting = True
    take(session, "!echo kept")
    take(session, "hello")
    assert session.context.messages() == []
    assert [made.command for made in session.context.offers] == ["echo kept"]
    assert "there was no answer yet" in heard.notices[-1]


def test_ctrl_c_before_the_request_says_that_nothing_was_sent(
    start: Begin, llama: LlamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    session, heard = start(llama.url)
    monkeypatch.setattr("tokenbox.shell.turn.make_room", interrupted)
    with pytest.raises(KeyboardInterrupt):
        take(session, "hello")
    assert session.context.messages() == []
    assert heard.notices == ["[stopped before anything was sent; the question is taken back]"]


def test_a_server_that_is_gone_leaves_the_context_as_it_was(start: Begin, start_llama: StartLlama) -> None:
    server = start_llama(fresh=True)
    session, heard = start(server.url)
    take(session, "hello")
    before = session.context.messages()
    server.kill()
    take(session, "are you there?")
    assert heard.problems[-1].code == "connection_refused"
    assert session.context.messages() == before
    take(session, ":cost detail")
    assert heard.tables[-1][1][2] == "2"  # the refused call is in the ledger
    assert heard.tables[-1][1][5] == "12"  # and has used nothing


def test_a_server_that_is_busy_still_counts_and_then_answers(start: Begin, start_llama: StartLlama) -> None:
    server = start_llama(fresh=True)
    begun = threading.Event()

    def keep_busy() -> None:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 600, "stream": True}
        request = urllib.request.Request(
            f"{server.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            answer.readline()
            begun.set()
            answer.read()

    busy = threading.Thread(target=keep_busy)
    busy.start()
    assert begun.wait(SECONDS)
    session, heard = start(server.url, flags=COUNTING)
    take(session, "hello")
    busy.join()
    call = session.record.last_call
    assert call is not None
    assert call.predicted.exact
    assert call.predicted.input_tokens == call.usage.input_tokens
    assert heard.problems == []


def test_outputs_are_offered_to_the_next_question_within_their_budget(
    start: Begin, llama: LlamaServer
) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.output_tokens": 120})
    take(session, "!seq 5000")
    assert bytes(heard.output).count(b"\n") == 5000
    assert "left out" in heard.notices[-1]
    (made,) = session.context.offers
    assert session.models.count_text(made.text).value <= 120
    take(session, "what is it?")
    said = session.context.messages()[0]["content"]
    assert said.startswith("$ seq 5000\n1\n2\n")
    assert "tokens left out" in said
    assert said.endswith("5000\n\nwhat is it?")
    take(session, "seq 3 |> and this?")
    assert session.context.messages()[2]["content"] == "$ seq 3\n1\n2\n3\n\nand this?"


def test_old_outputs_are_let_go_for_new_ones(start: Begin) -> None:
    session, heard = start(flags={"shell.token_budget": 200, "shell.output_tokens": 80})
    for number in range(5):
        take(session, f"!seq {number}00")
    assert sum(session.models.count_text(made.text).value for made in session.context.offers) <= 100
    assert "no longer on offer: seq 200" in "".join(heard.notices)
    take(session, ":drop last")
    assert "seq 400" not in [made.command for made in session.context.offers]


def test_a_pinned_exchange_stays_and_a_dropped_one_leaves(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags={**COUNTING, "shell.token_budget": 150})
    take(session, "remember the word penguin")
    take(session, ":context")
    number = heard.tables[-1][1][0]
    take(session, f":pin {number}")
    for line in range(8):
        take(session, f"question {line}")
    assert session.context.messages()[0]["content"] == "remember the word penguin"
    assert len(session.context.messages()[1]["content"]) > 0
    take(session, f":pin {number}")
    take(session, f":drop {number}")
    assert "penguin" not in str(session.context.messages())
    assert heard.problems == []


def test_compact_shows_the_summary_and_waits_for_approval(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url)
    for line in range(4):
        take(session, f"question {line}")
    before = session.context.messages()
    take(session, ":compact the numbers")
    assert "would replace 6 messages: ~" in heard.asked[-1]
    assert session.context.messages() == before
    take(session, ":compact --yes")
    after = session.context.messages()
    assert after[0]["role"] == "system"
    assert "Summary" in after[0]["content"]
    assert after[1:] == before[-2:]
    take(session, ":cost detail")
    assert [row[1] for row in heard.tables[-1]] == ["category", "main", "summarize"]


@pytest.mark.slow
def test_what_is_evicted_is_summarized_where_that_is_set(start: Begin, llama: LlamaServer) -> None:
    flags = {**COUNTING, "shell.token_budget": 900, "shell.summarize": "true", "policy.reserve_out": 100}
    session, heard = start(llama.url, flags=flags)
    for line in range(9):
        take(session, f"question {line}")
    said = [notice for notice in heard.notices if "summarized" in notice]
    assert said
    assert ("summarize" in {category for _, category in session.record.ledger.rows()}) is True


def test_cost_detail_ends_with_the_context_as_it_is(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags=COUNTING)
    take(session, "hello")
    take(session, ":cost detail")
    total = session.context.total().value
    expected = (
        f"[estimated session ctx: {total} tokens; token_budget=4096 ({(total * 200 + 4096) // 8192}% used)]"
    )
    assert heard.results[-1] == expected
    ((model, category, calls, _, _, output, cost),) = heard.tables[-1][1:]
    assert (model, category, calls, output, cost) == (session.models.name, "main", "1", "12", "unpriced")
    (totals,) = session.record.ledger.rows().values()
    assert tuple(heard.tables[-1][1][2:]) == cells(totals)  # as `tokenbox cost` shows them


@pytest.mark.parametrize(("cap", "sent"), [("0.000001", False), ("5", True)])
def test_a_call_that_could_cross_the_cap_is_refused_before_it_is_sent(
    start: Begin, llama: LlamaServer, cap: str, sent: bool
) -> None:
    settings = f"""
        [models.m]
        model = "mine"
        endpoint = "{llama.url}"
        [catalog.mine]
        price_input = 3
        price_output = 15
        """
    session, heard = start(settings=settings, flags={"cost.cap_at_dollars": cap})
    take(session, "hello")
    assert bool(heard.pieces) is sent
    assert [error.code for error in heard.problems] == ([] if sent else ["cost_cap_exceeded"])
    assert len(session.context.messages()) == (2 if sent else 0)
    take(session, ":cost")
    # An estimate where the server does not say what it had cached.
    assert heard.results[-1].removeprefix("~").startswith("$0.0002" if sent else "$0.000000 of")


def test_the_counter_follows_the_model(start: Begin, llama: LlamaServer, start_llama: StartLlama) -> None:
    other = start_llama(template="turns")
    settings = f"""
        model = "one"
        [models.one]
        endpoint = "{llama.url}"
        [models.two]
        endpoint = "{other.url}/v1/"
        [models.offline]
        tokenizer = "utf8-bytes"
        """
    session, heard = start(settings=settings, flags=COUNTING)
    take(session, "hello world")
    one = session.context.total()
    take(session, ":model two")
    two = session.context.total()
    assert (one.source, two.source) == tuple(
        f"{server.url}/v1/chat/completions/input_tokens" for server in (llama, other)
    )
    take(session, "and now?")
    call = session.record.last_call
    assert call is not None
    assert call.predicted.input_tokens == call.usage.input_tokens
    take(session, ":model offline")
    take(session, ":tokens hello world")
    assert heard.results[-1] == "11 (tokenizer utf8-bytes)"
    take(session, "hello?")
    assert heard.problems[-1].code == "no_model"
    take(session, ":model tow")
    assert "Did you mean two?" in heard.problems[-1].message
    take(session, ":models")
    assert [row[:2] for row in heard.tables[-1][1:]] == [["", "one"], ["", "two"], ["*", "offline"]]


@pytest.mark.parametrize("kind", ["link", "folder", "binary"])
def test_instructions_that_are_no_text_of_the_project_are_not_read(
    start: Begin, llama: LlamaServer, tmp_path: Path, kind: str
) -> None:
    """A link could show the server of the project any file of the machine."""
    folder = tmp_path / "folder"
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "copilot-instructions.md").write_text("private")
    if kind == "link":
        (folder / "AGENTS.md").symlink_to(tmp_path / "private" / "copilot-instructions.md")
    elif kind == "folder":
        (folder / ".github").symlink_to(tmp_path / "private")
    else:
        (folder / "AGENTS.md").write_bytes(b"\0")
    (folder / ".git").mkdir()
    session, heard = start(llama.url, flags={"shell.project": True, "shell.system": "Be brief."})
    assert [error.code for error in heard.problems] == ["no_such_item"]
    take(session, "hello")
    assert session.context.messages()[0]["content"] == "Be brief."


def test_the_project_and_notes_are_in_the_system_prompt_with_their_tokens(
    start: Begin, llama: LlamaServer
) -> None:
    session, heard = start(llama.url, flags={"shell.system": "Be brief."})
    take(session, ":project")
    assert heard.problems[-1].code == "no_such_item"
    take(session, "!printf 'Use tabs.' > AGENTS.md")
    take(session, ":project")
    assert "AGENTS.md: ~4 tokens in the system prompt" in heard.results[-1]
    take(session, ":memory add   my name is\tAda ")
    take(session, "hello")
    system = session.context.messages()[0]["content"]
    assert system == (
        "Be brief.\n\nInstructions of this project:\nUse tabs.\n\n"
        "What the user wants you to remember:\n- my name is Ada"
    )
    take(session, ":memory")
    assert heard.tables[-1][1][2] == "my name is Ada"
    take(session, ":memory drop 1")
    take(session, ":project off")
    assert session.context.messages()[0]["content"] == "Be brief."
    take(session, ":reset")
    assert session.context.messages() == [{"role": "system", "content": "Be brief."}]


def test_the_last_call_is_proven(start: Begin, llama: LlamaServer) -> None:
    session, heard = start(llama.url, flags=COUNTING)
    take(session, ":proof")
    assert heard.problems[-1].code == "no_such_item"
    session.evictions += [
        WindowStep((number,), WindowReason.OVER, 9, 8, 1, 8, action)
        for number, action in enumerate(WindowAction)
    ]
    take(session, "hello")
    take(session, ":proof")
    done = [row[0] for row in heard.tables[-1] if row[0].endswith(" 1")]
    assert done == ["evicted 1", "masked 1", "cut 1", "restored 1"]
    assert ["sent", f"1 message, {session.record.last_call.usage.input_tokens} tokens"] in heard.tables[-1]  # type: ignore[union-attr]
    take(session, ":proof write")
    take(session, "!ls .tokenbox/proof/*/")
    assert b"inputs.jsonl" in heard.output


def test_proof_is_not_written_through_a_link_of_the_project(
    start: Begin, llama: LlamaServer, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder" / ".tokenbox").symlink_to(tmp_path / "elsewhere")
    session, heard = start(llama.url)
    take(session, "hello")
    take(session, ":proof write")
    assert heard.problems[-1].code == "proof_not_written"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("counted", ["by its server", "here", "by a file"])
def test_what_was_sent_is_decided_again(start: Begin, llama: LlamaServer, counted: str) -> None:
    flags: dict[str, object] = {
        "proof.texts": "true",
        "shell.token_budget": 1500,
        "shell.system": "Be brief.",
    }
    flags |= COUNTING if counted == "by its server" else {}
    settings = {
        "by a file": f'[models.it]\nendpoint = "{llama.url}"\ntokenizer = "file:{llama.model.folder}"\n'
    }
    session, _ = start(None if counted in settings else llama.url, settings.get(counted, ""), flags=flags)
    for _ in range(6):
        take(session, "It was a dark night. " * 60)
    evidence = session.last_call
    assert evidence is not None
    assert any("action" in record for record in evidence.decisions)  # something was evicted before
    bundle = build(evidence, texts=True)
    files = MemoryFiles({**bundle.files, VOLATILE: bundle.volatile(*MADE)})
    manifest = verify(files)
    contents = read_contents(files, manifest)
    given = f"file:{llama.model.folder}" if counted == "by a file" else None
    if given is not None:
        with pytest.raises(ReplayImpossible, match="--tokenizer"):
            replayed(contents, texts_of(files, manifest, ()), None)
    again = replayed(contents, texts_of(files, manifest, ()), given)
    assert again.differences == ()
    assert "steps[].action" in again.uncompared
    assert ("decisions[].count.total" in again.uncompared) is (counted == "by its server")


def test_the_budget_is_what_the_window_has_room_for(start: Begin, start_llama: StartLlama) -> None:
    small = start_llama(n_ctx=512)
    session, heard = start(small.url, flags=COUNTING)
    for number in range(20):
        take(session, f"question {number}")
    expected = "12 of them reserved for the answer, so the budget is 500 instead of 4,096]"
    assert heard.notices[0].endswith(expected)
    assert len([notice for notice in heard.notices if "of 4,096" in notice]) == 1
    assert any("evicted" in notice for notice in heard.notices)
    assert heard.problems == []
    take(session, ":budget 400")
    assert session.context.budget == 400


def test_a_window_that_the_answer_takes_whole_is_an_error(start: Begin, llama: LlamaServer) -> None:
    tiny = f'model = "tiny"\n[models.tiny]\nendpoint = "{llama.url}"\nmax_ctx = 200\n'
    session, heard = start(settings=tiny, flags={"policy.reserve_out": 200})
    take(session, "hello")
    assert heard.problems[-1].code == "no_room"
    assert heard.problems[-1].message.endswith("tokenbox config set models.tiny.reserve_out 50")
    assert heard.notices == []
    session, heard = start(settings=tiny, flags={"policy.reserve_out": 50})
    take(session, "hello")
    assert heard.problems == []


def test_a_key_comes_from_the_keyring(start: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def get_password(service: str, entry: str) -> str:
        asked.append((service, entry))
        return "key-from-the-ring"

    monkeypatch.setattr("keyring.get_password", get_password)
    with serving({"/v1/chat/completions": script(says("key-from-the-ring"))}) as server:
        session, heard = start(settings=f'[models.m]\nendpoint = "{server.url}"\nkeyring = "mine"\n')
        take(session, "hello")
        assert server.asked[-1].headers["Authorization"] == "Bearer key-from-the-ring"
    assert asked == [("tokenbox", "mine")]
    assert heard.pieces == ["***"]


def test_a_key_that_is_not_set_is_said_before_anything_is_sent(start: Begin) -> None:
    with serving({}) as server:
        session, heard = start(settings=f'[models.m]\nendpoint = "{server.url}"\nkey_env = "MY_KEY"\n')
        take(session, "hello")
        assert server.asked == []
    assert (
        heard.problems[-1].message
        == "the key MY_KEY of m is not set. To set it: !read -rs MY_KEY; export MY_KEY"
    )
    assert session.context.messages() == []


def test_the_prompt_has_its_fields(start: Begin) -> None:
    flags = {"shell.prompt": "{session} {folder} {status} {cost} {model}$ "}
    session, _ = start(flags=flags)
    take(session, "!cd /; false")
    assert session.prompt() == "new / 1 $0.000000 no model$ "
    with pytest.raises(Exception, match=r"a prompt has no field \{nosuch\}"):
        start(flags={"shell.prompt": "{nosuch}"})
