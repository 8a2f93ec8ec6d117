"""`issue.md`, `README.md`, and an ablation as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.story.answer_lines import answers, builds_table, contrast_line, located, prose, tested
from repro_kit.bundle.story.answer_lines import code as inline
from repro_kit.bundle.story.issue_form import FORM, LONGEST_BODY, VERSIONS, body_of, labels_of, searches
from repro_kit.bundle.story.story import Aspect, Story
from repro_kit.bundle.story.title import headline_of, title_of
from repro_kit.diagnosis.answers import GeneratedKernel, TorchSource, around
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.evidence import chain_markdown
from repro_kit.diagnosis.report import layout
from repro_kit.diagnosis.workaround import markdown as workarounds
from repro_kit.failure.frames import shortened


def markdown(ablation: Ablation) -> str:
    """The sentence that names the layer, and the table of the cells with the commands that repeat them."""
    about = f"`{ablation.failure}`" if ablation.failure else "The failure"
    version = f", torch {ablation.torch}" if ablation.torch else ""
    lines = [f"**Ablation** of {about} on the {ablation.subject}{version}. {ablation.sentence}", ""]
    lines += [tables(ablation), "", *(f"- {note}" for note in ablation.notes)]
    if ablation.chain is not None:
        lines += ["", chain_markdown(ablation.chain)]
    lines += ["", workarounds(ablation.workarounds)]
    return "\n".join(lines).rstrip() + "\n"


def tables(ablation: Ablation, most: int | None = None) -> str:
    """The grid of the cells, and a list of at most `most` cells that do not fit into the grid."""
    made = layout(ablation)
    lines = _table(made.columns, made.rows)
    header, *rest = made.listed()
    lines += ["", *_table(header, rest[:most])] if made.rest else []
    if most is not None and len(made.rest) > most:
        lines += ["", f"{len(made.rest) - most} more cells are in `ablation.json` of the bundle."]
    return "\n".join([*lines, "", *made.notes, *filter(None, [made.legend])]).rstrip()


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |" for line in lines]


LONGEST_READ = 80  # lines of the issue before its versions, which a maintainer reads

_REPRO = "repro.py"
_IN_COMMENT = ("Runs", "Against float64", "Precision casts", "Eager", "Devices", "Builds", "Workaround")
_LONGEST_LINE = 240  # characters of a line of a log
#: Where the code is, by whether there is room for it below the versions.
_ELSEWHERE = ("The code is too long for an issue.", "The whole code stands below, after the versions.")
_LOG_LINES = 150  # of the whole output, below the versions
_COLLECT_ENV = 12_000  # characters
_LONGEST_KERNEL = 60  # lines
_COMPILES = r"(?<!, )\bcompil"  # in a headline: not ", compiled 2.0"
_IN_EVERY_KERNEL = "inductor_cpu_integer_div_error"
_ROWS = 60  # cells of the ablation that do not fit into its grid

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_CLOCK = re.compile(r"^(?P<rank>\[rank\d+\]:)?[VDIWEC]\d{4} [\d:.]+ \d+ ", re.MULTILINE)
_MODULES = re.compile(r"^Extension modules: .*\n?", re.MULTILINE)  # what Python's fault handler lists last
#: Of a native compiler, or of Python; each is followed by the line of code that it is about.
_WARNING = re.compile(r":\d+(?::\d+)?: (?:warning|note|\w*Warning): ")
_CONTINUED = re.compile(r"\s+\d* *\||  \S")
_NATIVE_ERROR = re.compile(r":\d+(?::\d+)?: (?:fatal )?error: ")
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Failed|Unsupported|FAIL\b.*)(?::|$)")
_RANDOM_DIRECTORY = re.compile(r"/tmp/(?:tmp[a-z0-9_]{8}|repro-kit-(?:[0-9]+-)?[a-z0-9_]{8})")


@dataclass(frozen=True)
class _Room:
    """How many lines the parts of the issue before its versions may take, and characters what stands below them."""

    code: int
    log: int
    kernel: int
    below: int


#: The first of these that keeps the issue within its limits is used.
_ROOMS = (
    _Room(60, 24, 60, 40_000),
    _Room(60, 10, 60, 40_000),
    _Room(60, 10, 24, 40_000),
    _Room(60, 10, 12, 40_000),
    _Room(60, 6, 12, 40_000),
    _Room(60, 4, 0, 40_000),
    _Room(32, 6, 0, 24_000),
    _Room(16, 4, 0, 12_000),
    _Room(0, 4, 0, 6_000),
)


def issue(story: Story) -> str:
    """The text to paste into PyTorch's torch.compile bug form, box by box; `marks` stand for the code in it."""
    story = replace(story, log=_or_nothing(without_warnings(steady(story.log))))
    texts = (_issue(story, room) for room in _ROOMS)
    return next((text for text in texts if _fits(text, story)), _issue(story, _ROOMS[-1]))


