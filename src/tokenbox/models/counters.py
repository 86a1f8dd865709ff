"""The choice of the counter for a model, in one order for every surface.

1. a counter of requests named by the call or the settings: a chat format, or a model's own files;
2. the model's server, if its endpoint may be used;
3. the published rules of the model's chat format;
4. a known vocabulary, plus a generous estimate of chat markers;
5. for an unknown tokenizer, the larger count of two vocabularies plus a margin.

A named vocabulary only replaces the tokenizer; a known chat format still applies.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tokenbox.catalog import model as catalog_model
from tokenbox.catalog import tokenizer_family
from tokenbox.catalog.families import is_makers_own
from tokenbox.catalog.lookup import is_listed
from tokenbox.catalog.names import bare_name
from tokenbox.compose.bound import Bound
from tokenbox.compose.requests import is_request_counter
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.counters import tokenizer_of
from tokenbox.conversation.image_costs import image_cost
from tokenbox.conversation.markers import MarkersFormat
from tokenbox.conversation.pieces import CountsMessages
from tokenbox.conversation.published import openai_format
from tokenbox.errors import MissingExtra, NoTokenizer, TokenboxError
from tokenbox.tokenizers.guarded import as_estimate
from tokenbox.tokenizers.ownership import BASELINES, FAMILIES
from tokenbox.tokenizers.registry import FILE_PREFIX, get, is_builtin

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count, RequestCounter
    from tokenbox.content.request import Request
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

MARGIN: Final = "two-vocabularies"
# Models with OpenAI's published chat format, or probably the same one. The format marks estimates.
OPENAI: Final = ("gpt-3.5", "gpt-35", "gpt-4", "gpt-5", "chatgpt-4o", "o1", "o3", "o4")
# Where these rules are known to hold: OpenAI's own API, and the kinds of server that are set for it.
OPENAI_HOST: Final = "api.openai.com"
_PUBLIC: Final = frozenset(name for names in BASELINES.values() for name in names)
_OPENAI_KINDS: Final = frozenset(("openai", "openai-responses"))
# The suffix of a file with vocabulary and chat template, and the name of a vocabulary in a model's folder.
_WITH_TEMPLATE: Final = ".gguf"
_VOCABULARY: Final = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Counting:
    """The counting options of the call and the settings.

    ``named``: a tokenizer's name, ``file:PATH``, a model's name, a tokenizer, a function from a text to its
    count, or a :class:`~tokenbox.compose.requests.RequestCounter`; the call overrides the settings.
    ``server``: the endpoint's own count, if it may be used. ``families``: the user's own tokenizers, by
    family.

    ``baselines``: the built-in vocabularies that may be used; None allows all. If they are listed, tokenizers
    belong to the user (nrv ADR 007, 2): a model without one is an error, unless ``heuristic`` is on.
    ``at_openai``: whether the server is OpenAI itself (:func:`is_openai`), or none is known. Another server
    may run any model under a public name. The rules and the vocabulary of that name prove nothing there, so
    they only estimate: no count is exact, a text has a token per 8 bytes at least, and the bound is by bytes.
    So it is with a name that the model's maker does not list: ``gpt 4o``, a new snapshot, ``azure/gpt-4o``.
    """

    named: object = None
    server: RequestCounter | None = None
    families: Mapping[str, str] = field(default_factory=dict)
    baselines: Collection[str] | None = None
    heuristic: bool = False
    at_openai: bool = True


def is_openai(endpoint: str | None, kind: str) -> bool:
    """Return whether an endpoint is OpenAI's own API, by its host or its kind. None is the model's maker."""
    return endpoint is None or kind in _OPENAI_KINDS or urlsplit(endpoint).hostname == OPENAI_HOST


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of requests and of texts. ``exact``: proven to be exact, so no server needs to be asked.

    ``tokenizer`` is None if the named counter only counts requests. ``has_format``: a model or a chat format
    is named, so sections that all have a role are counted as messages. Without, their texts are counted.
    """

    counter: RequestCounter
    tokenizer: Tokenizer | None
    exact: bool
    has_format: bool = True


