# ruff: noqa: ANN401, SLF001  # fixtures of many kinds; the engines are private to the tokenizer
"""BPE vocabularies are counted as tiktoken counts them, by each engine, in chunks and for hostile texts."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
import threading
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizers import corpora
from tokenbox.errors import InvalidText, TokenizerError, VocabularyError
from tokenbox.tokenizers import bpe, engines, vocabularies
from tokenbox.tokenizers.engines import Tiktoken
from tokenbox.tokenizers.patterns import LETTER, NAMED, cutting
from tokenbox.tokenizers.registry import as_tokenizer
from tokenbox.tokenizers.vocabularies import BASELINES, BpeSpec, fingerprint

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Engine

pytestmark = pytest.mark.slow

NAMES = sorted(BASELINES)
TEXTS = corpora.texts()
ENGINES: list[Engine] = ["tiktoken", "fast"]


def step(code: int) -> int:
    """Return at which steps characters are tried: Unicode adds them to the upper planes by whole scripts."""
    return 1 if code < 0x10000 else 4


@pytest.fixture(scope="module")
def references() -> dict[str, tiktoken.Encoding]:
    """tiktoken by its public interface, over ranks in its own file format."""
    return {
        name: tiktoken.Encoding(
            name,
            pat_str=spec.pattern,
            mergeable_ranks=vocabularies.load(name),
            special_tokens=dict(spec.special_tokens),
        )
        for name, spec in BASELINES.items()
    }


@pytest.fixture(scope="module")
def tokenizers() -> dict[tuple[str, str], bpe.BpeTokenizer]:
    return {(name, engine): bpe.baseline(name, engine) for name in NAMES for engine in ENGINES}


@pytest.mark.parametrize(("name", "engine"), list(itertools.product(NAMES, ENGINES)))
def test_tokens_are_tiktokens(name: str, engine: str, references: Any, tokenizers: Any) -> None:
    tokenizer, reference = tokenizers[name, engine], references[name]
    expected = [reference.encode_ordinary(text) for text in TEXTS]
    assert [tokenizer.encode(text) for text in TEXTS] == expected
    assert [tokenizer.count(text) for text in TEXTS] == [len(tokens) for tokens in expected]
    assert tokenizer.count_batch(TEXTS) == [len(tokens) for tokens in expected]
    assert [tokenizer.decode(tokens) for tokens in expected] == TEXTS
    assert tokenizer.engine == engine


@given(text=st.lists(st.sampled_from(corpora.PARTS) | st.text(max_size=5), max_size=30).map("".join))
@pytest.mark.parametrize("name", NAMES)
def test_both_engines_agree_on_any_text(name: str, text: str, tokenizers: Any) -> None:
    assert tokenizers[name, "fast"].encode(text) == tokenizers[name, "tiktoken"].encode(text)


@pytest.mark.parametrize("name", NAMES)
def test_every_character_is_the_same_to_both_engines(name: str, tokenizers: Any) -> None:
    # What the engines could differ in is the class of a character; each stands between letters, digits,
    # blanks and signs here.
    exact, fast = tokenizers[name, "tiktoken"], tokenizers[name, "fast"]
    exact.load()
    fast.load()
    # Planes 0, 1 and the tags; the others hold ideographs, private and unassigned characters only.
    for start in (*range(0, 0x20800, 0x800), 0xE0000):
        if 0xD800 <= start < 0xE000:
            continue
        known = (chr(c) for c in range(start, start + 0x800) if c != 0x17F)  # the one that differs: a long s
        text = "".join(f"a{c}b1{c} '{c} {c}{c}\nA{c}A" for c in known)
        assert fast._fast.encode(text) == exact.encode(text)


@pytest.mark.parametrize("name", NAMES)
def test_both_engines_agree_on_every_character_beside_others(name: str, tokenizers: Any) -> None:
    """fastokens has its own tables of characters: U+180E was a blank to it, and U+017F no s."""
    contexts = ["{}'s", " {}A", "a{}'ll", "a {}b", "'{}"]
    # Of ideographs, Hangul syllables and the private ones, which are all of one class, every sixteenth.
    alike = (range(0x3400, 0xA000), range(0xAC00, 0xF900), range(0x17000, 0x18D00), range(0x20000, 0x30000))
    characters = [
        chr(c)
        for c in range(0x30000)
        if not 0xD800 <= c <= 0xDFFF and c % (16 if any(c in block for block in alike) else step(c)) == 0
    ]
    for start in range(0, len(characters), 20_000):
        texts = [c.format(x) for x in characters[start : start + 20_000] for c in contexts]
        exact, fast = (tokenizers[name, engine].count_batch(texts) for engine in ENGINES)
        assert [text for text, a, b in zip(texts, exact, fast, strict=True) if a != b] == []


@pytest.mark.parametrize(("name", "engine"), list(itertools.product(NAMES, ENGINES)))
def test_long_texts_are_counted_in_chunks_exactly(
    name: str, engine: str, references: Any, tokenizers: Any
) -> None:
    for text in ("".join(TEXTS), "".join(corpora.mixed(20_000, seed=2)), "\n".join(corpora.LANGUAGES) * 500):
        assert len(text) > 2 * bpe.CHUNK
        expected = references[name].encode_ordinary(text)
        assert tokenizers[name, engine].count(text) == len(expected)
        assert tokenizers[name, engine].encode(text) == expected
        assert tokenizers[name, engine].count_batch([text, "x"]) == [len(expected), 1]


BLANKS = (" ", "\t", "\u00a0", "\n \n ", "  \n", "\u3000 ")
AROUND = (("", ""), ("", "x"), ("!", "!"), ("x", " x"), ("!\n", "\nx"), ("é", "é"), ("", "\n"), ("1", "'s"))


@pytest.mark.parametrize("pattern", sorted(NAMED))
def test_splitting_ourselves_is_what_tiktoken_does(pattern: str) -> None:
    ranks = vocabularies.load("cl100k_base")
    engine = Tiktoken(ranks, BpeSpec("test", "1", NAMED[pattern]))
    runs = [
        before + blank * (length // len(blank)) + after
        for blank, length, (before, after) in itertools.product(BLANKS, (4, 5_000), AROUND)
    ]
    for text in TEXTS + runs:
        assert engine.by_pieces(text) == engine.ordinary(text)


@pytest.mark.parametrize("pattern", sorted(NAMED))
def test_splitting_ourselves_goes_by_the_unicode_tables_of_tiktoken(pattern: str) -> None:
    """The package ``regex`` has newer ones. The last byte of a character is joined to a sign in its piece."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    for byte, sign in itertools.product(range(0x80, 0xC0), b"1aA!\n"):
        ranks[bytes([byte, sign])] = len(ranks)
    engine = Tiktoken(ranks, BpeSpec("test", "1", NAMED[pattern]))
    # Without ideographs and Hangul syllables, which are all of one class.
    blocks = [(0, 0x3400), (0xA000, 0xAC00), (0xF900, 0x10000), (0x10000, 0x17000), (0x18CD0, 0x20000)]
    blocks.append((0xE0000, 0xE0200))
    characters = [chr(c) for block in blocks for c in range(*block, step(block[0]))]
    text = "".join(f"a{c}b1{c} '{c} {c}{c}\nA{c}A{c}1{c}!" for c in characters)
    assert engine.by_pieces(text) == engine.ordinary(text)


