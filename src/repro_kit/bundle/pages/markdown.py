"""`issue.md` and `README.md`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from repro_kit.bundle.pages.ablation_markdown import tables
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.story.issue_form import FORM, LONGEST_BODY, searches
from repro_kit.bundle.story.labels import labels_of
from repro_kit.bundle.story.story import Aspect, Story
from repro_kit.bundle.story.title_facts import title_of
from repro_kit.model.ablation.evidence import chain_markdown
from repro_kit.model.ablation.workaround import markdown as workarounds
from repro_kit.model.failure.brief import shortened

_REPRO = "repro.py"

_KINDS = "https://docs.pytorch.org/docs/main/torch.compiler_troubleshooting.html#creating-a-reproducer"
_HEAD_LINES, _TAIL_LINES = 40, 80

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_CLOCK = re.compile(r"^(?P<rank>\[rank\d+\]:)?[VDIWEC]\d{4} [\d:.]+ \d+ ", re.MULTILINE)
_WARNING = re.compile(r":\d+(?::\d+)?: (?:warning|note): ")
_CONTINUED = re.compile(r"\s+\d* *\|")
_RANDOM_DIRECTORY = re.compile(r"/tmp/(?:tmp[a-z0-9_]{8}|repro-kit-(?:[0-9]+-)?[a-z0-9_]{8})")
_WHEELS = re.compile(r"\+(?P<kind>cu\d+|rocm[\d.]+|xpu)$")
_NUMBER = re.compile(r"(?<![`\w])#\d+\b")  # GitHub would link it to an issue
_NIGHTLY = re.compile(r"\.dev(?P<date>\d{8})")


@dataclass(frozen=True)
class _Room:
    """How many characters (for the table: rows) the parts of the issue may take."""

    repro: int
    log: int
    versions: int
    diff: int
    rows: int


#: The first of these that keeps the issue within GitHub's limit is used.
_ROOMS = (
    _Room(24_000, 16_000, 12_000, 6_000, 60),
    _Room(16_000, 8_000, 8_000, 3_000, 40),
    _Room(0, 6_000, 6_000, 0, 20),
)


def issue(story: Story) -> str:
    """The text to paste into PyTorch's torch.compile bug form, box by box; `marks` stand for the code in it."""
    code = sum(len(text) for text in marks(story).values())
    texts = (_issue(story, room) for room in _ROOMS)
    return next((text for text in texts if len(text) + code <= LONGEST_BODY), _issue(story, _ROOMS[-1]))


def marks(story: Story) -> dict[str, str]:
    """The redacted texts of `code_of`, by the marks that stand for them."""
    return {f"@@code {at}@@": text.rstrip() for at, (_, text) in enumerate(code_of(story))}


def code_of(story: Story) -> Sequence[tuple[str, str]]:
    """(name, text) of the code that a reader needs: `repro.py`, or the files that `repro.py` runs, if there are any."""
    return story.sources if story.runs_users_files else story.sources or ((_REPRO, story.repro),)


def _issue(story: Story, room: _Room) -> str:
    code = {} if story.runs_users_files else marks(story)  # files of the user's are too long, and the user's
    excerpt = story.excerpt.text if story.excerpt else ""
    fits = sum(len(text) for text in code.values()) <= room.repro
    log = trim(without_warnings(steady(story.log)), room.log)
    twin = story.twin.diff if story.twin and len(story.twin.diff) <= room.diff else ""
    return render(
        "issue.md.j2",
        story=story,
        title=title_of(story),
        labels=labels_of(story),
        form=FORM,
        searches=searches(story),
        attachment=_attachment(story),
        kinds_link=_KINDS,
        opening=_opening(story),
        inline=inline,
        table=tables(story.ablation, room.rows) if story.ablation else "",
        chain=_NUMBER.sub(r"`\g<0>`", chain_markdown(story.chain).rstrip()) if story.chain else "",
        workarounds=workarounds(story.ablation.workarounds) if story.ablation else "",
        aspect_words=partial(aspect_words, minimal=story.minimal),
        nightly=nightly(story),
        trace=_trace(story),
        log=log,
        log_fence=fence(log),
        code=[
            (name, mark, fence(text))
            for mark, (name, text) in zip(code, code_of(story) if code else (), strict=True)
            if fits
        ],
        excerpt_fence=fence(excerpt) if excerpt else "",
        twin_fence=fence(twin) if twin else "",
        versions=middle_cut(story.environment.collect_env.strip(), room.versions),
    )


