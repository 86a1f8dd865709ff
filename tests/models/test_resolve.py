"""The resolver: how much a model takes, and who counts for it, in one order."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction

import pytest

import tokenbox
from tokenbox import tokenizers
from tokenbox.catalog import Figure, FigureRule, ModelLimits
from tokenbox.compose.requests import By, Count
from tokenbox.content.request import Request, read_request
from tokenbox.conversation.pieces import CountsMessages
from tokenbox.errors import NoTokenizer, TokenizerError
from tokenbox.models import Counting, OutputMode, Stated, counters_for, is_openai, resolve, resolve_figures
from tokenbox.providers import BlockingProvider, Target
from tokenbox.tokenizers import TokenizerIdentity

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]


def said(value: int, who: str, date: str | None = None) -> Figure:
    return Figure(value, who, date)


CALL = Stated(context_window=said(1_000, "the call"))
MINE = Stated(context_window=said(2_000, "config.toml:3"))
SERVER = ModelLimits(context_window=said(3_000, "/v1/models meta.n_ctx", "2026-11-21"))


@pytest.mark.parametrize(
    ("call", "settings", "server", "expected", "source"),
    [
        (CALL, MINE, SERVER, 1_000, "the call"),
        (Stated(), MINE, SERVER, 2_000, "config.toml:3"),
        (Stated(), Stated(), SERVER, 3_000, "/v1/models meta.n_ctx, 2026-11-21"),
        (Stated(), Stated(), ModelLimits(), 128_000, "models.dev via ctxlen"),
    ],
)
def test_the_call_then_the_settings_then_the_server_then_the_catalog(
    call: Stated, settings: Stated, server: ModelLimits, expected: int, source: str
) -> None:
    found = resolve_figures("gpt-4o", call=call, settings=settings, server=server)
    assert found.context_window == expected
    assert found.sources["context_window"].startswith(source)
    others = {other.value for one in found.disagreements for other in one.others}
    below = [figure for figure in (1_000, 2_000, 3_000, 128_000) if figure > expected]
    given = {1_000: call is CALL, 2_000: settings is MINE, 3_000: server is SERVER, 128_000: True}
    assert {figure for figure in below if given[figure]} <= others | {128_000}


def test_every_figure_has_its_source() -> None:
    settings = Stated(max_input=said(900, "a"), max_output=said(50, "b"), headroom=(Fraction(1, 20), "c"))
    found = resolve_figures("unheard-of", call=CALL, settings=settings)
    assert (found.context_window, found.max_input, found.max_output) == (1_000, 900, 50)
    assert found.headroom == Fraction(1, 20)
    assert found.output_reserve == 50
    assert found.sources == {
        "context_window": "the call",
        "max_input": "a",
        "max_output": "b",
        "headroom": "c",
        "output_reserve": "the model's longest answer, b",
    }
    unknown = resolve_figures("unheard-of")
    assert (unknown.context_window, unknown.output_reserve, unknown.usable) == (None, None, None)


def test_a_cap_lowers_what_is_known_and_stands_in_for_what_is_not() -> None:
    cap = Stated(window_cap=said(50_000, "policy"))
    assert resolve_figures("gpt-4o", settings=cap).context_window == 50_000
    assert resolve_figures("gpt-4", settings=cap).context_window == 8_192, "no cap makes a model hold more"
    assert resolve_figures("unheard-of", settings=cap).context_window == 50_000
    assert resolve_figures("gpt-4o", call=CALL, settings=cap).context_window == 1_000
    assert resolve_figures("gpt-4o", settings=cap, server=SERVER).context_window == 3_000
    both = Stated(said(60_000, "of this model"), window_cap=said(50_000, "policy"))
    assert resolve_figures("gpt-4o", settings=both).context_window == 60_000


def test_the_most_input_stands_in_for_an_unknown_window() -> None:
    found = resolve_figures("unheard-of", server=ModelLimits(max_input_tokens=said(8_192, "/info")))
    assert (found.context_window, found.max_input) == (8_192, 8_192)


def test_the_call_is_before_the_settings() -> None:
    call, settings = (
        Stated(
            max_input=said(10 + place, source),
            max_output=said(20 + place, source),
            output_reserve=said(30 + place, source),
            window_cap=said(40 + place, source),
            headroom=(Fraction(place, 10), source),
        )
        for place, source in ((1, "call"), (2, "settings"))
    )
    found = resolve_figures("gpt-4o", call=call, settings=settings)
    assert set(found.sources.values()) == {"call"}
    assert (found.max_input, found.max_output, found.output_reserve) == (11, 21, 31)
    assert (found.context_window, found.headroom) == (41, Fraction(1, 10))


@pytest.mark.parametrize(
    ("model", "mode", "expected"),
    [
        ("gpt-4o", OutputMode.TEXT, 16_384),  # its longest answer
        ("gpt-4", OutputMode.TEXT, 2_048),  # a quarter of the window
        ("gpt-4", OutputMode.STREAM, 2_048),
        ("gpt-4", OutputMode.JSON, 4_096),  # a half
    ],
)
def test_the_default_output_reserve_is_one_rule(model: str, mode: OutputMode, expected: int) -> None:
    found = resolve_figures(model, mode=mode)
    assert found.output_reserve == expected
    assert found.sources["output_reserve"]
    stated = Stated(output_reserve=said(7, "me"))
    assert resolve_figures(model, settings=stated, mode=mode).output_reserve == 7
    call = Stated(output_reserve=said(9, "the call"))
    assert resolve_figures(model, call=call, settings=stated, mode=mode).output_reserve == 9


@pytest.mark.parametrize(
    ("longest", "reserve", "source"),
    [
        (236, 236, "the model's longest answer, b"),
        (237, 237, "the model's longest answer, b"),  # a quarter of the 950 that the headroom leaves of 1,000
        (238, 237, "default: 1 in 4 of the usable window"),
    ],
)
def test_the_default_reserve_is_at_most_a_share_of_what_the_headroom_leaves(
    longest: int, reserve: int, source: str
) -> None:
    settings = Stated(max_output=said(longest, "b"), headroom=(Fraction(1, 20), "c"))
    found = resolve_figures("unheard-of", call=CALL, settings=settings)
    assert (found.output_reserve, found.sources["output_reserve"]) == (reserve, source)


def test_a_window_below_the_most_input_is_a_disagreement() -> None:
    server = ModelLimits(context_window=said(4_096, "/props"), max_input_tokens=said(8_192, "/info"))
    found = resolve_figures("local", server=server)
    (disagreement,) = found.disagreements
    assert disagreement.rule is FigureRule.BOTH_HOLD
    assert (found.context_window, found.max_input) == (4_096, 8_192), "both limits hold"


def test_the_operators_figure_is_before_the_catalogs() -> None:
    mine = {"gpt-4o": ModelLimits(max_output_tokens=said(99, "config.toml:9"))}
    found = resolve_figures("gpt-4o", corrections=mine)
    assert (found.max_output, found.sources["max_output"]) == (99, "config.toml:9")
    assert [one.chosen.value for one in found.disagreements] == [99]


# Who counts.


def count(model: str | None, counting: Counting = Counting(), **asked: object) -> Count:  # noqa: B008
    return counters_for(model, counting).counter.count_request(read_request(CHAT, **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "by", "exact"),
    [
        ("gpt-4o", By.PUBLISHED, True),
        ("openai/gpt-4o-2024-08-06", By.PUBLISHED, True),
        ("gpt-4", By.PUBLISHED, True),
        ("gpt-5", By.PUBLISHED, False),
        ("azure/gpt-4o", By.PUBLISHED, False),
        ("claude-sonnet-4-5", By.MARGIN, False),
        ("unheard-of", By.MARGIN, False),
        ("gpt-oss-20b", By.MARKERS, False),
    ],
)
def test_the_order_of_who_counts(model: str, by: By, exact: bool) -> None:
    found = count(model)
    assert (found.by, found.exact) == (by, exact)
    assert found.total <= found.at_most
    assert found.at_most == found.total or not exact


@pytest.mark.parametrize(
    ("model", "exact"),
    [
        *[(name, True) for name in ("gpt-4o", "GPT-4O", " gpt-4o", "openai/gpt-4o", "openai:gpt-4o")],
        *[(name, True) for name in ("gpt-4o-2024-08-06", "gpt-4.1", "ft:gpt-4o:acme::x", "gpt-oss:20b")],
        *[(name, True) for name in ("openai/text-embedding-3-small", "text-embedding-ada-002")],
        *[
            (name, True)
            for name in ("openai/gpt-oss-120b:free", "gpt-oss-20b-mxfp4.gguf", "gpt-oss-120b-maas")
        ],
        *[(name, True) for name in ("openai/gpt-oss-safeguard-20b", "openai.gpt-oss-120b-1:0")],
        *[(name, False) for name in ("gpt 4o", "gpt_4o", "gpt:4o", "gpt-4o.gguf", "gpt-4o-q4", "gpt-4o-foo")],
        *[(name, False) for name in ("gpt-4o-2099-01-01", "openai/gpt-4o-2099-01-01", "gpt-4-9999")],
        *[(name, False) for name in ("evil/gpt-4o", "ollama/gpt-4o", "azure/gpt-4o", "models/gpt-4o")],
        *[(name, False) for name in ("ft:gpt-4o-foo:acme", "gpt-5-by-others", "gpt-oss-by-others")],
    ],
)
def test_only_the_model_that_its_maker_lists_is_exact(model: str, *, exact: bool) -> None:
    """A name that resembles one may be of any model: its vocabulary is a guess, and so is the bound."""
    found = tokenbox.count("How high is the tide?", model)
    assert found.exact is exact
    assert (found.at_most == found.total) is exact
    chat = count(model)
    assert chat.exact is (exact and model.strip().lower().endswith(("4o", "08-06")))
    assert exact or chat.at_most > 2_000, "bytes"


def test_a_vocabularys_name_never_switches_a_known_format_off() -> None:
    assert count("gpt-4o", Counting(named="o200k_base")) == count("gpt-4o")
    bare = count(None, Counting(named="o200k_base"))
    assert bare.by is By.MARKERS
    assert bare.total > count("gpt-4o").total, "markers are counted generously"
    assert count("gpt-4o", Counting(named="chars4")).by is By.CHARS4, "asked for by name"


def test_a_models_name_given_as_tokenizer_is_understood() -> None:
    assert count(None, Counting(named="gpt-4o")) == count("gpt-4o")
    assert count("unheard-of", Counting(named="gpt-4o", baselines=())) == count("gpt-4o")
    with pytest.raises(TokenizerError):
        count(None, Counting(named="no-such-tokenizer-at-all"))


class Server(CountsMessages):
    """A server that counts, or does not answer."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.identity = TokenizerIdentity("server", "1", "1" * 64, exact=True)

    def count_request(self, request: Request) -> Count:
        if self.total is None:
            raise TokenizerError("no answer")
        return Count(self.total, exact=True, at_most=self.total, by=By.SERVER)


