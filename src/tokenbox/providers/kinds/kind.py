"""What tokenbox has to know of a kind of server: how it is recognised, asked, counted with and talked to.

Data: what reads it is elsewhere. Each kind is a file of this package, or a module of somebody's package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from tokenbox.providers.shapes import at, count_at, items_at, text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.catalog import Figure
    from tokenbox.content.request import Api
    from tokenbox.providers.events import Event
    from tokenbox.providers.framing import Framing
    from tokenbox.providers.request import ChatRequest

Body = dict[str, Any]
# What a server says of a model, by the names of ``Capabilities``.
Figures = dict[str, "Figure | int | None"]


class StreamReader(Protocol):
    """Reads the JSON values of one stream.

    ``done``: its end was said. ``may_end``: it may end here, though that was not said.
    """

    @property
    def done(self) -> bool: ...
    @property
    def may_end(self) -> bool: ...

    def read(self, value: object) -> list[Event]:
        """The events of one value. Raises ``BadAnswer``."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """The language of a chat: how a request is written, and how its answer is read, whole or as a stream.

    ``body`` writes a request; the text it is given is the kind's name for the output limit. ``asks_window``:
    a request states the context window (Ollama).
    """

    api: Api | None
    body: Callable[[ChatRequest, str], Body]
    events: Callable[[object], list[Event]]
    reader: Callable[[], StreamReader]
    framing: Callable[[int], Framing]
    asks_window: bool = False


@dataclass(frozen=True, slots=True)
class TextCount:
    """How a server counts a text: the field it goes into, and where the number is in the answer.

    ``exact`` is False where the count has more than the text's own tokens.
    """

    text_field: str
    read: Callable[[object], int | None]
    fixed: Mapping[str, object] = field(default_factory=dict)
    path: str = "/tokenize"
    exact: bool = True


@dataclass(frozen=True, slots=True)
class RequestCount:
    """How a server counts a whole request of one API.

    ``body`` makes what is sent of the request's own body; ``read`` finds the number in the answer, or the
    rendered prompt, which ``then`` counts. A figure has what is sent, and nothing else of the request;
    ``has_media``: images and files, too; ``is_whole``: everything, as the server reads the body as it would
    to run it. ``ids``: where the answer has the tokens themselves. ``is_translated``: another API's count, of
    what was made of the request.
    """

    path: str
    body: Callable[[Mapping[str, Any]], Body]
    read: Callable[[object], Any]
    exact: bool = True
    is_whole: bool = False
    has_media: bool = False
    is_translated: bool = False
    ids: str | None = None
    then: RequestCount | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A path to ask for a model's limits, and what its answer says. ``body`` None: a GET."""

    path: Callable[[str], str]
    read: Callable[[object, str], Figures]
    body: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows the kind: a host by name, who owns the listed models, a ``server`` header, or an answer."""

    host: str | None = None
    owner: str | None = None
    server: str | None = None
    path: str | None = None
    shows: Callable[[object], bool] = bool


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of server. ``in_catalog``: its models are those of the catalog.

    What somebody runs at home under a public name may hold less. ``questions`` are asked in this order, and
    the first that has a figure is believed. ``counts``: the first that the server has.
    """

    name: str
    dialect: Dialect
    chat_path: str = "/v1/chat/completions"
    models_path: str = "/v1/models"
    key_header: tuple[str, str] = ("Authorization", "Bearer ")
    headers: Mapping[str, str] = field(default_factory=dict)
    max_tokens_field: str = "max_tokens"
    # The names for it that the server heeds in a chat.
    output_fields: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    text_count: TextCount | None = None
    counts: Mapping[Api, tuple[RequestCount, ...]] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    signs: tuple[Sign, ...] = ()
    in_catalog: bool = False
    # Whether the server has llama.cpp's /tokenize and /detokenize, so that they can be passed on to it.
    tokenizes: bool = False


KINDS: Final[dict[str, ServerKind]] = {}


def register_kind(kind: ServerKind) -> ServerKind:
    """Add a kind. Raises ``ValueError`` for a name that is taken."""
    if kind.name in KINDS:
        raise ValueError(f"there is a kind of server {kind.name!r} already.")
    KINDS[kind.name] = kind
    return kind


# Steps that several kinds share.


def whole(body: Mapping[str, Any]) -> Body:
    """The request as it is; a count has no stream."""
    return {key: value for key, value in body.items() if key not in ("stream", "stream_options")}


def only(*names: str) -> Callable[[Mapping[str, Any]], Body]:
    """Those fields of the request."""
    return lambda body: {name: body[name] for name in names if name in body}


def prompt_as(text_field: str, **fixed: object) -> Callable[[Mapping[str, Any]], Body]:
    """One prompt of a completion or an embedding, which is under ``prompt`` whichever it is."""

    def made(body: Mapping[str, Any]) -> Body:
        return {text_field: body.get("prompt"), "model": body.get("model"), **fixed}

    return made


def number(path: str) -> Callable[[object], int | None]:
    """The number at ``path``, or how many items the list there has."""

    def read(answer: object) -> int | None:
        found = count_at(answer, path)
        return len(items_at(answer, path)) or None if found is None else found

    return read


def text(path: str) -> Callable[[object], str | None]:
    return lambda answer: text_at(answer, path) or None


def length(answer: object) -> int | None:
    """Of an answer that is a list."""
    return len(answer) if isinstance(answer, list) else None


def tokens(answer: object) -> int | None:
    """``{"tokens": [...]}``: llama.cpp. No tokens are a count, too."""
    found = at(answer, "tokens")
    return len(found) if isinstance(found, list) else None


def figure(item: object, path: str, *names: str) -> Figure | None:
    """The first of ``names`` that ``item`` has a positive number for."""
    from tokenbox.catalog import Figure  # noqa: PLC0415  # who only counts does not load the catalog

    for name in names:
        value = count_at(item, name)
        if value:
            return Figure(value, f"{path} {name}")
    return None


def of_model(items: list[Any], model: str, *names: str) -> object:
    """The item that is ``model`` by one of ``names``; the only item if there is just one; else None."""
    mine = (item for item in items if any(text_at(item, name) == model for name in names))
    return next(mine, items[0] if len(items) == 1 else None)


def listed_limits(body: object, model: str) -> Figures:
    """``GET /v1/models``, with what one server or another adds to OpenAI's shape."""
    item = of_model(items_at(body, "data"), model, "id", "root")
    windows = ("meta.n_ctx", "max_model_len", "context_length", "context_window", "max_context_length")
    outputs = ("top_provider.max_completion_tokens", "max_completion_tokens", "max_output_tokens")
    return {
        "context_window": figure(item, "/v1/models", *windows),
        "max_output_tokens": figure(item, "/v1/models", *outputs),
        "trained_window": figure(item, "/v1/models", "meta.n_ctx_train"),
    }


LISTED: Final = Question(lambda _: "/v1/models", listed_limits)