@pytest.mark.parametrize("pattern", sorted(NAMED))
def test_a_very_long_piece_is_encoded_as_others_are(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is encoded without the GIL: eight million blanks took five seconds, in which no other thread ran."""
    reads = []
    # A small part is read quickly: the engine reads it once for each long piece.
    ranks = {
        token: rank
        for token, rank in vocabularies.load("cl100k_base").items()
        if rank < 5_000 or token.isspace()
    }

    def read() -> vocabularies.Ranks:
        reads.append(pattern)
        return ranks

    engine = Tiktoken(read(), BpeSpec("test", "1", NAMED[pattern]), read)
    monkeypatch.setattr(engines, "_LONG_PIECE", 50)
    for blank in BLANKS:
        text = f"some words{blank * 60} end"
        assert engine.by_pieces(text) == engine.ordinary(text)
    assert len(reads) > 1


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("name", NAMES)
def test_long_runs_of_blanks_are_counted_on_both_sides_of_the_limit(
    name: str, blank: str, references: Any, tokenizers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 2 * bpe.CHUNK + 1_000  # below it no run is looked for
    monkeypatch.setattr(bpe, "_LONGEST_BLANK_RUN", limit)
    for length in (limit - 10, limit + 10):
        text = "x!" + blank * (length // len(blank)) + "y" + "!?" * 40_000
        expected = len(references[name].encode_ordinary(text))
        assert tokenizers[name, "tiktoken"].count(text) == expected
        assert tokenizers[name, "fast"].count(text) == expected


def hostile(size: int) -> list[str]:
    """Texts of some ``size`` characters that break what counts without care."""
    digests = (hashlib.sha256(b"%d" % n).digest() for n in range(size // 32))
    return [
        *(unit * (size // len(unit)) for unit in ("a", " ", "\n \n ", "\u0301", "<|endoftext|>")),
        "x" + " " * size + "x",
        b"".join(digests).decode("latin-1"),
        "A" * (size // 2) + "\u3000" * size + "\u0301" * (size // 2),
    ]


# What is longer than two chunks and cannot be cut never reaches fastokens.
@pytest.mark.parametrize(("engine", "size"), [("tiktoken", 1_000_000), ("fast", 2 * bpe.CHUNK - 1)])
def test_hostile_texts_are_counted_without_a_word(engine: Engine, size: int) -> None:
    """In a process of its own: a panic would print, and an abort would end it."""
    script = """
import sys
from tests.tokenizers.test_bpe import hostile
from tokenbox.tokenizers import bpe
tokenizer = bpe.baseline("o200k_base", sys.argv[1])
for text in hostile(int(sys.argv[2])):
    print(tokenizer.decode(tokenizer.encode(text)) == text)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, engine, str(size)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["True"] * len(hostile(32))


def test_hostile_counts_are_those_of_their_parts(tokenizers: Any) -> None:
    """Above the length at which tiktoken gives up, against pieces derived by hand from the pattern."""
    tokenizer = tokenizers["o200k_base", "tiktoken"]
    million = " " * 1_000_000
    assert tokenizer.count(million + "x") == tokenizer.count(million[1:]) + tokenizer.count(" x")
    assert tokenizer.count(million + "\nx") == tokenizer.count(million + "\n") + tokenizer.count("x")
    assert tokenizer.count("x" + million + "!") == 1 + tokenizer.count(million[1:]) + tokenizer.count(" !")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "x" * 200_000 + "\udc00", "\ud83d\ude00"])
