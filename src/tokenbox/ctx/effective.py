"""What holds for a model: its tokenizer and its limits, from the call, the settings and the catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from tokenbox import catalog
from tokenbox.catalog.names import undated
from tokenbox.config import Level
from tokenbox.conversation import ChatFormat
from tokenbox.conversation.counting import is_request_counter
from tokenbox.ctx.discovery import said_of
from tokenbox.errors import NoTokenizer, TokenboxError
from tokenbox.policy.chunks import Kind
from tokenbox.policy.errors import InvalidPolicy, UnknownWindow
from tokenbox.policy.limits import Limits
from tokenbox.policy.limits import tokens as checked_tokens
from tokenbox.policy.records import OutputMode
from tokenbox.tokenizers.ownership import BASELINES, FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.catalog import Figure
    from tokenbox.config import Config
    from tokenbox.config.config import ModelPolicy
    from tokenbox.policy.chunks import Request
    from tokenbox.policy.messages import Counts

# Where nobody says how long an answer may be: the model's longest, but of the usable window no more than one
# in so many. An answer that is cut off is still an answer; JSON that is cut off is not, so it gets more.
DEFAULT_SHARES: Final[Mapping[OutputMode, int]] = {
    OutputMode.TEXT: 4,
    OutputMode.STREAM: 4,
    OutputMode.JSON: 2,
}
# Other models named in a remedy.
NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model can do, as far as anyone says. None is unknown, and never 0.

    ``tokenizer_name`` is the tokenizer that the settings name for it, else the family it belongs to.
    ``sources`` says of each field where it is from. ``configured``: it stands in the settings.
    """

    id: str
    context_window: int | None
    max_input_tokens: int | None
    max_output_tokens: int | None
    tokenizer_name: str | None
    sources: Mapping[str, str] = field(default_factory=dict)
    configured: bool = False

    def to_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "context_window": self.context_window,
            "max_input_tokens": self.max_input_tokens,
            "max_output_tokens": self.max_output_tokens,
            "tokenizer_name": self.tokenizer_name,
            "configured": self.configured,
            "sources": dict(self.sources),
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call says itself, None where it does not; ``reserve_source`` says what of it is the reserve."""

    max_ctx: object = None
    reserve_out: object = None
    headroom: object = None
    reserve_source: str = "the call"


def tokenizer_for(model: str | None, tokenizer: object, config: Config) -> Counts:
    """Who counts: the tokenizer named in the call, else the model's in the settings, else its family's.

    Raises :class:`NoTokenizer`.
    """
    if is_request_counter(tokenizer):
        return cast("Counts", tokenizer)
    if tokenizer is not None:
        return FAMILIES.named(tokenizer, None if model is None else config.model_id(model))
    if model is None:
        raise NoTokenizer(
            "neither a model nor a tokenizer is named. Give one: model='gpt-4o', or tokenizer='o200k_base'.",
            remedies=[],
        )
    policy = config.policy_for(model)
    if policy.tokenizer is not None:
        return FAMILIES.named(policy.tokenizer, policy.model)
    baselines = config.value(("tokenizers", "baselines"))
    return FAMILIES.resolve(
        policy.model,
        baselines=baselines if isinstance(baselines, tuple) else (),
        heuristic=config.value(("tokenizers", "heuristic")) is True,
        named=config.tokenizer_names(),
    )


def counter_for(request: Request, model: str | None, tokenizer: object, config: Config) -> Counts:
    """Who counts this request: of messages the published format of the model, where there is one.

    A tokenizer that the call names counts by itself.
    """
    counter = tokenizer_for(model, tokenizer, config)
    if request.kind is not Kind.MESSAGES or tokenizer is not None or model is None:
        return counter
    name = config.model_id(model).rpartition("/")[2]
    if not name.startswith(OPENAI) or counter.identity.name not in BASELINES["gpt-bpe"]:
        return counter
    found = _formats.get(name)
    if found is None:
        found = _formats[name] = ChatFormat.openai(name)
    return found


# Models whose chat format OpenAI published, or is likely to share; the format says what of it is an estimate.
OPENAI: Final = ("gpt-3.5", "gpt-4", "gpt-5", "chatgpt-4o", "o1", "o3", "o4")
_formats: dict[str, ChatFormat] = {}


def limits_for(
    model: str | None,
    config: Config,
    asked: Asked = Asked(),  # frozen
    mode: OutputMode = OutputMode.TEXT,
) -> tuple[Limits, list[str]]:
    """The limits of a request to ``model``, and notes on what does not decide but should be known.

    The same question is answered from memory: it is asked before every request. Raises
    :class:`UnknownWindow` where nobody says how much the model holds.
    """
    key = id(config), model, _hashable(asked), mode
    known = _answers.get(key)
    if known is not None and known[0] is config:
        return known[1], known[2]
    limits, notes = _limits(model, config, asked, mode)
    if len(_answers) >= MOST_ANSWERS:
        _answers.clear()
    _answers[key] = config, limits, notes
    return limits, notes


_answers: dict[object, tuple[Config, Limits, list[str]]] = {}
MOST_ANSWERS: Final = 1_000


def _hashable(asked: Asked) -> tuple[object, ...]:
    """What was asked, by type too: True and 1 are not the same question."""
    fields = (asked.max_ctx, asked.reserve_out, asked.headroom)
    return (*((type(value), repr(value)) for value in fields), asked.reserve_source)


def _limits(model: str | None, config: Config, asked: Asked, mode: OutputMode) -> tuple[Limits, list[str]]:
    policy = None if model is None else config.policy_for(model)
    info = None if policy is None or model is None else _info(model, policy.model, config)
    sources: dict[str, str] = {}
    max_ctx = _window(model, policy, info, asked, config, sources)
    headroom: object = asked.headroom
    sources["headroom"] = "the call"
    if headroom is None:
        headroom = config.value("policy.headroom") if policy is None else policy.headroom
        sources["headroom"] = (
            config.source("policy.headroom") if policy is None else policy.sources["headroom"]
        )
    taken = None if info is None else info.max_input_tokens
    max_input = None if taken is None else taken.value
    if taken is not None and max_input is not None:
        sources["max_input"] = _source(taken)
    usable = Limits.of(max_ctx, 0, headroom).usable
    longest = None if info is None else info.max_output_tokens
    reserve, sources["reserve_out"] = _reserve(policy, longest, asked, mode, usable, config)
    limits = Limits.of(max_ctx, reserve, headroom, max_input, sources)
    notes = []
    if longest is not None and longest.value is not None and limits.reserve_out > longest.value:
        notes.append(
            f"{limits.reserve_out:,} tokens are reserved for the answer, and the model gives at most "
            f"{longest.value:,} ({_source(longest)}): its server may refuse that"
        )
    return limits, notes


def _info(name: str, model_id: str, config: Config) -> catalog.ModelInfo | None:
    """The catalog's figures, corrected by the settings and by what servers said."""
    return catalog.model(model_id, configured=config.catalog_limits(), discovered=said_of(name, config))


