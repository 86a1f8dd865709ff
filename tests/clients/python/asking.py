"""The requests that every client sends; ``report`` prints the results as a JSON object."""

import json
import sys
from collections.abc import Callable

QUESTION = "What is the weather in Paris?"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
# Larger than every context window of the tests' servers.
LONG = [{"role": "user", "content": "word " * 9000}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ABOUT = "The weather in a city."
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": ABOUT, "parameters": PARAMETERS},
}


def report(run: Callable[[str, str], dict[str, object]]) -> None:
    url, model = sys.argv[1:]
    print(json.dumps(run(url, model)))
