"""How definitions begin in languages that are read without a grammar. Data.

A *head* is the line on which a definition begins. Each pattern is searched at the beginning of a line, after
its blanks, and its groups catch the name. Patterns are for google-re2, so reading is linear in the source.
"""

# ruff: noqa: E501  # a pattern is read best in one line
from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)  # a row of the table below: the same one is equal
class Heads:
    """The heads of one language.

    ``types``: of definitions that contain definitions; one without any is shown in full in an outline, as
    far as it is short, and so is one of ``wholes``. ``others``: of functions, constants and the like; nothing in them is a definition.
    One without a name only begins a piece.
    ``clauses``: several neighbouring heads of one name are one definition. ``spans_lines``: a signature
    continues until its parentheses are closed. ``specifications``: heads whose signature is also all lines
    below that are indented deeper. ``wholes``: types that an outline shows in full as far as they are short, with
    what is defined in them. ``ends``: the marks that end a signature, which continues on deeper lines up to one.
    ``calls``: types are made by calls, whose arguments are their members.
    ``arguments``: a line below the head that names the arguments. ``note_below``: the mark of documentation below
    a head. ``imports``: heads that only name what is defined elsewhere. ``unnamed``: heads of a
    namespace or a field, whose names mean nothing elsewhere. ``comment``: the mark of a comment, and the
    mark that ends it, if one does.
    """

    name: str
    suffixes: str
    types: str = ""
    others: str = ""
    comment: str = "//"
    clauses: bool = False
    spans_lines: bool = True
    calls: bool = False
    specifications: str = ""
    wholes: str = ""
    ends: re.Pattern[bytes] | None = None
    arguments: re.Pattern[bytes] | None = None
    note_below: bytes | None = None
    imports: re.Pattern[bytes] | None = None
    unnamed: re.Pattern[bytes] | None = None


_BRACE = re.compile(rb"[{;=]")
_MODULE = re.compile(rb"(?:bare)?module\b")
_ACCESS = (
    r"(?:(?:export|default|declare|public(?:\([a-z]+\))?|private|protected|internal|pub|global|static|final|abstract|async|sealed"
    "|open|override|virtual|inline|const|unsafe|extern|partial|local|readonly|late|external|factory|base|entry|native"
    "|pure|elemental|recursive|impure|noinline|comptime|lazy|covariant|shared|immutable|resource|remote|isolated"
    "|(?:with|without|inherited) sharing) +)*"
)
# A declaration of C's family: a type, a name and a parenthesis. Calls in bodies are no heads of their own.
_TYPED = (
    _ACCESS
    + r"(?:[A-Za-z_][\w.]*(?:<[^()=\n]*>)?(?:\[\])?[?*&]* [*&]*)+(?:get |set )?([A-Za-z_]\w*)(?:<[^()=\n]*>)? ?\("
)
_CONSTRUCTOR = _ACCESS + r"([A-Z]\w*(?:\.\w+)?)\("
_FIELD = (
    r"(?:(?:static|final|const|late|public|private|protected|var|val) +)+(?:[\w.<>?,\[\] ]+ )?(\w+)(?:;| = )"
)
_CLASS = (
    _ACCESS + "(?:class|struct|interface|trait|enum(?: class)?|union|record|mixin|extension(?: type)?|actor"
    r"|protocol|namespace|object|contract|library|impl|concept|annotation|service|message|component) ([\w.:]+)"
)
_WORDS = (
    _ACCESS
    + "(?:def|fn|fun|func|function|proc|procedure|sub|subroutine|method|macro|task|rule|predicate|event"
    r"|template|iterator|constructor|type|typealias|typedef|alias|let|const|val|var) ([\w.:!?'-]+)"
)
# Coq: its modifiers, and what begins a statement that has no body.
_COQ = "(?:(?:Local|Global|Program) )*"
_STATEMENTS = (
    "Theorem|Lemma|Corollary|Proposition|Remark|Fact|Axiom|Parameter|Hypothesis|Variable|(?:Co)?Inductive|Variant"
    "|Record|Structure|Class"
)

