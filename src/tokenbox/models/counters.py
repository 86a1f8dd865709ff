"""What counts for a model: one order for every surface (requests.md, "Order of who counts").

1. what the call or the settings name, where that counts requests by itself: a format, or a model's own files;
2. the model's server, where its endpoint may be used;
3. the published rules of the model's chat format;
4. a known vocabulary, with markers counted generously;
5. where the tokenizer is unknown, the larger count of two vocabularies and a margin.

A vocabulary that is named says how texts are cut into tokens; it never switches a known format off.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tokenbox.catalog import model as catalog_model
from tokenbox.catalog import tokenizer_family
from tokenbox.catalog.names import bare_name
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.counting import CountsMessages
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.published import OpenAIFormat, openai_format
from tokenbox.errors import MissingExtra, NoTokenizer, TokenboxError
from tokenbox.tokenizers.ownership import BASELINES, FAMILIES
from tokenbox.tokenizers.registry import FILE_PREFIX, get, is_builtin

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tokenbox.compose.requests import Count, RequestCounter
    from tokenbox.content.request import Request
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

MARGIN: Final = "two-vocabularies"
# Models whose chat format OpenAI published, or is likely to share; the format says what of it is an estimate.
OPENAI: Final = ("gpt-3.5", "gpt-35", "gpt-4", "gpt-5", "chatgpt-4o", "o1", "o3", "o4")
# A file that has a chat template beside its vocabulary, and the name of a vocabulary in a model's folder.
_WITH_TEMPLATE: Final = ".gguf"
_VOCABULARY: Final = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Counting:
    """What the call and the settings say about who counts.

    ``named``: a tokenizer's name, ``file:PATH``, a model's name, a tokenizer, a function from a text to its
    count, or a :class:`~tokenbox.compose.requests.RequestCounter`; what the call names comes before what the
    settings name for the model. ``server``: the endpoint's own count, where using it is allowed.
    ``families``: the user's own tokenizers, by family.

    ``baselines``: the vocabularies of the package that may count; None is all of them. Where they are listed,
    tokenizers belong to the user (nrv ADR 007, 2): a model that none of them counts is an error, unless
    ``heuristic`` is on.
    """

    named: object = None
    server: RequestCounter | None = None
    families: Mapping[str, str] = field(default_factory=dict)
    baselines: Collection[str] | None = None
    heuristic: bool = False


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of requests and of texts. ``exact``: proven, so that no server need be asked.

    ``tokenizer`` is None where what is named counts requests only.
    """

    counter: RequestCounter
    tokenizer: Tokenizer | None
    exact: bool


class ServerFirst(CountsMessages):
    """The server's count; where it does not answer the local one, which is then not exact."""

    def __init__(self, server: RequestCounter, local: RequestCounter) -> None:
        self._server, self._local = server, local

    @property
    def identity(self) -> TokenizerIdentity:  # type: ignore[override]  # that of the server
        return self._server.identity

    def count_request(self, request: Request) -> Count:
        try:
            return self._server.count_request(request)
        except TokenboxError:
            return replace(self._local.count_request(request), exact=False)


ANYONE: Final = Counting()
"""Nobody is named, and every vocabulary of the package may count."""


def counters_for(model: str | None, counting: Counting = ANYONE) -> Counters:
    """The counters for a model. Raises :class:`NoTokenizer`, or what is wrong with what is named."""
    if not isinstance(model, str | None):
        raise NoTokenizer(f"a model is named, as in 'gpt-4o', not {type(model).__name__}.", remedies=[])
    named = counting.named
    if callable(getattr(named, "count_request", None)):
        counter = cast("RequestCounter", named)
        return Counters(counter, getattr(counter, "tokenizer", None), counter.identity.exact)
    if names_model(named):
        return counters_for(str(named), replace(counting, named=None, baselines=None))
    local = _own_files(named) or _local(model, _tokenizer(model, counting))
    if counting.server is None or local.exact:
        return local
    return Counters(ServerFirst(counting.server, local.counter), local.tokenizer, exact=False)


def names_model(named: object) -> bool:
    """Whether a model's name was given as a tokenizer's."""
    if not isinstance(named, str) or is_builtin(named) or named.startswith(FILE_PREFIX):
        return False
    return catalog_model(named) is not None or tokenizer_family(named) is not None


def _tokenizer(model: str | None, counting: Counting) -> Tokenizer:
    """What cuts texts: what is named, else the model's own tokenizer, else its family's."""
    if counting.named is not None:
        return FAMILIES.named(counting.named, model)
    if model is None:
        raise NoTokenizer(
            "neither a model nor a tokenizer is named. Give one: model='gpt-4o', or tokenizer='o200k_base'.",
            remedies=[],
        )
    owned = counting.baselines is not None
    baselines = tuple(BASELINES) if counting.baselines is None else counting.baselines
    try:
        return FAMILIES.resolve(
            model, baselines=baselines, heuristic=counting.heuristic, named=counting.families
        )
    except (NoTokenizer, MissingExtra):
        if owned:
            raise
        return get(MARGIN)


def _local(model: str | None, tokenizer: Tokenizer) -> Counters:
    """Published rules, where the model has them and is counted by its own vocabulary; else markers."""
    name = None if model is None else bare_name(model)
    if name is not None and name.startswith(OPENAI) and tokenizer.identity.name in BASELINES["gpt-bpe"]:
        published = openai_format(*OpenAIFormat.rules(name))
        return Counters(published, tokenizer, exact=False)
    return Counters(MarkersFormat(tokenizer), tokenizer, exact=False)


def _own_files(named: object) -> Counters | None:
    """The format of a model's own files, where they have a chat template."""
    if not isinstance(named, str) or not named.startswith(FILE_PREFIX):
        return None
    path = Path(named.removeprefix(FILE_PREFIX))
    folder = path.parent if path.name == _VOCABULARY else path
    if path.suffix != _WITH_TEMPLATE and not folder.is_dir():
        return None
    vocabulary = path / _VOCABULARY if path.is_dir() else path
    try:
        template = ChatFormat.open(folder)
    except TokenboxError:
        return None  # texts are counted all the same, and markers generously
    return Counters(template, get(f"{FILE_PREFIX}{vocabulary}"), template.identity.exact)
