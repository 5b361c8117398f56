# SPDX-License-Identifier: Apache-2.0
"""A small reader of C++ and CUDA sources: enough to find includes and function bodies.

blank_comments() replaces comments, string and character literals by spaces, so that braces and
words in them do not count; line numbers stay. functions() then walks the braces: what stands in
front of an opening brace says whether it opens a namespace, a type, a function or something else.
It needs no compiler and no headers, and a file that it cannot follow only loses precision.
"""

import re
from typing import NamedTuple

RAW_STRING = re.compile(r'R"([^()\\\s]{0,16})\(')
INCLUDE = re.compile(r'^[ \t]*(#)\s*include\s*([<"])([^>"\n]+)[>"]', re.MULTILINE)
TYPE_HEAD = re.compile(r"^(?:typedef\s+)?(?:class|struct|union|enum)\b")
NAMESPACE_HEAD = re.compile(r'^(?:inline\s+)?namespace\b|^extern\s*$')
OPERATOR = re.compile(r"\boperator\s*(?:\(\s*\)|\[\s*\]|[^\w\s(]+)")
ATTRIBUTE = re.compile(r"\b(?:alignas|requires|noexcept|decltype|__align__|__launch_bounds__)\s*$")


class Function(NamedTuple):
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


def _skip_quoted(text, start, quote):
    """Index just past the literal that opens at start."""
    i = start + 1
    while i < len(text) and text[i] != quote and text[i] != "\n":
        i += 2 if text[i] == "\\" else 1
    return min(i + 1, len(text))


def _literal_end(text, i):
    """Index past the comment or literal that starts at i, or None."""
    if text.startswith("//", i):
        end = text.find("\n", i)
        return len(text) if end < 0 else end
    if text.startswith("/*", i):
        end = text.find("*/", i + 2)
        return len(text) if end < 0 else end + 2
    raw = RAW_STRING.match(text, i)
    if raw:
        close = ")" + raw.group(1) + '"'
        end = text.find(close, raw.end())
        return len(text) if end < 0 else end + len(close)
    if text[i] == '"':
        return _skip_quoted(text, i, '"')
    # A quote after an alphanumeric is a digit separator (1'000), not a literal.
    if text[i] == "'" and not (i > 0 and text[i - 1].isalnum()):
        return _skip_quoted(text, i, "'")
    return None


def blank_comments(text):
    """The text with comments and literals replaced by spaces; newlines are kept."""
    out = []
    i = 0
    while i < len(text):
        end = _literal_end(text, i)
        if end is None:
            out.append(text[i])
            i += 1
        else:
            out.append(re.sub(r"[^\n]", " ", text[i:end]))
            i = end
    return "".join(out)


def blank_preprocessor(text):
    """The text with preprocessor lines (and their continuations) replaced by empty lines."""
    out = []
    continued = False
    for line in text.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.rstrip().endswith("\\")
        out.append("" if directive else line)
    return "\n".join(out)


def includes(text):
    """(line, path, is_quoted) of every include directive outside comments."""
    code = blank_comments(text)
    result = []
    for match in INCLUDE.finditer(text):
        if code[match.start(1)] == "#":
            line = text.count("\n", 0, match.start(1)) + 1
            result.append((line, match.group(3), match.group(2) == '"'))
    return result


def _drop_groups(head, opening, closing):
    """The text without what stands between brackets, and without the brackets.

    Inside angle brackets a '>' between parentheses is a comparison and closes nothing.
    """
    out, depth, parens = [], 0, 0
    for ch in head:
        if opening == "<" and depth > 0 and ch in "()":
            parens += 1 if ch == "(" else -1
        elif ch == opening:
            depth += 1
        elif ch == closing and depth > 0 and parens == 0:
            depth -= 1
        elif depth == 0:
            out.append(ch)
    return "".join(out)


def _drop_attribute_calls(head):
    """Removes alignas(...), requires(...) and the like, which look like parameter lists."""
    i = head.find("(")
    while i >= 0:
        if ATTRIBUTE.search(head[:i]):
            depth, j = 0, i
            while j < len(head):
                depth += {"(": 1, ")": -1}.get(head[j], 0)
                j += 1
                if depth == 0:
                    break
            head = ATTRIBUTE.sub("", head[:i]) + " " + head[j:]
            i = head.find("(")
        else:
            i = head.find("(", i + 1)
    return head


def classify(head):
    """What a brace opens, from the text before it: 'namespace', 'type', 'function' or 'other'."""
    head = OPERATOR.sub("operator_", head.strip())
    head = re.sub(r"^(?:public|private|protected)\s*:\s*", "", head)
    head = _drop_attribute_calls(head)
    plain = re.sub(r"\[\[.*?\]\]", "", head)
    plain = re.sub(r"->|<=|>=|<<|>>(?=\s*\d)", " ", plain)
    plain = re.sub(r"\btemplate\b", "", _drop_groups(plain, "<", ">")).strip()
    if NAMESPACE_HEAD.search(plain) and "(" not in plain:
        return "namespace", ""
    outside = _drop_groups(plain, "(", ")")
    if TYPE_HEAD.search(plain) and "(" not in plain:
        return "type", ""
    if "(" not in plain or "=" in outside:
        return "other", ""
    name = re.search(r"([~\w:]+)\s*\(", plain)
    return "function", name.group(1) if name else "?"


def _matching_brace(text, start):
    depth = 0
    for i in range(start, len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i
    return len(text) - 1


def functions(text):
    """Every function with a body, in file order. Lambdas and local types belong to theirs."""
    code = blank_preprocessor(blank_comments(text))
    found = []
    head_start = i = 0
    while i < len(code):
        ch = code[i]
        if ch in ";}":
            head_start = i + 1
        elif ch == "{":
            head = code[head_start:i]
            kind, name = classify(head)
            if kind in ("function", "other"):
                end = _matching_brace(code, i)
                if kind == "function":
                    start = head_start + len(head) - len(head.lstrip())
                    first = code.count("\n", 0, start) + 1
                    found.append(Function(name, first, code.count("\n", 0, end) + 1))
                i = end
            head_start = i + 1
        i += 1
    return found
