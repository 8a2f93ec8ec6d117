"""The text of an issue: its blocks told apart, and what it reports.

A text is Markdown, as of an issue, a comment or a mail: its code stands between fences, and so do tracebacks and logs.
"""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from repro_kit.commands.intake.issue_files import (
    COMPILES,
    Block,
    Part,
    apart,
    name_above,
    name_in,
    name_within,
    with_parts,
)
from repro_kit.commands.intake.programs import chosen, is_artifact
from repro_kit.errors import UsageError
from repro_kit.failure.classify import concerns_compiler, failure_from_signal, failures_from_text
from repro_kit.failure.failure import Failure
from repro_kit.graph.reading.artifact_forms import artifacts_in
from repro_kit.trace.log_lines import without_heads

_RUNS = ("script", "artifact")
_FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)(?P<more>.*)")
_QUOTED = re.compile(r"^[ \t]{0,3}> ?")
_PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)|^(?:In \[\d+\]: | {3}\.{3}: )")
_MAGIC = re.compile(r"^[ \t]*[!%].*$", re.MULTILINE)  # of a notebook
_PYTHON = ("py", "python", "python3", "pycon", "ipython")
_PRE = re.compile(r"<pre\b[^>]*>\s*(?:<code\b[^>]*>)?(?P<code>.*?)(?:</code>\s*)?</pre>", re.DOTALL | re.IGNORECASE)
_HERE = re.compile(  # a file that a shell's session writes, or hands to Python
    r"^(?P<head>[^\n]*<<-?[ ]*(?P<mark>['\"]?)(?P<end>\w+)(?P=mark)[^\n]*)\n(?P<code>.*?)^[ \t]*(?P=end)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_NUMBERED = re.compile(r"^[ \t]*(\d{1,4})[:|.)]?(?:[ \t]|$)")
