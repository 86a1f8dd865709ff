"""The fields of requests: their spelling, and which of them decide who answers, how much, and at what price.

A key that only some servers take for one of the API's is refused: servers in Go read ``Messages`` as
``messages``, those in C end a key at a NUL, others ignore it. The gateway could count one request while the
server runs another. Keys inside a tool's schema, arguments or metadata are the client's own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from tokenbox.content.message import is_plain, path_of
from tokenbox.content.unseen import KEYS_BEYOND_TEXT
from tokenbox.content.unseen_fields import FETCHED, PLAIN_FIELDS, STORED, fields_in, words_of
from tokenbox.gateway.refusals import Refusal, invalid_request
from tokenbox.gateway.strict_json import json_text

# The number of answers, as paths. With best_of, all are generated though only n are returned. The other names
# are those of llama.cpp, Gemini, Cohere, Transformers, Ollama, SGLang and AI21.
CHOICES = tuple(
    """
    n best_of n_cmpl candidate_count candidateCount num_generations num_return_sequences num_completions
    num_choices num_responses num_samples numResults options.n parameters.n parameters.num_return_sequences
    sampling_params.n generation_config.candidate_count generation_config.candidateCount
    generation_config.num_return_sequences generationConfig.candidateCount generationConfig.candidate_count
    """.split()
)
# Output limits of other APIs (Ollama, TGI, SGLang, Gemini, Anthropic's old one). Whether the server heeds
# them is unknown, so they are reserved, and so is every field that is named like one, at any depth.
OTHER_LIMITS = tuple(
    """
    max_tokens max_completion_tokens max_output_tokens n_predict num_predict max_new_tokens
    max_tokens_to_sample maxTokens maxOutputTokens maxCompletionTokens maxNewTokens max_gen_len max_length
    """.split()
)
_OUTPUT_LIMIT = re.compile(
    r"max(?:imum)?_(?:(?:answer|completion|gen|generated|generation|new|output|response)_)?"
    r"(?:tokens?|len|length)(?:_to_(?:generate|sample))?"
    r"|(?:n|num)_predict|tokens_to_generate"
)
# Fields of such a name that limit something else: how much of the input is read, or thought.
_OTHER_KINDS = frozenset(("reasoning", "thinking"))
# Budgets for reasoning within the answer. They only raise a limit. DashScope's is beside the answer.
REASONING_BUDGETS = ("thinking.budget_tokens", "reasoning.max_tokens")
REASONING_BESIDE = "thinking_budget"
# Reasoning without a limit, unless the field before sets one (DashScope).
REASONING_WITHOUT_LIMIT = "enable_thinking"
# Paths to models which may answer in place of ``model`` (OpenRouter, LiteLLM, Vercel's gateway).
FALLBACKS = tuple(
    """
    models fallbacks context_window_fallbacks content_policy_fallbacks providerOptions.gateway.models
    provider_options.gateway.models
    """.split()
)


def outer(paths: Iterable[str]) -> frozenset[str]:
    """Return the field of a body that each path begins with."""
    return frozenset(path.partition(".")[0] for path in paths)


# Fields by which proxies (LiteLLM, TensorZero) replace the request, the server or its key, and which name
# other weights than the model's (SGLang, vLLM, llama.cpp, LM Studio): the operator's to set.
OPERATOR_FIELDS = frozenset(
    """
    extra_body extra_query extra_headers api_base base_url api_key custom_llm_provider model_list
    user_config litellm_params organization deployment_id specific_deployment model_info use_xai_oauth
    provider_specific_header router_settings_override kv_transfer_params
    ec_transfer_params bootstrap_host bootstrap_room billing_policy additional_drop_params
    tensorzero::extra_body tensorzero::extra_headers tensorzero::credentials tensorzero::params
    tensorzero::variant_name tensorzero::internal_dynamic_variant_config tensorzero::provider_tools
    context_window_fallback_dict headers region_name api_version mock_response lora_path
    lora_request adapters draft_model
    """.split()
)
# Words in the names of more such fields: retries run a request again, a mocked failure runs it elsewhere.
_OPERATOR_WORDS = frozenset("retry retries router mock credential credentials secret".split())
_OWN_PRICE = frozenset(("cost", "per"))
_CLOUDS = frozenset("aws azure bedrock sagemaker vertex watsonx".split())
_FALLBACK_WORDS = frozenset(("fallback", "fallbacks"))
_LONGEST_QUERY = 2_048
# From a NUL on, and the controls and invisible letters anywhere.
_UNPRINTED = re.compile(
    r"\x00.*|[\x01-\x1f\x7f-\xa0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", re.DOTALL
)
_INNER_NAME = re.compile(r"[\[.]")
# Keys of a server in a query, by which a client would choose whom it pays.
_SECRETS = frozenset(
    ("key", "api_key", "apikey", "access_token", "auth_token", "token", "subscription_key", "x_api_key")
)
CHOICES_FIELDS = outer(CHOICES)
FALLBACKS_FIELDS = outer(FALLBACKS)
ROUTING_FIELDS = OPERATOR_FIELDS | FALLBACKS_FIELDS
# Values that cost no more than the listed price: flex and batch cost half of it at OpenAI and Anthropic.
PRICED = {
    "service_tier": ("auto", "default", "standard_only", "flex", "batch"),
    "speed": ("standard",),
    "inference_geo": ("global",),
}
# Keys that affect what is read, counted or charged, or which model answers.
_KNOWN = frozenset(
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
    """.split()
).union(KEYS_BEYOND_TEXT)
_BY_FOLDED_NAME = {key.casefold(): key for key in _KNOWN}
# The fields of a body that a server might also read in the query, by their names in lower case.
_IN_BODY = _BY_FOLDED_NAME | {
    name.casefold(): name
    for names in (ROUTING_FIELDS, PRICED, CHOICES_FIELDS, STORED, FETCHED, outer(OTHER_LIMITS))
    for name in names
}
_NAMES = frozenset(_IN_BODY.values())

