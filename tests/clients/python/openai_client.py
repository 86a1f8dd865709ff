"""The openai package, any major: ``openai_client.py URL MODEL``."""

import openai
from asking import LONG, MESSAGES, TOOL, report


def run(url: str, model: str) -> dict[str, object]:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=2)
    asked = {"model": model, "messages": MESSAGES, "max_tokens": 8}
    answer = client.chat.completions.create(**asked)
    # A stream with usage, and a plain loop over a stream, as in most programs.
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    plain = [
        chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**asked, stream=True)
    ]
    called = client.chat.completions.create(**asked, tools=[TOOL])
    calls = called.choices[0].message.tool_calls or []
    raw = client.chat.completions.with_raw_response.create(**asked)
    response = client.responses.create(model=model, input="Hello", max_output_tokens=16)
    events = client.responses.create(model=model, input="Hello", max_output_tokens=16, stream=True)
    kinds = [event.type for event in events]
    return {
        "version": openai.__version__,
        "chat": answer.choices[0].message.content,
        "input_tokens": answer.usage.prompt_tokens,
        "told": answer.model_extra["tokenbox"]["input_tokens"],
        "told_by_header": int(raw.headers["x-tokenbox-input-tokens"]),
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "stream_input_tokens": chunks[-1].usage.prompt_tokens,
        "stream_told": chunks[0].model_extra["tokenbox"]["input_tokens"],
        "plain_loop": "".join(plain),
        "tools": [[call.function.name, call.function.arguments] for call in calls],
        "response": response.output_text,
        "response_events": [kinds[0], kinds[-1]],
        "response_helper": helped(client, model),
        "over": over(client, model),
    }


def helped(client: openai.OpenAI, model: str) -> str:
    """Read a stream with the package's helper, which fails with llama.cpp's incomplete events."""
    try:
        with client.responses.stream(model=model, input="Hello", max_output_tokens=16) as stream:
            return stream.get_final_response().output_text
    except (AttributeError, TypeError) as error:
        return repr(error)


def over(client: openai.OpenAI, model: str) -> dict[str, object]:
    found = {}
    for name, ask in {
        "chat": lambda: client.chat.completions.create(model=model, messages=LONG),
        "stream": lambda: client.chat.completions.create(model=model, messages=LONG, stream=True),
        "responses": lambda: client.responses.create(model=model, input=LONG),
    }.items():
        try:
            ask()
        except openai.BadRequestError as error:
            found[name] = {"code": error.code, "param": error.param, "type": error.type}
    return found


report(run)
