"""The data that describes a kind of server: its signs, questions, counts and dialect.

Each kind is a module of this package, or of another package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from tokenbox.catalog import Figure
from tokenbox.providers.shapes import at, count_at, items_at, text_at

if TYPE_CHECKING:
    from tokenbox.content.request import Api
    from tokenbox.providers.events import Event
    from tokenbox.providers.framing import Framing
    from tokenbox.providers.request import ChatRequest

Body = dict[str, Any]
# The figures of a model, by the names of ``Capabilities``, which are these.
Figures = dict[str, "Figure | int | None"]
FIGURES: Final = ("context_window", "max_input_tokens", "max_output_tokens", "trained_window", "slots")


class StreamReader(Protocol):
    """Reads the JSON values of one stream.

    ``done``: the final value was read. ``may_end``: the stream may end here without one and without
    ``[DONE]``.
    """

    @property
    def done(self) -> bool: ...
    @property
    def may_end(self) -> bool: ...

    def read(self, value: object) -> list[Event]:
        """Return the events of one value. Raises ``BadAnswer``."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of a chat API: how to write a request, and how to read a complete or streamed answer.

    ``body`` takes the request and the kind's name for the output limit. ``asks_window``: whether a
    request sets the context window (Ollama).
    """

    api: Api | None
    body: Callable[[ChatRequest, str], Body]
    events: Callable[[object], list[Event]]
    reader: Callable[[], StreamReader]
    framing: Callable[[int], Framing]
    asks_window: bool = False


@dataclass(frozen=True, slots=True)
class TextCount:
    """How a server counts a text: the field for the text, and a function that reads the number.

    ``exact``: False if the count includes tokens beside the text's own.
    """

    text_field: str
    read: Callable[[object], int | None]
    fixed: Mapping[str, object] = field(default_factory=dict)
    path: str = "/tokenize"
    exact: bool = True


@dataclass(frozen=True, slots=True)
class RequestCount:
    """How a server counts a request of one API.

    ``body`` converts the request's body to the body to send; ``read`` returns the number in the answer, or
    the rendered prompt, which ``then`` counts. The count covers only the fields that are sent; ``has_media``:
    with images and files; ``is_whole``: all fields, read as in a real request. ``ids``: the path of the token
    ids in the answer. ``is_translated``: the request is converted to another API.
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
    """A request for a model's limits, and a function that reads them. Without a ``body`` it is a GET."""

    path: Callable[[str], str]
    read: Callable[[object, str], Figures]
    body: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of the kind: a host name, the owner of listed models, a ``server`` header, or an answer."""

    host: str | None = None
    owner: str | None = None
    server: str | None = None
    path: str | None = None
    shows: Callable[[object], bool] = bool


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of server.

    ``in_catalog``: the catalog's limits apply; a local server may run a model of that name with lower limits.
    ``questions``: the first one with a figure decides. ``counts``: the first one that the server supports is
    used. ``tokenizes``: the server has llama.cpp's /tokenize and /detokenize, which can be forwarded.
    ``output_fields``: the names of the output limit that the server accepts in a chat.
    ``fetches_images_in_text``: it reads ``![](https://...)`` in a text as an image.
    """

    name: str
    dialect: Dialect
    chat_path: str = "/v1/chat/completions"
    models_path: str = "/v1/models"
    key_header: tuple[str, str] = ("Authorization", "Bearer ")
    headers: Mapping[str, str] = field(default_factory=dict)
    max_tokens_field: str = "max_tokens"
    output_fields: tuple[str, ...] = ("max_tokens",)
    text_count: TextCount | None = None
    counts: Mapping[Api, tuple[RequestCount, ...]] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    signs: tuple[Sign, ...] = ()
    in_catalog: bool = False
    tokenizes: bool = False
    fetches_images_in_text: bool = False


KINDS: Final[dict[str, ServerKind]] = {}


def register_kind(kind: ServerKind) -> ServerKind:
    """Add a kind. Raises ``ValueError`` for a duplicate name."""
    if kind.name in KINDS:
        raise ValueError(f"there is a kind of server {kind.name!r} already.")
    KINDS[kind.name] = kind
    return kind


# Functions that several kinds share.


def whole(body: Mapping[str, Any]) -> Body:
    """Return all fields of the request but those for streaming."""
    return {key: value for key, value in body.items() if key not in ("stream", "stream_options")}


def only(*names: str) -> Callable[[Mapping[str, Any]], Body]:
    """Return a function that selects these fields of the request."""
    return lambda body: {name: body[name] for name in names if name in body}


def prompt_as(text_field: str, **fixed: object) -> Callable[[Mapping[str, Any]], Body]:
    """Return a function that puts the ``prompt`` of a completion or embedding into ``text_field``."""

    def made(body: Mapping[str, Any]) -> Body:
        return {text_field: body.get("prompt"), "model": body.get("model"), **fixed}

    return made


def number(path: str) -> Callable[[object], int | None]:
    """Return a function that reads the number at ``path``, or the length of a list there."""

    def read(answer: object) -> int | None:
        found = count_at(answer, path)
        return len(items_at(answer, path)) or None if found is None else found

    return read


def text(path: str) -> Callable[[object], str | None]:
    return lambda answer: text_at(answer, path) or None


def length(answer: object) -> int | None:
    """Return the length of an answer that is a list."""
    return len(answer) if isinstance(answer, list) else None


def tokens(answer: object) -> int | None:
    """Return the length of ``{"tokens": [...]}`` (llama.cpp), which may be 0."""
    found = at(answer, "tokens")
    return len(found) if isinstance(found, list) else None


def figure(item: object, path: str, *names: str) -> Figure | None:
    """Return the first positive number of ``item`` among ``names``."""
    for name in names:
        value = count_at(item, name)
        if value:
            return Figure(value, f"{path} {name}")
    return None


def of_model(items: list[Any], model: str, *names: str) -> object:
    """Return the item that is ``model`` by one of ``names``, or else the only item; None if several."""
    mine = (item for item in items if any(text_at(item, name) == model for name in names))
    return next(mine, items[0] if len(items) == 1 else None)


def listed_names(body: object) -> tuple[str, ...]:
    """Return the names in a list of models, as OpenAI's API or Ollama's has it."""
    items = items_at(body, "data") or items_at(body, "models")
    return tuple(name for item in items if (name := text_at(item, "id") or text_at(item, "name")))


def listed_limits(body: object, model: str) -> Figures:
    """Read ``GET /v1/models``, including the fields that some servers add to OpenAI's."""
    item = of_model(items_at(body, "data"), model, "id", "root")
    windows = ("meta.n_ctx", "max_model_len", "context_length", "context_window", "max_context_length")
    outputs = ("top_provider.max_completion_tokens", "max_completion_tokens", "max_output_tokens")
    return {
        "context_window": figure(item, "/v1/models", *windows),
        "max_output_tokens": figure(item, "/v1/models", *outputs),
        "trained_window": figure(item, "/v1/models", "meta.n_ctx_train"),
    }


LISTED: Final = Question(lambda _: "/v1/models", listed_limits)
