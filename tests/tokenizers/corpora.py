"""Texts for the comparison of tokenizers: prose, code, ten languages, and random texts."""

from __future__ import annotations

import inspect
import json.decoder
import pydoc_data.topics
import random
import string
import textwrap

LANGUAGES = (
    "The quick brown fox didn't jump; it's 3,141.59 metres away, they've said.",
    "Größe ändert sich nicht: Äpfel, Öl und Übermaß kosten 12,50 €.",
    "Être ou ne pas être, c'est là que l'œuvre commence — n'est-ce pas ?",
    "Быстрая коричневая лиса перепрыгнула через 1234567 ленивых собак.",
    "敏捷的棕色狐狸跳过了懒狗。今天是二〇二六年,天气很好!",
    "すばしっこい茶色の狐はのろまな犬を飛び越える。カタカナもあります。",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. 오늘은 날씨가 좋다.",
    "الثعلب البني السريع يقفز فوق الكلب الكسول ٣ مرات.",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है।",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ",
)

PARTS = (
    "a", "B", "word", "It", "'s", "'S", "'ſ", "'LL", "'", "ſ", "é", "e\u0301", "\u0301", "漢字", "ǅ", "ʰ",
    " ", "  ", "\t", "\n", "\r\n", "\r", "\n \n ", "\u00a0", "\u3000", "\x1c", "\x85", "\u2028",
    "1", "2345", "²", "½", "٣", "!", "...", "/", "//", "<|endoftext|>", "<|im_end|>", "<s>", "_", "$x",
    "😀", "👩‍👩‍👧", "🇩🇪", "\u200d", "\x00", "\ufeff", "\ufffd", "\U0010ffff", "。", "、", "\ue000",
)  # fmt: skip
"""Parts of random texts: all classes that the patterns distinguish."""


def mixed(count: int, seed: int) -> list[str]:
    """Return ``count`` texts of up to 40 random parts."""
    choose = random.Random(seed)
    return ["".join(choose.choices(PARTS, k=choose.randrange(1, 41))) for _ in range(count)]


def texts() -> list[str]:
    """Return natural and artificial texts of up to some ten thousand characters."""
    prose = list(pydoc_data.topics.topics.values())[:25]
    code = [inspect.getsource(module) for module in (textwrap, string, json.decoder)]
    runs = [
        unit * 2_000
        for unit in (" ", "a", "A", "\n", "\n \n ", "\u0301", "1", "!", "/", "漢", "😀", "\u00a0")
    ]
    runs += ["x" + " " * 2_000 + "x", "!" + "\n" * 500 + " " * 500 + "!"]
    return ["", *LANGUAGES, "\n".join(LANGUAGES), *prose, *code, *runs, *mixed(400, seed=1)]