# The objects in a request whose keys servers interpret, nested as they are in the body.
_Places = Mapping[str, "_Places"]


def _innermost(names: str) -> _Places:
    return {name: {} for name in names.split()}


_PART = _innermost(
    "source image_url input_audio file function cache_control text content output citations refusal"
)
_PARTS: _Places = {**_PART, "content": _PART, "output": _PART}
_MESSAGE: _Places = {
    **_PARTS,
    **_innermost("function_call audio reasoning_details"),
    "content": _PARTS,
    "output": _PARTS,
    "summary": _PART,
    "tool_calls": _innermost("function"),
}
_BODY: _Places = {
    **_innermost("functions stream_options thinking reasoning options prompt documents"),
    "messages": _MESSAGE,
    "input": _MESSAGE,
    "instructions": _MESSAGE,
    "system": _PART,
    "prediction": _PARTS,
    "tools": _innermost("function cache_control custom"),
    "response_format": _innermost("json_schema"),
    "text": _innermost("format"),
}


def check_fields(body: Mapping[str, Any]) -> None:
    """Refuse fields, and keys of the objects in them, that differ from a known one only in case."""
    _check_keys(body, _BODY)
    if not _NAMES.issuperset(body):
        _check_spelling(body, _IN_BODY, _NAMES)


