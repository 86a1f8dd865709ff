"""The definitions in a source file whose language has a grammar, from its syntax tree.

One set of rules serves every grammar, because grammars use similar names for their nodes:
``class_declaration``, ``method_definition``, ``enum_variant``. A node is

* a *container* (class, struct, interface, namespace ...): its members are definitions too;
* a *function*: its body is a sequence of statements;
* a *member* (field, constant, enum member, type alias ...): it has no body.

A node with a syntax error is read as far as possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenbox.content.lenses.definition import Definition, DefinitionRole
from tokenbox.content.lenses.syntax import as_parsed, syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node

    from tokenbox.content.lenses.languages import Language


# Patterns of node types, for each kind of definition.
_CONTAINER = re.compile(
    r"(?:abstract_|anonymous_)?(?:class|interface|enum|struct|union|record|trait|object|protocol|namespace|module|mod|impl"
    r"|companion|internal_module|foreign_mod|annotation_type|extension|package_object|package_clause|given"
    r"|file_scoped_namespace|singleton_class|at_rule"
    r"|category|media|supports|contract|library)"
    r"(?:_(?:declaration|definition|specifier|item|statement|interface|implementation|object|expression|binding))*$"
)
_FUNCTION = re.compile(
    r"(?:.*_)?(?:function|method|constructor|destructor|init|deinit|subscript|operator|macro|procedure|subroutine"
    r"|arrow_function|function_expression|generator_function|secondary_constructor|anonymous_initializer|getter|setter"
    r"|func_literal|lambda)(?:_(?:declaration|definition|item|statement|specifier|expression))*$"
    r"|compact_constructor_declaration|static_initializer|rule_set|create_function|create_procedure"
)
_MEMBER = re.compile(
    r".*(?:_declaration|_definition|_signature|_item|_field|_property|_alias|_variant|_case|_entry|_spec|_elem|_constant)$"
    r"|declaration|property_declaration|preproc_def|preproc_function_def|enumerator|signature|const_element"
    r"|type_definition|type_alias_statement|using_alias|class|module|method|singleton_method|create_\w+|associated_type|macro_invocation|column_definition|event_field_declaration"
)
# Members that are signatures on all their lines: they have no value that could be cut.
_SIGNATURE = re.compile(
    r"(?!preproc).*(?:signature|alias|function|method|constructor|delegate_declaration|struct|record|class"
    r"|interface|enum_variant|type_item|type_elem|type_spec|type_definition|create_table|create_view|create_type)"
)
# Declarations that are signatures unless they have a value, and the nodes that such a value is in.
_DECLARED = frozenset(("declaration", "field_declaration"))
_VALUED = frozenset(("init_declarator", "initializer_list", "variable_declarator", "variable_declaration"))
# Calls that declare: members in Ruby, in pages the interface of a component.
_DECLARING_CALLS = {
    "ruby": re.compile(
        rb"(?:attr_\w+|has_\w+|belongs_to|validates?|scope|enum|delegate|include|extend|field|attribute|alias_method"
        rb"|property|option|argument|before_\w+|after_\w+|around_\w+|define_method|helper_method)[ (]"
    ),
    "vue": re.compile(
        rb"(?:(?:const|let) [^=]{1,200}= *)?(?:withDefaults\( *)?"
        rb"define(?:Props|Emits|Models?|Slots|Expose|Options)\b|\$: "
    ),
}
_CALLS = frozenset(("call", "expression_statement", "lexical_declaration", "labeled_statement"))
# Nodes around a signature.
_AROUND_SIGNATURE = frozenset(
    ("export_statement", "ambient_declaration", "type_declaration", "template_declaration")
)
# Nodes that are never definitions.
_SKIPPED = re.compile(
    r"import|include|package(?!_object|_clause)|use_decl|using_directive|namespace_use|extern_alias|export_clause|access_specifier"
    r"|preproc_(?:include|call|ifdef_name)|decorator|attribute|empty_statement|hash_bang|php_tag|header|modifiers?$"
    r"|shebang|open_module"
)
# Nodes without a meaning of their own: their children are read in their place.
_TRANSPARENT = frozenset(
    """
    preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef linkage_specification
    declaration_list ERROR if_statement try_statement else_clause except_clause with_statement
    finally_clause block statement enum_body_declarations config_file body implementation_definition
    declarations source field_declaration_list class_member statements
    if unless begin then else elsif
    """.split()
)
# Those in which not every node is a member: what is left of one in an error, and the statements of Ruby.
_LOOSE = frozenset("ERROR if unless begin then else elsif".split())
_MEMBER_STATEMENTS = ("export_statement", "type_alias_statement")
# Nodes around the node that is defined, such as an export or an assignment.
_WRAPPERS = frozenset(
    """
    decorated_definition export_statement ambient_declaration template_declaration expression_statement
    lexical_declaration variable_declaration type_declaration type_definition declaration
    field_definition public_field_definition property_declaration assignment_expression assignment
    variable_declarator type_spec type_alias pair assignment_statement field_declaration
    expression_list local_variable_declaration local_declaration type_alias_declaration
    const_declaration global_statement public_field_declaration as_expression
    satisfies_expression
    """.split()
)
# Those, and further ones that are no members themselves.
_AROUND = _WRAPPERS | {"return_statement", "object_creation_expression", "parenthesized_expression"}
_GROUPS = frozenset(("const_declaration", "var_declaration", "type_declaration"))
# Values whose type is a function, or a block of statements.
_FUNCTION_VALUES = frozenset(
    "function_expression arrow_function function do_block func_literal block".split()
)
_BLOCKS = frozenset(("do_block", "block"))
_SYMBOLS = frozenset(("simple_symbol", "hash_key_symbol"))
_METHODS = frozenset(("method", "singleton_method"))
_TYPE_LITERALS = frozenset(("struct_type", "interface_type", "object_type"))
_BODY = re.compile(
    r".*_body$|body|block|.*_block$|.*declaration_list|enumerator_list|object_type|struct_type|interface_type"
    r"|enum_variant_list|compound_statement|implementation_definition|object$"
)
_RULES = frozenset(("rule_set", "at_rule", "media_statement", "supports_statement"))
_OBJECT = frozenset({"object", "table_constructor", "dictionary_literal"})
_NAME_FIELDS = ("name", "declarator", "left", "key", "property", "pattern")
# Nodes that contain the name next to a type (``int x`` in C#, ``int $x`` in PHP, ``List.x`` in Kotlin).
_HOLDS_NAME = re.compile(r".*(?:declarator|_element)$|variable_declaration$")
_NAMELIKE = re.compile(
    r".*(?:identifier|name|constant|word|selectors|dot_index_expression|member_expression|attribute|variable)$"
)
_COMMENT_MARKS = re.compile(r"^[\s/*#!;-]+|(?<![\s*/-])[\s*/-]+$")
# Tags of XML and Javadoc comments.
_COMMENT_TAGS = re.compile(r"</?(?:summary|remarks|para|p)/?>")
_MAX_DEPTH = 12
_MAX_NAME = 120
# A call with a function as argument (``describe(...)``, ``define(...)``) is read if it has this many lines.
_LONG_CALL = 30


def parsed_definitions(
    source: bytes, language: Language
) -> tuple[tuple[Definition, ...], list[tuple[int, int]]]:
    """Return the definitions, in order, and the parts of the source with errors, which may hide others."""
    source = as_parsed(source, language)
    root = syntax_tree(source, language)
    if root is None:
        return (), [(0, len(source))]
    reader = _Reader(source, language)
    found = reader.level([root] if root.type == "ERROR" else root.children, within=False, depth=0)
    return found, reader.broken


class _Reader:
    def __init__(self, source: bytes, language: Language) -> None:
        self.broken: list[tuple[int, int]] = []
        self._source = source
        self._docstrings = language.docstrings
        self._has_prototypes = language.has_prototypes
        self._declaring = _DECLARING_CALLS.get(language.name)

    def level(self, nodes: Iterable[Node], *, within: bool, depth: int) -> tuple[Definition, ...]:
        """Return the definitions among ``nodes``, without prototypes of functions that are among them."""
        found = tuple(self.read(nodes, within=within, depth=depth))
        if not self._has_prototypes:
            return found
        defined = {one.name for one in found if one.role is DefinitionRole.FUNCTION}
        return tuple(one for one in found if not (one.is_signature and one.name in defined))

    def read(self, nodes: Iterable[Node], *, within: bool, depth: int) -> Iterator[Definition]:
        """Yield the definitions among ``nodes``.

        ``within``: the nodes are in a container, so every named node is a member.
        """
        comments: list[Node] = []
        row = -1
        for node in nodes:
            kind = node.type
            if "comment" in kind and node.start_point[0] == row:
                continue  # a comment at the end of a line belongs to that line
            row = node.end_point[0] - (node.end_point[1] == 0)
            if "comment" in kind:
                if comments and node.start_point[0] > comments[-1].end_point[0] + 1:
                    comments = []
                comments.append(node)
                continue
            if not node.is_named:
                continue
            if kind in ("attribute_item", "decorator", "attribute", "annotation"):
                comments.append(node)
                continue
            found = self._grouped(node, comments, depth) or self._definition(
                node, comments, within=within, depth=depth
            )
            if node.has_error and _may_hide(node, found):
                self.broken.append((node.start_byte, node.end_byte))
            if found is not None:
                yield found
            elif kind in _TRANSPARENT and depth < _MAX_DEPTH:
                within_it = within and kind not in _LOOSE
                yield from self.read(_inner_nodes(node), within=within_it, depth=depth + 1)
            comments = []

    def _grouped(self, node: Node, comments: Sequence[Node], depth: int) -> Definition | None:
        """Return a container for the declarations between parentheses, as in Go's ``const (``."""
        if node.type not in _GROUPS:
            return None
        holder = next((child for child in node.named_children if child.type.endswith("_spec_list")), node)
        opening = next((child for child in holder.children if child.type == "("), None)
        if opening is None:
            return None
        specs = self.read(holder.children, within=True, depth=depth + 1)
        return self._container(node, "", opening.end_byte, comments, specs)

    def _definition(
        self, node: Node, comments: Sequence[Node], *, within: bool, depth: int
    ) -> Definition | None:
        if depth > _MAX_DEPTH or _SKIPPED.match(node.type):
            return None
        inner = _unwrapped(node)
        body = _body(inner)
        declares = False
        if body is not None and _CONTAINER.match(inner.type):
            role = DefinitionRole.CONTAINER
        elif body is not None and inner.type in _OBJECT:
            role = DefinitionRole.CONTAINER if _rows(inner) > 1 else DefinitionRole.MEMBER
        elif body is not None and _FUNCTION.match(inner.type):
            role = DefinitionRole.FUNCTION
        elif inner.type in _TYPE_LITERALS:
            role = DefinitionRole.CONTAINER
        elif (call := _declaring_block(node) or _long_call(node)) is not None:
            return self._call(node, call, comments, depth)
        elif (declares := self._declares(node)) or _is_member(
            inner if node.type == "call" else node, within=within
        ):
            role = DefinitionRole.MEMBER
        else:
            return None
        first, last = _first_above(node, comments), node.end_byte
        note = self._note(inner, body, comments)
        if role is DefinitionRole.MEMBER:
            is_signature = node.child_by_field_name("block") is None if declares else _is_signature(node)
            return Definition(
                self._name(node), role, first, node.start_byte, last, last, note, is_signature=is_signature
            )
        assert body is not None  # noqa: S101  # containers and functions have one
        inside: tuple[Definition, ...] = ()
        if role is DefinitionRole.CONTAINER:
            inside = self.level(_children(body, inner), within=True, depth=depth + 1)
        is_named = (
            inner.type not in _OBJECT and _first_field(inner, ("name", "declarator", "type")) is not None
        )
        name = self._name(inner if is_named else node)
        return Definition(name, role, first, node.start_byte, _body_start(body, inner), last, note, inside)

    def _declares(self, node: Node) -> bool:
        """Return whether the node is a call that declares something, such as ``attr_reader`` in Ruby."""
        return (
            self._declaring is not None
            and node.type in _CALLS
            and self._declaring.match(self._source, node.start_byte) is not None
        )

    def _call(self, node: Node, body: Node, comments: Sequence[Node], depth: int) -> Definition:
        """Return a container for a call that declares something, or with a long function as last argument."""
        holder = body.parent or body
        inside = self.read(_children(body, holder), within=False, depth=depth + 1)
        if _rows(node) < _LONG_CALL:  # its variables are not of interest outside
            inside = (one for one in inside if one.role is not DefinitionRole.MEMBER)
        name = self._name(node) if node.type == "assignment" else self._words(_symbol(node)).strip(":")
        return self._container(node, name, _body_start(body, holder), comments, inside)

    def _container(
        self, node: Node, name: str, body: int, comments: Sequence[Node], inside: Iterable[Definition]
    ) -> Definition:
        first, note = _first_above(node, comments), self._note(node, None, comments)
        container = DefinitionRole.CONTAINER
        return Definition(name, container, first, node.start_byte, body, node.end_byte, note, tuple(inside))

    def _note(self, inner: Node, body: Node | None, comments: Sequence[Node]) -> str:
        """Return the first non-empty line of the docstring or the comments of a definition."""
        if self._docstrings:
            return "" if body is None else self._docstring(body)
        for comment in _above(inner, comments):
            if "comment" in comment.type:
                for line in self._text(comment.start_byte, comment.end_byte).splitlines():
                    if words := _COMMENT_MARKS.sub("", _COMMENT_TAGS.sub("", line)):
                        return words
        return ""

    def _docstring(self, body: Node) -> str:
        first = body.named_children[0] if body.named_children else None
        if first is not None and first.type == "expression_statement" and first.named_children:
            first = first.named_children[0]
        if first is None or first.type != "string":
            return ""
        parts = [child for child in first.named_children if child.type == "string_content"]
        if not parts:
            return ""
        lines = self._text(parts[0].start_byte, parts[-1].end_byte).splitlines()
        return next((line.strip() for line in lines if line.strip()), "")

    def _name(self, node: Node) -> str:
        return self._words(_name(node))

    def _words(self, node: Node | None) -> str:
        """Return the first line of a name."""
        if node is None:
            return ""
        text = self._text(node.start_byte, min(node.end_byte, node.start_byte + _MAX_NAME)).strip()
        return text.splitlines()[0] if text else ""

    def _text(self, start: int, end: int) -> str:
        return self._source[start:end].decode("utf-8", "replace")