def test_lone_surrogates_are_refused_by_place(text: str, engine: str, tokenizers: Any) -> None:
    tokenizer = tokenizers["o200k_base", engine]
    place = next(i for i, c in enumerate(text) if c >= "\ud800")
    for count in (tokenizer.count, tokenizer.encode, lambda text: tokenizer.count_batch(["a", text])):
        with pytest.raises(InvalidText, match=f"character {place} "):
            count(text)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [None, 5, b"bytes", ["a"], [b"x"] * 70_000, object()])
def test_what_is_no_text_is_refused(value: Any, engine: str, tokenizers: Any) -> None:
    tokenizer = tokenizers["cl100k_base", engine]
    for count in (tokenizer.count, tokenizer.encode, lambda text: tokenizer.count_batch([text])):
        with pytest.raises(TokenizerError, match="only text"):
            count(value)


@pytest.mark.parametrize("tokens", [[-1], [2**40], [10**7], ["a"], None, "ab", [1.5], [None]])
def test_what_are_no_tokens_is_refused(tokens: Any, tokenizers: Any) -> None:
    with pytest.raises(TokenizerError, match="not token ids"):
        tokenizers["o200k_base", "tiktoken"].decode(tokens)


def test_half_a_character_decodes_to_a_replacement_character(tokenizers: Any) -> None:
    tokenizer = tokenizers["o200k_base", "tiktoken"]
    tokens = tokenizer.encode("\U0001fae8")
    assert len(tokens) > 1
    assert tokenizer.decode(tokens[:1]) == "\ufffd"


