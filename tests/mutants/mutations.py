"""The mutants of a C++ source: each changes it in one place, in its conditions, its offsets or the order of its steps.

Left alone is what no test can tell apart: texts of errors and of logs, assertions, constants of whole files (which mostly tune
speed), alignment, prefetching, vectors' reserve(), and what the test bed alone counts."""

from collections.abc import Iterator
from dataclasses import dataclass

from cxx import Source

CONDITIONS = ("negated", "compared", "equal", "and_or", "dropped")
OFFSETS = ("sign", "term", "constant", "index", "step")
ORDERS = ("deleted", "swapped", "relaxed")
GROUPS = {"conditions": CONDITIONS, "offsets": OFFSETS, "orders": ORDERS}
GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}

# What is inside the brackets of these is text for people, is checked by the compiler, is a constant of a class or a file, or is
# nothing in the product (test_hooks.h).
_UNREAD = {"static_assert", "fail", "format", "join", "warn", "log", "refuse", "alignas", "assert", "decltype", "sizeof",
           "prefetch_to_write", "prefetch_to_read", "IBCOLL_LIMIT", "took"}  # fmt: skip
_SWAPPED_SIGNS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
_KINDS_OF_SIGNS = {"<": "compared", "<=": "compared", ">": "compared", ">=": "compared",
                   "==": "equal", "!=": "equal"}  # fmt: skip
_BELOW_AND = frozenset(["&&", "||", "?", ":", ",", ";", "=", "+=", "-=", "|=", "&="])
_BELOW_PLUS = _BELOW_AND | {"+", "-", "<", ">", "<=", ">=", "==", "!=", "<<", "&", "|", "^"}
_DECLARES = {"const", "constexpr", "auto", "static", "inline", "using", "typedef", "template", "struct", "class", "enum",
             "union", "namespace", "friend", "extern", "explicit", "virtual", "mutable", "unsigned", "void", "bool", "int",
             "char", "double", "float", "public", "private", "protected", "case", "default", "operator", "goto", "else",
             "if", "for", "while", "do", "switch", "try", "catch", "new", "thread_local", "volatile"}  # fmt: skip
_LEAVES = {"return", "break", "continue"}


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    kind: str
    line_text: str
    before: str
    after: str
    occurrence: int  # among the mutants of the file that are otherwise alike
    begin: int  # what is replaced, in the file's text
    end: int

    @property
    def key(self) -> str:
        """Names it whatever changes elsewhere in the file."""
        return "|".join([self.file, self.kind, self.line_text, self.before, self.after, str(self.occurrence)])

    def apply(self, text: str) -> str:
        return text[: self.begin] + self.after + text[self.end :]


def _unread_tokens(source: Source) -> set[int]:
    """Tokens that are left alone."""
    unread: set[int] = set()
    for i, token in enumerate(source.tokens):
        if token.kind != "name":
            continue
        if token.text in _UNREAD and source.text_of(i + 1) == "(":
            unread.update(range(i, source.partner[i + 1] + 1))
        elif token.text == "constexpr" and source.text_of(i - 1) != "if":
            # A constant, from its name to its end; a function's body is read.
            j = i
            while source.text_of(j) not in ("=", "(", "{", ";", ""):
                j += 1
            if source.text_of(j) in ("=", "{"):
                unread.update(range(i, source.operand_end(j, frozenset([";"])) + 1))
        elif token.text == "template" and source.text_of(i + 1) == "<":
            j = i
            while source.text_of(j) != ">":
                j += 1
            unread.update(range(i, j + 1))
        elif token.text == "enum":
            j = i
            while source.text_of(j) not in ("{", ";", ""):
                j += 1
            if source.text_of(j) == "{":
                unread.update(range(i, source.partner[j] + 1))
    return unread


@dataclass(frozen=True)
class _Statement:
    first: int  # token
    last: int  # its semicolon
    alone: bool  # it is all that an if or a loop does
    leaves: bool  # return, break, continue


def _is_declaration(source: Source, first: int, last: int) -> bool:
    if source.text_of(first) in _DECLARES:
        return True
    if source.text_of(first) == "IBCOLL_ASSIGN" and source.text_of(first + 2) in _DECLARES:
        return True
    i = first
    while i < last:
        text = source.text_of(i)
        if text in ("=", "(", "+=", "-=", "|=", "&=", "<<", "++", "--", "{"):
            return i == first + 1 and text == "{"
        if text == "[":
            i = source.partner[i] + 1
            continue
        # Two names in a row, or a type's last sign before one.
        if source.kind_of(i) == "name" and (source.kind_of(i - 1) == "name" or source.text_of(i - 1) in (">", "*", "&")):
            if i > first and not (i == first + 1 and source.text_of(first) in ("*", "&")):
                return True
        i += 1
    return i == last  # nothing that does anything


