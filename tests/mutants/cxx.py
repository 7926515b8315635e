"""The tokens of C++ source as clang-format lays it out, each with its place: comments and preprocessor lines are left out,
strings are one token each."""

import bisect
import re
from dataclasses import dataclass

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {")": "(", "]": "[", "}": "{"}

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<directive>(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>(?:u8|u|U|L)?(?:R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"))
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[][{}()<>;:,.?=+*/%&|^!~-])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str  # string, char, number, name or sign
    text: str
    begin: int  # in the source
    end: int


class Source:
    """A file's text, its tokens, and for each bracket where its partner is."""

    def __init__(self, text: str):
        self.text = text
        self.tokens: list[Token] = []
        at = 0
        while at < len(text):
            # ">>" is two tokens: where it shifts nothing here asks for it.
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"no token of C++ at character {at}: {text[at:at + 20]!r}")
            if match.lastgroup not in ("skip", "directive"):
                kind = match.lastgroup if match.lastgroup != "mark" else "string"
                self.tokens.append(Token(kind, match.group(0), at, match.end()))
            at = match.end()
        self.partner: dict[int, int] = {}
        open_ones: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in OPENING:
                open_ones.append(i)
            elif token.text in CLOSING:
                begin = open_ones.pop()
                self.partner[begin], self.partner[i] = i, begin
        self._lines = [0] + [match.end() for match in re.finditer("\n", text)]

    def __len__(self):
        return len(self.tokens)

    def text_of(self, i: int) -> str:
        """Of token i; nothing where there is none."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def kind_of(self, i: int) -> str:
        return self.tokens[i].kind if 0 <= i < len(self.tokens) else ""

    def line_at(self, place: int) -> int:
        """The line, from 1, of a place in the text."""
        return bisect.bisect_right(self._lines, place)

    def line_text(self, line: int) -> str:
        end = self._lines[line] - 1 if line < len(self._lines) else len(self.text)
        return self.text[self._lines[line - 1] : end].strip()

    def is_spaced(self, i: int) -> bool:
        """Whether an operator is a binary one: clang-format puts blanks around these and around no other sign."""
        token = self.tokens[i]
        return self.text[token.begin - 1 : token.begin].isspace() and self.text[token.end : token.end + 1].isspace()

    def operand_end(self, i: int, stops: frozenset) -> int:
        """The first token from i on, outside of brackets that begin there, that is one of `stops` or closes a bracket."""
        while i < len(self.tokens):
            text = self.tokens[i].text
            if self.tokens[i].kind == "sign":
                if text in CLOSING or (text in stops and (text not in ("<", ">", "&", "*") or self.is_spaced(i))):
                    return i
                if text in OPENING:
                    i = self.partner[i]
            i += 1
        return i

    def operand_begin(self, i: int, stops: frozenset) -> int:
        """The same to the left: the first token of the operand that ends with token i."""
        while i >= 0:
            text = self.tokens[i].text
            if text == "return":
                return i + 1
            if self.tokens[i].kind == "sign":
                if text in OPENING or (text in stops and (text not in ("<", ">", "&", "*") or self.is_spaced(i))):
                    return i + 1
                if text in CLOSING:
                    i = self.partner[i]
            i -= 1
        return 0
