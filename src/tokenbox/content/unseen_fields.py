"""Fields of a request by which a server adds input of its own, or shows a text more often than once.

The fields that are known to do so are listed. Servers have more of them than anybody can list, so a field
that is named like one counts as one, in every notation of words and at every depth: ``providerOptions`` of a
proxy hold ``openai.previousResponseId`` and ``google.cachedContent``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tokenbox.content.message import Place, path_of
from tokenbox.content.request import FREE_CHARACTERS, INPUTS, PROMPTED, characters_in

if TYPE_CHECKING:
    from tokenbox.content.request import Api

# Fields that refer to input on the server: of OpenAI, OpenRouter, Gemini, Ark and agents.
STORED = frozenset(
    """
    previous_response_id previous_interaction_id conversation conversation_id prompt_id thread_id
    assistant_id preset container cached_content cachedContent cache_id context_id file_ids attachments
    session_params agent_id bot_id workflow_id chat_id chatId files knowledge collections dataset_ids
    character parent_message_id knowledge_id knowledge_ids knowledge_base_id
    """.split()
)
# A conversation that Anthropic keeps: "create" begins one, and this goes on with it.
_THREAD = "thread.previous_message_id"
# Fields that make the server search, call tools or run agents, and add the results to the input.
FETCHED = frozenset(
    """
    mcp_servers web_search_options search_parameters plugins data_sources retrieval tool_resources
    server_tools vector_store_ids connectors enable_search web_search enable_web_search search_options
    venice_parameters knowledge_base_ids dataSources tool_ids features force_search_enhancement
    enable_enhancement enable_deep_search compound_custom search_settings enable_code_interpreter
    enable_memory use_memory multi_agent multiagent
    """.split()
)
# Fields with vectors or media that are unpacked, and with the size to which images and videos are scaled: a
# tensor of one number can stand for any number of tokens.
_UNPACKED = frozenset(
    """
    prompt_embeds input_embeds inputs_embeds image_embeds audio_embeds pixel_values multi_modal_data
    multimodal_data mm_data image_data video_data audio_data mm_processor_kwargs media_io_kwargs
    processor_kwargs vl_high_resolution_images image images video videos audios use_audio_in_video
    """.split()
)
# Each of these fields, with what it does, and whether a server's own count may cover it.
_FIELDS = {
    field: (words, may_be_seen)
    for fields, words, may_be_seen in (
        (STORED, "names input that the server keeps", True),
        (FETCHED, "has the server add input by itself", False),
        (_UNPACKED, "is unpacked or scaled by the server", False),
    )
    for field in fields
}
# How a field is named that refers to something, by its last word, unless one of the others says that it is a
# label, a token or a voice, which add nothing to the input.
_REFERRING = frozenset(("id", "ids", "uri", "uris", "url", "urls", "ref", "refs"))
_LABELS = frozenset(
    """
    user request trace span client customer end org organization project device correlation call generation
    tenant account team run workspace event session observation job invocation installation site app callback
    webhook http referer redirect token tokens word words input eos bos pad mask voice speaker model lora
    adapter tool question turn experiment rank idempotency transaction
    """.split()
)
# How a field is named that makes a server search.
_SEARCHING = frozenset(
    """
    search websearch retrieve retriever retrieval rag grounding browse browsing internet crawl scrape mcp
    knowledge memory memories datasets
    """.split()
)
# Searching for tokens, or for tools among those of the request.
_NOT_SEARCHING = frozenset(("beam", "contrastive", "tree", "tool", "usage", "gpu", "cpu"))
# How a field is named that sets the size of an image, or into how many pieces it is cut.
_SCALING = frozenset("pixel pixels patch patches tile tiles slice slices resize resized".split())
_LONGEST_NAME = 200  # no server reads a field of a longer name
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-_:. ]+")
# Fields whose values have keys of the client's own, or are read elsewhere as messages, tools and schemas.
_OWN_KEYS = frozenset(
    """
    messages input prompt system instructions tools functions tool_choice function_call documents prediction
    response_format text format json_schema schema input_schema guided_json guided_choice structured_outputs
    diagnostics logit_bias chat_template_kwargs thread container prompt_cache_options
    """.split()
)
# What the client notes for itself, which servers only store: the ids of Codex's threads and windows, for one.
_NOTES = ("metadata", "telemetry", "tags", "labels")
# Fields without effect on the input: those of nearly all requests, so that these take no time.
PLAIN_FIELDS = _OWN_KEYS.union(
    """
    model stream stream_options max_tokens max_completion_tokens max_output_tokens temperature top_p top_k n
    stop seed user frequency_penalty presence_penalty store reasoning_effort service_tier safety_identifier
    parallel_tool_calls prompt_cache_key logprobs top_logprobs stop_sequences thinking include
    encoding_format dimensions suffix echo metadata client_metadata
    """.split()
) - frozenset(("thread", "container", "prompt", "chat_template_kwargs"))
# Templates may repeat a text in a loop. They have this in their name.
_TEMPLATE = "template"
# Texts that a template or a proxy may add to each message.
_PER_MESSAGE = frozenset(
    """
    chat_template_kwargs template_vars roles adapter name1 name2 user_name bot_name
    assistant_continue_message user_continue_message bos_token eos_token custom_prompt_dict
    initial_prompt_value final_prompt_value
    """.split()
)
# Values by which a client switches a search off.
_OFF = frozenset(("", "off", "none", "never", "disabled", "false"))


def unseen_field(body: Mapping[str, Any], api: Api, seen: Collection[str]) -> str | None:
    """Return the field that makes the input larger than what was counted, in words; None if none does.

    ``seen`` are the fields that the server's own count covers.
    """
    if PLAIN_FIELDS.issuperset(body):
        return None
    given = body.get(INPUTS[api])
    messages = len(given) if isinstance(given, list) and api not in PROMPTED else 1
    return _adding_field(body, api, seen) or _repeating_field(body, seen, messages)


def _adding_field(body: Mapping[str, Any], api: Api, seen: Collection[str]) -> str | None:
    if inside(body, _THREAD):
        return f"{_THREAD} names input that the server keeps"
    if isinstance(body.get("prompt"), dict) and api not in PROMPTED and "prompt" not in seen:
        return "prompt names a text that the server keeps"
    for place, name, value in fields_in(body):
        does = _effect(name)
        if does is None or _is_off(name, value):
            continue
        words, may_be_seen = does
        if not (may_be_seen and _outermost(place) in seen):
            return f"{path_of(place)} {words}"
    return None


def _outermost(place: Place) -> str:
    while isinstance(place, tuple):
        place = place[0]
    return place


def inside(value: object, path: str) -> Any:  # noqa: ANN401  # JSON
    """Return the value at a dotted path into objects; None if missing."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def fields_in(body: Mapping[str, Any]) -> Iterator[tuple[Place, str, Any]]:
    """Yield the place, the name and the value of each field that servers read, at any depth.

    A bare ``id`` is named as the object around it.
    """
    stack: list[tuple[Place, str, Any]] = [("", "", body)]
    while stack:
        around, outer, value = stack.pop()
        if isinstance(value, list):
            stack += [(around, outer, item) for item in value]
        elif isinstance(value, dict):
            for key, inner in value.items():
                place = (around, key) if around else key
                named = outer and key in _REFERRING and len(outer) <= _LONGEST_NAME
                yield place, f"{outer}_{key}" if named else key, inner
                if (around or key not in _OWN_KEYS) and not key.lower().endswith(_NOTES):
                    stack.append((place, key, inner))


