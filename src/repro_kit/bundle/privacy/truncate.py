"""Cut the middle out of a long text: its beginning says where it comes from, its end how it ended."""

from __future__ import annotations

from collections.abc import Collection


def middle_cut(text: str, most: int) -> tuple[str, int]:
    """`text` with at most about `most` bytes, cut at line ends, with a line that says so; and the bytes cut out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text, 0
    head = data[: most // 2]
    head = head[: head.rfind(b"\n") + 1] or head
    tail = data[len(data) - most // 2 :]
    tail = tail[tail.find(b"\n") + 1 :] or tail
    cut = len(data) - len(head) - len(tail)
    mark = f"[... {cut} bytes are cut out of the middle here ...]\n".encode()
    if not head.endswith(b"\n"):
        mark = b"\n" + mark
    return (head + mark + tail).decode("utf-8", "ignore"), cut


def share(sizes: Collection[int], most: int, each: int) -> int:
    """How many bytes each text of these `sizes` may keep, so that all together have at most `most` bytes."""
    low, high = 0, each
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(size, middle) for size in sizes) <= most else (low, middle - 1)
    return low
