"""Which tokens a text or a chat is, where somebody can say it. How many they are is counted elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tokenbox.gateway.counting import WAYS
from tokenbox.providers.kinds import Kind
from tokenbox.providers.shapes import at

if TYPE_CHECKING:
    from tokenbox.gateway.admission import Counted
    from tokenbox.gateway.calls import Call
    from tokenbox.gateway.counting import Local
    from tokenbox.gateway.upstream import Upstream

_OK = 200


async def tokens_of(call: Call, upstream: Upstream, local: Local, counted: Counted) -> list[int] | None:
    """As many as were counted; None where nobody can say which.

    Raises ``TokenboxError`` for a text that has none, such as half a character.
    """
    text = call.input
    if isinstance(text, str) and counted.identity is not None and local.tokenizer.identity.exact:
        found: object = await asyncio.to_thread(local.tokenizer.encode, text)
    elif upstream.kind is Kind.LLAMA_CPP:
        found = await _by_llama_cpp(call, upstream)
    elif (way := WAYS.get((upstream.kind, call.protocol.name))) is not None and way.path == "/tokenize":
        found = await _asked(upstream, way.path, way.body(call), call, "tokens")
    else:
        return None
    return found if isinstance(found, list) and len(found) == counted.tokens else None


async def _by_llama_cpp(call: Call, upstream: Upstream) -> object:
    """It renders a chat, and says the tokens of a text: together those of the chat."""
    prompt: object = call.input
    if not isinstance(prompt, str):
        prompt = await _asked(upstream, "/apply-template", call.body, call, "prompt")
    body = {"content": prompt, "add_special": True, "parse_special": True}
    return await _asked(upstream, "/tokenize", body, call, "tokens") if isinstance(prompt, str) else None


async def _asked(upstream: Upstream, path: str, body: object, call: Call, key: str) -> object:
    status, answer = await upstream.ask(path, body, call.client_auth)
    return at(answer, key) if status == _OK else None
