"""The published costs of images, by model. They are estimates: no provider promises these figures.

Sources, as they were in October 2026:
OpenAI (developers.openai.com/api/docs/guides/images-vision), "Model sizing behavior" and "Calculating costs";
for models that it no longer lists, its version of April 2026.
Anthropic (platform.claude.com/docs/en/build-with-claude/vision), "Resolution and token cost", and on the page
vision-coordinates "How Claude resizes and pads images".
Google (ai.google.dev/gemini-api/docs/image-understanding), "Token calculation", and on the page
media-resolution "Token counts".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Final

from tokenbox.catalog.names import bare_name, undated
from tokenbox.content.image_size import Size, image_size
from tokenbox.content.message import Object, PartKind, media_kind
from tokenbox.content.parts import media_in
from tokenbox.content.payloads import image_payloads

MEDIA: Final = 1_000
"""The estimated tokens of a file or a recording, and of an image to a model without a rule."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """OpenAI: a base, and each square of 512 pixels. The image is scaled to 2,048, its short side to 768."""

    base: int
    tile: int

    def of(self, size: Size | None, detail: str) -> int:
        if detail == "low":
            return self.base
        width, height = _within(Size(2_048, 768) if size is None else size, 2_048)
        if (short := min(width, height)) > 768:
            width, height = width * 768 // short, height * 768 // short
        return self.base + self.tile * _grid(Size(width, height), 512)


# What is expected of an image of unknown size. The newest models read far larger ones.
_LARGE_PHOTO: Final = Size(2_048, 2_048)

Limits = tuple[int, int]
"""The most pixels of a side, and the most patches of an image."""


@dataclass(frozen=True, slots=True)
class Patches:
    """OpenAI: squares of 32 pixels, times a factor in hundredths. The limits depend on the detail."""

    factor: int
    auto: Limits
    details: tuple[tuple[str, Limits], ...] = ()

    def of(self, size: Size | None, detail: str) -> int:
        side, most = dict(self.details).get(detail, self.auto)
        size = _within_patches(_within(_LARGE_PHOTO if size is None else size, side), most)
        return -(-min(_grid(size, 32), most) * self.factor // 100)


@dataclass(frozen=True, slots=True)
class VisualTokens:
    """Anthropic: squares of 28 pixels, of the largest image of the same shape within both limits."""

    side: int
    tokens: int

    def of(self, size: Size | None, detail: str) -> int:
        if size is None:
            return self.tokens
        long, short = max(size), min(size)
        least, most = 1, min(long, self.side)
        while least < most:
            middle = (least + most + 1) // 2
            fits = _grid(_scaled(long, short, middle), 28) <= self.tokens
            least, most = (middle, most) if fits else (least, middle - 1)
        return _grid(_scaled(long, short, least), 28)


@dataclass(frozen=True, slots=True)
class Crops:
    """Gemini 2: 258 tokens for each crop, whose side is two thirds of the short side, at least 256 pixels."""

    def of(self, size: Size | None, detail: str) -> int:
        size = Size(3_072, 384) if size is None else size
        if max(size) <= 384:
            return 258
        size = _within(size, 3_072)
        return 258 * _grid(size, max(256, min(size) * 2 // 3))


@dataclass(frozen=True, slots=True)
class Fixed:
    """Gemini 3: the budget of any image at the default resolution."""

    tokens: int

    def of(self, size: Size | None, detail: str) -> int:
        return self.tokens


def _grid(size: Size, side: int) -> int:
    """Return the number of squares that cover the image."""
    return -(-size.width // side) * -(-size.height // side)


def _within(size: Size, side: int) -> Size:
    """Scale the image to a longest side, rounded to whole pixels."""
    long = max(size)
    if long <= side:
        return size
    return Size(*(max(1, (2 * one * side + long) // (2 * long)) for one in size))


def _within_patches(size: Size, most: int) -> Size:
    """Scale the image until one of its sides is a whole number of patches, and there are at most ``most``.

    OpenAI's formula in integers: its shrink factor makes the width ``sqrt(width * most / height)`` patches.
    """
    width, height = size
    if _grid(size, 32) <= most:
        return size
    across, down = isqrt(width * most // height), isqrt(height * most // width)
    return Size(
        max(1, min(32 * across, 32 * down * width // height)),
        max(1, min(32 * down, 32 * across * height // width)),
    )


def _scaled(long: int, short: int, side: int) -> Size:
    """Scale the image to a long side. Half a pixel is rounded to an even number."""
    whole, rest = divmod(short * side, long)
    whole += 2 * rest > long or (2 * rest == long and whole % 2 == 1)
    return Size(side, max(1, whole))


ImageCost = Tiles | Patches | VisualTokens | Crops | Fixed
"""The rule of a family of models. ``of`` returns the cost of an image, a high one if its size is unknown."""

_LOW: Final = ("low", (512, 256))
_HIGH: Final = (2_048, 2_500)
_WHOLE: Final = (65_535, 30_000)  # OpenAI rejects an image of more patches
_LARGE: Final = (6_000, 10_000)
_WIDE: Final = (2_048, 6_144)
_SMALL: Final = (2_048, 1_536)
_GPT_56: Final = Patches(120, _WHOLE, (_LOW, ("high", _HIGH)))
_GPT_54: Final = Patches(120, _HIGH, (("low", _WIDE), ("original", _LARGE)))
_OPENAI: Final[Mapping[str, ImageCost]] = {
    **dict.fromkeys("gpt-4o gpt-4.1 gpt-4.5-preview gpt-4-turbo chatgpt-4o".split(), Tiles(85, 170)),
    **dict.fromkeys("o1 o1-pro o3".split(), Tiles(75, 150)),
    **dict.fromkeys("gpt-5 gpt-5-chat gpt-5.1".split(), Tiles(70, 140)),
    "gpt-4o-mini": Tiles(2_833, 5_667),
    "computer-use-preview": Tiles(65, 129),
    "gpt-6-astra": Patches(120, _WHOLE, (_LOW, ("high", (65_535, 2_500)))),
    **dict.fromkeys("gpt-5.6 gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna".split(), _GPT_56),
    "gpt-5.5": Patches(120, _LARGE, (_LOW, ("high", _HIGH))),
    **dict.fromkeys("gpt-5.4 gpt-5.4-mini gpt-5.4-nano".split(), _GPT_54),
    "gpt-5.2": Patches(120, _WIDE),
    "gpt-4.1-mini": Patches(162, _WIDE),
    "gpt-5-mini": Patches(120, _SMALL),
    "gpt-5-nano": Patches(150, _SMALL),
    "gpt-4.1-nano": Patches(246, _SMALL),
    "o4-mini": Patches(172, _SMALL),
}
# The first that matches. Claude 4.7 and later models read more pixels than those before.
_OTHERS: Final = (
    (
        re.compile(r"claude-(2|3|instant|v1|[a-z]+-[34]([-.][0-6])?([-@](20|latest|v|thinking)|$))"),
        VisualTokens(1_568, 1_568),
    ),
    (re.compile(r"claude-"), VisualTokens(2_576, 4_784)),
    (re.compile(r"gemini-2\.[05]-(flash|pro)"), Crops()),
    (re.compile(r"gemini-3(\.\d+)?-(flash|pro)"), Fixed(1_120)),
)


RULES: Final = tuple(dict.fromkeys((*_OPENAI.values(), *(rule for _, rule in _OTHERS))))
"""All rules, each once."""


def image_cost(model: str | None) -> ImageCost | None:
    """Return the rule for a model, by its name at any provider; None if none is published."""
    if model is None:
        return None
    name = bare_name(model).removeprefix("ft:").partition(":")[0]
    rule = _OPENAI.get(undated(name) or name)
    return rule or next((rule for pattern, rule in _OTHERS if pattern.match(name)), None)


def media_estimate(value: object, rule: ImageCost | None) -> int:
    """Return the estimated tokens of all images, files and recordings in a JSON value."""
    return media_in(value, partial(_medium, rule))


def _medium(rule: ImageCost | None, part: Mapping[str, object]) -> int:
    if rule is None or media_kind(part.get("type")) not in (PartKind.IMAGE, None):
        return MEDIA
    given = {key: dict(value) if isinstance(value, Object) else value for key, value in part.items()}
    holder = given.get("image_url")
    detail = holder.get("detail") if isinstance(holder, dict) else given.get("detail")
    payloads = [given["result"]] if "result" in given else image_payloads(given)  # of a generated image
    sizes = [image_size(one) if isinstance(one, str) else None for one in payloads]
    return max(rule.of(size, detail if isinstance(detail, str) else "auto") for size in sizes or [None])
