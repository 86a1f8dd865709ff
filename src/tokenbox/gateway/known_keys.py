"""The keys of the APIs' requests, to refuse a key that only some servers would take for one of them.

Servers in Go read ``Messages`` as ``messages``, others ignore it: the gateway could count one request while
the server runs another. Keys inside a tool's schema, arguments or metadata are the client's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenbox.content.unseen import KEYS_BEYOND_TEXT
from tokenbox.gateway.refusals import Refusal, invalid_request

# The objects in a request whose keys servers interpret, nested as they are in the body.
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

# Keys that affect what is read, counted or charged, or which model answers.
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
    """.split()
).union(KEYS_BEYOND_TEXT)
BY_FOLDED_NAME = {key.casefold(): key for key in KNOWN}


def misspelt(key: str, known: str) -> Refusal:
    """Return the refusal of a key that differs from a known one only in case."""
    return invalid_request(f"{key[:60]!r} is spelled {known!r}. Send it so, or leave it out.", known)


def check_keys(value: Any, places: _Places = _BODY) -> None:  # noqa: ANN401  # JSON
    """Refuse keys of ``value``, and of the ``places`` below it, that differ from a known one only in case."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                check_keys(item, places)
        return
    if not KNOWN.issuperset(value):
        for key in value:
            if key not in KNOWN and (known := BY_FOLDED_NAME.get(key.casefold())) is not None:
                raise misspelt(key, known)
    for key, inner in value.items():
        if isinstance(inner, (dict, list)) and (below := places.get(key)) is not None:
            check_keys(inner, below)
