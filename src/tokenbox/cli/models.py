"""``tokenbox models``: shows limits and prices of models, with their sources and where sources disagree."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal

import tokenbox
from tokenbox.catalog import Disagreement, Figure, ModelInfo, ModelLimits, Price
from tokenbox.cli import clock, terminal
from tokenbox.cli.options import AS_JSON, argument, flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import write_error, write_record, write_warnings
from tokenbox.config import Config
from tokenbox.errors import TokenboxError, toml_key
from tokenbox.render.lines import printable

MAX_SHOWN = 20
"""Matches of a query that are shown without ``--all``."""
HEADS = ("model", "window", "max input", "max output", "tokenizer", "$ in", "cached", "out", "price from")


class UnknownModel(TokenboxError, code="unknown_model"):
    """The catalog has no model that matches."""


def models(
    query: list[str] | None = argument("QUERY...", "A model id, or words of one.", None),
    everyone: bool = flag("--all", "Show all matches, and providers that resell models of others."),
    on: str | None = option("--on DAY", "The date of the prices. Default: today."),
    live: bool = flag("--live", "First ask the servers of [models.NAME] for their limits."),
    as_json: bool = AS_JSON,
) -> None:
    """Show context windows and prices of models, each figure with its source.

    If sources disagree, all figures are shown, and the smallest one counts, unless it is another one rounded
    or you configure yours. The limits that a server reports override published ones. Only --live uses the
    network.

    Example: tokenbox models gpt-5
    """
    day = _day(on)
    config = tokenbox.config.load(os.curdir)
    wanted = " ".join(query or ())
    if live:
        _ask_servers(config)
    discovered = {config.model_id(name): config.server_said(name) for name in config.names("models")}
    infos, left_out = _found(wanted, config, discovered, everyone=everyone)
    own_prices = config.catalog_prices()
    priced = [(info, tokenbox.catalog.price(info.id, day, configured=own_prices)) for info in infos]
    write_warnings(config.problems)
    if as_json:
        records = [
            {**info.to_dict(), "price": None if cost is None else cost.to_dict()} for info, cost in priced
        ]
        write_record("models", {"models": records})
        return
    _show(priced)
    if left_out:
        write_error(f"{left_out:,} more: tokenbox models {printable(wanted)} --all\n".replace("  ", " "))
    if infos:
        key = shlex.quote(toml_key(("catalog", infos[0].id, "max_input_tokens")))
        write_error(f"To correct a figure: tokenbox config set {key} 100000\n")


def _day(text: str | None) -> date:
    if text is None:
        return clock.now().date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageProblem(f"--on takes a day, as in 2026-11-21; not {text[:40]!r}.") from None


def _ask_servers(config: Config) -> None:
    """Ask the configured servers for their limits; a failure is a note on standard error."""
    from tokenbox.shell.keys import ModelKeys

    with terminal.progress("asking servers"):
        found = tokenbox.ctx.discover(config=config, key=ModelKeys(config, os.environ).of)
    if not found:
        write_error("note: no [models.NAME] has an endpoint, so there is no server to ask.\n")
    for one in found:
        if one.problem is not None:
            write_error(f"note: {printable(one.name)}: {printable(one.problem)}\n")
        elif not one.kept:
            write_error(f"note: the limits of {printable(one.name)} cannot be saved in the cache folder.\n")


def _found(
    wanted: str, config: Config, discovered: Mapping[str, ModelLimits], *, everyone: bool
) -> tuple[list[ModelInfo], int]:
    configured = _configured(config)
    infos = tokenbox.catalog.find(
        wanted, configured=configured, discovered=discovered, makers_only=not everyone
    )
    if not infos:
        infos = tokenbox.catalog.find(wanted, configured=configured, discovered=discovered)
    if not infos:
        near = tokenbox.catalog.nearest(wanted)
        others = ", ".join(near[:-1])
        meant = f"{others} or {near[-1]}" if others else "".join(near)
        hint = f"Did you mean {meant}?" if near else "tokenbox models lists all."
        raise UnknownModel(f"no model is called {wanted[:80]!r}. {hint}", model=wanted[:80], nearest=near)
    if not wanted and not everyone:
        own = {*configured, *discovered}
        return [info for info in infos if info.max_output_tokens is not None or info.id in own], 0
    shown = infos if everyone else infos[:MAX_SHOWN]
    return shown, len(infos) - len(shown)


def _configured(config: Config) -> dict[str, ModelLimits]:
    """Return the user's own figures: those of ``[catalog.MODEL]``, and the windows of ``[models.NAME]``."""
    found = config.catalog_limits()
    for name in config.names("models"):
        model, window = config.model_id(name), config.stated(name).context_window
        if window is not None:
            found[model] = replace(found.get(model, ModelLimits()), context_window=window)
    return found


