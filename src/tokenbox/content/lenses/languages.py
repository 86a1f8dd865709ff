"""The table of languages for outlines and pieces: the grammar of each, and how to recognize its source.

Languages without a grammar here are read by the beginnings of their lines (``heads``).

Each grammar is a separate package that includes the compiled grammar; ``tree-sitter-language-pack`` would
download grammars at run time. Bash is missing: tree-sitter-bash 0.25.1 reads out of bounds on unusual text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenbox.content.lenses.heads import BRACES, HEADS, QUERIES, STATEMENTS, Heads


@dataclass(frozen=True, slots=True, eq=False)  # a row of the table below: the same one is equal
class Language:
    """One language. ``module`` and ``factory`` name the grammar, if it is read with one, or else ``heads``.

    ``signs``: patterns of typical source; the language is recognized if at least two match.
    ``comment``: the comment marker with which an outline shows the documentation of a definition.
    ``is_script_in_page``: only the text in ``<script>`` is source. ``has_slow_angles``: its parser takes
    quadratic time on angle brackets that nothing closes. ``has_prototypes``: functions are declared before
    they are defined, and have one name each. ``otherwise``: how a file is read in which the grammar finds no
    definitions, ``on_errors``: how the parts are read that it does not understand, or all of a file if
    those are most of it; None: they are not.
    """

    name: str
    module: str = ""
    signs: tuple[re.Pattern[str], ...] = ()
    aliases: tuple[str, ...] = ()
    factory: str = "language"
    docstrings: bool = False
    comment: str = "//"
    has_slow_angles: bool = False
    is_script_in_page: bool = False
    has_prototypes: bool = False
    heads: Heads | None = None
    otherwise: Heads | None = None
    on_errors: Heads | None = BRACES

    @property
    def modules(self) -> tuple[str, ...]:
        """The packages that it is read with."""
        return ("tree_sitter", self.module) if self.module else ()


_HEADS = {heads.name: heads for heads in HEADS}


def _signs(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


_JAVASCRIPT_SIGNS = (
    r"^(?:import|export) .*\bfrom ['\"]",
    r"^(?:export (?:default )?)?(?:async )?function\*? ?\w*\(",
    r"^(?:const|let|var) [\w{}, ]+ = (?:await |require\(|async |\(|function\b)",
    r"^(?:export (?:default )?)?class \w+(?: extends [\w.]+)? \{",
    r"^module\.exports\b",
    r"=> \{$",
)

LANGUAGES = (
    Language(
        "python",
        "tree_sitter_python",
        _signs(
            r"\A#!.*\bpython",
            r"^(?:from [\w.]+ )?import [\w.*, ()]+$",
            r"^ *(?:async )?def \w+\(.*(?:\)|,|\()(?: -> .*)?:?$",
            r"^class \w+(?:\(.*\))?:$",
            r"^if __name__ == ",
            r"^ +self\.\w+ = ",
        ),
        aliases=("py",),
        docstrings=True,
        comment="#",
        on_errors=_HEADS["other"],
    ),
    Language(
        "javascript",
        "tree_sitter_javascript",
        _signs(r"\A#!.*\bnode", *_JAVASCRIPT_SIGNS),
        aliases=("js", "jsx", "mjs"),
    ),
    Language(
        "typescript",
        "tree_sitter_typescript",
        _signs(
            r"^(?:export )?(?:declare )?interface \w+.* \{",
            r"^(?:export )?type \w+(?:<.*>)? = ",
            r"^import type ",
            r"\w\??: (?:string|number|boolean|void|unknown|any)\b[\[\]]*[,;)=| {]",
            r"^ +(?:private|public|protected|readonly) \w+",
            *_JAVASCRIPT_SIGNS[:4],
        ),
        aliases=("ts", "mts"),
        factory="language_typescript",
    ),
    # Vue and Svelte.
    Language(
        "vue",
        "tree_sitter_typescript",
        (),
        ("svelte",),
        "language_typescript",
        is_script_in_page=True,
        on_errors=None,
    ),
    Language("tsx", "tree_sitter_typescript", factory="language_tsx"),
    Language(
        "go",
        "tree_sitter_go",
        _signs(
            r"^package \w+$",
            r"^func (?:\(.*\) )?\w+\(",
            r"^import (?:\($|\")",
            r"^type \w+ (?:struct|interface) \{",
        ),
        aliases=("golang",),
    ),
    Language(
        "rust",
        "tree_sitter_rust",
        _signs(
            r"^[ \t]*(?:pub(?:\(\w+\))? )?(?:const |async |unsafe )*fn \w+.*(?:\{|\(|,|->.*)$",
            r"^(?:pub )?use [\w:]+(?:::|;)",
            r"^impl(?:<.*>)? .*\{$",
            r"^(?:pub(?:\(\w+\))? )?(?:struct|enum|trait) \w+.*[{;]$",
            r"^[ \t]*#!?\[\w+",
            r"\blet mut \w+",
        ),
        aliases=("rs",),
    ),
    Language(
        "java",
        "tree_sitter_java",
        _signs(
            r"^package [\w.]+;$",
            r"^import (?:static )?[\w.]+(?:\.\*)?;$",
            r"^(?:public |final |abstract )*(?:class|interface|record|enum) \w+.*\{$",
            r"^[ \t]+(?:public|private|protected) (?:static )?(?:final )?[\w<>\[\], ]+ \w+\(",
        ),
    ),
    Language(
        "c",
        "tree_sitter_c",
        _signs(
            r"^#\s*include [<\"][\w/.]+\.h[>\"]",
            r"^#\s*(?:define|ifdef|ifndef) \w+",
            r"^(?:static |inline |const |unsigned )*(?:int|void|char|size_t|struct \w+|double|bool) "
            r"\*?\w+\(.*[){,;]$",
            r"^(?:typedef )?(?:struct|enum|union)(?: \w+)? \{$",
        ),
        aliases=("h",),
        has_prototypes=True,
    ),
    Language(
        "cpp",
        "tree_sitter_cpp",
        _signs(
            r"^#\s*include <[a-z_]+>",
            r"^(?:inline )?namespace\b.*\{",
            r"^template ?<",
            r"\bstd::\w+",
            r"^class \w+(?: final)?(?: : .*)?(?: \{|;)?$",
            r"^ *(?:public|private|protected):$",
        ),
        aliases=("c++", "cc", "hpp"),
    ),
    Language(
        "ruby",
        "tree_sitter_ruby",
        _signs(
            r"\A#!.*\bruby",
            r"^require(?:_relative)? ['\"]",
            r"^ *(?:class|module) [A-Z][\w:]*(?: < [\w:]+)?$",
            r"^ *def (?:self\.)?\w+[?!=]?(?:\(.*\))?$(?s:.*)^ *end$",
            r"^ *attr_(?:reader|writer|accessor) :",
        ),
        aliases=("rb",),
        comment="#",
        on_errors=_HEADS["other"],
    ),
    # Recognized only by file name: their typical source looks like that of another language.
    Language("csharp", "tree_sitter_c_sharp", aliases=("cs", "c#"), has_slow_angles=True),
    Language("php", "tree_sitter_php", factory="language_php"),
    Language("swift", "tree_sitter_swift"),
    Language("kotlin", "tree_sitter_kotlin", aliases=("kt", "kts")),
    Language("scala", "tree_sitter_scala", aliases=("sc",)),
    Language("lua", "tree_sitter_lua", comment="--", on_errors=_HEADS["other"]),
    Language("css", "tree_sitter_css", on_errors=_HEADS["sass"]),
    Language("sql", "tree_sitter_sql", comment="--", otherwise=QUERIES, on_errors=STATEMENTS),
    *(Language(heads.name, comment=heads.comment, heads=heads) for heads in HEADS),
)
BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}