HEADS = (
    # Any language without an entry of its own: the words that most languages define names by.
    Heads(
        "other",
        "",
        rf"{_CLASS}|(?:module|package|model|schema|table|class_name) ([\w.:]+)",
        rf"(?:@\w+(?:\([^)\n]*\))? +)*(?:{_WORDS}|signal (\w+))",
    ),
    Heads(
        "zig",
        "zig",
        r"(?:pub )?const (\w+) = (?:extern |packed )?(?:struct|enum|union|opaque|error)\b"
        r"|(\w+): (?:extern |packed )?(?:struct|enum|union)\b"
        r"|(?:pub )?fn ([A-Z]\w*)\([^\n]*\) type \{",
        r'(?:pub |export |inline |noinline |extern |"\w+" )*fn (\w+)|(?:pub |export |threadlocal )*(?:const|var) (\w+)'
        r'|test "([^"\n]+)"|comptime \{|(\w+): [^=\n]',
        imports=re.compile(rb"const \w+ = (?:@import\([^\n]*|@This\(\)|[a-z_]\w*(?:\.\w+)*);"),
        unnamed=re.compile(rb"\w+:"),
    ),
    Heads(
        "gleam",
        "gleam",
        r"(?:pub )?(?:opaque )?type (\w+)",
        r"(?:pub )?(?:fn|const) (\w+)",
        ends=_BRACE,
        imports=re.compile(rb"type \w+(?: as \w+)?,"),
    ),
    Heads("typst", "typ", others=r"#let ([\w-]+)"),
    Heads(
        "gdscript",
        "gd",
        r"(?:class|enum) (\w+)|enum \{",
        r"(?:class_name|signal) (\w+)|(?:static )?func (\w+)"
        r"|(?:@\w+(?:\([^)\n]*\))? +)*(?:static )?(?:var|const) (\w+)",
        "#",
        arguments=re.compile(rb"extends\b"),
    ),
    Heads(
        "elixir",
        "ex exs heex",
        r"def(?:module|protocol|impl) ([\w.]+)|describe \"([^\"\n]+)\"|@(?:type|typep|opaque) (\w+)"
        r"|def(?:struct|exception)\b|(?:embedded_)?schema(?: \"([^\"\n]+)\")? do$"
        r"|(?:scope|pipeline|object|input_object) [:\"]([\w/.:-]+)[^\n]* do$",
        r"def(?:p|macro|macrop|guard|guardp|delegate|n|np)? (\w+[?!]?)"
        r"|@(?:callback|macrocallback) (\w+)|test \"([^\"\n]+)\"",
        "#",
        clauses=True,
        specifications="@(?:callback|macrocallback)\\b",
    ),
    Heads(
        "haskell",
        "hs hsc purs hs-boot",
        r"(?:data|newtype|type|class|instance)(?: family| instance)? (?:[^=>\n]*=> *)?(\w+)|module ([\w.]+)",
        r"(?:foreign import .* )?([a-z_]\w*'*)(?:, *\w+'*)* +::|\(([^\w\s()]+)\) +::|pattern (\w+)"
        r"|([a-z]\w*'*)(?: [^=|:\n]*)? = ",
        "--",
        clauses=True,
        specifications=r"(?:foreign import .* )?(?:[\w', ]+|\([^\w\s()]+\)) +::",
        wholes="data |newtype ",
        unnamed=_MODULE,
    ),
    Heads(
        "agda",
        "agda lagda idr lidr",
        r"(?:(?:public )?export )?(?:data|record|interface) ([^\s(){};:]+)|(?:module|namespace) ([\w.]+)",
        r"(?:(?:(?:public )?export|total|partial|covering) )*([^\s(){}.;:\"@|%-][^\s(){};:\"]*)(?: +\S+)* +: |pattern (\S+)",
        "--",
        clauses=True,
        specifications=r"\S+(?: +\S+)* +: ",
        wholes="(?:(?:public )?export )?(?:data|record) ",
        unnamed=_MODULE,
    ),
    Heads(
        "elm",
        "elm",
        r"type (?:alias )?(\w+)",
        r"(?:port )?([a-z]\w*) :|([a-z]\w*)(?: [^=\n]*)? =$",
        "--",
        clauses=True,
        specifications=r"(?:port )?\w+ :",
    ),
    Heads(
        "ocaml",
        "ml mli mll mly eliom re rei res resi",
        r"(?:and )?module (?:type |rec )*(\w+)|class (?:virtual |type )*(\w+)"
        r"|type (?:nonrec )?(?:[+-]?'\w+ |\([^)\n]*\) )?(\w+)",
        r"(?:let|and)(?: rec| nonrec)?(?:%\w+)? (\w+'*)|let\b|(?:val|external|method!?|exception) (?:mutable |private )*(\w+)"
        r"|and (?:[+-]?'\w+ |\([^)\n]*\) )?(\w+)",
        "(* *)",
        specifications=r"(?:val|external)\b",
        ends=re.compile(rb"=[ \t]*(?:[^\s(]|\(\*|\r?\n)"),
    ),
    Heads(
        "fsharp",
        "fs fsi fsx",
        r"module (?:rec |internal |private |public )*([\w.]+) *=|(?:type|and) (?:private |internal |public )*(\w+)"
        r"|interface [\w.]+(?:<[^\n]*>)? with\b",
        r"let (?:rec |inline |private |internal |mutable )*\(?([\w|]+|[!$%&*+./<=>?@^|~-]+)|exception (\w+)"
        r"|(?:static |abstract |override |default )*(?:member|val|override|abstract|new)"
        r"(?: inline| private| internal| val)* (?:\w+\.)?(\w+)",
        ends=re.compile(rb"=|^[^(<]*:"),
    ),
    Heads(
        "lisp",
        "clj cljs cljc bb el lisp lsp cl scm ss rkt sld fnl janet hy",
        others=r"\((?:[\w.-]+/)?(?:cl-)?(?:define|def)[\w*/!-]* (?:\^\S+ |\^\{[^}\n]*\} )*\(*([^\s()\[\]{}\"]+)"
        r"|\((?:ns|in-package|use-package|library|module|transient-define-\w+) [:']?([^\s()]+)",
        comment=";",
        arguments=re.compile(rb"\s+\(?\["),
        spans_lines=False,
        unnamed=re.compile(rb"\((?:ns|in-package|use-package)\b"),
    ),
    Heads(
        "erlang",
        "erl hrl escript xrl yrl",
        others=r"-(?:spec|callback|type|opaque|record|define)[ (]+(\w+)|([a-z]\w*)\(",
        comment="%",
        clauses=True,
        specifications="-(?:spec|callback|type|opaque)\\b",
    ),
    Heads(
        "nim",
        "nim nims",
        r"(\w+)\*?(?:\[[^\]\n]*\])? *(?:\{\.[^}\n]*\.\} *)?= *(?:ref |ptr )?(?:object|enum|tuple|concept)\b",
        r"(?:proc|func|method|template|macro|iterator|converter) `?([^\s`*(\[:{]+)|(?:suite|test) \"([^\"\n]+)\""
        r"|(?:const |let |var )?(\w+)\*(?: *\{\.[^}\n]*\.\})?(?: *: [^=\n]+)? = ",
        "#",
        note_below=b"##",
    ),
    Heads(
        "fortran",
        "f90 f95 f03 f08 f for fpp ftn",
        r"(?i:(?:module|submodule *\([^)\n]*\)|program|interface|type(?:, *[\w(), ]+)? *(?:::)?) +(\w+))",
        r"(?i:(?:(?:pure|elemental|impure|recursive|module|integer|real|logical|character|complex|double precision"
        r"|type|class)(?: *\([^)\n]*\))? +)*(?:subroutine|function) +(\w+))"
        r"|(?i:(?:integer|real|logical|character|complex|type)(?: *\([^)\n]*\))?[^:!\n]*, *parameter\b[^:\n]*:: *(\w+))",
        "!",
    ),
    Heads(
        "crystal",
        "cr",
        r"(?:(?:abstract|private) )*(?:class|struct|module|enum|lib|annotation|union) ([\w:]+)",
        r"(?:(?:abstract|private|protected) )*(?:def|macro|fun|alias) ([\w.?!:=]+)"
        r"|(?:private |protected )?(?:class_)?(?:property|getter|setter|record)[?!]? @?(\w+)|([A-Z][A-Z0-9_]*) = "
        r"|(?:describe|context|it) \"([^\"\n]+)\"",
        "#",
    ),
    Heads(
        "solidity",
        "sol",
        r"(?:abstract )?(?:contract|interface|library|struct|enum) (\w+)",
        r"(?:function|modifier|event|error|type) (\w+)|(constructor|receive|fallback) *\("
        r"|(?:mapping *\([^\n]*\)|[\w.]+)(?:\[\w*\])*"
        r"(?: (?:public|private|internal|immutable|constant|override|payable|transient))* (\w+)(?:;| = )",
        ends=_BRACE,
    ),
    Heads(
        "verilog",  # and Coq and V, which use its suffix
        "v sv svh vh svi",
        r"(?:virtual )?(?:module|interface|package|class|program|checker)(?: automatic| static)? (\w+)"
        r"|(?:pub )?(?:struct|enum|interface) (\w+)",
        r"(?:(?:virtual|static|local|protected|extern|pure|automatic|import|export|\"DPI-C\") )*"
        r"(?:function|task)(?: automatic| static)?(?: [\w:\[\]$-]+)*? (?:\w+::)?(\w+) *[(;]"
        r"|(?:property|sequence|covergroup|clocking) (\w+)|(typedef) (?:enum|struct|union)\b"
        r"|(?:pub )?fn (?:\([^)\n]*\) )?(\w+)"
        rf"|{_COQ}(?:{_STATEMENTS}|Definition|Fixpoint|Function|Example|Instance|Notation|Ltac|Module|Section) ([\w']+)",
        specifications=rf"{_COQ}(?:{_STATEMENTS}) ",
        ends=re.compile(rb"\{\s*$|;|:=|\.\s*$"),
    ),
    Heads(
        "vhdl",
        "vhd vhdl",
        r"(?i:(?:entity|architecture|package(?: body)?|component|configuration) (\w+)|context (\w+) is\b)",
        r"(?i:(?:(\w+) *: *)?process\b|(?:pure |impure )?(?:function|procedure) (\w+)|(?:type|subtype) (\w+))",
        "--",
    ),
    Heads(
        "r",
        "r",
        r"([\w.]+) *(?:<-|=) *(?:R6::|S7::)?(?:R6Class|setRefClass|ggproto|new_class)\("
        r"|(?:public|private|active|methods) *= *list\(",
        r"([\w.]+|`[^`\n]+`) *(?:<<?-|=) *(?:function\b|\\\()|set(?:Generic|Method|Class|Validity)\([\"'](\w+)"
        r"|(?:test_that|describe|it)\([\"']([^\"'\n]+)|([\w.]+) <- ",
        "#",
        calls=True,
    ),
    Heads(
        "perl",  # and Prolog, which uses a suffix of Perl
        "pl pm t psgi raku rakumod pm6 nqp pro plt prolog",
        r"(?:class|role|grammar) ([\w:]+)",
        r"(?:multi |my |method |async )?(?:sub|method|token|rule) (\w+)|package ([\w:]+)"
        r"|(?:has|around|before|after|override) (?:\[ *qw[(/{] *(\w+)|\(?[\"']?(\w+)[\"']? *(?:=>|,))|subtest [\"']([^\"'\n]+)"
        r"|:- *module\((\w+)|([a-z]\w*)(?:(?:\([^\n]*\))? *:-[^\n]*|\([^\n]*\)\.) *\r?$",
        "#",
        clauses=True,
        arguments=re.compile(rb"\s*my \([^)\n]*\) = @_;"),
        imports=re.compile(rb"sub \w+ *(?:\([^)\n]*\))? *;"),
    ),
    Heads(
        "julia",
        "jl",
        r"(?:bare)?module (\w+)|(?:[\w.]*@[\w.]+ )*(?:mutable )?struct (\w+)|(?:abstract|primitive) type (\w+)"
        r"|@enumx? (\w+)",
        r"(?:@[\w.]+ )*(?:function|macro) ([\w.!]+)|(?:@[\w.]+ )*([\w.!]+)(?:\{[^}\n]*\})?\([^=\n]*\)[^=\n]* = "
        r"|const (\w+)|@testset (?:\w+ )?\"([^\"\n]+)\"",
        "#",
        wholes=r"(?:[\w.]*@[\w.]+ )*(?:mutable )?struct ",
        unnamed=_MODULE,
    ),
    Heads(
        "dart",
        "dart",
        _CLASS,
        r"(?:(?:static|final|late|const) +)*[\w.<>?, ]+ Function\([^()\n]*\)\?? (\w+);"
        rf"|{_TYPED}|{_CONSTRUCTOR}|{_FIELD}|[\w.<>?, ]+ (\w+)(?:;| = )|typedef (\w+)|[\w<>?]+ get (\w+)|set (\w+)",
        wholes="enum ",
        ends=_BRACE,
    ),
    # Typed methods: Groovy, D, Vala, Haxe, Apex, ActionScript, Razor, and the languages of shaders.
    Heads(
        "clike",
        "groovy gvy d di vala vapi hx cls as cshtml razor glsl hlsl gdshader vert frag comp wgsl metal cl cuh jsligo ceylon chpl",
        _CLASS,
        rf"{_TYPED}|def (?:(?:private|protected|public|static|final) +)*[A-Z][\w.]*(?:<[^()=\n]*>)?(?:\[\])? (\w+)"
        rf"|{_WORDS}|def \"([^\"\n]+)\"|{_CONSTRUCTOR}",
        ends=_BRACE,
    ),
    Heads(
        "objc",  # and MATLAB, which uses its suffix
        "m mm",
        r"@(?:interface|implementation) (\w+)|@protocol (\w+)[^;\n]*$|classdef (?:\([^)\n]*\) )?(\w+)|typedef NS_\w+\([^)\n]*?(\w+)\)",
        r"[-+] *\([^)\n]*\) *(\w+)|@property *(?:\([^)\n]*\))?[^;\n]*?(\w+);"
        r"|(?:static |inline |extern |const |FOUNDATION_EXPORT )*[A-Za-z_]\w*(?: [A-Za-z_]\w*)*(?: | ?\* ?)(\w+)\([^;\n]*$"
        r"|function (?:[^=\n]*= *)?([\w.]+)",
    ),
    Heads(
        "powershell",
        "ps1 psm1",
        r"(?i:(?:class|enum) (\w+)|(?:describe|context) [\"']([^\"'\n]+))",
        r"(?i:(?:function|filter) (?:\w+:)?([\w-]+)|it [\"']([^\"'\n]+)|(?:\[[\w.\[\]]+\] ?)*(\w+)\([^\n]*\) *\{)",
        "#",
    ),
    Heads(
        "shell",
        "sh bash zsh ksh fish bats",
        others=r"(?:function +)?([\w:.-]+) *\( *\)|function +([\w:.-]+)|@test [\"']([^\"'\n]+)",
        comment="#",
        spans_lines=False,
    ),
    Heads(
        "terraform",
        "tf hcl tofu",
        r'(?:variable|output|module|provider) "([\w-]+)"|(locals|terraform|inputs) \{',
        r'(?:resource|data) "([\w-]+" "[\w-]+)"|(?:check|run) "([\w-]+)"',
        comment="#",
    ),
    Heads("nix", "nix", r"(options|config)(?:\.[\w-]+)* = ", r'([\w."${}-]+) = ', "#"),
    Heads(
        "schema",  # Protocol Buffers, Thrift, GraphQL, FlatBuffers, Cap'n Proto, Avro, Prisma, WIT
        "proto thrift graphql gql graphqls fbs capnp avdl prisma wit smithy",
        r"(?:extend |sealed )?(?:message|service|enum|struct|union|exception|interface|type|input|table|model|world"
        r"|oneof|record|protocol|resource) (\w+)",
        r"rpc (\w+)|(?:scalar|directive|fragment|query|mutation|subscription|typedef|const|func|operation) @?(\w+)",
    ),
    Heads(
        "make",
        "mk mak",
        others=r"define (\S+)|([\w./%$(){}-]+(?: [\w./%$(){}-]+)*) ?::?(?:[^=\n]*$)",
        comment="#",
    ),
    Heads(
        "cmake",
        "cmake",
        others=r"(?i:(?:function|macro|add_library|add_executable|add_custom_target|add_test|option)\( *([\w.${}:-]+))",
        comment="#",
    ),
    Heads(
        "pascal",  # and Ada
        "pas dpr lpr adb ads",
        r"(?i:package(?: body)? ([\w.]+)|(\w+) *= *(?:packed )?(?:class|record|interface|object)\b)",
        r"(?i:(?:class |overriding |not |private )*(?:procedure|function|constructor|destructor|property|entry) ([\w.]+)"
        r"|(?:task|protected|type|subtype)(?: body| type)? (\w+))",
        "--",
        specifications=r"(?i:(?:sub)?type) +\w+ ",
        ends=re.compile(rb"(?i);|\b(?:is|with)\b"),
    ),
    Heads(
        "basic",
        "vb bas vbs frm",
        r"(?i:(?:(?:public|private|friend|partial|shared|mustinherit|notinheritable) )*"
        r"(?:class|module|structure|enum|interface|namespace) ([\w.]+))",
        r"(?i:(?:(?:public|private|friend|protected|shared|overrides|overridable|async|readonly|default|static) )*"
        r"(?:sub|function|property|const|event|delegate sub|delegate function)(?: get| let| set)? (\w+))",
        "'",
    ),
    Heads(
        "coffeescript",
        "coffee litcoffee",
        r"(?:export )?(?:default )?class (@?[\w.]+)",
        r"(?:export )?@?([\w.]+) ?[:=] ?(?:\([^\n]*\) ?)?[-=]>",
        "#",
    ),
    Heads(
        "latex",
        "tex ltx sty dtx",
        r"\\(?:part|chapter|(?:sub)*section)\*?(?:\[[^\]\n]*\])?\{([^}\n]+)",
        r"\\(?:newcommand|renewcommand|newenvironment|newtheorem|DeclareMathOperator)\*?\{\\?([A-Za-z@]+)|\\def\\([A-Za-z@]+)",
        comment="%",
    ),
    Heads(
        "moonscript",
        "moon",
        r"(?:export )?class ([\w.]+)",
        r"(?:export )?@?([\w.]+) ?[:=] ?(?:\([^\n]*\) ?)?[-=]>",
        "--",
    ),
    Heads(
        "nextflow",
        "nf",
        others=r"(?:process|workflow) (\w+)|workflow \{|(?:def |function )(?:[A-Z]\w* )?(\w+) ?\(",
    ),
    Heads(
        "jinja",  # macros of dbt, in SQL
        "j2 jinja jinja2",
        others=r"\{%-? *(?:macro|test|materialization|snapshot|block) (\w+)",
        comment="{# #}",
    ),
    Heads(
        "sass",
        "scss sass less styl",
        others=r"@(?:mixin|function|include|media|keyframes) ([\w-]+)|([.#&@%:\w][^{};:\n]*)\{|([$@][\w-]+) *:",
    ),
    Heads(
        "assembly",
        "s asm nasm",
        others=r"([A-Za-z_.$][\w.$]*):|(?i:\.?(?:macro|proc|func)) (\w+)|%macro (\w+)|(\w+) (?i:proc)\b",
        comment=";",
    ),
    Heads(
        "proofs",  # Lean, Isabelle
        "lean thy",
        r"(?:structure|class|inductive|locale|theory) ([\w.]+)",
        r"(?:@\[[^\]\n]*\] *)?(?:(?:private|protected|noncomputable|partial|unsafe) )*"
        r"(?:def|theorem|lemma|abbrev|instance|axiom|opaque|example|definition|fun|primrec|datatype|corollary) ([\w.']+)",
        "--",
        ends=re.compile(rb":=|\bwhere\b|^[ \t]*\|"),
    ),
    Heads(
        "plsql",
        "pks pkb tps tpb pls plb plsql prc fnc trg",
        r"(?i:create (?:or replace )?(?:(?:non)?editionable )?(?:package|type)(?: body)? (?:\"?\w+\"?\.)?\"?(\w+))",
        r"(?i:(?:(?:map|order|final|overriding|member|static|constructor|not|instantiable),? +)*(?:function|procedure) (\w+)|(?:sub)?type (\w+) is\b"
        r"|create (?:or replace )?(?:\w+ )*(?:function|procedure|trigger|view|table|sequence|synonym) (?:\"?\w+\"?\.)?\"?(\w+))",
        "--",
    ),
    Heads("tcl", "tcl exp", others=r"(?:proc|method|oo::class create|namespace eval) ([\w:]+)", comment="#"),
    Heads(
        "vim", "vim", others=r"(?:fu|func|function|def)!? ([\w:#.<>]+)|command!? (?:-\S+ )*(\w+)", comment='"'
    ),
    Heads(
        "cython",
        "pyx pxd pxi",
        r"(?:cdef )?(?:class|cppclass|struct|enum|extern from) ([\w\"./]+)",
        r"(?:async )?(?:def|cpdef|cdef)(?: inline)?(?: [\w.*\[\], ]+?)? \**(\w+)\(",
        "#",
    ),
    Heads(
        "gherkin",
        "feature",
        others=r"(?:Scenario(?: Outline)?|Feature|Background|Rule): *([^\n]*)",
        comment="#",
    ),
    Heads(
        "cobol",
        "cob cbl cpy cobol",
        r"(?i:(?:0?1|77|[fs]d) +([\w-]+))",
        r"(?i:(?:program|class|function)-id\. *([\w-]+)|select +([\w-]+)|[\w-]+ +division\b"
        r"|(?:configuration|input-output|file|(?:working|local)-storage|linkage|report|screen) +section\b"
        r"|(?:(?:source|object)-computer|special-names|repository|(?:file|i-o)-control|end-[\w-]+|exit|goback|continue) *\."
        r"|([\w-]+)(?: +section)? *\.\r?$)",
        "*",
    ),
    Heads(
        "notebook",  # its cells as text, as ``folder.notebooks`` writes them
        "",
        others=r"# %%|(?:async )?(?:def|class) (\w+)|(\w+) <- function|function (\w+)|#{1,6} ([^%\n][^\n]*)",
        comment="#",
    ),
    Heads(
        "puppet", "pp", r"(?:class|define|plan|application|type|node) ([\w:']+)", r"function ([\w:]+)", "#"
    ),
    Heads(
        "rego",
        "rego",
        others=r"default (\w+)|([a-z_]\w*)(?:\[[^\]\n]*\]|\([^)\n]*\))?(?: contains [^\n]+?)?(?: :?= [^\n]+?)?(?: if\b[^\n]*| *\{[^\n]*)\r?$",
        comment="#",
        clauses=True,
    ),
    Heads("jsonnet", "jsonnet libsonnet", r"local (\w+)", r"[\"']?(\w+)[\"']?(?:\([^)\n]*\))?\+?::"),
    Heads(
        "qml",
        "qml",
        r"(?:component (\w+): )?(?:[A-Z]\w*\.)*([A-Z]\w*) \{",
        r"(?:readonly |default |required )*property (?:\w+(?:<\w+>)? )(\w+)|(?:signal|function|enum) (\w+)",
    ),
    Heads(
        "docker",
        "dockerfile containerfile",
        others=r"(?i:FROM +(?:--\S+ +)*\S+(?: +AS +([\w.-]+))?)",
        comment="#",
    ),
    Heads("bicep", "bicep", others=r"(?:resource|param|output|var|module|type|func) (\w+)"),
    Heads(
        "abap",
        "abap",
        r"(?i:class +([\w~/]+) +(?:definition|implementation)|interface +([\w/]+) *(?:\.|$))",
        r"(?i:(?:class-)?methods?:? +([\w~]+)|form +([\w-]+)|function +([\w/]+))",
        '"',
    ),
    Heads("sas", "sas", others=r"(?i:%macro (\w+)|(?:proc|data) ([\w.]+))", comment="*"),
    Heads(
        "stata",
        "do ado",
        others=r"(?:(?:capture|cap) +)?pr(?:ogram)?(?: +def(?:ine)?)? +(\w+)(?:,|$)",
        comment="*",
    ),
    Heads(
        "sml",
        "sml sig fun",
        r"(?:structure|signature|functor) (\w+)|(?:datatype|exception) (?:'\w+ |\([^)\n]*\) )?(\w+)",
        r"(?:fun|val|type|eqtype) (?:rec )?(?:'\w+ |\([^)\n]*\) )?([\w']+)",
        "(*",
    ),
    Heads(
        "grammar",  # ANTLR, Lark, pest, PEG.js and other forms of BNF
        "g4 lark pest pegjs peggy ebnf bnf abnf",
        others=r"(?:fragment |@\w+ )?[!?_]?([A-Za-z]\w*)(?:\.\d+)?(?:\{[^}\n]*\})?[ \t]*(?:\r?\n[ \t]*)?(?:::=|:=|:|=|<-)(?:\s|$)",
        clauses=True,
    ),
    Heads("odin", "odin jai", others=r"(\w+) :: (?:#\w+ )?(?:proc|struct|enum|union|bit_set|distinct)?"),
)