def forget_answers() -> None:
    """Answer anew: something was learned."""
    _answers.clear()


def describe(name: str, config: Config) -> ModelInfo:
    """What is known of a model, by its id or a NAME of ``[models.NAME]``."""
    policy = config.policy_for(name)
    info = _info(name, policy.model, config)
    sources: dict[str, str] = {}
    values: dict[str, int | None] = {}
    for limit in catalog.Limit:
        figure = None if info is None else info.figure(limit)
        values[limit.value] = None if figure is None else figure.value
        if figure is not None:
            sources[limit.value] = _source(figure)
    own = _own_window(policy, config)
    if own is not None:
        values["context_window"], sources["context_window"] = own, policy.sources["max_ctx"]
    tokenizer = policy.tokenizer
    if tokenizer is not None:
        sources["tokenizer_name"] = policy.sources["tokenizer"]
    elif info is not None and info.tokenizer is not None:
        tokenizer, sources["tokenizer_name"] = info.tokenizer.name, info.tokenizer.source
    return ModelInfo(
        name,
        values["context_window"],
        values["max_input_tokens"],
        values["max_output_tokens"],
        tokenizer,
        sources,
        name in config.names("models"),
    )


def larger_models(
    request: Request,
    model: str | None,
    tokens_in: int,
    counter: Counts,
    config: Config,
    asked: Asked,
    mode: OutputMode,
) -> tuple[str, ...]:
    """Models that are counted by the same tokenizer and let that input pass, the smallest window first."""
    info = None if model is None else catalog.model(config.model_id(model))
    family = None if info is None else info.tokenizer_family
    if model is None or asked.max_ctx is not None:
        return ()
    mine = config.model_id(model)
    fitting: list[tuple[int, int, str]] = []
    known = () if family is None else _of_family(family)
    for name in dict.fromkeys((*config.names("models"), *known)):
        if config.model_id(name) == mine:
            continue
        try:
            limits, _ = limits_for(name, config, asked, mode)
            other = counter_for(request, name, None, config)
        except TokenboxError:
            continue  # nobody knows its window, or who counts for it: nothing to recommend
        alike = other.identity.fingerprint == counter.identity.fingerprint
        if alike and not limits.denies(tokens_in):
            fitting.append((limits.max_ctx, len(name), name))
    return tuple(name for _, _, name in sorted(fitting)[:NAMED])


