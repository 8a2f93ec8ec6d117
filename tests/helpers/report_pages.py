"""Pages of stories, as the tests of `report.html` read them."""

from programs import HEAD
from repro_kit.bundle.pages.html import report

DIAMOND = HEAD + (
    "RECIPE = {}\n\n\ndef graph(x, unused):\n    a = x + 1\n    b = torch.relu(a)\n    c = a * 2\n    d = b < c\n"
    "    x.add_(1)\n    return (d, x)\n\n\ndef calls():\n    x = torch.randn(3)\n    return [(x, 1)]\n"
)


def page_of(story):
    page, marks = report(story)
    for mark, text in marks.items():
        page = page.replace(mark, text)
    return page
