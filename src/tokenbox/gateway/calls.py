"""A request read: checked JSON, and what it asks of a model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import orjson

from tokenbox.gateway.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.gateway.protocols import Protocol
    from tokenbox.gateway.settings import RequestLimits

Found = TypeVar("Found")
Headers = tuple[tuple[bytes, bytes], ...]

# RFC 8785 and every client are exact up to here; no limit of output is larger.
_MAX_INTEGER = 2**53 - 1
_LONGEST_NAME = 256
_LONGEST_QUERY = 2_048
# Of larger bodies, the values may be so many that reading them takes long: in a thread, it holds nobody up.
_INLINE = 65_536
_READERS = ThreadPoolExecutor(2, "tokenbox-read")
# Levels of JSON that are read by the shortest way: a schema of a tool has some ten. None is refused for them.
_SHALLOW = 32
# Floats below this were no whole numbers of more than 64 bits.
_EXACT = 2.0**53
# A key with white space after it, which JSON may have and compact JSON has not.
_SPACED = re.compile(rb'"[ \t\n\r]+:')
# What stands between values; some of it may be in texts.
_BETWEEN = (b",", b"{", b"[")
# As llama.cpp says "without a limit".
_UNLIMITED = -1
# Where a request says how many answers it wants: of the best of so many it is shown n, and all are made. The
# others are llama.cpp's, Gemini's, Cohere's and that of Transformers.
_CHOICES = ("n", "best_of", "n_cmpl", "candidate_count", "num_generations", "num_return_sequences")
# Where a request limits its output for servers of another API (Ollama, TGI, SGLang, Gemini, Anthropic's old
# one): whether this server heeds it is not known, so that it is reserved.
_OTHER_LIMITS = (
    *(("max_tokens",), ("max_completion_tokens",), ("max_output_tokens",), ("n_predict",), ("num_predict",)),
    *(("max_new_tokens",), ("max_tokens_to_sample",), ("options", "num_predict"), ("options", "n_predict")),
    *(("sampling_params", "max_new_tokens"), ("parameters", "max_new_tokens")),
    *(("generation_config", "max_output_tokens"), ("generationConfig", "maxOutputTokens")),
)
# What may be thought beside the answer: it only makes a limit larger.
_THOUGHT = (("thinking", "budget_tokens"), ("thinking_budget",), ("reasoning", "max_tokens"))
# Where a request names models that may answer in place of its own.
_FALLBACKS = ("models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
_MOST_FALLBACKS = 8
# What proxies read as another request, or as who is asked and with which key.
_NOT_THE_CLIENTS = frozenset(
    (
        *("extra_body", "extra_query", "extra_headers", "api_base", "base_url", "api_key"),
        *("custom_llm_provider", "model_list", "user_config", "litellm_params"),
    )
)
# What costs no more than the listed price: by OpenAI and Anthropic, flex and batch cost half of it.
PRICED = {
    "service_tier": ("auto", "default", "standard_only", "flex", "batch"),
    "speed": ("standard",),
    "inference_geo": ("global",),
}


@dataclass(frozen=True, slots=True)
class ApiCall:
    """What a client asks: ``body`` is its JSON as an object, ``data`` the very bytes.

    ``choices``: how many answers are made in all, of all its prompts. ``fallbacks``: other models that may
    answer in place of ``model``, as OpenRouter and LiteLLM read them in a request.
    """

    protocol: Protocol
    model: str
    body: dict[str, Any]
    data: bytes
    stream: bool
    max_output: int | None
    choices: int
    client_auth: Headers = field(default=(), repr=False)
    fallbacks: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that may answer."""
        return (self.model, *self.fallbacks)

    @property
    def input(self) -> Any:  # noqa: ANN401  # whatever the client sent
        """Its messages, prompt or input."""
        return self.body.get(self.protocol.input_key)

    @property
    def prompts(self) -> list[Any]:
        """Its prompts, each a text or tokens: completions and embeddings take several at once."""
        value = self.input
        is_one = not isinstance(value, list) or not value or any(type(item) is int for item in value)
        return [value] if is_one else value

    @property
    def parts(self) -> list[Any]:
        """What a refusal has the sizes of: its messages or prompts."""
        if self.protocol.takes_prompts:
            return self.prompts
        return self.input if isinstance(self.input, list) else [self.input]

    @property
    def limited_by(self) -> str | None:
        """Where it states its output limit; the largest, where there are several."""
        stated = [key for key in self.protocol.output_keys if self.body.get(key) is not None]
        return max(stated, key=self.body.__getitem__, default=None)

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the event with the usage."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def with_model(self, model: str) -> ApiCall:
        """The same request to another model."""
        return replace(self.with_body({**self.body, "model": model}), model=model)

    def without_body(self) -> ApiCall:
        """What is still needed of it once it was sent."""
        return ApiCall(
            *(self.protocol, self.model, {}, b"", self.stream, self.max_output, self.choices),
            *(self.client_auth, self.fallbacks),
        )

    def with_body(self, body: dict[str, Any]) -> ApiCall:
        """The same call with another body."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return replace(self, body=body, data=data, max_output=_max_output(self.protocol, body))


async def read_in_time(data: bytes, read: Callable[[], Found]) -> Found:
    """What ``read`` makes of the body ``data``, without holding others up."""
    if len(data) <= _INLINE:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_READERS, read)


def read_call(protocol: Protocol, data: bytes, limits: RequestLimits, client_auth: Headers = ()) -> ApiCall:
    """The call in a body. Raises :class:`Refusal` (400) naming what is wrong with it."""
    body = read_object(data, limits)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        check_keys(body)
        raise bad("model is missing: it names the model that is to answer.", "model")
    if not _is_name(model):
        raise bad(
            f"model is a name of at most {_LONGEST_NAME} printable characters, without spaces around it.",
            "model",
        )
    check_keys(body)
    fallbacks = _fallbacks(body)
    check_prices(body)
    key = protocol.input_key
    if key not in body and protocol.needs_input:
        raise bad(f"{key} is missing.", key)
    value = body.get(key)
    if key == "messages" and not (isinstance(value, list) and {dict}.issuperset(map(type, value))):
        raise bad("messages is a list of objects.", key)
    if isinstance(value, list) and len(value) > limits.messages:
        raise bad(f"{key} has {len(value):,} items; at most {limits.messages:,} are taken.", key)
    stream = body.get("stream", False)
    if stream is not None and not isinstance(stream, bool):
        raise bad(f"stream is true or false, not {_shown(stream)}.", "stream")
    most = _max_output(protocol, body)
    call = ApiCall(protocol, model, body, data, stream is True, most, _choices(body), client_auth, fallbacks)
    return replace(call, choices=call.choices * len(call.prompts)) if protocol.takes_prompts else call


def read_object(data: bytes, limits: RequestLimits) -> dict[str, Any]:
    """A JSON object, with nothing in it that two readers could read differently.

    Raises :class:`Refusal` (400): NaN, a key that is there twice, broken UTF-8, too deep, too many values.
    """
    if len(data) > limits.values and values_in(data) > limits.values:
        raise bad(f"the body has more than {limits.values:,} values. Send less at once.")
    value = _read_fast(data, min(_SHALLOW, limits.depth))
    return _read_slowly(data, limits) if value is None else value


def _read_fast(data: bytes, depth: int) -> dict[str, Any] | None:
    """The object, where it can be seen at once that there is only one reading of it; else None.

    orjson takes the last of two equal keys, makes large whole numbers floats, and has depths of its own. A
    quote before a colon is at the end of a key, or in a text, where it has a backslash before it: so if there
    are no more of the first kind than keys came out, no key was there twice.
    """
    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    # A key may end in a backslash, of which JSON has two.
    if not isinstance(value, dict) or b'\\\\":' in data or _SPACED.search(data) is not None:
        return None
    keys = 0
    level: list[Any] = [value]
    for _ in range(depth):
        below: list[Any] = []
        for inner in level:
            items = inner
            if inner.__class__ is dict:
                keys += len(inner)
                items = inner.values()
            for item in items:
                kind = item.__class__
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float and not abs(item) < _EXACT:
                    return None
        if not below:
            return value if keys == data.count(b'":') - data.count(b'\\":') else None
        level = below
    return None


def _read_slowly(data: bytes, limits: RequestLimits) -> dict[str, Any]:
    """The object, or what is wrong with it. Raises :class:`Refusal`."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise bad(f"the body is not UTF-8: byte {error.start:,} is 0x{data[error.start]:02X}.") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if text[:1] == "\ufeff":
            raise bad("the body begins with a byte order mark, which JSON does not have.") from None
        raise bad(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep(limits.depth) from None
    except ValueError as error:
        raise bad(f"the body is not JSON that can be used: {error}.") from None
    if not isinstance(value, dict):
        raise bad(f"the body is a JSON object, not {_kind(value)}.")
    if text.count("[") + text.count("{") > limits.depth and _depth_over(value, limits.depth):
        raise _too_deep(limits.depth)
    return value


def values_in(data: bytes) -> int:
    """About how many values a body of JSON has; there are not many more."""
    return sum(map(data.count, _BETWEEN))


def bad(message: str, param: str | None = None) -> Refusal:
    """The refusal of a request that is not what its API says."""
    is_name = param is not None and message.startswith(param)
    return Refusal(400, "invalid_request", message if is_name else message[0].upper() + message[1:], param)


def check_keys(body: Mapping[str, Any]) -> None:
    """Refuse keys that differ from a known one only in case (400).

    Servers in Go read ``Messages`` as ``messages``, others ignore it: what one reader counts, another sends.
    What stands below a tool's schema, arguments or metadata has names of the client's own.
    """
    _check_keys(body, _BODY)


def _check_keys(value: Any, places: _Places) -> None:  # noqa: ANN401  # JSON: an object, or a list of them
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                _check_keys(item, places)
        return
    if not KNOWN.issuperset(value):
        for key in value:
            if key not in KNOWN and (known := _FOLDED.get(key.casefold())) is not None:
                raise bad(f"{key[:60]!r} is spelled {known!r}. Send it so, or leave it out.", known)
    for key, inner in value.items():
        if isinstance(inner, (dict, list)) and (below := places.get(key)) is not None:
            _check_keys(inner, below)


# Where a request has objects whose keys servers know, as paths from the body.
_Places = Mapping[str, "_Places"]
_PART: _Places = {
    key: {}
    for key in (
        *("source", "image_url", "input_audio", "file", "function", "cache_control", "text"),
        *("content", "output", "citations", "refusal"),
    )
}
_PARTS: _Places = {**_PART, "content": _PART, "output": _PART}
_FUNCTION: _Places = {"function": {}}
_MESSAGE: _Places = {
    **_PARTS,
    "content": _PARTS,
    "output": _PARTS,
    "summary": _PART,
    "tool_calls": _FUNCTION,
    "function_call": {},
    "audio": {},
    "reasoning_details": {},
}
_BODY: _Places = {
    "messages": _MESSAGE,
    "input": _MESSAGE,
    "system": _PART,
    "instructions": _MESSAGE,
    "tools": {"function": {}, "cache_control": {}, "custom": {}},
    "functions": {},
    "stream_options": {},
    "response_format": {"json_schema": {}},
    "text": {"format": {}},
    "thinking": {},
    "reasoning": {},
    "options": {},
    "prediction": _PARTS,
    "prompt": {},
    "documents": {},
}


# Keys of the APIs' requests that make a difference to what is read, counted, charged or who answers.
KNOWN = frozenset(
    """
    add_generation_prompt add_special_tokens annotations api_base api_key arguments audio base_url
    best_of budget_tokens cache_control cache_prompt call_id chat_template chat_template_kwargs
    citations content context context_management continue_final_message conversation custom data
    description detail documents echo effort enabled encrypted_content exclude fallbacks file
    file_data file_id file_url filename format frequency_penalty function function_call functions
    grammar guided_grammar guided_json guided_regex id image_url include include_usage input
    input_audio input_extra input_prefix input_schema input_suffix instructions json_schema
    keep_alive max_completion_tokens max_input_tokens max_output_tokens max_prompt_tokens max_tokens
    max_tool_calls mcp_servers media_type messages metadata mm_processor_kwargs modalities model
    models n n_cmpl n_ctx n_keep n_predict name num_ctx num_keep num_predict options output
    parallel_tool_calls parameters phase plugins prediction presence_penalty previous_response_id
    prompt prompt_cache_key prompt_embeds prompt_template provider raw reasoning reasoning_content
    reasoning_details reasoning_effort reasoning_format refusal response_format role route
    safety_identifier schema seed server_tools service_tier signature source start_tag status stop
    stop_sequences store stream stream_options strict structured_outputs suffix summary system
    temperature template text think thinking thinking_budget timeout token_ids tokens tool_call_id
    tool_calls tool_choice tool_name tool_resources tool_use_id tools top_k top_logprobs top_p
    transforms truncate truncate_prompt_tokens truncation type url use_beam_search user variables
    verbosity web_search_options
    """.split()  # noqa: SIM905  # a list of so many quoted words is not read by anybody
)
_FOLDED = {key.casefold(): key for key in KNOWN}


def _fallbacks(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Other models that may answer. Raises :class:`Refusal` (400) for what does not name models."""
    for key in _NOT_THE_CLIENTS & body.keys():
        if body[key] is not None:
            raise bad(f"{key} says who answers or what is sent. Leave it out: the operator sets that.", key)
    found: list[str] = []
    for key in _FALLBACKS:
        value = body.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or not all(_is_name(name) for name in value):
            raise bad(f"{key} is a list of names of models, so that each can be checked.", key)
        found += value
    if len(found) > _MOST_FALLBACKS:
        raise bad(f"at most {_MOST_FALLBACKS} other models may be named, not {len(found)}.", "models")
    return tuple(dict.fromkeys(name for name in found if name != body.get("model")))


def _is_name(value: object) -> bool:
    """Names go to logs and databases. Of one with spaces around it, servers differ in whose it is."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_NAME
        and value.isprintable()
        and value == value.strip()
    )


def check_query(query: bytes) -> None:
    """Refuse what belongs into the body, which is what is counted (400), and a long text (414).

    The query goes on to the upstream, for what it is used for: versions and betas of an API.
    """
    if not query:
        return
    if len(query) > _LONGEST_QUERY:
        raise Refusal(
            414,
            "query_too_long",
            f"The query has {len(query):,} bytes; at most {_LONGEST_QUERY:,} are taken. Send it in the body.",
        )
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if (known := _FOLDED.get(name.partition("[")[0].casefold())) is not None:
            raise bad(f"{known} is in the query. Send it in the body.", known)


def check_prices(body: Mapping[str, Any]) -> None:
    """Refuse what costs more than the price that quotas and the ledger charge (403)."""
    for key, known in PRICED.items():
        value = body.get(key)
        if value is not None and not (isinstance(value, str) and value in known):
            raise Refusal(
                403,
                "service_tier_unpriced",
                f"{key} {_shown(value)} has a price that is not known here. Use one of: {', '.join(known)}.",
                key,
            )


def _choices(body: dict[str, Any]) -> int:
    """The most answers that any of the names for it asks for."""
    most = 1
    for key in _CHOICES:
        value = body.get(key)
        if value is None:
            continue
        value = _whole(value)
        if value is None or not 1 <= value <= 128:  # noqa: PLR2004  # OpenAI's own limit
            raise bad(f"{key} is a whole number from 1 to 128, not {_shown(body[key])}.", key)
        most = max(most, value)
    return most


def _max_output(protocol: Protocol, body: dict[str, Any]) -> int | None:
    """The most that any of the limits allows: which of several a server heeds is up to it."""
    if not protocol.output_keys:
        return None
    own = protocol.output_keys
    stated = [_limit(body, (key,), _UNLIMITED) for key in own if key in body]
    stated += [
        _limit(body, path) for path in _OTHER_LIMITS if path[0] in body and (path[1:] or path[0] not in own)
    ]
    found = [value for value in stated if value is not None]
    if not found or _UNLIMITED in found:
        return None
    return max(*found, *(_limit(body, path, _UNLIMITED) or 0 for path in _THOUGHT))


def _limit(body: Mapping[str, Any], path: Sequence[str], least: int = 0) -> int | None:
    """The number of tokens at ``path``; None if there is none. Raises :class:`Refusal` (400)."""
    inner: Any = body
    for key in path:
        inner = inner.get(key) if isinstance(inner, dict) else None
    if inner is None:
        return None
    value = _whole(inner)
    if value is None or not least <= value <= _MAX_INTEGER:
        name = ".".join(path)
        raise bad(f"{name} is a whole number of tokens, not {_shown(inner)}.", path[0])
    return value


def _whole(value: object) -> int | None:
    """The whole number that it is; 5.0 is one, too."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_INTEGER:
        return int(value)
    return value if type(value) is int else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} is there twice")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is larger than any number")
    return value


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


# json.loads makes one each time.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)


def _depth_over(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep(limit: int) -> Refusal:
    return bad(f"the body is nested more than {limit} levels deep.")


def _kind(value: object) -> str:
    return {list: "a list", str: "text", type(None): "null", bool: "true or false"}.get(
        type(value), "a number"
    )


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 40 else text[:37] + "..."  # noqa: PLR2004
