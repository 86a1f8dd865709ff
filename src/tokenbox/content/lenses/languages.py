"""What an outline shows of each language: grammar, queries, and how a language is recognized. Data.

A query captures ``@def`` (what has a signature), ``@body`` (what is left out), ``@inner`` instead of it where
the body is looked into (a class), ``@comment``, and ``@skip`` (what may stand between a comment and what it
documents).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """One language.

    ``module`` and ``factory`` name the grammar; ``wrappers`` are nodes a signature begins with.
    ``signs``: patterns of which at least two must be found for text to be taken for this language.
    """

    name: str
    module: str
    query: str
    signs: tuple[re.Pattern[str], ...]
    wrappers: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    factory: str = "language"
    docstrings: bool = False


def _signs(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


_JAVASCRIPT_QUERY = """
(function_declaration body: (_) @body) @def
(generator_function_declaration body: (_) @body) @def
(class_declaration body: (_) @inner) @def
(method_definition body: (_) @body) @def
(lexical_declaration (variable_declarator value: (arrow_function body: (_) @body))) @def
(lexical_declaration (variable_declarator value: (function_expression body: (_) @body))) @def
(comment) @comment
"""

_TYPESCRIPT_QUERY = (
    _JAVASCRIPT_QUERY
    + """
(abstract_class_declaration body: (_) @inner) @def
(interface_declaration body: (_) @inner) @def
(internal_module body: (_) @inner) @def
(enum_declaration body: (_) @body) @def
(type_alias_declaration value: (_) @body) @def
(method_signature) @def
(abstract_method_signature) @def
(function_signature) @def
(decorator) @skip
"""
)

_C_QUERY = """
(function_definition body: (_) @body) @def
(declaration declarator: (function_declarator)) @def
(declaration declarator: (pointer_declarator (function_declarator))) @def
(struct_specifier name: (_) body: (_) @body) @def
(union_specifier name: (_) body: (_) @body) @def
(enum_specifier name: (_) body: (_) @body) @def
(comment) @comment
"""

_CPP_QUERY = """
(function_definition body: (_) @body) @def
(declaration declarator: (function_declarator)) @def
(field_declaration declarator: (function_declarator)) @def
(class_specifier name: (_) body: (_) @inner) @def
(struct_specifier name: (_) body: (_) @inner) @def
(namespace_definition body: (_) @inner) @def
(enum_specifier name: (_) body: (_) @body) @def
(comment) @comment
"""

_JAVASCRIPT_SIGNS = (
    r"^(?:import|export) .*\bfrom ['\"]",
    r"^(?:export (?:default )?)?(?:async )?function\*? ?\w*\(",
    r"^(?:const|let|var) [\w{}, ]+ = (?:await |require\(|async |\(|function\b)",
    r"^(?:export (?:default )?)?class \w+(?: extends [\w.]+)? \{",
    r"^module\.exports\b",
    r"=> \{$",
)
_SCOPES = frozenset({"export_statement", "ambient_declaration"})

LANGUAGES = (
    Language(
        "python",
        "tree_sitter_python",
        """
        (function_definition body: (_) @body) @def
        (class_definition body: (_) @inner) @def
        """,
        _signs(
            r"\A#!.*\bpython",
            r"^(?:from [\w.]+ )?import [\w.*, ()]+$",
            r"^ *(?:async )?def \w+\(.*(?:\)|,|\()(?: -> .*)?:?$",
            r"^class \w+(?:\(.*\))?:$",
            r"^if __name__ == ",
            r"^ +self\.\w+ = ",
        ),
        wrappers=frozenset({"decorated_definition"}),
        aliases=("py",),
        docstrings=True,
    ),
    Language(
        "javascript",
        "tree_sitter_javascript",
        _JAVASCRIPT_QUERY,
        _signs(r"\A#!.*\bnode", *_JAVASCRIPT_SIGNS),
        wrappers=_SCOPES,
        aliases=("js", "jsx", "mjs"),
    ),
    Language(
        "typescript",
        "tree_sitter_typescript",
        _TYPESCRIPT_QUERY,
        _signs(
            r"^(?:export )?(?:declare )?interface \w+.* \{",
            r"^(?:export )?type \w+(?:<.*>)? = ",
            r"^import type ",
            r"\w\??: (?:string|number|boolean|void|unknown|any)\b[\[\]]*[,;)=| {]",
            r"^ +(?:private|public|protected|readonly) \w+",
            *_JAVASCRIPT_SIGNS[:4],
        ),
        wrappers=_SCOPES,
        aliases=("ts", "mts"),
        factory="language_typescript",
    ),
    Language(
        "tsx",
        "tree_sitter_typescript",
        _TYPESCRIPT_QUERY,
        (),
        wrappers=_SCOPES,
        factory="language_tsx",
    ),
    Language(
        "go",
        "tree_sitter_go",
        """
        (function_declaration body: (_) @body) @def
        (method_declaration body: (_) @body) @def
        (type_declaration (type_spec type: (struct_type (field_declaration_list) @body))) @def
        (type_declaration (type_spec type: (interface_type))) @def
        (comment) @comment
        """,
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
        """
        (function_item body: (_) @body) @def
        (function_signature_item) @def
        (struct_item body: (_) @body) @def
        (enum_item body: (_) @body) @def
        (union_item body: (_) @body) @def
        (trait_item body: (_) @inner) @def
        (impl_item body: (_) @inner) @def
        (mod_item body: (_) @inner) @def
        (macro_definition name: (_) . (_) @body) @def
        (line_comment) @comment
        (block_comment) @comment
        (attribute_item) @skip
        """,
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
        """
        (class_declaration body: (_) @inner) @def
        (interface_declaration body: (_) @inner) @def
        (record_declaration body: (_) @inner) @def
        (enum_declaration body: (_) @body) @def
        (method_declaration body: (_) @body) @def
        (method_declaration !body) @def
        (constructor_declaration body: (_) @body) @def
        (line_comment) @comment
        (block_comment) @comment
        """,
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
        _C_QUERY,
        _signs(
            r"^#\s*include [<\"][\w/.]+\.h[>\"]",
            r"^#\s*(?:define|ifdef|ifndef) \w+",
            r"^(?:static |inline |const |unsigned )*(?:int|void|char|size_t|struct \w+|double|bool) "
            r"\*?\w+\(.*[){,;]$",
            r"^(?:typedef )?(?:struct|enum|union)(?: \w+)? \{$",
        ),
        wrappers=frozenset({"type_definition"}),
        aliases=("h",),
    ),
    Language(
        "cpp",
        "tree_sitter_cpp",
        _CPP_QUERY,
        _signs(
            r"^#\s*include <[a-z_]+>",
            r"^(?:inline )?namespace\b.*\{",
            r"^template ?<",
            r"\bstd::\w+",
            r"^class \w+(?: final)?(?: : .*)?(?: \{|;)?$",
            r"^ *(?:public|private|protected):$",
        ),
        wrappers=frozenset({"template_declaration"}),
        aliases=("c++", "cc", "hpp"),
    ),
    Language(
        "ruby",
        "tree_sitter_ruby",
        """
        (class name: (_) . (superclass)? body: (_) @inner) @def
        (module body: (_) @inner) @def
        (method body: (_) @body) @def
        (singleton_method body: (_) @body) @def
        (comment) @comment
        """,
        _signs(
            r"\A#!.*\bruby",
            r"^require(?:_relative)? ['\"]",
            r"^ *(?:class|module) [A-Z][\w:]*(?: < [\w:]+)?$",
            r"^ *def (?:self\.)?\w+[?!=]?(?:\(.*\))?$(?s:.*)^ *end$",
            r"^ *attr_(?:reader|writer|accessor) :",
        ),
        aliases=("rb",),
    ),
)
