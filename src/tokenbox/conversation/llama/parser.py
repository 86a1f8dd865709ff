"""The parser of llama.cpp's Jinja: tokens to a tree (common/jinja/parser.cpp).

Unlike in Jinja2, there are only a few statements, and filters bind tighter than a sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tokenbox.conversation.llama.syntax import MAX_NESTING, Node, TemplateError, Token, tokenize


def parse(source: str) -> tuple[Node, ...]:
    """Return the statements of a template. Raises :class:`TemplateError`."""
    try:
        return _Parser(tokenize(source)).program()
    except RecursionError:
        raise TemplateError("the chat template does not parse: it is nested too deeply.") from None


T = TypeVar("T")
_END: Final = Token("end", "")
# A number of 64 bits has 19 digits. Python reads integers of at most 4,300.
_MAX_DIGITS: Final = 1_000
# The operators by precedence, the lowest first.
_LEVELS: Final = ("or", "and", "not", "compare", "add", "multiply")


class _Parser:
    """A recursive-descent parser."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._nesting = 0

    def program(self) -> tuple[Node, ...]:
        body = []
        while self._place < len(self._tokens):
            body.append(self._any())
        return tuple(body)

    def _peek(self, offset: int = 0) -> Token:
        place = self._place + offset
        return self._tokens[place] if place < len(self._tokens) else _END

    def _next(self) -> Token:
        token = self._peek()
        if token is _END:
            raise TemplateError("the chat template does not parse: it ends too early.")
        self._place += 1
        return token

    def _is(self, *kinds: str) -> bool:
        return self._peek().kind in kinds

    def _is_name(self, *names: str) -> bool:
        token = self._peek()
        return token.kind == "name" and token.text in names

    def _expect(self, kind: str) -> Token:
        token = self._peek()
        if token.kind != kind:
            raise TemplateError(f"the chat template does not parse: {kind!r} expected, not {token.text!r}.")
        self._place += 1
        return token

    def _expect_name(self, name: str) -> None:
        if not self._is_name(name):
            raise TemplateError(f"the chat template does not parse: {name} expected.")
        self._place += 1

    def _take(self, kind: str) -> bool:
        """Skip a token of this kind. Return False if the next one is another."""
        found = self._is(kind)
        self._place += found
        return found

    def _take_name(self, name: str) -> bool:
        found = self._is_name(name)
        self._place += found
        return found

    def _starts(self, *names: str) -> bool:
        """Return True if the next statement is one of these."""
        return self._is("open") and self._peek(1).kind == "name" and self._peek(1).text in names

    def _any(self) -> Node:
        if self._take("comment"):
            return Node("nothing")
        if self._is("text"):
            return Node("text", value=self._next().text)
        if self._take("print"):
            found = Node("print", (self._expression(),))
            self._expect("printed")
            return found
        if not self._is("open"):
            raise TemplateError(f"the chat template does not parse: unexpected {self._peek().text!r}.")
        self._enter()
        found = self._statement()
        self._nesting -= 1
        return found

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise TemplateError("the chat template does not parse: it is nested too deeply.")

    def _body(self, *ends: str) -> tuple[Node, ...]:
        """Parse from the end of a tag up to a statement with one of these names."""
        self._expect("close")
        body = []
        while not self._starts(*ends):
            body.append(self._any())
        return tuple(body)

    def _block(self, end: str) -> tuple[Node, ...]:
        """Parse from the end of a tag to the statement that ends its block."""
        body = self._body(end)
        self._end(end)
        return body

    def _end(self, name: str) -> None:
        self._expect("open")
        self._expect_name(name)
        self._expect("close")

    def _else(self, end: str) -> tuple[Node, ...]:
        if not self._starts("else"):
            return ()
        self._place += 2
        return self._body(end)

    def _statement(self) -> Node:
        self._expect("open")
        if not self._is("name"):
            raise TemplateError("the chat template does not parse: an unknown statement.")
        name = self._next().text
        if name in {"break", "continue"}:
            self._expect("close")
            return Node(name)
        read = getattr(self, f"_{name}_statement", None)
        if read is None:
            raise TemplateError(f"the chat template does not parse: an unknown statement, {name}.")
        found: Node = read()
        return found

    def _set_statement(self) -> Node:
        target = self._sequence()
        if not self._take("="):
            return Node("set", (target, None, self._block("endset")))
        value = self._sequence()
        self._expect("close")
        return Node("set", (target, value, ()))

    def _if_statement(self) -> Node:
        found = self._branches()
        self._end("endif")
        return found

    def _branches(self) -> Node:
        test, body = self._expression(), self._body("elif", "else", "endif")
        if not self._starts("elif"):
            return Node("if", (test, body, self._else("endif")))
        self._place += 2
        return Node("if", (test, body, (self._branches(),)))

    def _macro_statement(self) -> Node:
        name, arguments, body = self._primary(), self._arguments(), self._block("endmacro")
        if name.kind != "name":
            raise TemplateError("the chat template does not parse: a macro needs a name.")
        return Node("macro", (arguments, body), name=name.name)

    def _for_statement(self) -> Node:
        target = self._sequence(primary=True)
        self._expect_name("in")
        items, body, other = self._expression(), self._body("endfor", "else"), self._else("endfor")
        self._end("endfor")
        return Node("for", (target, items, body, other))

    def _call_statement(self) -> Node:
        caller = self._arguments() if self._is("(") else ()
        callee = self._primary()
        if callee.kind != "name":
            raise TemplateError("the chat template does not parse: a call needs the name of a macro.")
        return Node("call block", (callee, self._arguments(), caller, self._block("endcall")))

    def _filter_statement(self) -> Node:
        how = self._primary()
        if how.kind == "name" and self._is("("):
            how = self._call(how)
        return Node("filter block", (how, self._block("endfilter")))

    def _generation_statement(self) -> Node:
        self._place += 1
        return Node("nothing")

    _endgeneration_statement = _generation_statement

    def _sequence(self, *, primary: bool = False) -> Node:
        read = self._primary if primary else self._expression
        found = [read()]
        is_tuple = self._is(",")
        while self._take(","):
            found.append(read())
        return Node("tuple", (tuple(found),)) if is_tuple else found[0]

    def _expression(self) -> Node:
        self._enter()
        found = self._operation()
        if self._take_name("if"):
            test = self._operation()
            if self._take_name("else"):
                found = Node("choose", (test, found, self._expression()))
            else:
                found = Node("select", (found, test))
        self._nesting -= 1
        return found

    def _operation(self, level: int = 0) -> Node:
        """Parse an operation with operators of this precedence, or of a higher one, from the left."""
        if level == len(_LEVELS):
            return self._test()
        if _LEVELS[level] == "not" and self._take_name("not"):
            return Node("not", (self._operation(level),))
        left = self._operation(level + 1)
        while operator := self._operator(_LEVELS[level]):
            both = left, self._operation(level + 1)
            left = Node(operator, both) if operator == _LEVELS[level] else Node("binary", both, name=operator)
        return left

    def _operator(self, level: str) -> str:
        """Skip an operator and return it; an empty text if the next token is not of this level."""
        if level in {"or", "and"}:
            return level if self._take_name(level) else ""
        if level == "compare":
            if self._is_name("not") and self._peek(1) == Token("name", "in"):
                self._place += 2
                return "not in"
            if self._take_name("in"):
                return "in"
        return self._next().text if self._is(level) else ""

    def _test(self) -> Node:
        operand = self._filtered()
        while self._take_name("is"):
            negated = self._take_name("not")
            test = self._primary()
            if self._is("("):
                test = self._call(test)
            elif self._is("number", "string", "{", "[") or (
                self._is("name") and not self._is_name("and", "or", "else")
            ):
                test = Node("call", (test, (self._unary(),)))
            operand = Node("test", (operand, test), value=negated)
        return operand

    def _filtered(self) -> Node:
        operand = self._unary()
        while self._take("|"):
            how = self._primary()
            if self._is("("):
                how = self._call(how)
            operand = Node("filter", (operand, how))
        return operand

    def _unary(self) -> Node:
        if self._is("sign"):
            return Node("sign", name=self._next().text, parts=(self._unary(),))
        member = self._members(self._primary())
        return self._call(member) if self._is("(") else member

    def _call(self, callee: Node) -> Node:
        member = self._members(Node("call", (callee, self._arguments())))
        return self._call(member) if self._is("(") else member

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        return self._items(")", self._argument)

    def _argument(self) -> Node:
        if self._peek() == Token("multiply", "*"):
            self._place += 1
            return Node("spread", (self._expression(),))
        argument = self._expression()
        return Node("keyword", (argument, self._expression())) if self._take("=") else argument

    def _items(self, end: str, read: Callable[[], T]) -> tuple[T, ...]:
        """Parse items, with or without commas between them, up to the token that ends them."""
        found = []
        while not self._take(end):
            found.append(read())
            self._take(",")
        return tuple(found)

    def _pair(self) -> tuple[Node, Node]:
        key = self._expression()
        self._expect(":")
        return key, self._expression()

    def _members(self, found: Node) -> Node:
        while self._is(".", "["):
            if self._next().kind == "[":
                key = self._key()
                self._expect("]")
                found = Node("item", (found, key))
            else:
                found = Node("member", (found, self._primary()))
        return found

    def _key(self) -> Node:
        """Parse the content of square brackets: an expression, or a slice of up to three."""
        slices: list[Node | None] = []
        is_slice = False
        while not self._is("]"):
            slices.append(None if self._is(":") else self._expression())
            is_slice = self._take(":") or is_slice
        if is_slice:
            return Node("slice", tuple((slices + [None] * 3)[:3]))
        return slices[0] if slices and slices[0] is not None else Node("blank")

    def _primary(self) -> Node:
        token = self._next()
        if token.kind == "number":
            return Node("constant", value=_number(token.text))
        if token.kind == "string":
            text = token.text
            while self._is("string"):
                text += self._next().text
            return Node("constant", value=text)
        if token.kind == "name":
            return Node("name", name=token.text)
        if token.kind == "(":
            found = self._sequence()
            self._expect(")")
            return found
        if token.kind == "[":
            return Node("list", (self._items("]", self._expression),))
        if token.kind == "{":
            return Node("object", (self._items("}", self._pair),))
        raise TemplateError(f"the chat template does not parse: unexpected {token.text!r}.")


def _number(text: str) -> int | float:
    if "." in text:
        return float(text)
    value = int(text) if len(text) <= _MAX_DIGITS else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise TemplateError(f"the chat template does not parse: {text:.30} has more than 64 bits.")
    return value
