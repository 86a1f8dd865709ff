"""Tool objects of libraries as the schemas that the libraries send, without importing these libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tokenbox.content.message import InvalidMessage, freeze_object

Given = Mapping[str, Any]

# Where a tool's object has the schema of its parameters: LangChain (without what it injects) and CrewAI,
# OpenAI Agents, pydantic-ai and Gemini, MCP, Haystack, smolagents.
_PARAMETERS: Final = (
    "tool_call_schema",
    "args_schema",
    "params_json_schema",
    "parameters_json_schema",
    "inputSchema",
    "input_schema",
    "parameters",
    "inputs",
)
# Where it has the complete schema: AutoGen, Strands.
_SCHEMAS: Final = ("schema", "tool_spec")
# The keys of the parameters in a tool of Gemini's or Bedrock's.
_SCHEMA_KEYS: Final = ("parametersJsonSchema", "parameters_json_schema", "inputSchema")


def checked_tools(tools: object) -> Sequence[Mapping[str, Any]]:
    """Return a list of tools with the schemas of tool objects; None has no tools.

    Raises :class:`InvalidMessage`.
    """
    if tools is None:
        return ()
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes | bytearray):
        raise InvalidMessage(f"tools are a list of mappings, not {type(tools).__name__}.")
    schemas: Sequence[Mapping[str, Any]] = as_schemas(tools)
    for index, tool in enumerate(schemas):
        if not isinstance(tool, Mapping):
            raise InvalidMessage(
                f'tools[{index}] is not a tool such as {{"type": "function", "function": {{"name": "f"}}}}, '
                f"but {type(tool).__name__}. Give its JSON schema.",
                index=index,
            )
        freeze_object(tool, f"tools[{index}]")
    return schemas


def as_schemas(tools: Any) -> Any:
    """Return a list of tools with a schema in place of each tool object; anything else as it is.

    An object of an unknown library stays, and is refused where tools are checked.
    """
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        return tools
    return [tool if isinstance(tool, Mapping) else _as_schema(tool) for tool in tools]


def _as_schema(tool: Any) -> Any:
    try:
        return _schema(tool)
    except (AttributeError, KeyError, TypeError, ValueError):  # of another library, or another version
        return tool


def _schema(tool: Any) -> Any:
    tool = getattr(tool, "tool_def", tool)  # pydantic-ai
    to_openai_tool = getattr(getattr(tool, "metadata", None), "to_openai_tool", None)  # LlamaIndex
    if callable(to_openai_tool):
        return to_openai_tool()["function"]
    for name in _SCHEMAS:
        if isinstance(found := getattr(tool, name, None), Mapping):
            return _plain(found)
    for name in _PARAMETERS:
        if (parameters := _parameters(getattr(tool, name, None), name)) is not None:
            given = {"name": tool.name, "description": getattr(tool, "description", None) or ""}
            return {**given, "parameters": parameters}
    return _dumped(tool)


def _parameters(found: Any, name: str) -> Given | None:
    """Return the JSON schema at an attribute: itself, of a Pydantic class, or made by a method."""
    make = getattr(found, "model_json_schema", None) if isinstance(found, type) else found
    schema = make() if callable(make) else _dumped(found)
    if not isinstance(schema, Mapping):
        return None
    return {"type": "object", "properties": schema} if name == "inputs" else schema


def _dumped(value: Any) -> Any:
    """Return the JSON of a Pydantic object; anything else as it is."""
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", exclude_none=True) if callable(dump) else None
    return dumped if isinstance(dumped, Mapping) else value


def functions_in(tool: Given) -> list[Given]:
    """Return the functions in a tool of Gemini's or Bedrock's; the tool itself if it is another one's."""
    if len(tool) == 1:
        ((key, inside),) = tool.items()
        if key in ("functionDeclarations", "function_declarations") and isinstance(inside, list | tuple):
            functions = as_schemas(inside)
            if all(isinstance(one, Mapping) for one in functions):
                return [_plain(one) for one in functions]
        if key == "toolSpec" and isinstance(inside, Mapping):
            return [_plain(inside)]
    return [tool]


def _plain(tool: Given) -> Given:
    """Return a tool with its schema in ``parameters``, where Gemini and Bedrock have it at other keys.

    What stands beside the schema stays: a server may show it.
    """
    found = next((key for key in _SCHEMA_KEYS if isinstance(tool.get(key), Mapping)), None)
    if found is None or "parameters" in tool:
        return tool
    schema = tool[found]
    parameters = schema["json"] if schema.keys() == {"json"} else schema
    return {**{key: value for key, value in tool.items() if key != found}, "parameters": parameters}


def json_schema_of(form: Any) -> Any:
    """Return the ``response_format`` of a class of Pydantic, as OpenAI's SDK; anything else as it is."""
    make = getattr(form, "model_json_schema", None) if isinstance(form, type) else None
    if not callable(make):
        return form
    return {"type": "json_schema", "json_schema": {"name": form.__name__, "strict": True, "schema": make()}}
