"""The parser of llama.cpp's Jinja: tokens to a tree (common/jinja/parser.cpp).

Unlike in Jinja2, there are only a few statements, and filters bind tighter than a sign.
"""

from __future__ import annotations

from typing import Final

from tokenbox.conversation.llama.syntax import MAX_NESTING, Node, TemplateError, Token, tokenize


def parse(source: str) -> tuple[Node, ...]:
    """Return the statements of a template. Raises :class:`TemplateError`."""
    try:
        return _Parser(tokenize(source)).program()
    except RecursionError:
        raise TemplateError("the chat template does not parse: it is nested too deeply.") from None


_END: Final = Token("end", "")


class _Parser:
    """A recursive-descent parser, with a method per precedence level, the lowest first."""

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

    def _is_statement(self, *names: str) -> bool:
        return self._is("open") and self._peek(1).kind == "name" and self._peek(1).text in names

    def _any(self) -> Node:
        token = self._peek()
        if token.kind == "comment":
            self._place += 1
            return Node("nothing")
        if token.kind == "text":
            self._place += 1
            return Node("text", value=token.text)
        if token.kind == "open":
            self._nesting += 1
            if self._nesting > MAX_NESTING:
                raise TemplateError("the chat template does not parse: it is nested too deeply.")
            found = self._statement()
            self._nesting -= 1
            return found
        if token.kind == "print":
            self._place += 1
            found = Node("print", (self._expression(),))
            self._expect("printed")
            return found
        raise TemplateError(f"the chat template does not parse: unexpected {token.text!r}.")

    def _body(self, *ends: str) -> tuple[Node, ...]:
        body = []
        while not self._is_statement(*ends):
            body.append(self._any())
        return tuple(body)

    def _end(self, name: str) -> None:
        self._expect("open")
        self._expect_name(name)
        self._expect("close")

    def _statement(self) -> Node:
        self._expect("open")
        if not self._is("name"):
            raise TemplateError("the chat template does not parse: an unknown statement.")
        name = self._next().text
        read = getattr(self, f"_{name}_statement", None)
        if name not in _STATEMENTS or read is None:
            raise TemplateError(f"the chat template does not parse: an unknown statement, {name}.")
        found: Node = read()
        return found

    def _set_statement(self) -> Node:
        target = self._sequence()
        if self._is("="):
            self._place += 1
            value = self._sequence()
            self._expect("close")
            return Node("set", (target, value, ()))
        self._expect("close")
        body = self._body("endset")
        self._end("endset")
        return Node("set", (target, None, body))

    def _if_statement(self) -> Node:
        found = self._branches()
        self._end("endif")
        return found

    def _branches(self) -> Node:
        test = self._expression()
        self._expect("close")
        body = self._body("elif", "else", "endif")
        other: tuple[Node, ...] = ()
        if self._is_statement("elif"):
            self._place += 2
            other = (self._branches(),)
        elif self._is_statement("else"):
            self._place += 2
            self._expect("close")
            other = self._body("endif")
        return Node("if", (test, body, other))

    def _macro_statement(self) -> Node:
        name = self._primary()
        arguments = self._arguments()
        self._expect("close")
        body = self._body("endmacro")
        self._end("endmacro")
        if name.kind != "name":
            raise TemplateError("the chat template does not parse: a macro needs a name.")
        return Node("macro", (arguments, body), name=name.name)

    def _for_statement(self) -> Node:
        target = self._sequence(primary=True)
        self._expect_name("in")
        items = self._expression()
        self._expect("close")
        body = self._body("endfor", "else")
        other: tuple[Node, ...] = ()
        if self._is_statement("else"):
            self._place += 2
            self._expect("close")
            other = self._body("endfor")
        self._end("endfor")
        return Node("for", (target, items, body, other))

    def _break_statement(self) -> Node:
        self._expect("close")
        return Node("break")

    def _continue_statement(self) -> Node:
        self._expect("close")
        return Node("continue")

    def _call_statement(self) -> Node:
        caller = self._arguments() if self._is("(") else ()
        callee = self._primary()
        if callee.kind != "name":
            raise TemplateError("the chat template does not parse: a call needs the name of a macro.")
        arguments = self._arguments()
        self._expect("close")
        body = self._body("endcall")
        self._end("endcall")
        return Node("call block", (callee, arguments, caller, body))

    def _filter_statement(self) -> Node:
        how = self._primary()
        if how.kind == "name" and self._is("("):
            how = self._call(how)
        self._expect("close")
        body = self._body("endfilter")
        self._end("endfilter")
        return Node("filter block", (how, body))

    def _generation_statement(self) -> Node:
        self._place += 1
        return Node("nothing")

    _endgeneration_statement = _generation_statement

    def _sequence(self, *, primary: bool = False) -> Node:
        read = self._primary if primary else self._expression
        found = [read()]
        is_tuple = self._is(",")
        while self._is(","):
            self._place += 1
            found.append(read())
        return Node("tuple", (tuple(found),)) if is_tuple else found[0]

    def _expression(self) -> Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise TemplateError("the chat template does not parse: it is nested too deeply.")
        found = self._or()
        if self._is_name("if"):
            self._place += 1
            test = self._or()
            if self._is_name("else"):
                self._place += 1
                found = Node("choose", (test, found, self._expression()))
            else:
                found = Node("select", (found, test))
        self._nesting -= 1
        return found

    def _or(self) -> Node:
        left = self._and()
        while self._is_name("or"):
            self._place += 1
            left = Node("or", (left, self._and()))
        return left

    def _and(self) -> Node:
        left = self._not()
        while self._is_name("and"):
            self._place += 1
            left = Node("and", (left, self._not()))
        return left

    def _not(self) -> Node:
        if self._is_name("not"):
            self._place += 1
            return Node("not", (self._not(),))
        return self._comparison()

    def _comparison(self) -> Node:
        left = self._additive()
        while True:
            if self._is_name("not") and self._peek(1) == Token("name", "in"):
                operator, taken = "not in", 2
            elif self._is_name("in"):
                operator, taken = "in", 1
            elif self._is("compare"):
                operator, taken = self._peek().text, 1
            else:
                return left
            self._place += taken
            left = Node("binary", (left, self._additive()), name=operator)

    def _additive(self) -> Node:
        left = self._multiplicative()
        while self._is("add"):
            operator = self._next().text
            left = Node("binary", (left, self._multiplicative()), name=operator)
        return left

    def _multiplicative(self) -> Node:
        left = self._test()
        while self._is("multiply"):
            operator = self._next().text
            left = Node("binary", (left, self._test()), name=operator)
        return left

    def _test(self) -> Node:
        operand = self._filtered()
        while self._is_name("is"):
            self._place += 1
            negated = self._is_name("not")
            self._place += negated
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
        while self._is("|"):
            self._place += 1
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
        found = []
        while not self._is(")"):
            if self._peek() == Token("multiply", "*"):
                self._place += 1
                found.append(Node("spread", (self._expression(),)))
            else:
                argument = self._expression()
                if self._is("="):
                    self._place += 1
                    argument = Node("keyword", (argument, self._expression()))
                found.append(argument)
            if self._is(","):
                self._place += 1
        self._expect(")")
        return tuple(found)

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
            if self._is(":"):
                slices.append(None)
                self._place += 1
                is_slice = True
            else:
                slices.append(self._expression())
                if self._is(":"):
                    self._place += 1
                    is_slice = True
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
            items = []
            while not self._is("]"):
                items.append(self._expression())
                if self._is(","):
                    self._place += 1
            self._place += 1
            return Node("list", (tuple(items),))
        if token.kind == "{":
            pairs = []
            while not self._is("}"):
                key = self._expression()
                self._expect(":")
                pairs.append((key, self._expression()))
                if self._is(","):
                    self._place += 1
            self._place += 1
            return Node("object", (tuple(pairs),))
        raise TemplateError(f"the chat template does not parse: unexpected {token.text!r}.")


_STATEMENTS: Final = frozenset(
    ["set", "if", "macro", "for", "break", "continue", "call", "filter", "generation", "endgeneration"]
)


def _number(text: str) -> int | float:
    if "." in text:
        return float(text)
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise TemplateError(f"the chat template does not parse: {text} has more than 64 bits.")
    return value