def _is_hint(source: Source, i: int) -> bool:
    """Whether token i ends the [[likely]] of a condition."""
    if source.text_of(i) != "]" or source.text_of(i - 1) != "]":
        return False
    return source.text_of(source.partner[i] + 1) == "[" and source.text_of(source.partner[i] - 1) in (")", "else")


def _has_members(source: Source, i: int) -> bool:
    """Whether token i opens a class or a namespace."""
    if i in source.partner:
        i -= 1
        while i >= 0 and source.text_of(i) not in (";", "{", "}", ")", "="):
            if source.text_of(i) in ("struct", "class", "union", "namespace", "enum"):
                return True
            i -= 1
    return False


def _statements(source: Source) -> Iterator[_Statement]:
    """Those that end with a semicolon and are no declarations, outside of the brackets of for."""
    in_parentheses = set()
    for i, token in enumerate(source.tokens):
        # A lambda's body inside of them has its statements.
        if token.text == "for" and source.text_of(i + 1) == "(":
            in_parentheses.update(range(i + 1, source.partner[i + 1] + 1))
    members: list[bool] = [True]  # whether what is in the brackets around declares members, or what a file has
    for last, token in enumerate(source.tokens):
        if token.text == "{" and token.kind == "sign":
            members.append(_has_members(source, last))
        elif token.text == "}" and token.kind == "sign":
            members.pop()
        if token.text != ";" or last in in_parentheses or members[-1]:
            continue
        first = last - 1
        while first >= 0:
            text = source.text_of(first)
            if text in ("}", ")", "]"):
                opening = source.partner[first]
                before = source.text_of(opening - 1)
                if text == "}" and (before in (")", "else", "do", "try", "const", ";", "{", "}") or _is_hint(source, opening - 1)) and source.text_of(first + 1) not in (
                    ")", ",", ";", ".", "("):  # fmt: skip
                    break  # the end of a block, not of a lambda's or an initialiser's
                if text == ")" and before in ("if", "for", "while", "switch"):
                    break
                if text == "]" and _is_hint(source, first):
                    break
                first = opening
            elif text in (";", "{", "else", "do") or (text == ":" and source.text_of(first - 1) not in (":",)
                                                      and "?" not in (source.text_of(k) for k in range(max(0, first - 40), first))):  # fmt: skip
                break
            first -= 1
        first += 1
        if first >= last:
            continue
        before = source.text_of(first - 1)
        alone = before in (")", "else", "do") or before == "]"
        leaves = source.text_of(first) in _LEAVES
        if not leaves and _is_declaration(source, first, last):
            continue
        yield _Statement(first, last, alone, leaves)


def _is_condition(source: Source, i: int) -> bool:
    """Whether token i is the bracket of an if or a while."""
    return source.text_of(i) == "(" and source.text_of(i - 1) in ("if", "while")


def _term_end(source: Source, begin: int) -> int:
    """The end of what is added, which may be a template's last argument."""
    end = source.operand_end(begin, _BELOW_PLUS)
    angles = 0
    for i in range(begin, end):
        if source.text_of(i) in ("<", ">"):
            angles += 1 if source.text_of(i) == "<" else -1
        if angles < 0:
            return i
    return end


