"""The protocol: listing and calling tools, asking for roots, progress, and cancellation."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tokenbox.__about__ import __version__
from tokenbox.errors import TokenboxError
from tokenbox.mcp.calls import CallCancelled, CallProgress, checked, schema
from tokenbox.mcp.roots import NoRoots, Roots
from tokenbox.mcp.tools import TOOLS, SharedState, ToolRun
from tokenbox.render.lines import printable

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]

INSTRUCTIONS: Final = (
    "tokenbox reads files into exact token budgets. Call pack with the task as query before you read many "
    "files; expand returns what an answer left out; count counts the tokens of a text."
)
# The timeout for a list of roots, which clients answer at once.
_ROOTS_SECONDS: Final = 10.0
_PROGRESS_SECONDS: Final = 0.2
# The number of calls that run at the same time.
_MAX_CALLS: Final = 2
_MAX_MESSAGE: Final = 2_000
_ROOTS: Final = "roots"


def make_server(state: SharedState, started: Sequence[str] = ()) -> Server[Any]:
    """Build the server. ``started``: the folders of ``--root`` with links resolved."""
    threads = anyio.CapacityLimiter(_MAX_CALLS)

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tool_list())

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            name = printable(params.name)[:80]
            raise MCPError(
                types.INVALID_PARAMS, f"There is no tool {name!r}. The tools are: {', '.join(TOOLS)}."
            )
        try:
            arguments = checked(tool.arguments, params.arguments or {})
            roots = await _roots(context, params, started) if tool.reads else Roots(None)
            if isinstance(roots, types.InputRequiredResult):
                return roots
            progress = CallProgress()
            call = ToolRun(state, arguments, roots, progress)
            return _result(await _in_thread(context, progress, lambda: tool.run(call), threads))
        except TokenboxError as error:
            return _failure(f"{error.message[:_MAX_MESSAGE]} ({error.code})")
        except Exception as error:  # noqa: BLE001  # the last line of defence: the server continues
            _report(params.name)
            return _failure(f"{type(error).__name__}: a bug in tokenbox, see its log. (internal_error)")

    return Server(
        "tokenbox",
        version=__version__,
        title="tokenbox",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def tool_list() -> list[types.Tool]:
    reads_only = types.ToolAnnotations(read_only_hint=True)
    return [
        types.Tool(
            name=name, description=tool.about, input_schema=schema(tool.arguments), annotations=reads_only
        )
        for name, tool in TOOLS.items()
    ]


async def _roots(
    context: Context, params: types.CallToolRequestParams, started: Sequence[str]
) -> Roots | types.InputRequiredResult:
    """Ask the client for its roots, at each call, because they may change. Raises :class:`NoRoots`."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return Roots.of(None, started)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # In these versions the answer of the server asks, and the client calls again.
        answer = (params.input_responses or {}).get(_ROOTS)
        if answer is None:
            return types.InputRequiredResult(input_requests={_ROOTS: types.ListRootsRequest()})
        if not isinstance(answer, types.ListRootsResult):
            raise NoRoots("the client's answer has no list of roots.")
        return Roots.of([str(root.uri) for root in answer.roots], started)
    try:
        listed = await context.session.send_request(
            types.ListRootsRequest(),
            types.ListRootsResult,
            request_read_timeout_seconds=_ROOTS_SECONDS,
            metadata=ServerMessageMetadata(related_request_id=context.request_id),
        )
    except (MCPError, ValidationError) as error:
        raise NoRoots(
            f"the client announces roots but does not list them ({type(error).__name__})."
        ) from None
    return Roots.of([str(root.uri) for root in listed.roots], started)


async def _in_thread(
    context: Context, progress: CallProgress, work: Callable[[], list[str]], threads: anyio.CapacityLimiter
) -> list[str]:
    """Run ``work`` in a thread, and report its progress. After a cancellation the thread ends soon."""
    reported = 0

    async def report() -> None:
        nonlocal reported
        if progress.done > reported:
            reported = progress.done
            await context.session.report_progress(reported, progress.total)

    async def report_repeatedly() -> None:
        while True:
            await anyio.sleep(_PROGRESS_SECONDS)
            await report()

    def guarded() -> list[str] | Exception:
        # A task group would wrap an exception in an exception group.
        try:
            return work()
        except (Exception, CallCancelled) as error:  # noqa: BLE001  # becomes the answer
            return error

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(report_repeatedly)
            found = await anyio.to_thread.run_sync(guarded, abandon_on_cancel=True, limiter=threads)
            group.cancel_scope.cancel()
    finally:
        progress.stop()
    if isinstance(found, Exception):
        raise found
    progress.finish()
    await report()
    return found


def _result(blocks: list[str]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=block) for block in blocks])


def _failure(message: str) -> types.CallToolResult:
    """Return an error that the model can read and correct."""
    text = "".join(c if c == "\n" or not "\ud800" <= c <= "\udfff" else "\ufffd" for c in message)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _report(tool: str) -> None:
    sys.stderr.write(f"tokenbox mcp: a bug in {tool}; please report it.\n{traceback.format_exc()}")
