"""What kind of server is at an endpoint, by cheap questions.

The two hosts that are known by name are not asked. Then ``/v1/models`` says who owns the models it lists;
where it does not, the servers with an API of their own are asked for it. Whatever answers none of that is
OpenAI-compatible, as nearly everything is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tokenbox.providers.errors import ProviderError, ServerTimeout
from tokenbox.providers.kinds import Kind
from tokenbox.providers.memory import Outcome, Reply
from tokenbox.providers.shapes import at, count_at, text_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tokenbox.providers.transport import Answered

HOSTS: Final = {"api.openai.com": Kind.OPENAI, "api.anthropic.com": Kind.ANTHROPIC}

# data[0].owned_by of /v1/models
OWNERS: Final = {
    "llamacpp": Kind.LLAMA_CPP,
    "vllm": Kind.VLLM,
    "sglang": Kind.SGLANG,
    "library": Kind.OLLAMA,
    "openai": Kind.OPENAI_COMPATIBLE,
}


@dataclass(frozen=True, slots=True)
class _Sign:
    """A kind, and the path whose answer shows it."""

    kind: Kind
    path: str
    shows: Callable[[object], bool]


SIGNS: Final = (
    _Sign(Kind.TGI, "/info", lambda body: count_at(body, "max_total_tokens") is not None),
    _Sign(Kind.LM_STUDIO, "/api/v1/models", lambda body: at(body, "models.0.loaded_instances") is not None),
    _Sign(Kind.LM_STUDIO, "/api/v0/models", lambda body: at(body, "data.0.max_context_length") is not None),
    _Sign(Kind.OLLAMA, "/api/version", lambda body: bool(text_at(body, "version"))),
)

_NOT_NOW: Final = {401, 403, 408, 429}


async def detect(root: str, get: Callable[[str], Awaitable[Answered]]) -> Reply[Kind]:
    """The kind of the server at ``root``. ``get`` asks for a path.

    Where a question could not be asked the answer is a guess for now: OPENAI_COMPATIBLE, and not ANSWERED.
    """
    named = HOSTS.get(urlsplit(root).hostname or "")
    if named is not None:
        return Reply(Outcome.ANSWERED, named)
    try:
        kind = await _asked(get)
    except ServerTimeout:
        return Reply(Outcome.TIMED_OUT, Kind.OPENAI_COMPATIBLE)
    except ProviderError as error:
        outcome = Outcome.NOT_NOW if error.transient else Outcome.ANSWERED
        return Reply(outcome, Kind.OPENAI_COMPATIBLE)
    return Reply(Outcome.NOT_NOW, Kind.OPENAI_COMPATIBLE) if kind is None else Reply(Outcome.ANSWERED, kind)


async def _asked(get: Callable[[str], Awaitable[Answered]]) -> Kind | None:
    """The kind by what the server answers; None if it will not say now."""
    models = await get("/v1/models")
    if models.status in _NOT_NOW or (models.status >= 500 and models.status != 501):  # noqa: PLR2004  # HTTP
        return None
    if models.headers.get("server", "").lower() == "llama.cpp":
        return Kind.LLAMA_CPP
    owner = OWNERS.get(text_at(models.body, "data.0.owned_by"))
    if owner is not None:
        return owner
    for sign in SIGNS:
        found = await get(sign.path)
        if found.status == 200 and sign.shows(found.body):  # noqa: PLR2004  # HTTP
            return sign.kind
    return Kind.OPENAI_COMPATIBLE
