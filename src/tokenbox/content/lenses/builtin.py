"""The table of built-in lenses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.content.lenses import blanks, json_text, lines, markdown, sentences, tokens
from tokenbox.content.lenses.lens import ArgumentProblem, LensKind, Parameter
from tokenbox.content.lenses.outline import build_outline
from tokenbox.content.lenses.replacing import build_replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.tokenizers.protocol import Tokenizer

    Apply = Callable[[str, Tokenizer], str]

_LINES_OR_TOKENS = (
    Parameter("lines", int, optional=True),
    Parameter("tokens", int, optional=True, keyword_only=True),
)


def _plain(name: str, version: str, function: Callable[[str], str], description: str) -> LensKind:
    """A lens without arguments."""

    def build() -> Apply:
        return lambda text, _: function(text)

    return LensKind(name, version, build, description=description, example=name)


def _part(
    name: str,
    by_lines: Callable[[str, int], str],
    by_tokens: Callable[[str, int, Tokenizer], str],
    description: str,
) -> LensKind:
    """A lens that keeps a part of the text, measured in lines or in tokens."""

    def build(*, lines: int | None = None, tokens: int | None = None) -> Apply:
        if lines is not None and tokens is None:
            return lambda text, _: by_lines(text, lines)
        if tokens is not None and lines is None:
            return lambda text, tokenizer: by_tokens(text, tokens, tokenizer)
        raise ArgumentProblem("it takes lines or tokens, one of them")

    return LensKind(
        name,
        "1",
        build,
        _LINES_OR_TOKENS,
        usage=f"{name}(lines) or {name}(tokens=...)",
        description=description,
        example=f"{name}(lines=40)",
    )


def _cut(keep: str) -> Callable[[str, int, Tokenizer], str]:
    return lambda text, count, tokenizer: tokens.cut_tokens(text, count, tokenizer, keep)


def _build_first_sentences(*, n: int) -> Apply:
    return lambda text, _: sentences.first_sentences(text, n)


BUILTIN = (
    _plain("trim", "1", blanks.trim, "no white space at the ends"),
    _plain("squeeze", "1", blanks.squeeze, "each run of blanks as one, each run of blank lines as one"),
    _plain("lowercase", "1", str.lower, "all letters small (Unicode full mapping)"),
    _plain("uppercase", "1", str.upper, "all letters large (Unicode full mapping)"),
    LensKind(
        "replace",
        "1",
        build_replace,
        (Parameter("pattern", str), Parameter("by", str)),
        description="what matches a regular expression (RE2) replaced; \\1 is its first group",
        example='replace("[0-9]{4,}", "N")',
    ),
    _part("head", lines.head_lines, _cut("head"), "the first lines or tokens"),
    _part("tail", lines.tail_lines, _cut("tail"), "the last lines or tokens"),
    _part("middle", lines.middle_lines, _cut("middle"), "lines or tokens from the middle"),
    _part(
        "ends",
        lines.ends_lines,
        tokens.ends_tokens,
        "the first and last lines or tokens, with a line that says how much is left out between them",
    ),
    _plain("dedup_lines", "1", lines.dedup_lines, "each line only where it comes first; blank lines stay"),
    LensKind(
        "first_sentences",
        "1",
        _build_first_sentences,
        (Parameter("n", int),),
        description="the first sentences of prose",
        example="first_sentences(3)",
    ),
    _plain("json_minify", "1", json_text.json_minify, "JSON without white space; other text unchanged"),
    _plain("strip_markdown", "1", markdown.strip_markdown, "the words of Markdown without its marks"),
    LensKind(
        "outline",
        "1",
        build_outline,
        (Parameter("language", str, optional=True),),
        usage='outline or outline("python")',
        description="signatures of source code, each with the first line of what documents it (extra)",
        example='outline("python")',
    ),
)