def _may_hide(node: Node, found: Definition | None) -> bool:
    """Return whether the error in a node may hide definitions, because its children are not read."""
    if found is not None:
        return found.role is not DefinitionRole.CONTAINER
    return node.type == "ERROR" or node.type not in _TRANSPARENT


def _above(node: Node, comments: Sequence[Node]) -> list[Node]:
    """Return those of the comments and attributes that are directly above a node."""
    row, found = node.start_point[0], []
    for comment in reversed(comments):
        if comment.end_point[0] + (comment.end_point[1] > 0) < row:
            break
        row = comment.start_point[0]
        found.append(comment)
    return found[::-1]


def _first_above(node: Node, comments: Sequence[Node]) -> int:
    """Return the start of the comments directly above the node, or else of the node."""
    return next(iter(_above(node, comments)), node).start_byte


def _inner_nodes(node: Node) -> Sequence[Node]:
    """Return the children of a transparent node, without the condition of an ``if`` or ``#if``."""
    condition = node.child_by_field_name("condition")
    if condition is None and node.type.startswith("preproc_"):
        condition = node.child_by_field_name("name")
    inner = [child for child in node.children if child != condition]
    if node.type != "if_statement":
        return inner
    # Of PHP, where functions are defined unless they exist.
    return [
        one for child in inner for one in (child.children if child.type == "compound_statement" else [child])
    ]


