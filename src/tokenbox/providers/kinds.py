"""The kinds of server, and how they differ: paths, headers, shapes. Data; what reads it is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from tokenbox.providers.shapes import count_at, items_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Kind(Enum):
    """What software serves. ``AUTO`` is found out by asking (see ``detection``)."""

    AUTO = "auto"
    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"
    SGLANG = "sglang"
    TGI = "tgi"
    OLLAMA = "ollama"
    LM_STUDIO = "lmstudio"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OPENAI_COMPATIBLE = "openai-compatible"


class Dialect(Enum):
    """The language of a chat request."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class TextCounting:
    """How a server counts a text: the field it goes into, and where the number is in the answer.

    ``exact`` is False where the count has more than the text's own tokens.
    """

    text_field: str
    read: Callable[[object], int | None]
    fixed: Mapping[str, object] = field(default_factory=dict)
    path: str = "/tokenize"
    exact: bool = True


@dataclass(frozen=True, slots=True)
class RequestCounting:
    """How a server counts a whole request: templated, with its tools.

    ``tokens`` is where the number is in the answer, a list standing for its length; where ``prompt`` is set
    the answer is the templated text instead, which is then counted by ``/tokenize``. ``responses``: the
    request has the shape of OpenAI's Responses API.
    """

    path: str
    tokens: str = "input_tokens"
    prompt: str | None = None
    exact: bool = True
    responses: bool = False


@dataclass(frozen=True, slots=True)
class KindRow:
    """What is particular to a kind."""

    dialect: Dialect = Dialect.OPENAI
    chat_path: str = "/v1/chat/completions"
    models_path: str = "/v1/models"
    key_header: tuple[str, str] = ("Authorization", "Bearer ")
    headers: Mapping[str, str] = field(default_factory=dict)
    max_tokens_field: str = "max_tokens"
    text_counting: TextCounting | None = None
    request_counting: tuple[RequestCounting, ...] = ()


def _tokens(body: object) -> int | None:
    """``{"tokens": [...]}``: llama.cpp."""
    return len(body["tokens"]) if isinstance(body, dict) and isinstance(body.get("tokens"), list) else None


def _count(body: object) -> int | None:
    """``{"count": n, "max_model_len": n, "tokens": [...]}``: vLLM, SGLang."""
    return count_at(body, "count")


def _list(body: object) -> int | None:
    """``[{"id", "text", "start", "stop"}, ...]``: TGI."""
    return len(body) if isinstance(body, list) else None


def number_or_length(body: object, path: str) -> int | None:
    """The number at ``path``, or how many items the list there has."""
    number = count_at(body, path)
    return len(items_at(body, path)) or None if number is None else number


# llama.cpp's form, and the one to try where nothing is known. /tokenize is no part of OpenAI's API: it is
# not under /v1, and what it does there, if anything, is up to each server.
LLAMA_CPP_TEXT: Final = TextCounting("content", _tokens)
# Without this, vLLM and SGLang put the token in front that begins a prompt.
_PROMPT_TEXT: Final = TextCounting("prompt", _count, {"add_special_tokens": False})

# The newest way first; a server that has not learned it yet answers 404 once, and is not asked again.
_LLAMA_CPP_REQUEST: Final = (
    RequestCounting("/v1/chat/completions/input_tokens"),
    RequestCounting("/apply-template", prompt="prompt"),
)

ROWS: Final[Mapping[Kind, KindRow]] = {
    Kind.LLAMA_CPP: KindRow(text_counting=LLAMA_CPP_TEXT, request_counting=_LLAMA_CPP_REQUEST),
    Kind.VLLM: KindRow(
        text_counting=_PROMPT_TEXT, request_counting=(RequestCounting("/tokenize", tokens="count"),)
    ),
    Kind.SGLANG: KindRow(
        text_counting=_PROMPT_TEXT, request_counting=(RequestCounting("/tokenize", tokens="count"),)
    ),
    Kind.TGI: KindRow(
        # TGI always adds the token that begins a prompt, and has no switch for it.
        text_counting=TextCounting("inputs", _list, exact=False),
        request_counting=(RequestCounting("/chat_tokenize", tokens="tokenize_response"),),
    ),
    Kind.OLLAMA: KindRow(dialect=Dialect.OLLAMA, chat_path="/api/chat", models_path="/api/tags"),
    Kind.LM_STUDIO: KindRow(),
    Kind.OPENAI: KindRow(
        max_tokens_field="max_completion_tokens",
        # OpenAI counts requests of another API, the Responses: close, and not promised to be equal.
        request_counting=(RequestCounting("/v1/responses/input_tokens", exact=False, responses=True),),
    ),
    Kind.ANTHROPIC: KindRow(
        dialect=Dialect.ANTHROPIC,
        chat_path="/v1/messages",
        key_header=("x-api-key", ""),
        headers={"anthropic-version": "2023-06-01"},
        # "The token count should be considered an estimate", says Anthropic's documentation of it.
        request_counting=(RequestCounting("/v1/messages/count_tokens", exact=False),),
    ),
    Kind.OPENAI_COMPATIBLE: KindRow(text_counting=LLAMA_CPP_TEXT, request_counting=_LLAMA_CPP_REQUEST[:1]),
}
