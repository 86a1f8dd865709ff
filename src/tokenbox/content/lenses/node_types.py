"""What a node of a syntax tree is, by the name of its type.

One set of rules serves every grammar, because grammars use similar names for their nodes:
``class_declaration``, ``method_definition``, ``enum_variant``. A node is

* a *container* (class, struct, interface, namespace ...): its members are definitions too;
* a *function*: its body is a sequence of statements;
* a *member* (field, constant, enum member, type alias ...): it has no body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache


def _like(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a type's name begins so. A grammar has a few hundred types."""
    compiled = re.compile(pattern)
    return cache(lambda kind: compiled.match(kind) is not None)


is_container = _like(
    r"(?:abstract_|anonymous_)?(?:class|interface|enum|struct|union|record|trait|object|protocol|namespace|module|mod|impl"
    r"|companion|internal_module|foreign_mod|annotation_type|extension|package_object|package_clause|given"
    r"|file_scoped_namespace|singleton_class|at_rule"
    r"|category|media|supports|contract|library)"
    r"(?:_(?:declaration|definition|specifier|item|statement|interface|implementation|object|expression|binding))*$"
)
is_function = _like(
    r"(?:.*_)?(?:function|method|constructor|destructor|init|deinit|subscript|operator|macro|procedure|subroutine"
    r"|arrow_function|function_expression|generator_function|secondary_constructor|anonymous_initializer|getter|setter"
    r"|func_literal|lambda)(?:_(?:declaration|definition|item|statement|specifier|expression))*$"
    r"|compact_constructor_declaration|static_initializer|rule_set|create_function|create_procedure"
)
is_member = _like(
    r"(?:.*(?:_declaration|_definition|_signature|_item|_field|_property|_alias|_variant|_case|_entry|_spec|_elem|_constant)$"
    r"|declaration|property_declaration|preproc_def|preproc_function_def|enumerator|signature|const_element"
    r"|type_definition|type_alias_statement|using_alias|class|module|method|singleton_method|create_\w+|associated_type|macro_invocation|column_definition"
    r"|event_field_declaration|keyframes_statement)$"
)
# Members that are signatures on all their lines: they have no value that could be cut.
is_signature = _like(
    r"(?!preproc).*(?:signature|alias|function|method|constructor|delegate_declaration|struct|record|class"
    r"|interface|enum_variant|type_item|type_elem|type_spec|type_definition|create_table|create_view|create_type)"
)
# Declarations that are signatures unless they have a value, and the nodes that such a value is in.
DECLARED = frozenset(("declaration", "field_declaration"))
VALUED = frozenset(("init_declarator", "initializer_list", "variable_declarator", "variable_declaration"))
CALLS = frozenset("call expression_statement lexical_declaration labeled_statement use_declaration".split())
LONG_CALLS = frozenset(("expression_statement", "call", "export_statement"))
# Nodes around a signature.
AROUND_SIGNATURE = frozenset(
    ("export_statement", "ambient_declaration", "type_declaration", "template_declaration")
)
# Nodes above a definition that belong to it, as comments do.
ABOVE = frozenset("attribute_item decorator attribute annotation".split())
# Nodes that are never definitions.
is_skipped = _like(
    r"import|include|package(?!_object|_clause)|use_decl|using_directive|namespace_use|extern_alias|export_clause|access_specifier"
    r"|preproc_(?:include|call|ifdef_name)|decorator|(?:inner_)?attribute|empty_statement|hash_bang|php_tag|header|modifiers?$"
    r"|shebang|open_module"
)
# Types of C and C++ that are only declared if they have no body; their definition is elsewhere.
FORWARD = frozenset(("class_specifier", "struct_specifier", "union_specifier", "enum_specifier"))
FRIENDS = frozenset(("declaration", "function_definition"))
# Statements and blocks that define functions and classes; their variables are not of interest outside.
LOCAL = frozenset(
    """
    for_statement while_statement repeat_statement do_statement for while until while_modifier until_modifier
    for_in_statement foreach_statement switch_statement switch_body switch_block switch_case switch_default
    case_statement default_statement switch_entry statement_block catch_clause catch_block
    for_expression while_expression match_expression case_block if_expression try_expression
    when_expression when_entry rescue
    """.split()
)
# Nodes of which only the branches and definitions are read, not a condition or a pattern.
BRANCHING = LOCAL | frozenset("match_statement case_clause case case_match when in_clause".split())
# Nodes without a meaning of their own: their children are read in their place.
TRANSPARENT = BRANCHING | frozenset(
    """
    preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef linkage_specification
    declaration_list ERROR if_statement try_statement else_clause except_clause with_statement
    finally_clause block statement enum_body_declarations config_file body implementation_definition
    declarations source field_declaration_list class_member statements colon_block
    if unless begin then else elsif do elseif_statement else_statement else_if_clause
    """.split()
)
# Those in which not every node is a member: what is left of one in an error, and the statements of Ruby.
LOOSE = frozenset("ERROR if unless begin then else elsif do".split())
MEMBER_STATEMENTS = ("export_statement", "type_alias_statement")
# Nodes around the node that is defined, such as an export or an assignment.
WRAPPERS = frozenset(
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
AROUND = WRAPPERS | {"return_statement", "object_creation_expression", "parenthesized_expression"}
GROUPS = frozenset(("const_declaration", "var_declaration", "type_declaration"))
# Values whose type is a function, or a block of statements.
FUNCTION_VALUES = frozenset("function_expression arrow_function function do_block func_literal block".split())
BLOCKS = frozenset(("do_block", "block"))
SYMBOLS = frozenset(("simple_symbol", "hash_key_symbol"))
METHODS = frozenset(("method", "singleton_method"))
CLOSED_BY_END = frozenset(("function_declaration", "function_definition"))
TYPE_LITERALS = frozenset(("struct_type", "interface_type", "object_type"))
is_body = _like(
    r".*_body$|body|block|.*_block$|.*declaration_list|enumerator_list|object_type|struct_type|interface_type"
    r"|enum_variant_list|compound_statement|implementation_definition|object$"
)
RULES = frozenset(("rule_set", "at_rule", "media_statement", "supports_statement"))
OBJECT = frozenset({"object", "table_constructor", "dictionary_literal"})
NAME_FIELDS = ("name", "declarator", "left", "key", "property", "pattern")
# Nodes that contain the name next to a type (``int x`` in C#, ``int $x`` in PHP, ``List.x`` in Kotlin).
holds_name = _like(r".*(?:declarator|_element)$|variable_declaration$")
is_name = _like(
    r".*(?:identifier|name|constant|word|selectors|(?:dot|method)_index_expression|member_expression|attribute|variable)$"
)