def _unwrapped(node: Node) -> Node:
    """Return the node that a statement defines: the class in an export, the function in an assignment."""
    for _ in range(8):
        if node.type == "call":
            return _defined_method(node) or node
        if node.type not in _AROUND:
            return node
        inner = _first_field(node, ("definition", "declaration", "value", "right", "type"))
        if inner is None or (node.type == "declaration" and _body(inner) is None):
            named = [child for child in node.named_children if "comment" not in child.type]
            named = [child for child in named if child.type in _AROUND or _body(child) is not None]
            if node.type == "export_statement" or len(named) != 1:
                inner = named[-1] if named else None
            else:
                inner = named[0]
        if inner is None:
            return node
        node = inner
    return node


def _defined_method(call: Node) -> Node | None:
    """Return the method that is the argument of a call in Ruby, as in ``private def total``."""
    arguments = call.child_by_field_name("arguments")
    last = None if arguments is None or not arguments.named_children else arguments.named_children[-1]
    return last if last is not None and last.type in _METHODS else None


def _body(node: Node) -> Node | None:
    if node.type in _OBJECT or node.type in _TYPE_LITERALS:
        return next((c for c in node.named_children if c.type == "field_declaration_list"), node)
    body = (
        node.child_by_field_name("body")
        or node.child_by_field_name("accessors")
        or node.child_by_field_name("computed_value")
    )
    if body is not None:
        # The types in a tuple struct are no members to list.
        if body.type == "ordered_field_declaration_list":
            return None
        if node.type != "given_definition" or _BODY.match(body.type):
            return body
        node = body  # the value of an instance in Scala, which may have members
    found = next((child for child in node.named_children if _BODY.match(child.type)), None)
    if (
        node.type == "at_rule"
        and found is not None
        and _RULES.isdisjoint(c.type for c in found.named_children)
    ):
        return None  # of CSS: it declares properties, as ``@font-face`` does
    return found