def _effect(name: str) -> tuple[str, bool] | None:
    """Return what a field does by its name, and whether a server's own count may cover it."""
    listed = _FIELDS.get(name)
    if listed is not None:
        return listed
    words = words_of(name)
    if (listed := _FIELDS.get("_".join(words))) is not None:
        return listed
    among = frozenset(words)
    if among & _SEARCHING and not among & _NOT_SEARCHING:
        return _FIELDS["enable_search"]
    if among & _SCALING:
        return _FIELDS["mm_processor_kwargs"]
    if len(words) > 1 and words[-1] in _REFERRING and not among & _LABELS:
        return _FIELDS["prompt_id"]
    return None


def scales_images(name: str) -> bool:
    """Whether a field of this name sets the size of an image, as Qwen, InternVL and MiniCPM have it."""
    return not _SCALING.isdisjoint(words_of(name))


def words_of(name: str) -> Sequence[str]:
    """Return the words of a field's name, in lower case, in any notation."""
    return _split(name) if len(name) <= _LONGEST_NAME else ()


@lru_cache(maxsize=2_048)
def _split(name: str) -> tuple[str, ...]:
    return tuple([word.lower() for word in _WORD_START.split(name) if word])


def _repeating_field(body: Mapping[str, Any], seen: Collection[str], messages: int) -> str | None:
    """Return the field whose texts may be shown more often than once, in words."""
    for key in sorted(body.keys() - frozenset(seen)):
        if key in _PER_MESSAGE:
            if _is_repeated(body[key], messages):
                return f"{key} has texts that may be repeated for each message"
        elif _TEMPLATE in key.casefold() and body[key]:
            return f"{key} may repeat a text in a loop"
    return None


def _is_off(name: str, value: object) -> bool:
    """Whether this value of a field has no effect. An empty object asks for a search by its defaults."""
    if isinstance(value, str):
        return value.casefold() in _OFF
    if isinstance(value, dict):
        return all(_is_off("", inner) for inner in value.values()) if value else "search" not in name
    return not value


def _is_repeated(variables: object, messages: int) -> bool:
    """Whether the values of a template's variables are large, if each is shown for each message."""
    pairs = variables if isinstance(variables, dict) else {"": variables}
    if any(value and _TEMPLATE in key.casefold() for key, value in pairs.items()):
        return True  # it replaces the template
    values = pairs.values()
    return sum(characters_in(value) - 1 for value in values) * (messages + 1) > FREE_CHARACTERS
