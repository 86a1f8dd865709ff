"""The names of models: their providers, and different spellings of the same name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tokenbox.errors import TokenboxError, shown

# The maximum length of a name.
MAX_NAME = 300

# Provider names in ids, and the name used here.
PROVIDER_ALIASES = {
    "google": "gemini",
    "google-ai-studio": "gemini",
    "x-ai": "xai",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "z-ai": "zai",
    "zhipuai": "zai",
    "together": "together_ai",
    "fireworks": "fireworks_ai",
    "aws": "bedrock",
    "cohere_chat": "cohere",
    "bedrock_converse": "bedrock",
    "text-completion-openai": "openai",
    # As pydantic-ai and LangChain name them.
    "openai-chat": "openai",
    "openai-responses": "openai",
    "azure_openai": "azure",
    "google-gla": "gemini",
    "google_genai": "gemini",
    "google-vertex": "vertex_ai",
    "google-cloud": "vertex_ai",
    "google_vertexai": "vertex_ai",
    "grok": "xai",
}
# The maker and first-party provider of models, by prefix of the bare name. The first match applies.
FIRST_PARTIES = (
    (re.compile(r"(ft:)?(gpt-(?!oss)|chatgpt|codex-|o[134](-|$))|text-embedding-(3-|ada-)"), "openai"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini"), "gemini"),
    (re.compile(r"grok"), "xai"),
    (re.compile(r"(open-)?(mistral|mixtral)|codestral|devstral|magistral|ministral|pixtral"), "mistral"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"command"), "cohere"),
    (re.compile(r"qwen|qwq"), "dashscope"),
    (re.compile(r"kimi|moonshot"), "moonshot"),
    (re.compile(r"glm"), "zai"),
    (re.compile(r"llama"), "meta_llama"),
)
_AZURE = re.compile(r"^gpt-(\d)(\d)(?![\da-z])")
_BEDROCK = re.compile(
    r"^((converse|invoke|openai|mantle)/)*([a-z]{2}(-gov)?-[a-z]+-\d/)?(us-gov|us|eu|apac|jp|au|global)?\.?"
)
_OF_BEDROCK = re.compile(
    r"((us-gov|us|eu|apac|jp|au|global)\.)?(anthropic|meta|amazon|mistral|cohere|ai21)\."
)
_TAG = re.compile(r"latest|text|instruct|v?\d[\w.-]*")
# Providers that are neither an alias nor a maker.
_HOSTS = ("azure", "cerebras", "groq", "ollama", "openrouter", "perplexity", "vertex_ai")
_PROVIDERS = frozenset(
    (*_HOSTS, *PROVIDER_ALIASES, *PROVIDER_ALIASES.values(), *(maker for _, maker in FIRST_PARTIES))
)
# Names that their maker moved to a newer model, and the day since when its price page says so.
_MOVED = {
    "deepseek-chat": ("deepseek-v4-flash", "2026-04-26"),
    "deepseek-reasoner": ("deepseek-v4-flash", "2026-04-26"),
}
_DATED = re.compile(r"(-\d{4}-\d{2}-\d{2}|[-@]20\d{6}|-latest)$")
_FILE = re.compile(r"\.(gguf|bin|safetensors)$")
_QUANTIZED = re.compile(
    r"[-._:](i?q\d+(_[a-z0-9]+)*|f16|f32|bf16|fp8|fp16|(mx|nv)?fp4|awq|gptq|int[48]|mlx|gguf|[48]bit)$"
)


def provider_of(row_provider: str | None) -> str | None:
    """Return the provider as in ids, from its name in a source (``vertex_ai-language-models``)."""
    if row_provider is None:
        return None
    if row_provider.startswith("vertex_ai"):
        return "vertex_ai"
    return PROVIDER_ALIASES.get(row_provider, row_provider)


def first_party(name: str) -> str | None:
    """Return the first-party provider of a model by its bare name."""
    return next((provider for pattern, provider in FIRST_PARTIES if pattern.match(name.lower())), None)


class InvalidModelName(TokenboxError, code="invalid_model_name"):
    """A model's name is not text."""


