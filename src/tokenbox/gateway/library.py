"""The library over HTTP: layouts, plans and enforcement, for the data in a request.

No file that a request names is opened, and no code is imported for it: tokenizers and strategies are those of
the package, of installed packages' entry points, and those that the operator allowed (``code.allowed``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tokenbox.catalog import Figure
from tokenbox.compose.sections import layout
from tokenbox.content.weight import weight_text
from tokenbox.conversation.counters import tokenizer_of
from tokenbox.conversation.pieces import open_session
from tokenbox.engine.result import Policy
from tokenbox.errors import CodeNotAllowed, UnknownTokenizer
from tokenbox.gateway.refusals import invalid_request
from tokenbox.models import OutputMode
from tokenbox.models.resolve import default_reserve, is_default_reserve, source_text
from tokenbox.policy import Chunks, GuardLimits, Uncertain, enforce, pack, read_chunks
from tokenbox.policy.enforcement import checked_mode
from tokenbox.policy.errors import UnknownStrategy
from tokenbox.policy.guard import FIELDS
from tokenbox.policy.strategies import STRATEGY_NAMES, Strategy, strategy_of
from tokenbox.tokenizers.registry import FILE_PREFIX, get, is_builtin

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count, RequestCounter, RunningCount
    from tokenbox.content.request import Request
    from tokenbox.models import ModelFigures
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

_LAYOUT = {"sections", "budget", "tokenizer", "separator", "policy", "groups", "reclaim"}
_TOKENIZER = "o200k_base"
_LIMITS = {"max_ctx", "reserve_out", "headroom", "max_input"}


@dataclass(frozen=True, slots=True)
class KnownCount:
    """A counter that knows the upstream's count of one request, and counts others locally."""

    request: Request
    count: Count
    local: RequestCounter

    @property
    def identity(self) -> TokenizerIdentity:
        return self.local.identity

    @property
    def tokenizer(self) -> Tokenizer:
        return tokenizer_of(self.local)

    def count_request(self, request: Request) -> Count:
        return self.count if request == self.request else self.local.count_request(request)

    def session(self) -> RunningCount:
        return open_session(self.local)


def layout_of(body: dict[str, Any]) -> dict[str, Any]:
    """Answer ``POST /v1/layout``: a layout document without files."""
    _check_fields(body, _LAYOUT)
    if not isinstance(body.get("sections"), list):
        raise invalid_request("sections is a list of sections.", "sections")
    result = layout(
        body["sections"],
        body.get("budget"),  # type: ignore[arg-type]  # checked by the library, in its own words
        named_tokenizer(body) or get(_TOKENIZER),
        body.get("separator", "\n\n"),
        policy=body.get("policy", Policy.FACET),
        groups=body.get("groups"),
        reclaim=body.get("reclaim", False),
    )
    return result.to_dict()


@dataclass(frozen=True, slots=True)
class PolicyQuestion:
    """A question of ``/v1/plan`` or ``/v1/enforce``. ``uncertain`` is the operator's rule for estimates."""

    body: dict[str, Any]
    chunks: Chunks
    model: ModelFigures | None
    counter: Tokenizer | RequestCounter
    uncertain: Uncertain

    def plan(self) -> dict[str, Any]:
        """Return what of the chunks would be sent."""
        body = self.body
        _check_fields(body, {"chunks", "strategy", "model", "tokenizer", *_LIMITS})
        limits = _limits(body, self.model)
        return pack(
            self.chunks, limits, self.counter, _strategy(body), body.get("model"), self.uncertain
        ).to_dict()

    def enforcement(self) -> dict[str, Any]:
        """Return whether the chunks may be sent, why, and what would make them fit."""
        body = self.body
        _check_fields(
            body, {"chunks", "model", "tokenizer", "output_mode", "max_tokens_request", "strategy", *_LIMITS}
        )
        asked, mode = body.get("max_tokens_request"), checked_mode(body.get("output_mode", OutputMode.TEXT))
        reserve = body.get("reserve_out") if asked is None else asked
        return enforce(
            self.chunks,
            _limits({**body, "reserve_out": reserve}, self.model, mode),
            self.counter,
            output_mode=mode,
            strategy=_strategy(body),
            model=body.get("model"),
            max_tokens_request=asked,
            uncertain=self.uncertain,
            max_output=None if self.model is None else self.model.max_output,
        ).to_dict()


def named_tokenizer(body: dict[str, Any]) -> Tokenizer | None:
    """Return the tokenizer that a body names, or None."""
    name = body.get("tokenizer")
    if name is None:
        return None
    try:
        if is_builtin(name) or (isinstance(name, str) and not name.startswith(FILE_PREFIX)):
            return get(name)
    except (CodeNotAllowed, UnknownTokenizer):
        pass
    raise invalid_request(
        "tokenizer is the name of one in the package, such as o200k_base, or one that the operator allowed.",
        "tokenizer",
    )


def _strategy(body: dict[str, Any]) -> str | Strategy | None:
    try:
        return strategy_of(body.get("strategy"))
    except (CodeNotAllowed, UnknownStrategy):
        names = ", ".join(STRATEGY_NAMES)
        raise invalid_request(
            f"strategy is one of {names}, or one that the operator allowed.", "strategy"
        ) from None


def _limits(
    body: dict[str, Any], model: ModelFigures | None, mode: OutputMode = OutputMode.TEXT
) -> GuardLimits:
    """Return the limits in the body, else those of the model. A default reserve is of the stated window."""

    def stated(name: str, default: int | str | None) -> Any:  # noqa: ANN401  # checked by GuardLimits.of
        return default if body.get(name) is None else body[name]

    max_ctx = stated("max_ctx", None if model is None else model.context_window)
    if max_ctx is None:
        raise invalid_request(
            "max_ctx is missing, and the context window of the model is unknown.", "max_ctx"
        )
    known = {} if model is None else model.sources
    sources = {name: known[figure] for figure, name in FIELDS.items() if figure in known}
    sources |= {name: "the request" for name in FIELDS.values() if body.get(name) is not None}
    limits = GuardLimits.of(
        max_ctx,
        stated("reserve_out", 0 if model is None or model.output_reserve is None else model.output_reserve),
        stated("headroom", "0" if model is None else weight_text(model.headroom)),
        stated("max_input", None if model is None else model.max_input),
        sources,
    )
    if model is None or not is_default_reserve(sources.get("reserve_out")):
        return limits
    longest = None if model.max_output is None else Figure(model.max_output, known["max_output"])
    reserve = default_reserve(longest, limits.max_ctx, limits.headroom, mode)
    sources["reserve_out"] = source_text(reserve)
    return replace(limits, reserve_out=reserve.value or 0, sources=sources)


def chunks_of(body: dict[str, Any]) -> Chunks:
    """Return the chunks of a body. Raises :class:`Refusal`."""
    if not isinstance(body.get("chunks"), list):
        raise invalid_request("chunks is a list of texts, sections or messages.", "chunks")
    return read_chunks(body["chunks"])


def _check_fields(body: dict[str, Any], keys: set[str]) -> None:
    unknown = sorted(body.keys() - keys)
    if unknown:
        raise invalid_request(
            f"there is no {unknown[0][:60]!r} here. There are: {', '.join(sorted(keys))}.", unknown[0][:60]
        )