def readme(story: Story) -> str:
    """`README.md`: what the bundle is, for somebody who opens it by hand."""
    return render(
        "README.md.j2",
        story=story,
        inline=inline,
        title=title_of(story),
        labels=labels_of(story),
        form=FORM,
        searches=searches(story),
    )


def _opening(story: Story) -> str:
    subject = "the code below" if story.level == "program" else "the attached code"
    ops = f" ({', '.join(f'`{op}`' for op in story.ops[:6])})" if story.ops and len(story.ops) <= 6 else ""
    if story.in_eager:
        return f"{subject[0].upper()}{subject[1:]} fails: {inline(story.title)}."
    return f"`{story.call}` of {subject}{ops} fails: {inline(story.title)}."


def _attachment(story: Story) -> str:
    """What to attach to the issue."""
    return "the bundle, with the trace that the form asks for" if _is_traced(story) else "the bundle"


def _is_traced(story: Story) -> bool:
    return any(name == "trace/" for name, _ in story.files)


def aspect_words(aspect: Aspect, *, minimal: bool) -> str:
    """Whether the reproducer still needs an aspect, in words; a reduction that is not `minimal` may have left it in."""
    if aspect.kept:
        same = aspect.kept == aspect.captured
        return f"{'needed' if minimal else 'not reduced'}: {aspect.kept}" + (
            "" if same or not aspect.captured else f" (originally: {aspect.captured})"
        )
    return f"not needed; the captured graph had: {aspect.captured}" if aspect.captured else "not involved"


def nightly(story: Story) -> str:
    """Whether the failure was tried on a nightly."""
    dated = _NIGHTLY.search(story.environment.torch or "")
    if dated:
        return f"seen on the nightly of {dated['date']}."
    if story.bisected:
        return "the build was found by bisection, see above."
    kind = _WHEELS.search(story.environment.torch or "")
    wheels = f"https://download.pytorch.org/whl/nightly/{kind['kind'] if kind else 'cpu'}"
    return f"not tried. To try it: `pip install --pre torch --index-url {wheels}`, then `python repro.py`."


def _trace(story: Story) -> str:
    if _is_traced(story):
        return "the full `TORCH_TRACE` logs are in `trace/` of the attached bundle."
    return "not attached, since it holds model code. `TORCH_TRACE=trace python repro.py && tlparse trace` makes one."


def steady(log: str) -> str:
    """`log` without what differs from run to run: addresses, clocks, process ids, random directories."""
    log = _CLOCK.sub(lambda stamp: f"{stamp['rank'] or ''}", log)
    return _RANDOM_DIRECTORY.sub("/tmp/…", _ADDRESS.sub("0x…", log))


def without_warnings(log: str) -> str:
    """`log` without warnings of native compilers and the code lines that follow each."""
    kept: list[str] = []
    skipping = False
    count = 0
    for line in log.splitlines():
        warning = bool(_WARNING.search(line))
        skipping = warning or (skipping and bool(_CONTINUED.match(line)))
        count += warning
        if not skipping:
            kept.append(line)
    note = [f"[{count} compiler warnings left out]"] if count else []
    return "\n".join([*kept, *note])


def trim(log: str, longest: int = 16_000) -> str:
    """`log` short enough to paste. The middle is left out, and a line says how much."""
    lines = log.rstrip().splitlines()
    if len(lines) > _HEAD_LINES + _TAIL_LINES + 1:
        left = len(lines) - _HEAD_LINES - _TAIL_LINES
        lines = [*lines[:_HEAD_LINES], f"[… {left} lines left out …]", *lines[-_TAIL_LINES:]]
    return middle_cut("\n".join(lines), longest)


def middle_cut(text: str, longest: int) -> str:
    """`text` with at most about `longest` characters; a line in the middle says how much was cut."""
    return shortened(text, longest // 2, longest // 2) if len(text) > longest else text


def inline(text: str) -> str:
    """`text` as inline code in Markdown, whatever characters it has."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks, space = "`" * (longest + 1), " " * (longest > 0)
    return f"{ticks}{space}{' '.join(text.split())}{space}{ticks}"


def fence(text: str) -> str:
    """A Markdown fence that does not occur in `text`."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)