def checked_name(value: object) -> str:
    """Return a model's name without surrounding blanks. Raises :class:`InvalidModelName`."""
    if not isinstance(value, str):
        raise InvalidModelName(f"a model is a name such as 'gpt-4o', not {shown(value)}.")
    return value.strip()


def with_slash(model: str) -> str:
    """Return ``openai/gpt-4o`` for ``openai:gpt-4o``, as some frameworks write it; else the name itself.

    ``mistral:7b`` stays as it is: it is the model ``mistral`` of Ollama with a tag.
    """
    provider, colon, name = model.partition(":")
    if not colon or provider.lower() not in _PROVIDERS or _TAG.fullmatch(name):
        return model
    return f"{provider}/{name}"


@lru_cache(maxsize=4096)
def bare_name(model: str) -> str:
    """Return ``llama-3.2-1b`` for ``models/Llama-3.2-1B-Q4_K_M.gguf`` and for ``x/llama-3.2:1b``."""
    name = re.split(r"[/\\]", with_slash(model.strip()).lower())[-1][:MAX_NAME]
    name = _FILE.sub("", name)
    while (shorter := _QUANTIZED.sub("", name)) != name:
        name = shorter
    for region_or_maker in ("us.", "eu.", "apac.", "global.", "jp.", "au."):
        name = name.removeprefix(region_or_maker)
    name = re.sub(r"^(anthropic|meta|mistral|amazon|deepseek|qwen|cohere|openai)\.", "", name)
    return name if name.startswith("ft:") else re.sub(r"[:_ ]", "-", name)


def served_as(model: str, day: str | None = None) -> str:
    """Return the model that answers to a name of its maker's API, on a day or today."""
    provider, slash, name = with_slash(model).rpartition("/")
    newer, since = _MOVED.get(name.lower(), (name, ""))
    moved = newer != name and provider in ("", first_party(name)) and (day is None or day >= since)
    return f"{provider}{slash}{newer}" if moved else model


def undated(model: str) -> str | None:
    """Return ``gpt-5`` for ``gpt-5-2025-08-07``; None for a name without a date."""
    shorter = _DATED.sub("", model)
    return None if shorter == model or not shorter else shorter


def bedrock_name(name: str) -> str:
    """Remove a route, a region or a group of regions before a name such as ``anthropic.claude-...``."""
    return _BEDROCK.sub("", name)


def spellings(model: str) -> Iterator[str]:
    """Yield the ids that sources may use for the model, closest first, with and without its provider."""
    yield model
    model = with_slash(model)
    provider, slash, rest = model.partition("/")
    if slash and provider == "models":  # Gemini's API
        yield from spellings(rest)
    elif slash:
        yield from _at(PROVIDER_ALIASES.get(provider.lower(), provider.lower()), rest)
    elif model.startswith("ft:"):
        yield _tuned(model)
    else:
        if _AZURE.match(model):
            yield f"azure/{model}"
        if _OF_BEDROCK.match(model):
            yield from spellings(f"bedrock/{model}")
        yield _dashes(model)
        if (known := first_party(model)) is not None:
            yield f"{known}/{model}"
            yield f"{known}/{_dashes(model)}"
        if undated(model) is None:
            yield f"{_dashes(model)}-latest"


def _at(provider: str, name: str) -> Iterator[str]:
    """Yield the ids of a model at a provider, and its own if the provider is its maker."""
    yield f"{provider}/{name}"
    yield f"{provider}/{_dashes(name)}"
    if provider == "azure":  # Azure writes gpt-41 for gpt-4.1
        yield "azure/" + _AZURE.sub(r"gpt-\1.\2", name)
    if provider == "bedrock":
        yield bedrock_name(name)
    maker = first_party(name)
    # Vertex AI has the bare names of Gemini, too.
    if maker == provider or (provider, maker) == ("vertex_ai", "gemini"):
        yield name
        yield _tuned(name) if name.startswith("ft:") else _dashes(name)


def _tuned(name: str) -> str:
    """Return ``ft:gpt-4o`` for ``ft:gpt-4o:organization:name:id``."""
    return ":".join(name.split(":", 2)[:2])


def _dashes(name: str) -> str:
    """Return Anthropic's spelling ``claude-sonnet-4-5`` for the common ``claude-sonnet-4.5``."""
    return name.replace(".", "-") if name.lower().startswith("claude") else name