def _comments_before(body: Node, holder: Node) -> list[Node]:
    """Return the comments that some grammars put before the body of ``holder``."""
    found: list[Node] = []
    for child in holder.children:
        if child.start_byte >= body.start_byte:
            break
        if "comment" in child.type:
            found.append(child)
        else:
            found.clear()
    return found


def _children(body: Node, holder: Node) -> list[Node]:
    """Return the nodes in the body of ``holder``, with the comments before it."""
    inner = body.children
    if holder.type == "extension_definition":  # of Scala: its functions are in no node
        inner = [child for child in holder.children if child.start_byte >= body.start_byte]
    return [*_comments_before(body, holder), *inner]


def _body_start(body: Node, holder: Node) -> int:
    """Return the start of the body of ``holder``, including the comments before it."""
    if body.type == "interface_type":
        holder, body = body, next((child for child in body.children if child.type == "{"), body)
    return next(iter(_comments_before(body, holder)), body).start_byte


def _rows(node: Node) -> int:
    return int(node.end_point[0] - node.start_point[0] + 1)


def _symbol(node: Node) -> Node | None:
    """Return the symbol that a call in Ruby is about, as ``path`` in ``newparam(:path) do``."""
    arguments = node.child_by_field_name("arguments") if node.type == "call" else None
    if arguments is None or not arguments.named_children:
        return None
    first = arguments.named_children[0]
    first = first.child_by_field_name("key") or first
    return first if first.type in _SYMBOLS else None