@pytest.mark.parametrize("name", NAMES)
def test_the_identity_is_known_without_the_vocabulary_and_follows_from_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = vocabularies.load(name)
    monkeypatch.setattr(vocabularies, "load", lambda _: pytest.fail("the vocabulary was read"))
    identity = bpe.baseline(name).identity
    spec = BASELINES[name]
    assert identity == bpe.from_ranks(ranks, spec, "tiktoken").identity
    assert (identity.name, identity.exact) == (name, True)
    assert fingerprint(bpe.ranks_digest(ranks), BpeSpec("other", "2", spec.pattern, spec.special_tokens)) == (
        identity.fingerprint
    )
    changed = [
        fingerprint("0" * 64, spec),
        fingerprint(bpe.ranks_digest(ranks), BpeSpec(name, "1", spec.pattern + "|.", spec.special_tokens)),
        fingerprint(bpe.ranks_digest(ranks), BpeSpec(name, "1", spec.pattern, {})),
    ]
    assert len({identity.fingerprint, *changed}) == 4


def test_threads_load_once_and_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    ranks = vocabularies.load("cl100k_base")

    def load(name: str) -> dict[bytes, int]:
        loads.append(name)
        return ranks

    monkeypatch.setattr(vocabularies, "load", load)
    tokenizer = bpe.BpeTokenizer(
        BASELINES["cl100k_base"], lambda: vocabularies.load("cl100k_base"), "0" * 64, "tiktoken"
    )
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(tokenizer.count_batch(TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == ["cl100k_base"]
    assert found == [tokenizer.count_batch(TEXTS)] * 4


def test_auto_turns_to_fastokens_when_enough_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "_WORTH_LOADING_FAST", 10_000)
    tokenizer = bpe.baseline("cl100k_base")
    text = TEXTS[12]
    before = tokenizer.count(text[:5_000]), tokenizer.engine
    while tokenizer.engine == "tiktoken":
        tokenizer.count(text)
    assert (tokenizer.count(text[:5_000]), "tiktoken") == before
    assert tokenizer.engine == "fast"


def test_the_batch_that_turns_to_fastokens_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"''S\u180e'b {n}" for n in range(20)]  # which fastokens splits otherwise
    exact = bpe.baseline("cl100k_base", "tiktoken").count_batch(texts)
    monkeypatch.setattr(bpe, "_WORTH_LOADING_FAST", 10)
    tokenizer = bpe.baseline("cl100k_base")
    assert (tokenizer.count_batch(texts), tokenizer.engine) == (exact, "fast")


def test_auto_stays_with_tiktoken_where_fastokens_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "_WORTH_LOADING_FAST", 10)
    monkeypatch.setitem(sys.modules, "fastokens._native", None)
    tokenizer = bpe.baseline("cl100k_base")
    assert [tokenizer.count("hello world, hello") for _ in range(3)] == [4] * 3
    assert tokenizer.engine == "tiktoken"


def test_counting_works_without_tiktokens_core(monkeypatch: pytest.MonkeyPatch, references: Any) -> None:
    ranks = vocabularies.load("cl100k_base")
    real = tiktoken.Encoding

    class Wrapped:
        def __init__(self, *args: Any, **options: Any) -> None:
            self._inner = real(*args, **options)
            self.encode_ordinary = self._inner.encode_ordinary
            self.decode_bytes = self._inner.decode_bytes
            self._encode_single_piece = self._inner._encode_single_piece

    monkeypatch.setattr(tiktoken, "Encoding", Wrapped)
    tokenizer = bpe.from_ranks(ranks, BASELINES["cl100k_base"], "tiktoken")
    for text in TEXTS:
        assert tokenizer.encode(text) == references["cl100k_base"].encode_ordinary(text)
    assert tokenizer.count(" " * 1_000_000) == 7813
    with pytest.raises(InvalidText):
        tokenizer.count("\ud800")