_families: dict[str, tuple[str, ...]] = {}


def _of_family(family: str) -> tuple[str, ...]:
    """The chat models of the catalog that count so, without dated snapshots."""
    if family not in _families:
        _families[family] = tuple(
            info.id
            for info in catalog.find("", makers_only=True)
            if info.tokenizer_family == family
            and info.max_output_tokens is not None
            and undated(info.id) is None
            and ":" not in info.id
        )
    return _families[family]


def _window(  # what limits_for has found out
    model: str | None,
    policy: ModelPolicy | None,
    info: catalog.ModelInfo | None,
    asked: Asked,
    config: Config,
    sources: dict[str, str],
) -> int:
    """The call's, else that of the model in the settings, else its own, but no more than ``[policy]``."""
    if asked.max_ctx is not None:
        sources["max_ctx"] = "the call"
        return checked_tokens(asked.max_ctx, "max_ctx")
    if model is None or policy is None:
        general = config.value("policy.max_ctx")
        if general is not None:
            sources["max_ctx"] = config.source("policy.max_ctx")
            return checked_tokens(general, "max_ctx")
        raise InvalidPolicy(
            "neither max_ctx nor a model is named, so nobody knows how much there is. Give one.",
            field="max_ctx",
        )
    own = _own_window(policy, config)
    if own is not None:
        sources["max_ctx"] = policy.sources["max_ctx"]
        return own
    known = None if info is None else info.window
    cap = policy.max_ctx
    if known is None or known.value is None:
        if cap is None:
            raise _unknown_window(model, policy.model)
        sources["max_ctx"] = policy.sources["max_ctx"]
        return cap
    if cap is not None and cap < known.value:
        sources["max_ctx"] = policy.sources["max_ctx"]
        return cap
    sources["max_ctx"] = _source(known)
    return known.value


def _own_window(policy: ModelPolicy, config: Config) -> int | None:
    """What the settings say of this very model, or a flag of every one; None where they do not."""
    setting = config.setting(("policy", "max_ctx"))
    general = policy.sources["max_ctx"] == setting.source and setting.origin.level is not Level.FLAG
    return None if policy.max_ctx is None or general else policy.max_ctx


def _reserve(
    policy: ModelPolicy | None,
    longest: Figure | None,
    asked: Asked,
    mode: OutputMode,
    usable: int,
    config: Config,
) -> tuple[object, str]:
    """What stays free for the answer, and who says so."""
    if asked.reserve_out is not None:
        return asked.reserve_out, asked.reserve_source
    if policy is not None and policy.reserve_out is not None:
        return policy.reserve_out, policy.sources["reserve_out"]
    general = config.setting(("policy", "reserve_out"))
    if policy is None and general.value is not None:
        return general.value, general.source
    share = usable // DEFAULT_SHARES[mode]
    if longest is not None and longest.value is not None and longest.value <= share:
        return longest.value, f"the model's longest answer, {_source(longest)}"
    return share, f"default: 1 in {DEFAULT_SHARES[mode]} of the usable window"


def _source(figure: Figure) -> str:
    return figure.source if figure.date is None else f"{figure.source}, {figure.date}"


def _unknown_window(model: str, model_id: str) -> UnknownWindow:
    name = model if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", model) else f'"{model}"'
    key = f"models.{name}.max_ctx" if '"' not in name else f"'models.{name}.max_ctx'"
    remedies = [f"tokenbox config set {key} 8192", "tokenbox config set policy.max_ctx 8192"]
    near = catalog.nearest(model_id)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownWindow(
        f"nobody says how many tokens the model {model!r} holds.{meant} Say it (8192 stands for its server's "
        f"figure): {'; '.join(remedies)}; or give max_ctx (--max-ctx) for one call.",
        model=model,
        nearest=near,
        remedies=remedies,
    )