class ServerFirst(CountsMessages):
    """A counter that asks the server. Its fallback is the local count, as an estimate bounded by bytes."""

    def __init__(self, server: RequestCounter, local: RequestCounter) -> None:
        self._server, self._local = server, local
        self.tokenizer = tokenizer_of(local)

    @property
    def identity(self) -> TokenizerIdentity:  # type: ignore[override]  # the server's
        return self._server.identity

    def count_request(self, request: Request) -> Count:
        try:
            return self._server.count_request(request)
        except TokenboxError:
            local = self._local.count_request(request)
            at_most = max(local.total, Bound(None).request(request))
            return replace(local, exact=False, at_most=at_most)


ANYONE: Final = Counting()
"""The default: no counter is named, and all built-in vocabularies are allowed."""


def counters_for(model: str | None, counting: Counting = ANYONE) -> Counters:
    """Return the counters for a model. Raises :class:`NoTokenizer`, or the error of the named counter."""
    if not isinstance(model, str | None):
        raise NoTokenizer(f"a model is a name such as 'gpt-4o', not {type(model).__name__}.", remedies=[])
    if model is not None and not model.strip():
        raise NoTokenizer("the model's name is empty. Is a variable unset?", remedies=[])
    named = counting.named
    if is_request_counter(named):
        return Counters(named, getattr(named, "tokenizer", None), named.identity.exact)
    if names_model(named):
        return counters_for(str(named), replace(counting, named=None, baselines=None))
    local = _own_files(named) or _local(model, counting)
    if counting.server is None or local.exact:
        return local
    return Counters(ServerFirst(counting.server, local.counter), local.tokenizer, exact=False)


def names_model(named: object) -> bool:
    """Return whether the argument for a tokenizer is the name of a model."""
    if not isinstance(named, str) or is_builtin(named) or named.startswith(FILE_PREFIX):
        return False
    return catalog_model(named) is not None or tokenizer_family(named) is not None


def _tokenizer(model: str | None, counting: Counting) -> Tokenizer:
    """Return the named tokenizer, else the model's own, else its family's."""
    if counting.named is not None:
        return FAMILIES.named(counting.named, model)
    if model is None:
        raise NoTokenizer(
            "neither a model nor a tokenizer is named. Name one: --model gpt-4o or --tokenizer o200k_base, "
            "in Python model='gpt-4o' or tokenizer='o200k_base'.",
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


def _local(model: str | None, counting: Counting) -> Counters:
    """Return the published rules for a model with its own vocabulary, else an estimate of markers."""
    tokenizer = _tokenizer(model, counting)
    name = None if model is None else bare_name(model)
    at_its_maker = counting.at_openai and model is not None
    at_openai = at_its_maker and is_listed(str(model), "openai")
    is_own = at_openai or (at_its_maker and is_makers_own(str(model)))
    if not is_own and counting.named is None and tokenizer.identity.name in _PUBLIC:
        tokenizer = _estimate(tokenizer.identity.name)
    if (
        name is not None
        and name.removeprefix("ft:").startswith(OPENAI)
        and tokenizer.identity.name in BASELINES["gpt-bpe"]
    ):
        by_rules = openai_format(name, at_openai=at_openai)
        return Counters(by_rules, tokenizer, exact=False)
    return Counters(
        MarkersFormat(tokenizer, image_cost=image_cost(name)),
        tokenizer,
        exact=False,
        has_format=model is not None,
    )


@cache
def _estimate(vocabulary: str) -> Tokenizer:
    """Return one object for each vocabulary, because the gateway notes which are loaded."""
    return as_estimate(get(vocabulary))


def _own_files(named: object) -> Counters | None:
    """Return the chat format of a model's own files, or None if they have no chat template."""
    if not isinstance(named, str) or not named.startswith(FILE_PREFIX):
        return None
    path = Path(named.removeprefix(FILE_PREFIX))
    folder = path.parent if path.name == _VOCABULARY else path
    # `isdir` is False for a name that is too long; `Path.is_dir` raises.
    if path.suffix != _WITH_TEMPLATE and not os.path.isdir(folder):
        return None
    try:
        template = ChatFormat.open(folder)
    except TokenboxError:
        return None  # the vocabulary is used without a chat template
    return Counters(template, get(named), template.identity.exact)