def test_the_server_counts_where_it_may_and_answers() -> None:
    there = count("gpt-4o", Counting(server=Server(17)))
    assert (there.total, there.by, there.exact) == (17, By.SERVER, True)
    away = count("gpt-4o", Counting(server=Server(None)))
    assert away.by is By.PUBLISHED
    assert not away.exact, "the server would have counted: a local figure is none of its own"
    assert away.at_most > 2_000, "a silent server may have another vocabulary"
    named = count("m", Counting(named=Server(5), server=Server(17)))
    assert named.total == 5, "what is named comes first"


@pytest.mark.parametrize(
    ("endpoint", "kind", "exact"),
    [
        (None, "auto", True),
        ("https://api.openai.com/v1", "auto", True),
        ("http://127.0.0.1:1", "openai", True),
        ("http://127.0.0.1:1", "auto", False),
        ("https://api.openai.com.example.org", "auto", False),
    ],
)
def test_published_rules_are_exact_only_at_openai(endpoint: str | None, kind: str, *, exact: bool) -> None:
    """Another server may run any model under the name."""
    found = count("gpt-4o", Counting(at_openai=is_openai(endpoint, kind)))
    assert (found.total, found.exact) == (count("gpt-4o").total, exact)
    assert (found.at_most == found.total) is exact
    counted = BlockingProvider(Target(endpoint, "gpt-4o", kind)).count(CHAT)
    assert (counted.value, counted.exact) == (found.total, exact)


