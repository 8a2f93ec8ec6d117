"""An interpreter whose processes are forks of one that has imported torch: a tenth of the time of a start.

For tests of what a program does, such as a `repro.py`. How a process is started needs a real start.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import marshal
import os
import random
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import psutil

CLIENT = Path(__file__).with_name("forking_python_client.py")
_START = 600.0  # seconds, more than any machine needs to import torch


@contextlib.contextmanager
def forking_python(probes: Path) -> Iterator[Path]:
    """The path of the interpreter; its server runs within this block.

    `probes`: Inductor's cache of the zygotes, with its test libraries and the names of the modules that it imports.
    """
    from forking_python_client import read_at_start

    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory(prefix="fork") as directory:
        place = Path(directory)
        python = place / "python"
        words = [sys.executable, "-I", "-S", str(CLIENT), sys.executable, directory]
        python.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        (place / "variables").write_bytes(marshal.dumps(read_at_start(variables)))
        server = subprocess.Popen(
            [sys.executable, "-P", __file__, directory],
            stdin=subprocess.PIPE,
            env={**variables, "TORCHINDUCTOR_CACHE_DIR": str(probes)},
        )
        try:
            deadline = time.monotonic() + _START
            while not (place / "socket").exists():
                assert server.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            yield python
        finally:
            server.communicate()  # its input ends, and so does it


def _import_all() -> int:
    """Import and compute what each compiled program needs, and no setting changes. Return torch's number of threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    import torch._dynamo
    import torch._inductor.compile_fx
    from torch._inductor import codecache, cpu_vec_isa
    from torch._inductor.fx_passes import joint_graph

    for names in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).glob(f"modules-{torch.__version__}-cpu.txt"):
        for name in names.read_text(encoding="utf-8").split():
            if not name.startswith("repro_probe"):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    cpu_vec_isa.pick_vec_isa()
    codecache.torch_key()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no numpy
        joint_graph.lazy_init(torch.device("cpu"))
    gc.collect()
    gc.freeze()
    return threads


def _serve(place: Path, threads: int) -> None:
    """Fork a watcher for each client, until the standard input ends."""
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with threads cannot be forked"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(place / "socket.part"))
        door.listen(64)
        (place / "socket.part").rename(place / "socket")  # it is there when it is listened to
        while True:
            ready, _, _ = select.select([door, sys.stdin], [], [], 0.5)
            if sys.stdin in ready:
                return
            if door in ready:
                line, _ = door.accept()
                if os.fork() == 0:
                    with contextlib.suppress(BaseException):
                        door.close()
                        _watch(line, place, threads)
                    os._exit(0)
                line.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _watch(line: socket.socket, place: Path, threads: int) -> None:
    """Run what the client orders in a child, which ends when the client is killed, and tell the client its end."""
    size, files, _, _ = socket.recv_fds(line, 8, 3)
    order = b""
    while len(order) < int.from_bytes(size, "big"):
        order += line.recv(1 << 16)
    child = os.fork()
    if child == 0:
        line.close()
        _run(*marshal.loads(order), files, place / "python", threads)
    with contextlib.suppress(PermissionError):
        os.setpgid(child, child)
    for file in files:
        os.close(file)
    ends = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([line, ends], [], [])
        if ends in ready:
            break
        numbers = line.recv(64)
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, number)
        if not numbers:  # the client was killed
            for process in [*psutil.Process(child).children(recursive=True), psutil.Process(child)]:
                process.kill()
            break
    line.sendall(os.waitpid(child, 0)[1].to_bytes(4, "big"))


def _run(
    words: Sequence[str], env: Mapping[str, str], directory: str, files: Sequence[int], python: Path, threads: int
) -> None:
    """Run the command line in this process, and end it."""
    os.setpgid(0, 0)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 256)
    status = 1
    try:
        main = _become(words, env, directory, python, threads)
        if words[0] == "-c":
            code = compile(words[1], "<string>", "exec")
        else:
            code = compile(Path(words[0]).read_bytes(), words[0], "exec")
        exec(code, main.__dict__)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if status == 1 and end.code != 1:
            print(end.code, file=sys.stderr)
    except BaseException as error:
        error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)


def _become(
    words: Sequence[str], env: Mapping[str, str], directory: str, python: Path, threads: int
) -> types.ModuleType:
    """Give this process all that a new one would have, and return its main module."""
    import torch._dynamo

    os.chdir(directory)
    os.environ.clear()
    os.environ.update(env)
    if "PYTHONFAULTHANDLER" in env:
        faulthandler.enable(2)
    if "PYTHONUNBUFFERED" in env:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        sys.stderr.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in env
    torch.set_num_threads(threads)
    sys.meta_path.insert(0, _LateTorch(sys.modules.pop("torch")))
    tempfile.tempdir = None
    random.seed()
    sys.executable = str(python)
    script = words[0] != "-c"
    sys.argv = list(words if script else ["-c", *words[2:]])
    own = str(Path(words[0]).resolve().parent) if script else ""
    sys.path[:0] = [own, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    main = types.ModuleType("__main__")
    if script:
        main.__file__ = words[0]
    sys.modules["__main__"] = main
    return main


class _LateTorch:
    """Gives torch to the program when it imports torch, as what its variables say by then."""

    def __init__(self, torch: types.ModuleType) -> None:
        self.torch, self.spec = torch, torch.__spec__

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "torch" else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self.torch

    def exec_module(self, module: Any) -> None:
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        module.__spec__ = self.spec
        if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
            module._dynamo.config.disable = True


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), _import_all())