def _fits(text: str, story: Story) -> bool:
    """Whether the text with its code is short enough to be read, and to be an issue at all."""
    text = with_code(text, story)
    before = body_of(text).partition(VERSIONS)[0]
    return len(before.splitlines()) <= LONGEST_READ and len(text) <= LONGEST_BODY


def marks(story: Story) -> dict[str, str]:
    """The redacted texts of `code_of`, by the marks that stand for them."""
    return {f"@@code {at}@@": text.rstrip() for at, (_, text) in enumerate(code_of(story))}


def code_of(story: Story) -> Sequence[tuple[str, str]]:
    """(name, text) of the code that a reader needs: `repro.py`, or the files that `repro.py` runs, if there are any."""
    return story.sources if story.runs_users_files else story.sources or ((_REPRO, story.repro),)


def _quoted(story: Story) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """The code by its marks, and (name, mark, fence) of each. Of the user's own files none: an issue is public."""
    if story.runs_users_files:
        return {}, []
    code = marks(story)
    return code, [(name, mark, fence(text)) for mark, (name, text) in zip(code, code_of(story), strict=True)]


def _issue(story: Story, room: _Room) -> str:
    code, listed = _quoted(story)
    excerpt = story.excerpt.text if story.excerpt else ""
    lines = sum(len(text.splitlines()) for text in code.values())
    is_shown = lines <= room.code and bool(any(code.values()))
    log = trim(story.log, room.log)
    kernel = shown_kernel(story.answers.kernel, room.kernel)
    below = [*_details(story, [] if is_shown else listed, kernel_is_cut=kernel is None or kernel.is_cut)]
    details = _within(below, room.below, story)
    return render(
        "issue.md.j2",
        story=story,
        title=title_of(story),
        labels=labels_of(story),
        form=FORM,
        searches=searches(story),
        opening=_opening(story),
        inline=inline,
        code=listed if is_shown else [],
        excerpt="" if is_shown else excerpt,
        excerpt_fence=fence(excerpt),
        appended="" if is_shown or not any(code.values()) else _ELSEWHERE[details[:1] == below[:1]],
        contrast=contrast_line(story),
        answers=[*answers(story)],
        checked=checked(story),
        builds=builds_table(story),
        located=located(story),
        tested=tested(story),
        places=places(story.answers.places),
        kernel=kernel,
        log=log,
        log_fence=fence(log),
        seen_with=story.seen_with,
        details=details,
    )


def _within(details: Sequence[tuple[str, str]], longest: int, story: Story) -> list[tuple[str, str]]:
    """The first of `details` that together have at most `longest` characters."""
    kept, left = [], longest
    for summary, text in details:
        length = len(with_code(text, story))
        if length <= left:
            kept.append((summary, text))
            left -= length
    return kept


def _details(story: Story, code: Sequence[tuple[str, str, str]], *, kernel_is_cut: bool) -> Iterator[tuple[str, str]]:
    """(summary, Markdown) of what stands below the versions, folded up."""
    for name, mark, ticks in code:
        yield f"<code>{escape(name)}</code>", f"{ticks}python\n{mark}\n{ticks}"
    collected = middle_cut(story.environment.collect_env.strip(), _COLLECT_ENV)
    yield "Output of torch.utils.collect_env", f"{fence(collected)}\n{collected}\n{fence(collected)}"
    if story.ablation is not None:
        rows = [story.evidence, tables(story.ablation, _ROWS), *(f"- {note}" for note in story.ablation.notes)]
        yield "Every setting that was tried", "\n\n".join(filter(None, rows))
        workarounds = _workarounds(story)
        if workarounds:
            yield "Workarounds", workarounds
    whole = shown_kernel(story.answers.kernel, _LONGEST_KERNEL) if kernel_is_cut else None
    if whole is not None:
        yield "The generated kernel", f"{whole.fence}{whole.language}\n{whole.text}\n{whole.fence}"
    if story.minimized or story.twin:
        yield "How the code was reduced", "\n\n".join(_reduced(story))
    if story.bisected:
        yield "Which build broke it", story.bisected
    log = trim(story.log, _LOG_LINES)
    yield "Output of the failing run", f"{fence(log)}\n{log}\n{fence(log)}"


