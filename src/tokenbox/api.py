"""The public functions: count, lay out, fit, render, select and pack. ``tokenbox`` re-exports them.

Each takes ``model=`` or a tokenizer. With a model, tokenbox chooses the counter for it (docs/models.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox import folder, named_code
from tokenbox.compose import breakpoints as changes
from tokenbox.compose.bound import count_of_text
from tokenbox.compose.layout import SEPARATOR, Layout, LayoutOptions
from tokenbox.compose.remembered import counted
from tokenbox.compose.requests import Count, Counts, count_by, with_unseen
from tokenbox.compose.sections import checked_sections, lay_out_all, layout_counter
from tokenbox.compose.sections import layout as compose_layout
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import checked_fields, read_request
from tokenbox.content.tool_objects import as_schemas, json_schema_of
from tokenbox.counters import count_text, counts_requests, request_counter, section_counter, text_counter
from tokenbox.engine.steps import ALL_STEPS, KEEP_RESULTS
from tokenbox.errors import ContextCriticalOverflow, InvalidContent, several, shown
from tokenbox.integers import limit, token_budget
from tokenbox.proof.proven import with_proof
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from tokenbox.compose.block_whole import Summarize
    from tokenbox.compose.blocks import BlockLayout, Verbosity
    from tokenbox.compose.breakpoints import Breakpoint
    from tokenbox.compose.sections import Groups
    from tokenbox.compose.selection import Selection
    from tokenbox.content.block_kinds import BlockType
    from tokenbox.content.blocks import Block
    from tokenbox.content.section import Section
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.conversation.pieces import MediaTokens
    from tokenbox.conversation.record import Fitted
    from tokenbox.engine.result import Policy
    from tokenbox.folder import PackedFolder
    from tokenbox.proof.evidence import Sink
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.worth.scorers import Scorer

T = TypeVar("T")


def count(  # each is an option of its own
    what: object,
    model: str | None = None,
    *,
    tokenizer: Counts | None = None,
    tools: Sequence[object] | None = None,
    response_format: Mapping[str, object] | type | None = None,
    media_tokens: MediaTokens = None,
    markers: bool = True,
) -> Count:
    """Count the tokens of a text, of messages or of a whole request.

    ``what``: a text; a list of messages, of OpenAI's or Anthropic's APIs or of a library; or a whole request
    as one mapping, whose ``"model"`` is the default for ``model``. ``model``: counts with this model's chat
    format. ``tokenizer``: a tokenizer or a chat format. Without either, the count is an estimate: the larger
    count of two vocabularies plus 15 %. ``tools`` (schemas, or tool objects of a library) and
    ``response_format`` (a mapping, or a class of Pydantic) are sent along with messages.
    ``media_tokens``: the tokens of an image or a file, as a number or a function of the part; ``"declared"``
    reads the part's own key ``tokens``. By default they are estimated. ``markers=False`` counts the texts of
    messages without the markers of a chat format.

    The result is marked ``exact`` only where that is proven. Its ``at_most`` is 2**53 - 1 where no bound is
    known, because the request refers to input that the server keeps or fetches. Raises ``InvalidMessage``,
    which names the position in the list, or a ``TokenizerError``.
    """
    if isinstance(what, str):
        if tools or response_format is not None:
            raise InvalidMessage(
                "tools and response_format go with messages, not with a text. "
                'Give [{"role": "user", "content": TEXT}].'
            )
        return count_text(what, text_counter(model, tokenizer))
    request = read_request(what, tools=tools, fields=_with_form(None, response_format))
    if model is None and tokenizer is None and isinstance(what, Mapping):
        named = what.get("model")
        model = named if isinstance(named, str) else None
    counter = request_counter(model, tokenizer, media_tokens=media_tokens, markers=markers)
    return with_unseen(count_by(counter, request), request)


def count_texts(
    texts: Sequence[str], model: str | None = None, *, tokenizer: Counts | None = None
) -> list[Count]:
    """Count the tokens of many texts, in order, as :func:`count` does for one, without caching the counts.

    For texts that are counted once, such as the rows of a data set: the tokenizer is called in batches.
    Raises a ``TokenizerError`` if any of them cannot be counted.
    """
    counter = text_counter(model, tokenizer)
    return [
        count_of_text(text, total, counter)
        for text, total in zip(texts, counted(counter, texts), strict=True)
    ]


def fit(  # noqa: PLR0913  # the options of `fitting.fit`, the model and proof
    messages: Sequence[T] | Iterator[T],
    budget: int | None,
    tokenizer: Counts | None = None,
    *,
    model: str | None = None,
    tools: Sequence[object] | None = None,
    response_format: Mapping[str, object] | type | None = None,
    fields: Mapping[str, object] | None = None,
    max_turns: int | None = None,
    low_water: LowWater = 1,
    steps: Collection[str] = ALL_STEPS,
    keep_results: int = KEEP_RESULTS,
    pinned: Collection[int] = (),
    query: str | None = None,
    media_tokens: MediaTokens = None,
    markers: bool = True,
    handles: bool = False,
    proof: Sink | None = None,
    source: str | None = None,
) -> Fitted[T]:
    """Return the messages that fit into ``budget`` tokens as one request: the same objects, in order.

    docs/conversations.md ("The rules") has what stays and what leaves first. ``budget``: for the complete
    request; None: only ``max_turns`` limits it. ``model``: counts with this model's chat format.
    ``tokenizer``: a tokenizer or a chat format to use instead. ``tools``, ``response_format``, ``fields``:
    what is sent along. ``max_turns``: the most exchanges. ``low_water``: once over the budget, reduce to this
    share of it, or ``"auto"`` (docs/caching.md). ``steps``: the reductions that are allowed.
    ``keep_results``: mask the newest N tool results last. ``pinned``: places in the list of messages that
    stay. ``query``: a text, or ``"last"`` for the last user message; keeps the messages that match it best.
    ``media_tokens``, ``markers``: as for :func:`count`. ``handles``: name omitted texts by a handle for
    ``Fitted.expand``. ``proof``, ``source``: as for :func:`layout`.

    Raises ``ContextCriticalOverflow`` if the messages that must stay do not fit, ``InvalidMessage``,
    ``InvalidBudget``, ``UndeclaredCost``, ``TemplateError``, a ``TokenizerError`` and errors of ``proof``.
    """
    from tokenbox.conversation.fitting import fit as fit_messages  # slow to import; a layout does not use it

    counter = tokenizer
    if model is not None or counts_requests(tokenizer):
        counter = request_counter(model, tokenizer, media_tokens=media_tokens, markers=markers)
    return with_proof(fit_messages, proof, source=source)(
        list(messages) if isinstance(messages, Iterator) else messages,
        budget,
        counter,
        tools=as_schemas(tools),
        fields=_with_form(fields, response_format),
        max_turns=max_turns,
        low_water=low_water,
        steps=steps,
        keep_results=keep_results,
        pinned=pinned,
        query=query,
        media_tokens=media_tokens,
        markers=markers,
        handles=handles,
    )


def _with_form(fields: Mapping[str, object] | None, response_format: object) -> Mapping[str, object] | None:
    """Return the fields with the form of the answer; None without any. Raises ``InvalidMessage``."""
    response_format = json_schema_of(response_format)
    if not isinstance(response_format, Mapping | None):
        named = shown(response_format)
        raise InvalidMessage(
            'response_format is a mapping such as {"type": "json_object"}, or a class of Pydantic, '
            f"not {named:.60}."
        )
    form = {} if response_format is None else {"response_format": response_format}
    return {**checked_fields({} if fields is None else fields), **form} or None


def layout(  # noqa: PLR0913  # the options of `compose.sections.layout`, the model and proof
    sections: Iterable[Section | Mapping[str, object]],
    budget: int,
    tokenizer: Counts | None = None,
    separator: str = SEPARATOR,
    *,
    model: str | None = None,
    policy: Policy | str = "facet",
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    source: str | None = None,
) -> Layout:
    """Lay ``sections`` out into ``budget`` tokens (FACET Token Box Model; docs/layout.md has the rules).

    ``tokenizer``: a name such as ``"o200k_base"``, a tokenizer, any function from a text to its count, or a
    chat format. With a chat format, or with ``model`` and sections that all have a role, sections are
    messages: the budget applies to the request, and ``messages()`` costs ``total``. ``separator``: the text
    between sections. ``policy``: ``"facet"`` drops sections that do not fit; ``"degrade"`` first uses smaller
    forms, then cuts each section down to its ``min``. ``groups``: bounds that sections share, by name.
    ``reclaim``: after cutting, restore what then fits. ``cache``: of counts; the default is one per process.
    ``proof`` is called with the ``Evidence`` of the layout, its refusal or its failure (docs/proof.md);
    ``source`` is the name of the sections in it.

    Raises ``ContextCriticalOverflow`` if the critical sections alone do not fit, ``InvalidSection`` and
    ``InvalidBudget`` for bad input, a ``TokenizerError``, and any error of ``proof``.
    """
    checked = checked_sections(sections)
    return with_proof(compose_layout, proof, source=source)(
        checked,
        budget,
        section_counter(checked, model, tokenizer),
        separator,
        policy=policy,
        groups=groups,
        reclaim=reclaim,
        cache=cache,
    )


def whatif(  # noqa: PLR0913  # the options of `layout`, and the model
    sections: Iterable[Section | Mapping[str, object]],
    budgets: Iterable[int],
    tokenizer: Counts | None = None,
    separator: str = SEPARATOR,
    *,
    model: str | None = None,
    policy: Policy | str = "facet",
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> list[Layout | ContextCriticalOverflow]:
    """Return one layout per budget, in order, counting each text once. Options as for :func:`layout`.

    For a budget too small for the critical sections, the list contains the error.
    """
    checked = checked_sections(sections)
    options = LayoutOptions.of(checked, separator, policy, groups, reclaim=reclaim)
    counter = layout_counter(checked, section_counter(checked, model, tokenizer), cache)
    return lay_out_all(checked, options, counter, budgets)


def breakpoints(  # noqa: PLR0913  # the options of `whatif`, for a range of budgets
    sections: Iterable[Section | Mapping[str, object]],
    low: int,
    high: int,
    tokenizer: Counts | None = None,
    separator: str = SEPARATOR,
    *,
    model: str | None = None,
    policy: Policy | str = "facet",
    groups: Groups | None = None,
    reclaim: bool = False,
    cache: CountCache | None = None,
) -> list[Breakpoint]:
    """Return the budgets from ``low`` to ``high`` at which a section's decision or form changes, in order.

    Options and errors as for :func:`whatif`.
    """
    checked = checked_sections(sections)
    options = LayoutOptions.of(checked, separator, policy, groups, reclaim=reclaim)
    counter = layout_counter(checked, section_counter(checked, model, tokenizer), cache)
    return changes.breakpoints(checked, options, counter, low, high)


def render_blocks(  # noqa: PLR0913  # the options of `compose.blocks.render_blocks`, the model and proof
    blocks: Iterable[Block],
    tokenizer: Counts | None = None,
    budget: int | None = None,
    mode: str = "xml",
    *,
    model: str | None = None,
    verbosity: Verbosity | str = "adaptive",
    include_types: Iterable[BlockType | int | str] | None = None,
    soft: bool = False,
    summarize: Summarize | None = None,
    cache: CountCache | None = None,
    proof: Sink | None = None,
    source: str | None = None,
) -> BlockLayout:
    """Render typed blocks as one text, within ``budget`` tokens if one is given (docs/blocks.md).

    ``model`` or ``tokenizer`` counts tokens. ``mode``: ``xml``, ``markdown``, ``minimal`` or a renderer of
    yours. ``verbosity``: ``adaptive`` gives each block the best form that fits; ``full`` and ``summary``
    ignore the budget. ``include_types``: only these types, by number or name. ``soft``: critical blocks are
    full even over the budget, by at most the largest of them. ``summarize``: called for a block without a
    summary, at most once and only if one could be shown. ``cache``, ``proof``, ``source``: as for
    :func:`layout`. Annotations set priorities and are never rendered.

    Raises ``EmptyInput`` if there is nothing to show, ``NothingFits``, ``ContextCriticalOverflow`` if the
    critical blocks alone do not fit, ``InvalidContent`` for a full block that is not UTF-8,
    ``InvalidBudget`` and a ``TokenizerError``.
    """
    from tokenbox.compose import blocks as composed  # a layout does not use blocks

    return with_proof(composed.render_blocks, proof, source=source)(
        composed.checked_blocks(blocks),
        text_counter(model, tokenizer),
        budget,
        mode,
        verbosity=verbosity,
        include_types=None if include_types is None else _several("include_types", include_types),
        soft=soft,
        summarize=summarize,
        cache=cache,
    )


def select(  # noqa: PLR0913  # each is an option of its own
    chunks: Iterable[object],
    budget: int,
    query: str | None = None,
    *,
    model: str | None = None,
    tokenizer: Counts | None = None,
    order: str = "given",
    separator: str = SEPARATOR,
    copies: bool = False,
    scorer: Scorer | str | None = None,
    cache: CountCache | None = None,
) -> Selection:
    """Select the most relevant chunks that fit into ``budget`` tokens (docs/pack.md, "Your own chunks").

    ``chunks``: strings, mappings with ``text`` (and ``id``, ``title``, ``summary`` or ``forms``, ``score``,
    ``priority``), :class:`~tokenbox.compose.selection.Chunk` objects, or documents of a library. ``query``:
    the question that they should answer; a chunk's own ``score`` overrides it. ``order``: ``given``, or
    ``worth`` for the best last. ``separator``: the text between chunks. ``copies``: also show
    near-duplicates. ``scorer``: a function of (query, texts) that returns the worth of chunks without a
    score, the name of an entry point of ``tokenbox.scorers``, or ``module:function``. ``cache``: as for
    :func:`layout`.

    Raises ``ContextCriticalOverflow`` if the critical chunks do not fit, ``InvalidContent``,
    ``ScorerProblem``, ``InvalidBudget`` and a ``TokenizerError``.
    """
    from tokenbox.compose.selection import select as selected  # a layout does not use scorers

    named_code.allow(scorer)
    counter = text_counter(model, tokenizer)
    return selected(
        chunks,
        budget,
        counter,
        query=query,
        order=order,
        separator=separator,
        copies=copies,
        scorer=scorer,
        cache=cache,
    )


def pack(  # noqa: PLR0913  # each is an option of its own
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    budget: int | None = None,
    query: str | None = None,
    *,
    model: str | None = None,
    tokenizer: Counts | None = None,
    mode: str = "xml",
    purpose: str | None = None,
    order: str | None = None,
    focus: Sequence[str] = (),
    diff: str | None = None,
    history: bool | None = None,
    log: int | None = None,
    instructions: str | None = None,
    priority: Sequence[str] = (),
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    level: Sequence[str] | None = None,
    strip: Sequence[str] | None = None,
    line_numbers: bool | None = None,
    redact: bool = True,
    scorer: Scorer | str | None = None,
    cache: CountCache | None = None,
    proof: Sink | None = None,
) -> PackedFolder:
    """Pack files and folders into ``budget`` tokens, the most relevant to ``query`` first (docs/pack.md).

    ``path``: a file or folder, or several. ``purpose``: a preset: ``review``, ``question`` or ``handover``.
    ``order``: of the files, ``path`` or ``worth``. ``focus``: ``PATH``, ``PATH:SYMBOL`` or
    ``PATH:FIRST-LAST``. ``diff``: a revision to compare with. ``history``: rank files by the git history,
    too. ``log``: show this many commits. ``instructions``: a text. ``include``, ``exclude``: globs.
    ``priority``: rules such as ``"src/**=high"``; ``level``: such as ``"docs/**=listed"``. ``strip``:
    ``comments``, ``base64``, ``outputs``. ``redact``: replace secrets by their kind. ``scorer``: ranks the
    pieces, as for :func:`select`. ``cache``, ``proof``: as for :func:`layout`. An option that is None comes
    from the preset, then from ``[tool.tokenbox.pack]``. The result has the text (``.text``), how each file is
    shown (``.files``), and what was left out or changed, such as a secret (``.notes``).

    Raises the errors of reading folders (``PathProblem``, ``NothingToPack``, ``GitProblem`` ...),
    ``NothingFits``, ``InvalidBudget`` and ``ContextCriticalOverflow``.
    """
    from tokenbox.compose.selection import check_query  # worth, which texts and layouts do not need

    budget = None if budget is None else token_budget(budget)
    check_query(query)
    paths = [path] if isinstance(path, str | PathLike) else several(path)
    if not paths or not all(isinstance(one, str | PathLike) for one in paths):
        raise InvalidContent(f"path is a file or a folder, or several, not {shown(path)}.")
    if log is not None:
        log = limit("log", log, at_least=0, unit="commits")
    for name, text in (("instructions", instructions), ("diff", diff)):
        if text is not None:
            _texts(name, [text])
    flags: dict[str, object] = {"redact": redact, "line_numbers": line_numbers, "history": history}
    for name, flag in flags.items():
        if not (isinstance(flag, bool) or (flag is None and name != "redact")):
            raise InvalidContent(f"{name} is True or False, not {shown(flag)}.")
    rules = [folder.parse_rule(rule, "priority") for rule in _texts("priority", priority)]
    counter = text_counter(model, tokenizer)
    surveyed = folder.survey(paths)
    settled = folder.settled(
        folder.PackSettings(
            include=None if include is None else _texts("include", include),
            exclude=None if exclude is None else _texts("exclude", exclude),
            levels=None if level is None else tuple(map(folder.LevelRule.parse, _texts("level", level))),
            strip=None if strip is None else folder.strips(_texts("strip", strip)),
            line_numbers=line_numbers,
            order=None if order is None else folder.file_order(order),
            log=log,
            history=history,
            diff=diff,
        ),
        purpose,
        surveyed.settings.pack,
    )
    named_code.allow(scorer)
    options = folder.PackOptions.of(settled, query, focus=_texts("focus", focus), scorer=scorer)
    said = surveyed.settings.instructions if instructions is None else instructions
    with folder.CountAhead(counter, cache, surveyed.found.size) as ahead:
        source = folder.read(
            surveyed, settled, rules=rules, redact=redact, instructions=said, memory=cache, seen=ahead.add
        )
        return folder.pack_source(
            source, counter, budget, mode, options=options, cache=cache, proof=proof, ahead=ahead
        )


def _several(name: str, values: object) -> list[Any]:
    """Return the values of an option that takes several. Raises ``InvalidContent``."""
    found = several(values)
    if found is None:
        hint = f" Write [{shown(values)}]." if isinstance(values, str) else ""
        raise InvalidContent(f"{name} is a list, not {shown(values)}.{hint}")
    return found


def _texts(name: str, values: object) -> tuple[str, ...]:
    """Return the texts of an option that takes several. Raises ``InvalidContent``, ``InvalidText``."""
    found = _several(name, values)
    for value in found:
        if not isinstance(value, str):
            raise InvalidContent(f"{name} is text, not {shown(value)}.")
        utf8(value)
    return tuple(found)
