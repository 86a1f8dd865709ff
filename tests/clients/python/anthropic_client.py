"""The anthropic package: ``anthropic_client.py URL MODEL``."""

import anthropic
from asking import ABOUT, LONG, PARAMETERS, QUESTION, report


def run(url: str, model: str) -> dict[str, object]:
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=2)
    messages = [{"role": "user", "content": QUESTION}]
    # llama.cpp omits the first event of a stream if its first random token is part of a character.
    asked = {"model": model, "system": "Be brief.", "messages": messages, "max_tokens": 8}
    asked["extra_body"] = {"temperature": 0}
    answer = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    raw = [event.type for event in client.messages.create(**asked, stream=True)]
    tool = {"name": "get_weather", "description": ABOUT, "input_schema": PARAMETERS}
    called = client.messages.create(**asked, tools=[tool])
    counted = client.messages.count_tokens(model=model, system="Be brief.", messages=messages)
    over = {}
    try:
        client.messages.create(model=model, max_tokens=8, messages=LONG)
    except anthropic.BadRequestError as error:
        over = {"type": error.body["error"]["type"], "message": error.body["error"]["message"]}
    return {
        "version": anthropic.__version__,
        "chat": "".join(block.text for block in answer.content if block.type == "text"),
        "input_tokens": answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0),
        "told": answer.model_extra["tokenbox"]["input_tokens"],
        "stream": streamed,
        "stream_told": final.model_extra["tokenbox"]["input_tokens"],
        "stream_stop": final.stop_reason,
        "events": [raw[0], raw[-1]],
        "tools": [[block.name, block.input] for block in called.content if block.type == "tool_use"],
        "counted": counted.input_tokens,
        "over": over,
    }


report(run)