def _reduced(story: Story) -> Iterator[str]:
    if story.minimized:
        yield story.minimized
    if story.twin:
        diff = story.twin.diff
        yield f"The nearest variant that passes: {story.twin.what}\n\n{fence(diff)}diff\n{diff}\n{fence(diff)}"


def _workarounds(story: Story) -> str:
    """The workarounds that were tried, and the settings with which it passes."""
    flips = story.chain.flips if story.chain else ()
    settings = [f"- `{flip.name}={flip.value}`{f' ({flip.limits})' if flip.limits else ''}" for flip in flips]
    listed = ["Each of these settings makes it pass:\n", *settings] if settings else []
    tried = workarounds(story.ablation.workarounds) if story.ablation else ""
    return "\n\n".join(filter(None, [tried, "\n".join(listed)]))


@dataclass(frozen=True)
class ShownKernel:
    """A kernel, or the part of it around the suspicious line, as Markdown."""

    heading: str
    language: str
    text: str
    fence: str
    is_cut: bool


def shown_kernel(kernel: GeneratedKernel | None, most: int) -> ShownKernel | None:
    """At most `most` lines of the `kernel`, with a remark at the line that the values point to."""
    if kernel is None or most <= 0:
        return None
    comment = "#" if kernel.language == "triton" else "//"
    whole = kernel.code.splitlines()
    kept = list(range(len(whole)))
    if len(whole) > most:  # then nothing that every kernel has
        kept = [at for at in kept if _IN_EVERY_KERNEL not in whole[at] and whole[at].strip(" {}")]
    marked = kernel.marked - 1
    shown = [kept[at] for at in around(len(kept), kept.index(marked) if marked in kept else -1, most)]
    left = len(whole) - len(shown) + kernel.left_out
    text = "\n".join(f"{whole[at]}{f'  {comment} <-- {kernel.why}' * (at == marked)}" for at in shown)
    cut = f", {left} more line{'s are' if left > 1 else ' is'} not here" if left else ""
    language = "python" if kernel.language == "triton" else kernel.language
    return ShownKernel(f"The generated kernel `{kernel.name}`{cut}:", language, text, fence(text), bool(left))


def places(found: Sequence[TorchSource]) -> str:
    """Places in torch's source as Markdown, each with what it is, and with a link where the commit is known."""
    by_what: dict[str, list[str]] = {}
    for place in found:
        at = f"`{place.file}:{place.line}`"
        by_what.setdefault(place.what, []).append(f"[{at}]({place.link})" if place.link else at)
    return "; ".join(f"{what}: {', '.join(linked)}" for what, linked in by_what.items())


def comment(story: Story) -> str:
    """A short comment on an issue that exists: that it is reproduced, with smaller code and the layer."""
    code, listed = _quoted(story)
    lines = sum(len(text.splitlines()) for text in code.values())
    return render(
        "comment.md.j2",
        story=story,
        headline=prose(headline_of(story)),
        inline=inline,
        code=listed if 0 < lines <= LONGEST_READ else [],
        contrast=contrast_line(story),
        answers=[(question, answer) for question, answer in answers(story) if question in _IN_COMMENT],
        located=located(story),
        places=places(story.answers.places),
    )


def comment_with_code(story: Story) -> str:
    """The comment as it is sent, of a story whose code is redacted."""
    return with_code(comment(story), story)


def with_code(text: str, story: Story) -> str:
    """`text` with the code in place of its marks."""
    for mark, shown in marks(story).items():
        text = text.replace(mark, shown)
    return text


def readme(story: Story) -> str:
    """`README.md`: what the bundle is, for somebody who opens it by hand."""
    return render(
        "README.md.j2",
        story=story,
        inline=inline,
        headline=headline_of(story),
        contrast=contrast_line(story),
        answers=[*answers(story)],
        located=located(story),
        places=places(story.answers.places),
        title=title_of(story),
        labels=labels_of(story),
        form=FORM,
        searches=searches(story),
    )