def _check_keys(value: Any, places: _Places) -> None:  # noqa: ANN401  # JSON
    """Check the keys of ``value``, and of the ``places`` below it."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)) and not is_plain(item):
                _check_keys(item, places)
        return
    if not _KNOWN.issuperset(value):
        _check_spelling(value, _BY_FOLDED_NAME, _KNOWN)
    for key, inner in value.items():
        if isinstance(inner, (dict, list)) and (below := places.get(key)) is not None:
            _check_keys(inner, below)


def _check_spelling(value: Mapping[str, Any], by_folded: Mapping[str, str], names: frozenset[str]) -> None:
    for key in value:
        known = None if key in names else by_folded.get(_folded(key))
        if known is not None:
            raise invalid_request(f"{key[:60]!r} is spelled {known!r}. Send it so, or leave it out.", known)


def _folded(key: str) -> str:
    """Return what a server may take a key for that ignores case, wide letters, and what is not printed."""
    folded = unicodedata.normalize("NFKC", key).casefold()
    return folded if folded.isascii() and folded.isprintable() else _UNPRINTED.sub("", folded)


def output_limits(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field that is named like an output limit."""
    for place, name, value in fields_in(body):
        if isinstance(place, tuple) and (place[0] in _OTHER_KINDS or isinstance(value, (dict, list))):
            continue  # no limit: what is read or thought, or a property of that name in a schema
        if _OUTPUT_LIMIT.fullmatch("_".join(words_of(name))):
            yield path_of(place), value


def routing_field(body: Mapping[str, Any]) -> str | None:
    """Return the path of a field that only the operator may set; None without one."""
    for key, value in body.items():
        if value is not None and is_operators(key):
            return key
    for place, name, value in fields_in(body):
        words = words_of(name)
        if _FALLBACK_WORDS.isdisjoint(words) or "token" in words:
            continue
        if isinstance(value, (dict, list, str)) and value and path_of(place) not in FALLBACKS:
            return path_of(place)
    return None


def is_operators(name: str) -> bool:
    """Whether only the operator may set a field of this name."""
    if name in OPERATOR_FIELDS:
        return True
    words = words_of(name)
    of_cloud = not _CLOUDS.isdisjoint(words[:1])
    return of_cloud or not _OPERATOR_WORDS.isdisjoint(words) or _OWN_PRICE.issubset(words)


def check_query(query: bytes) -> None:
    """Refuse fields that belong into the body, which is what is counted (400), and long queries (414).

    The rest of the query, such as the version of an API, goes to the upstream.
    """
    if not query:
        return
    if len(query) > _LONGEST_QUERY:
        raise Refusal(
            414,
            "query_too_long",
            f"The query has {len(query):,} bytes; at most {_LONGEST_QUERY:,} are taken. Send it in the body.",
        )
    # Servers separate fields by ";", too, and find objects by "a[b]" and "a.b".
    fields = query.decode("latin-1").replace(";", "&")
    for name, _ in parse_qsl(fields, keep_blank_values=True):
        outer_name = _INNER_NAME.split(name.strip(), 1)[0]
        field = _folded(outer_name)
        if field.replace("-", "_") in _SECRETS:
            raise invalid_request(
                f"{field} is in the query, which servers write to their logs. "
                "Send the key as `Authorization: Bearer KEY`."
            )
        known = outer_name if is_operators(outer_name) else _IN_BODY.get(field)
        if known is not None:
            raise invalid_request(f"{known} is in the query. Send it in the body.", known)


def check_prices(body: Mapping[str, Any]) -> None:
    """Refuse what costs more than the price that quotas and the ledger charge (403)."""
    for key, known in PRICED.items():
        if (value := body.get(key)) is not None and value not in known:
            raise _unpriced(key, value, known)
    if PLAIN_FIELDS.issuperset(body):
        return
    # Proxies take the options of each provider in objects, and in their notation.
    for place, name, value in fields_in(body):
        found = PRICED.get("_".join(words_of(name)))
        if found is not None and isinstance(value, str) and value not in found:
            raise _unpriced(path_of(place), value, found)


def _unpriced(path: str, value: object, known: Sequence[str]) -> Refusal:
    return Refusal(
        403,
        "service_tier_unpriced",
        f"{path} {json_text(value)} has a price that is not known here. Use one of: {', '.join(known)}.",
        path.partition(".")[0],
    )