def _declaring_block(node: Node) -> Node | None:
    """Return the body of a block in Ruby if its call declares a symbol, or it defines methods or a value."""
    call: Node | None = node
    if node.type == "assignment":
        left = node.child_by_field_name("left")
        is_constant = left is not None and left.type in ("constant", "scope_resolution")
        call = node.child_by_field_name("right") if is_constant else None
    block = None if call is None or call.type != "call" else call.child_by_field_name("block")
    body = None if block is None else block.child_by_field_name("body")
    if body is None or call is not node or _symbol(node) is not None:
        return body
    return body if any(child.type in _METHODS for child in body.named_children) else None


def _long_call(node: Node) -> Node | None:
    """Return the body of the function that is the last argument of a long call."""
    if _rows(node) < _LONG_CALL or node.type not in ("expression_statement", "call", "export_statement"):
        return None
    for _ in range(6):
        if node.type in _FUNCTION_VALUES:
            body = node.child_by_field_name("body") or (node if node.type in _BLOCKS else None)
            return body if body is not None and body.named_child_count else None
        field = node.child_by_field_name("arguments") or node.child_by_field_name("function")
        inner = field if field is not None and _rows(field) >= _LONG_CALL - 2 else None
        if inner is None:
            inner = next(
                (child for child in reversed(node.named_children) if _rows(child) >= _LONG_CALL - 2), None
            )
        if inner is None:
            return None
        node = inner
    return None


