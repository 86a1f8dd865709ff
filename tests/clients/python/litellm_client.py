"""LiteLLM as a client, over both APIs: ``litellm_client.py URL MODEL``."""

import os
from importlib.metadata import version

from asking import LONG, MESSAGES, TOOL, report

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # do not download its table of models

import litellm

litellm.telemetry = False


def asked(model: str, base: str) -> dict[str, object]:
    options = {"model": model, "api_base": base, "api_key": "none", "max_tokens": 8}
    answer = litellm.completion(messages=MESSAGES, **options)
    chunks = list(litellm.completion(messages=MESSAGES, stream=True, **options))
    called = litellm.completion(messages=MESSAGES, tools=[TOOL], **options)
    calls = called.choices[0].message.tool_calls or []
    over = {}
    try:
        litellm.completion(messages=LONG, **options)
    except Exception as error:
        over = {"class": type(error).__name__, "is": isinstance(error, litellm.ContextWindowExceededError)}
    return {
        "chat": answer.choices[0].message.content,
        "input_tokens": answer.usage.prompt_tokens,
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "tools": [[call.function.name, call.function.arguments] for call in calls],
        "over": over,
    }


def run(url: str, model: str) -> dict[str, object]:
    return {
        "version": version("litellm"),
        **asked(f"openai/{model}", f"{url}/v1"),
        "anthropic": asked(f"anthropic/{model}", url),
    }


report(run)