def test_tokenizers_belong_to_the_user_where_baselines_are_listed() -> None:
    with pytest.raises(NoTokenizer) as caught:
        counters_for("gpt-4o", Counting(baselines=()))
    assert caught.value.details["remedies"]
    assert count("gpt-4o", Counting(baselines=("gpt-bpe",))).by is By.PUBLISHED
    assert count("claude-sonnet-4-5", Counting(baselines=(), heuristic=True)).by is By.MARKERS
    with pytest.raises(NoTokenizer):
        counters_for("claude-sonnet-4-5", Counting(baselines=("gpt-bpe",)))
    with pytest.raises(NoTokenizer, match="neither a model nor a tokenizer"):
        counters_for(None)
    own = counters_for("acme-7b", Counting(baselines=(), families={"acme": "utf8-bytes"}))
    assert own.tokenizer is tokenizers.get("utf8-bytes")


def test_a_use_is_the_figures_and_who_counts() -> None:
    use = resolve("gpt-4o", call=CALL)
    assert (use.model, use.context_window, use.max_output) == ("gpt-4o", 1_000, 16_384)
    assert use.counter.count_request(read_request(CHAT)).total == count("gpt-4o").total
    assert use.tokenizer is not None
    assert use.tokenizer.identity.name == "o200k_base"
    assert not use.exact, "a server that counts would be asked: the rules do not cover every request"


PURE = """
import json, sys
sys.modules["tokenbox.config"] = sys.modules["tokenbox.providers"] = sys.modules["tokenbox.store"] = None
import socket
def refuse(*args, **kwargs): raise AssertionError("the network")
socket.socket.connect = socket.getaddrinfo = refuse
from tokenbox.models import resolve
use = resolve("gpt-4o")
print(json.dumps([use.context_window, use.output_reserve]))
"""


def test_the_resolver_reads_and_asks_nothing() -> None:
    run = subprocess.run([sys.executable, "-c", PURE], capture_output=True, text=True, check=True)
    found: object = json.loads(run.stdout)
    assert found == [128_000, 16_384]
