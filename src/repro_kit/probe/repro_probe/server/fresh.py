"""A fresh interpreter for one query: imports torch, waits for the request, answers, ends.

``python -m repro_probe.server.fresh SOCKET``: the socket carries the path of the request, and the pipe for the reply.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
import traceback

from repro_probe.common import vec_isa
from repro_probe.protocol.queries import Query, QueryReport
from repro_probe.server import children, query_process
from repro_probe.server.whole_files import build_whole


def main(descriptor: str) -> None:
    """Answer one request. An interpreter that gets no request ends without a message."""
    children.die_with_parent()
    problem = None
    try:
        _import_torch()
    except Exception:
        problem = traceback.format_exc()
    with socket.socket(fileno=int(descriptor)) as channel:
        path, pipes, _, _ = socket.recv_fds(channel, 1 << 16, 1)
    if not pipes:
        return
    with open(path.decode(), encoding="utf-8") as file:
        request = json.load(file)
    children.redirect(request["scratch"])
    if problem is not None:
        sys.exit(problem)
    _answer(request, pipes[0])


def _import_torch() -> None:
    gc.disable()  # an import makes many objects and hardly any garbage
    # codecache must be imported before TMPDIR changes: its import fixes the directory of precompiled headers.
    for name in ("torch._dynamo", "torch._inductor.codecache", "torch._inductor.compile_fx"):
        importlib.import_module(name)
    build_whole()
    vec_isa.pick()  # the shared cache has its test libraries from the second query on
    gc.collect()
    gc.freeze()  # makes the garbage collection after the query quick
    gc.enable()


def _answer(request: Query, pipe: int) -> None:
    import torch

    query_process.enter_scratch(request)
    query_process.limit_process(None if torch.cuda.is_available() else request.get("memory"))

    def tell(data: QueryReport) -> None:
        children.write_all(pipe, json.dumps(data).encode() + b"\n")

    reply = children.answer(request, tell)
    tell({"reply": reply})
    if reply["status"] != "pass":
        sys.stderr.flush()
        os._exit(0)  # a crash at the end would add nothing to this verdict
    query_process.disturb_heap()


if __name__ == "__main__":
    main(*sys.argv[1:])