def _is_signature(node: Node) -> bool:
    """Return whether all lines of a member are its signature, so that none is a value to cut."""
    while node.type in _AROUND_SIGNATURE and node.named_children:
        node = node.named_children[-1]
    if node.type in _DECLARED:
        return not any(child.type in _VALUED for child in node.named_children)
    return _SIGNATURE.match(node.type) is not None or _is_alias(node)


def _is_alias(node: Node) -> bool:
    """Return whether the value of an assignment is a type with parameters, as in ``Key = Union[...]``."""
    assigned = node.named_children[0] if node.type == "expression_statement" else node
    value = assigned.child_by_field_name("right")
    return value is not None and value.type == "subscript"


def _is_member(node: Node, *, within: bool) -> bool:
    if node.type in ("expression_statement", "assignment_statement", "assignment"):
        target = node if node.type != "expression_statement" else (node.named_children or [node])[0]
        return target.type.startswith("assignment") and (within or _rows(node) < _LONG_CALL)
    if within:
        is_statement = node.type.endswith("_statement") and node.type not in _MEMBER_STATEMENTS
        return not is_statement and node.type not in _TRANSPARENT and node.type not in ("call", "string")
    return _MEMBER.fullmatch(node.type) is not None or node.type in _WRAPPERS


def _first_field(node: Node, names: Iterable[str]) -> Node | None:
    """Return the first of these fields that the node has."""
    for name in names:
        found = node.child_by_field_name(name)
        if found is not None:
            return found
    return None


def _name(node: Node) -> Node | None:
    """Return the name that a node defines."""
    for _ in range(8):
        if _NAMELIKE.match(node.type) or not node.named_child_count:
            return node
        inner = _first_field(node, _NAME_FIELDS)
        if inner is None:
            children = [
                child
                for child in node.named_children
                if "comment" not in child.type and "modifier" not in child.type
            ]
            inner = (
                next((child for child in children if _HOLDS_NAME.match(child.type)), None)
                or _first_field(node, ("type", "target"))
                or next((child for child in children if _NAMELIKE.match(child.type)), None)
                or next((child for child in children if child.type == "object_reference"), None)  # SQL
                or next(iter(children), None)
            )
        if inner is None:
            return None
        node = inner
    return None
