"""Simon Willison's llm: ``llm_client.py URL MODEL``, with the model in its configuration file."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from asking import LONG, QUESTION, report

FOLDER = tempfile.mkdtemp()
os.environ["LLM_USER_PATH"] = FOLDER

import llm  # reads LLM_USER_PATH on import


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"Sunny in {city}."


def run(url: str, model_name: str) -> dict[str, object]:
    models = [
        "- model_id: guarded",
        f"  model_name: {model_name}",
        f"  api_base: {url}/v1",
        "  supports_tools: true",
    ]
    Path(FOLDER, "extra-openai-models.yaml").write_text("\n".join(models) + "\n", encoding="utf-8")
    model = llm.get_model("guarded")
    answer = model.prompt(QUESTION, system="Be brief.", stream=False, max_tokens=8, key="none")
    streamed = model.prompt(QUESTION, system="Be brief.", stream=True, max_tokens=8, key="none")
    pieces = list(streamed)
    called = model.prompt(QUESTION, tools=[get_weather], stream=False, max_tokens=8, key="none")
    called.text()
    calls = [[call.name, call.arguments] for call in called.tool_calls()]
    over = {}
    try:
        model.prompt(LONG[0]["content"], stream=False, key="none").text()
    except Exception as error:
        over = {"class": type(error).__name__, "code": getattr(error, "code", None), "message": str(error)}
    return {
        "version": version("llm"),
        "chat": answer.text(),
        "input_tokens": answer.usage().input,
        "stream": "".join(pieces),
        "stream_input_tokens": streamed.usage().input,
        "tools": calls,
        "over": over,
    }


report(run)
