"""Packs without a query: do they have the most mentioned definitions, and what are the tokens spent on?

    python bench/selection/unasked.py CLONES [--only NAME,NAME] [--commit HEAD]

For each clone, at 8,000 and 32,000 tokens: how many of the ten most mentioned definitions have their
signature in the pack, the share of tokens that is content of files (not the tree, not markup), and how much
of the budget is used. A definition counts if one source file alone defines it, by syntax tree; a mention is
a source file that has its name as a word.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from mine import clones
from trees import files_of, source_of

from tests.compose.independent import encoding
from tokenbox.content.blocks import CodeBlock, DocumentBlock
from tokenbox.content.lenses.definitions import definitions
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.folder import PackOptions, pack_source
from tokenbox.folder.pieces import works
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from tokenbox.folder import Source

BUDGETS = 8_000, 32_000
WANTED = 10
_SHORTEST = 4


def most_mentioned(source: Source) -> list[tuple[str, str]]:
    """The names that most source files mention, each with the line that its definition begins at."""
    mentions: Counter[str] = Counter()
    lines: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for file in source.files:
        if file.text is None or file.prior.name != "source":
            continue
        text = file.text.decode()
        mentions.update(set(re.findall(r"\w+", text)))
        if file.kind.outline is not None and works(file.kind.outline):
            waiting = list(definitions(file.text, BY_NAME[file.kind.outline]))
            while waiting:
                one = waiting.pop()
                waiting += one.inside
                begin = file.text.rfind(b"\n", 0, one.start) + 1
                end = file.text.find(b"\n", one.start)
                line = file.text[begin : end if end >= 0 else None].decode().strip()
                if one.name and len(one.name) >= _SHORTEST and one.name in line:
                    lines[one.name].add((file.name, line))
    alone = [(name, *found) for name, found in lines.items() if len(found) == 1]
    alone.sort(key=lambda one: (-mentions[one[0]], one[0]))
    return [(name, line) for name, (_, line) in alone[:WANTED]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--only", default="", help="names of clones, separated by commas")
    parser.add_argument("--commit", default="HEAD")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    counter, cache, judge = registry.get("o200k_base"), CountCache(), encoding("o200k_base")
    print("repository, files, tokens of source; at 8,000 and 32,000: signatures, content, used")
    for clone in clones(options.clones):
        name = str(clone.relative_to(options.clones)).removesuffix("/.git").removesuffix("/repo")
        if only and name not in only:
            continue
        source = source_of(files_of(clone, options.commit))
        wanted = most_mentioned(source)
        size = sum(len(file.text or b"") for file in source.files if file.prior.name == "source") // 4
        row = []
        for budget in BUDGETS:
            pack = pack_source(source, counter, budget, options=PackOptions(), cache=cache)
            total = len(judge.encode_ordinary(pack.text))
            if total > budget:
                raise SystemExit(f"over {budget} in {name}")
            content = 0
            for block in pack.blocks:
                if isinstance(block, CodeBlock | DocumentBlock):
                    shown = block.content.decode() if block.summary is None else block.summary
                    content += len(judge.encode_ordinary(shown))
            # A signature may be cut after its parameters.
            found = sum(line.rstrip("{: ").split("(")[0].strip() in pack.text for _, line in wanted)
            row.append(f"{found} of {len(wanted)}, {content / total:.1%}, {total / budget:.1%}")
        print(f"{name}: {len(source.files):,}, ~{size:,}; {'; '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