@dataclass
class _Sources:
    """The footnotes: every source so far with its number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def mark(self, source: str, day: str | None) -> str:
        dated = source if day is None else f"{source} ({day})"
        return f"[{self.numbers.setdefault(dated, len(self.numbers) + 1)}]"

    def figure(self, figure: Figure | None, *, disputed: bool = False) -> str:
        if figure is None or figure.value is None:
            return "-"
        return f"{figure.value:,}{'!' if disputed else ''} {self.mark(figure.source, figure.date)}"


def _show(priced: list[tuple[ModelInfo, Price | None]]) -> None:
    sources = _Sources()
    rows = []
    for info, cost in priced:
        disputed = {found.limit for found in info.disagreements}
        limits = [
            sources.figure(info.figure(limit), disputed=limit in disputed) for limit in tokenbox.catalog.Limit
        ]
        rows.append((info.id, *limits, _tokenizer(info, sources), *_price(cost, sources)))
    terminal.show_table(HEADS, rows)
    notes = [_dispute(info, found, sources) for info, _ in priced for found in info.disagreements]
    notes += [line for info, cost in priced for line in _price_notes(info, cost, sources)]
    notes += [f"[{number}] {source}" for source, number in sources.numbers.items()]
    terminal.show_lines(notes)


def _tokenizer(info: ModelInfo, sources: _Sources) -> str:
    if info.tokenizer is None:
        return "-"
    return f"{info.tokenizer.name or 'none public'} {sources.mark(info.tokenizer.source, None)}"


def _price(cost: Price | None, sources: _Sources) -> tuple[str, str, str, str]:
    if cost is None:
        return "unpriced", "-", "-", "-"
    more = f"{'+' if cost.tiers else ''}{'!' if cost.others else ''}"
    into, read, out = (_dollars(rate) for rate in (cost.input, cost.cached_input, cost.output))
    return f"{into}{more}", read, f"{out}{more}", sources.mark(cost.source, cost.date)


def _dollars(rate: Decimal | None) -> str:
    return "-" if rate is None else format(rate.normalize(), "f")


def _dispute(info: ModelInfo, found: Disagreement, sources: _Sources) -> str:
    others = ", ".join(sources.figure(figure) for figure in found.others)
    chosen = sources.figure(found.chosen)
    limit = found.limit.value.replace("_", " ")
    return f"! {info.id}: {limit} {chosen} counts ({found.rule.value}); other sources: {others}"


def _price_notes(info: ModelInfo, cost: Price | None, sources: _Sources) -> list[str]:
    if cost is None:
        return []
    others = [
        f"! {info.id}: other sources: {_dollars(other.input)} in, {_dollars(other.cached_input)} cached, "
        f"{_dollars(other.output)} out {sources.mark(other.source, other.date)}"
        for other in cost.others
    ]
    tiers = [
        f"+ {info.id}: above {tier.above:,} input tokens the whole request costs "
        f"{_dollars(tier.input)} in, {_dollars(tier.cached_input)} cached, {_dollars(tier.output)} out"
        for tier in cost.tiers
    ]
    return [*others, *tiers, *([] if cost.note is None else [f"+ {info.id}: {cost.note}"])]