def test_a_pattern_that_is_none_is_refused() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    with pytest.raises(VocabularyError, match="cannot use"):
        bpe.from_ranks(ranks, BpeSpec("test", "1", "(("), "tiktoken")
    with pytest.raises(TokenizerError, match="no engine"):
        bpe.from_ranks(ranks, BpeSpec("test", "1", "."), "quick")  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", sorted(NAMED))
def test_the_proven_cuts_add_up(pattern: str) -> None:
    where = cutting(NAMED[pattern])
    assert where.proven
    engine = Tiktoken(vocabularies.load("cl100k_base"), BpeSpec("test", "1", NAMED[pattern]))
    cuts = 0
    for text in TEXTS + corpora.mixed(2_000, seed=3):
        chunks = list(where.chunks(text, 1))
        assert "".join(chunks) == text
        assert [token for chunk in chunks for token in engine.ordinary(chunk)] == engine.ordinary(text)
        cuts += len(chunks) - 1
    assert cuts > 10_000


def test_cuts_rely_on_no_letter_that_is_younger_than_the_engines() -> None:
    letters = re.findall(LETTER, "".join(map(chr, range(sys.maxunicode + 1))))
    assert len(letters) > 40_000
    # In Unicode 3.2 of 2002 already, but for what 4 and 5 added to these blocks.
    old = [c for c in letters if unicodedata.ucd_3_2_0.category(c)[0] in "LN"]
    assert {unicodedata.category(c)[0] for c in letters} == {"L", "N"}
    assert len(letters) - len(old) < 200


def test_an_unknown_pattern_has_no_proven_cuts() -> None:
    where = cutting(r"\w+|\W+")
    assert not where.proven
    assert list(where.chunks("a b\nc" * 10, 1)) == ["a b\nc" * 10]


def test_a_server_loads_everything_before_it_counts() -> None:
    tokenizer = bpe.baseline("o200k_base", "auto")
    tokenizer.load_fast()
    assert tokenizer.engine == "fast"
    assert tokenizer.count("Hello, world!") == 4
    assert bpe.baseline("o200k_base", "tiktoken").engine == "tiktoken"


def test_who_knows_how_much_will_be_counted_has_one_engine_from_the_start() -> None:
    little = bpe.baseline("o200k_base", "auto")
    little.expect(40_000_000)
    for _ in range(2):
        little._counted(30_000_000)  # as if so many had been
    assert little.engine == "tiktoken"
    much = bpe.baseline("o200k_base", "auto")
    much.expect(400_000_000)
    assert much.engine == "tiktoken"  # nothing is loaded for counts that a cache has
    assert much.count("Hello, world!") == little.count("Hello, world!") == 4
    assert much.engine == "fast"
    plain = bpe.baseline("o200k_base", "tiktoken")
    plain.expect(400_000_000)
    assert plain.engine == "tiktoken"


def test_an_encoding_of_a_known_name_and_another_pattern_is_its_own() -> None:
    known: Any = tiktoken.Encoding(
        "cl100k_base",
        pat_str=r"\w|\W",
        mergeable_ranks=vocabularies.load("cl100k_base"),
        special_tokens={f"<{n}>": 100_256 + n for n in range(21)},
    )
    assert known.n_vocab == 100_277
    assert as_tokenizer(known).count("hello world") == 11


class Unnamed:
    def encode_ordinary(self, text: str) -> list[int]:
        return [0] * len(text)


def test_objects_of_libraries_count_no_lone_surrogate() -> None:
    unnamed: Any = Unnamed()
    assert as_tokenizer(unnamed).count("abc") == 3
    with pytest.raises(TokenizerError):
        as_tokenizer(unnamed).count("a\ud800")