def _opening(story: Story) -> str:
    """The failure in one sentence, and what is expected instead."""
    headline = headline_of(story)
    how = "without torch.compile too" if story.in_eager else f"under `{story.call}`"
    told = "eager too" if story.in_eager else _COMPILES if story.call == "torch.compile" else re.escape(story.call)
    is_said = re.search(told, headline) or how in headline
    sentence = f"{prose(headline)}{'' if is_said else f', {how}'}."
    return f"{sentence[:1].upper()}{sentence[1:]} **Expected:** {story.expected}"


def checked(story: Story) -> str:
    """What the failure needs and what not, of the points that PyTorch asks about, in one line."""
    used = [each for each in story.aspects if each.kept or each.captured]
    told = [f"{each.name.lower()} {aspect_words(each, minimal=story.minimal)}" for each in used]
    absent = [each.name.lower() for each in story.aspects if not (each.kept or each.captured)]
    return " · ".join([*told, f"not used: {', '.join(absent)}"] if absent else told)


def aspect_words(aspect: Aspect, *, minimal: bool) -> str:
    """Whether the reproducer still needs an aspect, in words; a reduction that is not `minimal` may have left it in."""
    if aspect.kept:
        same = aspect.kept == aspect.captured
        return f"{'needed' if minimal else 'not reduced'}: {aspect.kept}" + (
            "" if same or not aspect.captured else f" (originally: {aspect.captured})"
        )
    return f"not needed (the captured graph had: {aspect.captured})" if aspect.captured else "not involved"


def steady(log: str) -> str:
    """`log` without what differs from run to run (addresses, clocks, process ids, random directories), and modules."""
    log = _CLOCK.sub(lambda stamp: f"{stamp['rank'] or ''}", _MODULES.sub("", log))
    return _RANDOM_DIRECTORY.sub("/tmp/…", _ADDRESS.sub("0x…", log))


def without_warnings(log: str) -> str:
    """`log` without warnings of native compilers and of Python, and the code lines that follow each."""
    kept: list[str] = []
    skipping = False
    count = 0
    for line in log.splitlines():
        warning = bool(_WARNING.search(line))
        skipping = warning or (skipping and bool(_CONTINUED.match(line)))
        count += warning
        if not skipping:
            kept.append(line)
    note = [f"[{count} warning{'s' * (count > 1)} left out]"] if count else []
    return "\n".join([*kept, *note])


def _or_nothing(log: str) -> str:
    """`log`; of a run that prints nothing but what was left out, a line that says so."""
    lines = [line for line in log.splitlines() if line.strip()]
    return log if any(not line.startswith("[") for line in lines) else "\n".join(["(the run prints nothing)", *lines])


def trim(log: str, most: int) -> str:
    """At most `most` lines of `log`, up to the error that it tells of; a line says how many were left out."""
    lines = [middle_cut(line, _LONGEST_LINE).replace("\n", " ") for line in log.rstrip().splitlines()]
    if len(lines) <= most:
        return "\n".join(lines)
    native = next((at for at, line in enumerate(lines) if _NATIVE_ERROR.search(line)), None)
    errors = [at for at, line in enumerate(lines) if _ERROR.match(line)]
    last = len(lines)
    if native is not None:  # with the code that it quotes; what follows is about other files
        last = next((at for at in range(native + 1, len(lines)) if not _CONTINUED.match(lines[at])), len(lines))
    elif errors:
        last = min(len(lines), errors[-1] + 1 + most // 2)
    first = max(0, last - most)
    first, last = first if first > 1 else 0, last if len(lines) - last > 1 else len(lines)  # the remark is a line, too
    before, after = (
        [f"[… {count} line{'s' * (count > 1)} left out …]"] * bool(count) for count in (first, len(lines) - last)
    )
    return "\n".join([*before, *lines[first:last], *after])


def middle_cut(text: str, longest: int) -> str:
    """`text` with at most about `longest` characters; a line in the middle says how much was cut."""
    return shortened(text, longest // 2, longest // 2) if len(text) > longest else text


def fence(text: str) -> str:
    """A Markdown fence that does not occur in `text`."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)