QUERIES = Heads(
    "queries",  # SQL without statements that create something, such as the models and macros of dbt
    "",
    r"(?i:select\b)|\{\{ *config *\(",
    r"(?i:(?:with +(?:recursive +)?|, *)?(\w+)(?: *\([\w, ]*\))? as (?:(?:not )?materialized *)?\()"
    r"|\{%-? *(?:macro|snapshot|test|materialization) +(\w+)",
    "--",
)

STATEMENTS = Heads(
    "statements",  # SQL that the grammar does not understand
    "",
    others=r"(?i:create +(?:or +replace +)?(?:[a-z]+ +)*?(?:table|view|index|function|procedure|trigger|type|schema|sequence"
    r"|extension|policy|package(?: +body)?) +(?:if +not +exists +)?([^\s(;]+))",
    comment="--",
    spans_lines=False,
)

_MODIFIERS = (
    r"(?:@\w+(?:\([^()\n]*\))? +|(?:export|default|declare|public|private|protected|internal|fileprivate|pub|static|final"
    r"|abstract|async|sealed|open|override|virtual|inline|const|unsafe|extern|partial|readonly|data|inner|value|case"
    r"|annotation|actual|expect|companion|suspend|infix|operator|tailrec|lateinit|implicit|lazy|mutating|indirect"
    r"|required|convenience|nonisolated|dynamic|weak)(?:\[\w+\])? +)*"
)
BRACES = Heads(
    "braces",  # source that the grammar of its language cannot read, such as the syntax of a newer version
    "",
    rf"{_MODIFIERS}(?:(?:class|struct|interface|trait|enum(?: class)?|union|record|object|protocol|extension|actor|namespace"
    r"|impl(?:<[^>\n]*>)?|mod|module) ([\w.:]+)|companion object\b)",
    rf"{_MODIFIERS}(?:(?:function|func|fun|fn|def)\b ?(?:<[^>\n]*> ?|\([^)\n]*\) ?)?(?:[\w.<>?*, ]+\.)?(\w+)"
    r"|(?:val|var|let|typealias|type) (\w+)|const (\w+) *(?:[=:;]|\w+ =)|(init|deinit|subscript)\b)"
    rf"|{_TYPED}|{_CONSTRUCTOR}|#[ \t]*define (\w+)(?:\(|[ \t]+\S)",
    ends=_BRACE,
)