def mutants_of(file: str, text: str) -> list[Mutant]:
    source = Source(text)
    unread = _unread_tokens(source)
    tokens = source.tokens
    all_statements = list(_statements(source))
    for one in all_statements:
        # A vector's: of a ring's what it returns is used.
        if source.text_of(one.first) not in _LEAVES and any(
            source.text_of(k) == "reserve" and source.text_of(k - 1) == "." for k in range(one.first, one.last)
        ) and "=" not in [source.text_of(k) for k in range(one.first, one.last)]:  # fmt: skip
            unread.update(range(one.first, one.last + 1))
    found: list[tuple[str, int, int, str]] = []  # kind, begin, end, what stands there then

    def put(kind: str, begin: int, end: int, after: str) -> None:
        found.append((kind, begin, end, after))

    for i, token in enumerate(tokens):
        if i in unread:
            continue
        text_here = token.text
        if token.kind == "sign" and source.is_spaced(i):
            if text_here in ("&&", "||"):
                begin = source.operand_begin(i - 1, _BELOW_AND)
                end = source.operand_end(i + 1, _BELOW_AND)
                put("dropped", tokens[i - 1].end, tokens[end - 1].end, "")
                put("dropped", tokens[begin].begin, tokens[i + 1].begin, "")
                left = text[tokens[begin].begin : token.begin]
                right = text[token.end : tokens[end - 1].end]
                put("and_or", tokens[begin].begin, tokens[end - 1].end, f"({left}{_SWAPPED_SIGNS[text_here]}{right})")
            elif text_here in _SWAPPED_SIGNS:
                put(_KINDS_OF_SIGNS[text_here], token.begin, token.end, _SWAPPED_SIGNS[text_here])
            if text_here in ("+", "-"):
                put("sign", token.begin, token.end, "-" if text_here == "+" else "+")
                end = _term_end(source, i + 1)
                put("term", tokens[i - 1].end, tokens[end - 1].end, "")
            if text_here in ("+=", "-="):
                put("step", token.begin, token.end, "-=" if text_here == "+=" else "+=")
        elif token.kind == "sign" and text_here in ("++", "--"):
            put("step", token.begin, token.end, "--" if text_here == "++" else "++")
        elif token.kind == "number" and text_here.rstrip("uUlLz").isdecimal():
            # Not what a template is made for.
            if source.text_of(i - 1) in ("<", "case") or source.text_of(i + 1) == ">":
                continue
            # Nor the width of a bit-field.
            if source.text_of(i - 1) == ":" and source.kind_of(i - 2) == source.kind_of(i - 3) == "name":
                continue
            digits = text_here.rstrip("uUlLz")
            suffix = text_here[len(digits) :]
            put("constant", token.begin, token.end, f"{int(digits) + 1}{suffix}")
            if int(digits) > 0:
                put("constant", token.begin, token.end, f"{int(digits) - 1}{suffix}")
        elif text_here == "[" and (source.kind_of(i - 1) == "name" or source.text_of(i - 1) in (")", "]")):
            end = source.partner[i]
            if end > i + 1 and source.text_of(i + 1) != "[" and source.text_of(i - 1) not in ("return", "delete"):
                put("index", tokens[end - 1].end, tokens[end - 1].end, " + 1")
        elif _is_condition(source, i):
            end = source.partner[i]
            begin = i + 1
            for j in range(i + 1, end):
                if tokens[j].text == ";":
                    begin = j + 1  # if (declaration; condition)
            inside = [tokens[j].text for j in range(begin, end)]
            if "=" not in inside:
                put("negated", tokens[begin].begin, tokens[end - 1].end,
                    f"!({text[tokens[begin].begin:tokens[end - 1].end]})")  # fmt: skip

    statements = [one for one in all_statements if one.first not in unread]
    for one in statements:
        # A function's last return can't go, and one alone goes with its condition.
        if one.leaves and not one.alone:
            continue
        put("deleted", tokens[one.first].begin, tokens[one.last].end, "{}" if one.alone else "")
    for one, next_one in zip(statements, statements[1:]):
        if next_one.first != one.last + 1 or one.leaves or next_one.leaves or one.alone or next_one.alone:
            continue
        first = text[tokens[one.first].begin : tokens[one.last].end]
        between = text[tokens[one.last].end : tokens[next_one.first].begin]
        second = text[tokens[next_one.first].begin : tokens[next_one.last].end]
        if "//" in between or _are_apart(source, one, next_one):
            continue
        put("swapped", tokens[one.first].begin, tokens[next_one.last].end, second + between + first)
        # What a release holds back for others to see is a store of a shared word just before it: the test bed keeps no other
        # stores back.
        if ".store(" in first and ".store(" in second and "memory_order_release" in second:
            at = text.index("memory_order_release", tokens[next_one.first].begin)
            put("relaxed", at, at + len("memory_order_release"), "memory_order_relaxed")

    mutants, seen = [], {}
    for kind, begin, end, after in found:
        line = source.line_at(begin)
        alike = (kind, source.line_text(line), text[begin:end], after)
        seen[alike] = seen.get(alike, -1) + 1
        mutants.append(Mutant(file, line, kind, alike[1], text[begin:end], after, seen[alike], begin, end))
    return mutants


def _are_apart(source: Source, one: _Statement, other: _Statement) -> bool:
    """Two updates that call nothing, and neither of which names what the other sets: their order is of no account."""
    names, targets = [], []
    for statement in (one, other):
        texts = [source.text_of(k) for k in range(statement.first, statement.last)]
        signs = [k for k, text in enumerate(texts) if text in ("=", "+=", "-=", "|=", "&=")]
        if "(" in texts or not (signs or texts[0] in ("++", "--")):
            return False
        targets.append([text for text in texts[: signs[0] if signs else len(texts)] if text.isidentifier()][-1:])
        names.append(texts)
    return not (set(targets[0]) & set(names[1]) or set(targets[1]) & set(names[0]))