_OF_DIFF = re.compile(r"^(?:-|\+\+\+ |@@|diff |index |\\ )")
_BLANKS = str.maketrans({"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": "", "\ufeff": "", "\u2060": ""})
_QUOTES = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")
_TENSOR = re.compile(r"tensor\(|Parameter containing:")
_GOES_ON = re.compile(r"^\s|[(\[{,=\\]\s*$|^(?:if|for|def|class|with|while|try|async)\b.*:\s*$")
_MOST_PRINTED = 30  # lines
_BARE = re.compile(r"^(Unsupported|BackendCompilerFailed)(?=: )", re.MULTILINE)  # as a notebook names torch's own
_TRACEBACK = re.compile(r"^.*Traceback \(most recent call last\)", re.MULTILINE)
_RAISED = re.compile(r"Traceback \(most recent call last\):")
_STAMP = re.compile(r"^(?:\[\w+\]:)?[VIWEC]\d{4} \d\d:\d\d:\d\d|^\[\d{4}-\d\d-\d\d \d\d:\d\d", re.MULTILINE)
_VERSIONS = re.compile(r"PyTorch version:|Collecting environment information|^\W*torch==|Is debug build", re.MULTILINE)
_TORCH = re.compile(
    r"(?:PyTorch version:|^\W*torch==|\b(?:py)?torch(?: version)?[ =:`*]+)\s*v?(\d+\.\d+(?:\.\d+)?(?:[.+a-z]\S*)?)",
    re.MULTILINE | re.IGNORECASE,
)
_LAST = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Failed|Unsupported)(?::|$)", re.MULTILINE)
_SHELL = re.compile(  # what a shell says when a signal ends a program
    r"^(?:.*: |\[\d+\].* )?(Segmentation fault|Aborted|Bus error|Floating point exception|Illegal instruction)"
    r"(?:: \d+)?(?: *\(core dumped\))?\b",
    re.MULTILINE,
)
_SIGNALS = {
    "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE", "Illegal instruction": "SIGILL",
}  # fmt: skip
_ALONE = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Failed|Unsupported): .+)$", re.MULTILINE)  # in prose
_DOTTED = re.compile(
    r"\btorch\._\w+(?:\.\w+)*\.(?:\w+(?:Error|Exception|Failed)|Unsupported): [^`\n]+"
)  # within a line
_QUOTED_RUN = re.compile(r"(?:^[ \t]{0,3}>.*\n?)+", re.MULTILINE)
_INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n?|^[ \t]*\n(?=(?: {4}|\t)))+", re.MULTILINE)
_NAMED = re.compile(r"`([A-Za-z_][\w.]*(?:Error|Exception|Failed|Unsupported): [^`]+)`")  # in prose
_SYSTEM = re.compile(r"^\W*OS:\W*(?:Microsoft )?(Windows|macOS|Mac OS)", re.MULTILINE | re.IGNORECASE)
_DEVICE = re.compile(
    r"""\.(cuda|xpu|mps|hpu)\(\)|["'](cuda|xpu|mps|hpu|npu)(?::\d+)?["']|torch\.(cuda|xpu|mps)\.|(triton)[./]"""
    r"|\bon (?:a |an )?(?:\w+ )?(CUDA|XPU|MPS|ROCm|A100|H100|H200|GPU)s?\b",
)
_ANY_GPU = "a GPU"
#: What the text's own command sets, but for what torch's messages advise.
_VARIABLE = re.compile(r"\b((?:TORCH|PYTORCH|OMP)_?(?!\w*(?:VERBOSE|LOGS|TRACE|DEBUG)\b)\w*)=([^\s`'\"]+)")
_ARGUMENTS = re.compile(r"(?:^|[\s`$])(?:python3?|torchrun)\b[^\n`]*?\.py[ \t]+(-[^\n`]+)")
_WHAT = r"(?:results?|outputs?|values?|answers?|gradients?|numerics)"
_WRONG = re.compile(
    r"(?<!no )(?<!not )(?<!without )\b(?:wrong|incorrect|different|inconsistent|mismatch(?:ed|ing)?)"
    rf"[ -](?:\w+ )?{_WHAT}"
    rf"|silent(?:ly)? (?:wrong|incorrect|error)|silent correctness|allclose\(.*\) *(?:is|returns|->) *False"
    rf"|{_WHAT} (?:differ|diverge|mismatch|(?:is|are|was|were) (?:wrong|different|incorrect|inconsistent))"
    r"|(?:does not|doesn't|do not|don't) (?:match|agree with|equal) (?:the )?(?:eager|expected|uncompiled)"
    r"|(?:differs?|diverges?|deviates?) from (?:the )?(?:eager|expected|uncompiled)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reported:
    """What a text says of the failure.

    `failures`: those that it shows. `device`, `system`: where it happened, if it says so and repro-kit knows the word.
    `run_with`: variables and arguments of the command that the text shows.
    """

    failures: tuple[Failure, ...] = ()
    is_wrong_result: bool = False
    torch: str = ""
    device: str = ""
    system: str = ""
    run_with: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the text says how it fails."""
        return bool(self.failures) or self.is_wrong_result


@dataclass(frozen=True)
class Issue:
    """The text of an issue in blocks, and what stands between them."""

    blocks: tuple[Block, ...]
    prose: str

    @cached_property
    def programs(self) -> tuple[Block, ...]:
        """The blocks that can be run. Several pieces of one script count as one."""
        parts = {part.name for block in self.blocks for _, part in block.parts}
        runs = tuple(block for block in self.blocks if block.kind in _RUNS)
        whole = tuple(block for block in runs if block.name not in parts) or runs
        if any(block.compiles for block in whole):
            return whole
        pieces = [block for block in self.blocks if block.kind in ("script", "fragment")]
        if len(pieces) > 1 and any(piece.compiles for piece in pieces) and whole:
            return (replace(pieces[0], kind="script", text="\n".join(piece.text for piece in pieces)),)
        return whole

    def program(self, which: int | None, name: str) -> Block:
        """The block to run: number `which`, else the only one that compiles. Raises UsageError if there is none."""
        if not self.programs:
            broken = next((block for block in self.blocks if block.kind == "broken"), None)
            lacking = (
                f"the code on line {broken.line} is not whole: {broken.problem}"
                if broken
                else ("it has tracebacks or logs, and no code" if self.blocks else "it has no block of code")
            )
            raise UsageError(
                f"Incomplete: nothing of {name} can be run; {lacking}. Ask for a script that imports torch and fails."
            )
        compiling = [block for block in self.programs if block.compiles]
        if which is None and len(compiling) == 1:
            return compiling[0]
        listed = [block.words for block in self.programs]
        return self.programs[chosen(which, listed, f"{name} holds {len(listed)} programs")]

    @property
    def said(self) -> str:
        """What is prose, and what was installed."""
        return "\n".join([self.prose, *(block.text for block in self.blocks if block.kind == "versions")])

    @cached_property
    def reported(self) -> Reported:
        """What the text says of the failure."""
        shown = [block.text for block in self.blocks if block.kind in ("traceback", "log", "other")]
        prose = _BARE.sub(r"torch._dynamo.exc.\1", self.prose)
        unfenced = failures_from_text(prose)
        shown += [prose] if unfenced else [*_ALONE.findall(prose), *_NAMED.findall(prose)] or _DOTTED.findall(prose)
        failures = [failure for text in shown for failure in _failures_in(text)]
        compilers = [failure for failure in failures if concerns_compiler(failure)]
        everywhere = [self.prose, *(block.text for block in self.blocks if block.kind != "versions")]
        device = _DEVICE.search("\n".join(everywhere))
        torch, system = _TORCH.search(self.said), _SYSTEM.search(self.said)
        return Reported(
            tuple(compilers or failures),
            bool(_WRONG.search(self.prose)),
            torch[1].rstrip(".,;)`*") if torch else "",
            _device_in(device) if device else "",
            system[1] if system else "",
            self._run_with(),
        )

    def _run_with(self) -> tuple[str, ...]:
        """The variables and the arguments of the command that the text shows; those that a program sets are its own."""
        code = "\n".join(block.shown for block in self.programs)
        shown = "\n".join([self.prose, *(block.text for block in self.blocks if block.kind == "other")])
        variables = [match[0] for match in _VARIABLE.finditer(shown) if match[1] not in code]
        return tuple(dict.fromkeys([*variables, *(match[1].strip() for match in _ARGUMENTS.finditer(shown))]))


def _device_in(found: re.Match[str]) -> str:
    """The device that a text names; `_ANY_GPU` where it may be of any make."""
    name = next(filter(None, found.groups()))
    return name.upper() if name.upper() in ("CUDA", "XPU", "MPS", "HPU", "NPU") else _ANY_GPU


def _failures_in(text: str) -> list[Failure]:
    """The failures that `text` shows; also what a shell says of a signal, and the end of a notebook's traceback."""
    text = _BARE.sub(r"torch._dynamo.exc.\1", without_heads(text, _RAISED))
    found = failures_from_text(text)
    if not found and (ended := _SHELL.search(text)):
        return [failure_from_signal(_SIGNALS[ended[1]])]
    ends = [match.start() for match in _LAST.finditer(text)] if not found and _TRACEBACK.search(text) else []
    found = failures_from_text(text[ends[-1] :]) if ends else found
    named = _DOTTED.search(text) if not found else None
    return failures_from_text(named[0]) if named else found


def is_issue(path: Path) -> bool:
    """Whether `path` names the text of an issue: a file of Markdown, or ``-`` for standard input."""
    return str(path) == "-" or (path.suffix.lower() in (".md", ".markdown") and path.is_file())


def read_issue(text: str) -> Issue:
    """Tell the blocks of `text` apart."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_BLANKS)
    fenced, prose = _fenced(text)
    if not fenced and _script(text) is None:
        quoted, rest = _parts(text, _QUOTED_RUN, lambda match: re.sub(r"(?m)^[ \t]{0,3}> ?", "", match[0]))
        is_code = any(_script(part.text) for part in quoted)
        fenced, prose = (quoted, rest) if is_code else _parts(text, _INDENTED, lambda match: match[0])
    blocks = with_parts([block for part in fenced for block in _told_apart(part)])
    if not fenced and (whole := _script(text)) is not None:
        return Issue((Block("script", whole, 1),), "")
    return Issue(blocks, prose)


def _fenced(text: str) -> tuple[list[Part], str]:
    """(language, text, first line) of each part between fences, and the lines outside of them. Quote marks go."""
    found: list[Part] = []
    prose: list[str] = []
    inside: list[str] = []
    fence, language, begun, ended, name = "", "", 0, 0, ""
    for number, given in enumerate(text.split("\n"), 1):
        line = _QUOTED.sub("", given) if not fence or given.lstrip().startswith(">") else given
        mark = _FENCE.match(line)
        prose.append(line if not fence and not mark else "")
        if not fence:
            if mark:
                fence, language, begun, inside = mark["fence"], mark["language"].lower(), number + 1, []
                name = name_in(mark["language"] + mark["more"]) or name_above(prose[ended:-1])
        elif mark and mark["fence"].startswith(fence) and not mark["language"]:
            found.append(Part(language, "\n".join(inside), begun, name))
            fence, ended = "", number
        else:
            inside.append(given if _PROMPT.match(given) else line)
    if fence:
        found.append(Part(language, "\n".join(inside), begun, name))
    html_parts, rest = _parts("\n".join(prose), _PRE, lambda match: html.unescape(match["code"]))
    return sorted([*found, *html_parts], key=lambda part: part.line), rest


def _parts(text: str, pattern: re.Pattern[str], code: Callable[[re.Match[str]], str]) -> tuple[list[Part], str]:
    """What `pattern` finds in `text`, and the rest of it with as many lines."""
    found = [match for match in pattern.finditer(text) if match[0].strip()]
    parts = [
        Part(
            "",
            code(match).strip("\n") + "\n",
            text[: match.start()].count("\n") + 1,
            name_above(text[: match.start()].split("\n")),
        )
        for match in found
    ]
    return parts, pattern.sub(lambda match: "\n" * max(1, match[0].count("\n")), text)


def _told_apart(part: Part) -> Iterator[Block]:
    """The blocks in one fenced part: people paste a script and its traceback together, or several files."""
    text, line = textwrap.dedent(part.text), part.line
    if not text.strip():
        if part.name.endswith("__init__.py"):
            yield Block("fragment", "", line, name=part.name)
        return
    written = _HERE.search(text)
    if written and (name_in(written["head"]) or _script(written["code"])):
        first = line + text[: written.start("code")].count("\n")
        yield from _told_apart(Part("python", written["code"], first, name_in(written["head"])))
        yield from _told_apart(Part("", text[written.end() :], line + text[: written.end()].count("\n")))
        return
    text = _without_numbers(_after_diff(text) if part.language in ("diff", "patch") else text)
    if is_artifact(text):
        for artifact in artifacts_in(text):
            yield Block("artifact", artifact, line + text[: text.find(artifact)].count("\n"))
        return
    for name, code, before in (files := apart(text)):
        yield from _of_code(part._replace(text=code, line=line + before, name=name))
    if not files:
        yield from _of_code(part._replace(text=text, name=name_within(text) or part.name))


def _of_code(part: Part) -> Iterator[Block]:
    """The blocks in a part that begins with code, if it has any."""
    language, text, line, name = part
    shown = _TRACEBACK.search(text)
    code = text[: shown.start()] if shown else text
    script, length = _beginning(code)
    if script is None and name and not shown and not _problem(_cleaned(text)):
        yield Block("fragment", _cleaned(text), line, name=name)
        return
    if script is not None:
        yield Block("script", script, line, name=name)
    rest = text[length:]
    if not rest.strip():
        return
    first = line + text[: len(text) - len(rest)].count("\n")
    if _VERSIONS.search(rest):
        yield Block("versions", rest, first)
    elif shown or _failures_in(rest):
        yield Block("traceback", rest, first)
    elif _STAMP.search(rest):
        yield Block("log", rest, first)
    elif language in _PYTHON and script is None:
        problem = _problem(_cleaned(rest))
        yield Block("broken" if problem else "fragment", _cleaned(rest), first, problem, name)
    else:
        yield Block("other", rest, first, name="" if script else name)


def _cleaned(code: str) -> str:
    """`code` without the prompts and the results of a session, and without the magic of notebooks."""
    lines = code.split("\n")
    if any(_PROMPT.match(line) for line in lines):
        lines = [line[_PROMPT.match(line).end() :] for line in lines if _PROMPT.match(line)]  # type: ignore[union-attr]
    return _MAGIC.sub("", "\n".join(lines)).strip("\n") + "\n"


def _beginning(code: str) -> tuple[str | None, int]:
    """The script that `code` begins with, before what it printed or a line of a shell, and its length."""
    lines = code.split("\n")
    for cut in range(_MOST_PRINTED):
        kept, printed = (
            "\n".join(lines[: len(lines) - cut]),
            [line for line in lines[len(lines) - cut :] if line.strip()],
        )
        script = _script(kept)
        if script is not None and all(map(_is_printed, printed)) and (not cut or COMPILES.search(script)):
            return script, len(code) if not cut else len(kept)
    return None, 0


def _is_printed(line: str) -> bool:
    """Whether a line after a script is none of it: no Python that goes on, or what a tensor prints."""
    return bool(_TENSOR.match(line)) or (bool(_problem(line)) and not _GOES_ON.search(line))


def _after_diff(text: str) -> str:
    """What a file holds after the change that `text` shows."""
    return "\n".join(line[1:] for line in text.split("\n") if not _OF_DIFF.match(line))


def _without_numbers(text: str) -> str:
    """`text` without the numbers that an editor or a pager puts before every line of a script."""
    lines = text.split("\n")
    found = [_NUMBERED.match(line) for line in lines if line.strip()]
    numbers = [int(match[1]) for match in found if match]
    if len(numbers) < 2 or None in found or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return text
    plain = "\n".join(_NUMBERED.sub("", line) for line in lines)
    return plain if _script(plain) else text


def _script(code: str) -> str | None:
    """`code` as a script if it is Python that imports something and speaks of torch."""
    cleaned = _cleaned(code)
    if "torch" in cleaned and _problem(cleaned):
        cleaned = cleaned.translate(_QUOTES)
    if "torch" not in cleaned or _problem(cleaned) or any(map(_TENSOR.match, cleaned.rstrip().split("\n")[-1:])):
        return None
    nodes = ast.walk(ast.parse(cleaned))
    return cleaned if any(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes) else None


def _problem(code: str) -> str:
    """Why `code` is no Python; empty if it is."""
    try:
        ast.parse(code)
    except SyntaxError as error:
        return f"{error.msg}: {(error.text or '').strip()}"
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def shown_blocks(issue: Issue, taken: Block) -> Sequence[str]:
    """The blocks in one line each: what is run has an arrow, its other files a plus, what can be run its number."""
    numbers = {id(block): str(number) for number, block in enumerate(issue.programs, 1)}
    parts = {part.name for _, part in taken.parts}
    blocks = issue.blocks if any(taken is block for block in issue.blocks) else issue.programs
    marks = ["→" if block is taken else "+" if block.name in parts else " " for block in blocks]
    return [f"{mark} {numbers.get(id(block), ' ')}  {block.words}" for mark, block in zip(marks, blocks, strict=True)]
