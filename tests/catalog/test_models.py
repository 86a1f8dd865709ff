"""Models by id: figures, their sources, and which of them counts."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from decimal import Decimal

import pytest

from tokenbox.catalog import (
    Figure,
    FigureRule,
    Limit,
    ModelLimits,
    Price,
    find,
    model,
    nearest,
    price,
    tokenizer_family,
)
from tokenbox.catalog.figures import is_rounding
from tokenbox.catalog.names import InvalidModelName, with_slash


@pytest.mark.parametrize(
    ("asked", "window", "taken", "given", "family"),
    [
        ("gpt-5", 400_000, 272_000, 128_000, "o200k_base"),
        ("openai/gpt-5", 400_000, 272_000, 128_000, "o200k_base"),
        ("GPT-5", 400_000, 272_000, 128_000, "o200k_base"),
        ("gpt-5-2025-08-07", 400_000, 272_000, 128_000, "o200k_base"),
        ("gpt-5-2031-01-01", 400_000, 272_000, 128_000, "o200k_base"),  # a snapshot nobody lists yet
        ("gpt-5.1-codex", 400_000, 272_000, 128_000, "o200k_base"),
        ("gpt-4o", 128_000, 128_000, 16_384, "o200k_base"),
        ("gpt-4o-2024-05-13", 128_000, 128_000, 4_096, "o200k_base"),
        ("o3", 200_000, 200_000, 100_000, "o200k_base"),
        ("claude-sonnet-4-5", 200_000, 200_000, 64_000, None),
        ("anthropic/claude-sonnet-4.5", 200_000, 200_000, 64_000, None),
        ("gemini-2.5-pro", 1_048_576, 1_048_576, 65_535, "gemma3"),
        ("google/gemini-2.5-pro", 1_048_576, 1_048_576, 65_536, "gemma3"),
        ("qwen3-max", None, 258_048, 65_536, None),
        ("llama3.1:8b", 131_072, None, None, "llama3-bpe"),
        ("models/Llama-3.2-1B-Instruct-Q4_K_M.gguf", 131_072, None, None, "llama3-bpe"),
        ("Qwen/Qwen3-8B", 40_960, None, None, "qwen2-bpe"),
        ("azure/gpt-41", 1_047_576, 1_047_576, 32_768, None),  # an alias only litellm knows
    ],
)
def test_the_three_limits(
    asked: str, window: int | None, taken: int | None, given: int | None, family: str | None
) -> None:
    found = model(asked)
    assert found is not None
    values = [None if (figure := found.figure(limit)) is None else figure.value for limit in Limit]
    assert values == [window, taken, given]
    assert found.tokenizer_family == family


def test_every_figure_has_a_source_and_a_day() -> None:
    for info in find("", makers_only=True):
        for figure in (info.figure(limit) for limit in Limit):
            assert figure is None or (figure.source and figure.date and figure.value), info


def test_what_does_not_agree_is_shown_and_the_smallest_counts() -> None:
    found = model("gemini-2.5-pro")
    assert found is not None
    (disagreement,) = found.disagreements
    assert disagreement.limit is Limit.MAX_OUTPUT_TOKENS
    assert disagreement.rule is FigureRule.SMALLEST
    assert disagreement.chosen.value == 65_535
    assert [figure.value for figure in disagreement.others] == [65_536]


MINE = ModelLimits(context_window=Figure(1_000_000, "tokenbox.toml:3"))
SERVER = ModelLimits(context_window=Figure(8_192, "http://localhost:8080/props", "2026-11-21"))


@pytest.mark.parametrize(
    ("configured", "discovered", "expected"),
    [
        ({}, {}, 400_000),
        ({"gpt-5": MINE}, {}, 1_000_000),
        ({}, {"gpt-5": SERVER}, 8_192),
        ({}, {"gpt-5": ModelLimits(Figure(500_000, "a server"))}, 500_000),
        ({"gpt-5": MINE}, {"gpt-5": SERVER}, 1_000_000),
        ({"openai/gpt-5": MINE}, {}, 1_000_000),  # the same
        ({"azure/gpt-5": MINE}, {}, 400_000),  # said of another offer
        ({"gpt-5": ModelLimits()}, {"gpt-5": ModelLimits(Figure(None, "a silent server"))}, 400_000),
    ],
)
def test_the_config_counts_before_the_server_and_that_before_what_is_published(
    configured: dict[str, ModelLimits], discovered: dict[str, ModelLimits], expected: int
) -> None:
    found = model("gpt-5", configured=configured, discovered=discovered)
    assert found is not None
    assert found.context_window is not None
    assert found.context_window.value == expected
    # Nothing that was said is lost.
    assert found.max_input_tokens is not None
    said = {figure.value for d in found.disagreements for figure in (d.chosen, *d.others)}
    assert expected == 400_000 or {expected, 400_000} <= said


def test_a_model_that_only_the_user_knows() -> None:
    found = model("my-finetune", configured={"my-finetune": MINE})
    assert found is not None
    assert found.context_window == MINE.context_window
    assert [info.id for info in find("my-fine", configured={"my-finetune": MINE})] == ["my-finetune"]


@pytest.mark.parametrize(
    ("name", "model_id", "window", "max_input"),
    [
        ("gemini-pro", "gemini-pro", 32_768, None),  # not of gemini-pro-latest
        ("gemini-flash", "gemini-flash-latest", 1_048_576, 1_048_576),
        ("models/gemini-1.5-pro", "models/gemini-1.5-pro", 1_000_000, None),
        ("gpt-5.1-chat", "gpt-5.1-chat-latest", 128_000, 128_000),
        ("gpt-5.2-chat-latest", "gpt-5.2-chat-latest", 128_000, 128_000),
        ("gpt-5-2-chat-latest", "gpt-5.2-chat-latest", 128_000, 128_000),
        ("gpt-5-1-codex-max", "gpt-5.1-codex-max", 400_000, 272_000),
        ("gpt-5-chat", "gpt-5-chat", 128_000, 128_000),
        ("azure/gpt-5-chat", "azure/gpt-5-chat", 128_000, 128_000),
    ],
)
def test_a_name_has_no_figures_of_another_model(
    name: str, model_id: str, window: int, max_input: int | None
) -> None:
    found = model(name)
    assert found is not None
    limits = [
        None if figure is None else figure.value for figure in (found.context_window, found.max_input_tokens)
    ]
    assert (found.id, *limits) == (model_id, window, max_input)
    assert found.provider in {"openai", "azure", "gemini"}


@pytest.mark.parametrize("name", ["gpt-5.5-chat", "gpt-5.5-codex", "gpt-5.1-mini"])
def test_a_model_of_the_same_price_is_not_the_same_model(name: str) -> None:
    assert model(name) is None


@pytest.mark.parametrize(
    "nonsense", ["", "   ", "no-such-model-at-all", "x" * 100_000, "\ud800", "a/b/c/d", "/", "-latest"]
)
def test_nonsense_is_no_model(nonsense: str) -> None:
    assert model(nonsense) is None


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("gpt-5", ["gpt-5", "gpt-5-chat"]),
        ("openai/gpt-5", ["gpt-5"]),
        ("claude sonnet 4", ["claude-sonnet-4-6", "claude-sonnet-4-5", "claude-sonnet-4-0"]),
        ("gemini-2.5-pro", ["gemini-2.5-pro"]),
        ("qwen3-max", ["dashscope/qwen3-max"]),
        ("llama3.1:8b", ["llama3.1:8b"]),
        ("no-such-model-at-all", []),
    ],
)
def test_the_best_comes_first(query: str, first: list[str]) -> None:
    assert [info.id for info in find(query, limit=len(first) or None)] == first


def test_who_made_a_model_comes_before_who_serves_it() -> None:
    ids = [info.id for info in find("gpt-5")]
    assert ids.index("gpt-5.1") < ids.index("azure/gpt-5")
    assert "azure/gpt-5" not in [info.id for info in find("gpt-5", makers_only=True)]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("gpt5", "gpt-5"), ("claud-sonet-4-5", "claude-sonnet-4-5"), ("openai/gpt4o", "gpt-4o")],
)
def test_the_nearest_names(wrong: str, right: str) -> None:
    assert nearest(wrong)[0] == right


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-oss:20b", "o200k_base"),
        ("gpt-50", None),
        ("gpt-5o", None),
        ("gpt-4z", None),
        ("gpt-6-sol", None),  # no source says yet
        ("deepseek-r1-distill-llama-70b", "llama3-bpe"),
        ("deepseek-r1-distill-qwen-7b", "qwen2-bpe"),
        ("deepseek-r1:14b", "qwen2-bpe"),
        ("deepseek-r1:70b", "llama3-bpe"),
        ("deepseek-r1:671b", "deepseek-v3-bpe"),
        ("qwen3.5-plus", None),
        ("llama-4-scout", "llama4-bpe"),
        ("us.anthropic.claude-opus-4-5", None),
        ("bedrock/meta.llama3-1-8b-instruct-v1:0", "llama3-bpe"),
    ],
)
def test_the_family_of_a_tokenizer(name: str, family: str | None) -> None:
    found = tokenizer_family(name)
    assert (None if found is None else found.name) == family


def test_none_to_be_had_is_not_the_same_as_unknown() -> None:
    claude, unknown = tokenizer_family("claude-opus-4-5"), tokenizer_family("gpt-6-sol")
    assert claude is not None
    assert "Anthropic" in claude.source
    assert unknown is None


def test_the_table_agrees_with_tiktoken() -> None:
    from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING

    served = {"o200k_base", "cl100k_base"}
    begun = {f"{prefix.rstrip('-')}-x": name for prefix, name in MODEL_PREFIX_TO_ENCODING.items()}
    names = {**MODEL_TO_ENCODING, **begun}
    wrong = {
        name: found
        for name, encoding in names.items()
        if encoding in served and (found := tokenizer_family(name)) is not None and found.name != encoding
    }
    assert wrong == {}


OFFLINE = """
import socket
def refuse(*args, **kwargs): raise AssertionError("the network")
socket.socket.connect = socket.getaddrinfo = refuse
from datetime import date
from tokenbox.catalog import find, model, price
assert model("gpt-5") and find("claude") and price("gpt-5", date(2026, 11, 21)) and model("azure/gpt-41")
"""


def test_the_network_is_never_used() -> None:
    run = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_looking_up_a_model_does_not_import_the_prices() -> None:
    code = (
        "import sys; from tokenbox.catalog import model; model('gpt-5'); assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_tables_are_those_of_the_installed_packages() -> None:
    run = subprocess.run(
        [sys.executable, "tools/refresh_catalog.py", "--check"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("asked", "window", "taken"),
    [
        ("gpt-4.1", 1_047_576, 1_047_576),  # genai-prices rounds it
        ("gpt-4.1-2025-04-14", 1_047_576, 1_047_576),
        ("gpt-4.1-nano", 1_047_576, 1_047_576),  # and has no other window here
        ("grok-4", 256_000, None),  # by another name, in genai-prices alone
        ("xai/grok-4-latest", 256_000, None),
        ("azure/grok-4", 256_000, None),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 200_000),
        ("bedrock/converse/meta.llama3-1-8b-instruct-v1:0", 128_000, 128_000),
        ("gpt-35-turbo", 16_385, 4_097),  # only Azure calls it so
    ],
)
def test_every_source_is_used(asked: str, window: int | None, taken: int | None) -> None:
    found = model(asked)
    assert found is not None
    values = [
        None if figure is None else figure.value for figure in (found.context_window, found.max_input_tokens)
    ]
    assert values == [window, taken]


@pytest.mark.parametrize(
    ("figure", "full", "expected"),
    [
        (1_000_000, 1_047_576, True),
        (1_000_000, 1_048_576, True),
        (1_000_000, 1_050_000, True),
        (200_000, 204_800, True),
        (128_000, 131_072, False),
        (100_000, 128_000, False),
        (200_000, 1_048_576, False),
        (1_047_576, 1_000_000, False),
        (1_000_000, 1_000_000, False),
        (272_000, 400_000, False),
    ],
)
def test_what_is_a_rounding(figure: int, full: int, expected: bool) -> None:
    assert is_rounding(figure, full) is expected


def test_the_window_of_a_server_is_no_rounded_form() -> None:
    server = ModelLimits(context_window=Figure(1_000_000, "a server"))
    found = model("gpt-4.1", discovered={"gpt-4.1": server})
    assert found is not None
    assert found.context_window == server.context_window, "it refuses what is between it and 1,047,576"
    rules = [one.rule for one in found.disagreements if one.limit is Limit.CONTEXT_WINDOW]
    assert rules == [FigureRule.BOTH_HOLD]


def test_a_window_below_the_most_input_is_a_disagreement() -> None:
    found = model("deepseek/deepseek-v3.2")
    assert found is not None
    (disagreement,) = found.disagreements
    assert disagreement.rule is FigureRule.BOTH_HOLD
    assert (disagreement.chosen, disagreement.others) == (found.context_window, (found.max_input_tokens,))
    mine = ModelLimits(context_window=Figure(1_000, "me"))
    stated = model("deepseek/deepseek-v3.2", configured={"deepseek/deepseek-v3.2": mine})
    assert stated is not None
    assert stated.context_window == mine.context_window
    assert all(one.rule is FigureRule.CONFIGURED for one in stated.disagreements), "the user may want less"


@pytest.mark.parametrize("wrong", [3, None, b"gpt-4o", ["gpt-4o"]])
def test_what_is_no_name_is_a_typed_error(wrong: object) -> None:
    for ask in (model, find, nearest):
        with pytest.raises(InvalidModelName, match="a model is a name"):
            ask(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model_id", "window"),
    [
        ("claude-3-5-haiku-20241022", 200_000),
        ("claude-3.5-haiku", 200_000),
        ("claude-3-opus-20240229", 200_000),
        ("models/gemini-1.5-pro", 1_000_000),
        ("openai:gpt-4o", 128_000),
        ("gpt-3.5-turbo-0613", 4_096),
        ("gpt-3.5-turbo-instruct", 4_096),
        ("gpt-5-chat-latest", 128_000),
        ("deepseek-r1:8b", 131_072),  # of another model than deepseek-r1:671b
        ("deepseek-r1:671b", 163_840),
    ],
)
def test_other_spellings_and_smaller_snapshots(model_id: str, window: int) -> None:
    found = model(model_id)
    assert found is not None
    assert found.context_window is not None
    assert found.context_window.value == window


@pytest.mark.parametrize(
    "model_id",
    [
        "gradientai/Llama-3-8B-Instruct-262k",
        "llama3-gradient:8b",
        "togethercomputer/LLaMA-2-7B-32K",
        "Qwen/Qwen2.5-7B-Instruct-1M",
    ],
)
def test_a_model_with_another_window_than_its_base_has_no_card(model_id: str) -> None:
    assert model(model_id) is None


@pytest.mark.parametrize(
    "model_id",
    [
        "openai/gpt-4o",
        "OpenAI/gpt-5-2025-08-07",
        "openai/text-embedding-3-small",
        "openai/ft:gpt-4o-2024-08-06:o::i",
        "anthropic/claude-sonnet-4.5",
        "google/gemini-2.5-pro",
        "vertex_ai/gemini-2.5-pro",
        "mistral/mistral-large-latest",
        "mistral/voxtral-mini-tts-latest",
        "deepseek/deepseek-chat",
        "azure/gpt-4o",
        "groq/llama-3.3-70b-versatile",
        "bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0",
        "openrouter/openai/gpt-4o",
        "ollama/llama3.1:8b",
    ],
)
def test_a_colon_after_a_provider_is_as_good_as_a_slash(model_id: str) -> None:
    """Frameworks write openai:gpt-4o. Limits, price and tokenizer follow one rule."""
    other = model_id.replace("/", ":", 1)
    found = model(model_id)
    assert found is not None
    assert model(other) == found
    day = date(2026, 11, 1)
    assert price(other, day) == price(model_id, day)
    stated = ModelLimits(Figure(7, "mine"))
    for wanted in (model_id, other):
        set_by_user = model(wanted, configured={wanted: stated})
        assert set_by_user is not None
        assert set_by_user.context_window == stated.context_window
        own = Price(Decimal(1), Decimal(2))
        assert price(wanted, day, configured={wanted: own}) is own


@pytest.mark.parametrize(
    "model_id", ["openai:gpt-4o", "vertex_ai/gemini-2.5-pro", "openai/ft:gpt-4o-2024-08-06:o::i"]
)
def test_what_has_a_price_has_limits(model_id: str) -> None:
    found, cost = model(model_id), price(model_id, date(2026, 11, 1))
    assert found is not None
    assert found.window is not None or found.max_input_tokens is not None
    assert cost is not None
    assert cost.input is not None


@pytest.mark.parametrize("tag", ["7b", "latest", "v0.3", "7b-instruct-v0.3-q4_K_M"])
def test_a_tag_of_ollama_is_no_model_of_a_provider(tag: str) -> None:
    assert with_slash(f"mistral:{tag}") == f"mistral:{tag}"
    assert tokenizer_family("mistral:7b") == tokenizer_family("mistral-7b")


@pytest.mark.parametrize("model_id", ["ft:gpt-4o-2024-08-06:o:n:i", "ft:gpt-3.5-turbo:org::abc"])
def test_a_tuned_model_has_the_limits_and_the_price_of_tuned_ones(model_id: str) -> None:
    found = model(model_id)
    assert found is not None
    assert found.max_input_tokens is not None
    cost, plain = (price(name, date(2026, 11, 1)) for name in (model_id, model_id.split(":")[1]))
    assert cost is not None
    assert plain is not None
    assert cost.input is not None
    assert plain.input is not None
    assert cost.input > plain.input
