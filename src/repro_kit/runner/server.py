"""The server process (`repro_probe.zygote`) in the user's interpreter: start it, talk to it, end it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import psutil

from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.serialize import loads
from repro_kit.runner.launch import PROBE

_START = 300.0  # seconds that importing torch may take on a busy machine
_STOP = 10.0

#: Variables that would override what a query sets by itself (an assignment to the setting is then ignored without a
#: word), or that would make every query write to the traces of the user's run.
_UNWANTED = (
    *("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_COMPILE_FORCE_DISABLE_CACHES"),
    *("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"),
    *("TORCH_TRACE", "TORCH_DTRACE", "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
    *("TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_LEVEL", "TORCH_BISECT_BACKEND", "TORCH_BISECT_SUBSYSTEM"),
    *("REPRO_PROBE_MODE", "REPRO_PROBE_DIR", "REPRO_PROBE_OPTIONS"),
)


class ServerDied(Exception):
    """The server ended, or does not answer any more; the message is the end of its stderr."""


class Server:
    """A server that starts with the first request. `variables` are added to `env`; set them while it is stopped."""

    def __init__(
        self,
        python: str,
        *,
        how: Literal["fork", "spawn"],
        env: Mapping[str, str] | None = None,
        cache: Path | None = None,
    ) -> None:
        self.variables: dict[str, str] = {}
        self._python = python
        self._how = how
        self._env = dict(os.environ if env is None else env)
        self._cache = cache
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._unread = b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a request or a cancellation; start the server first when it is not running.

        Raises ServerDied, and ReproKitError when it cannot be started at all.
        """
        if self._process is None:
            if "cancel" in message:
                return
            self._start()
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._death() from None

    def receive(self, timeout: float) -> dict[str, Any]:
        """The next reply. Raises ServerDied when there is none within `timeout` seconds."""
        process = self._running()
        assert process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._unread:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(process.stdout.fileno(), 1 << 20) if ready else b""
            if not data:
                raise self._death()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        reply: dict[str, Any] = loads(line)
        return reply

    def stop(self) -> None:
        """End the server: it kills its children and removes their directories when its stdin closes."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout=_STOP)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            self._unread = b""
            if self._scratch is not None:
                if process.returncode:
                    _end_strays(str(self._scratch))
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerDied("the server is not running")
        return self._process

    def _start(self) -> None:
        # The real path, since the children see their directory through getcwd().
        self._scratch = Path(tempfile.mkdtemp(prefix="repro-kit-")).resolve()
        if self._cache is not None:
            self._cache.mkdir(parents=True, exist_ok=True)
        try:
            with (self._scratch / "server.txt").open("wb") as err:
                self._process = subprocess.Popen(
                    [self._python, "-m", "repro_probe.zygote", str(self._scratch), self._how],
                    env=self._environment(),
                    cwd=self._scratch,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=err,
                    start_new_session=True,  # Ctrl-C is for repro-kit, which ends the server
                )
        except OSError as error:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise ReproKitError(
                f"Cannot start {self._python}: {error.strerror}; name an interpreter that has torch."
            ) from error
        try:
            self.receive(_START)
        except ServerDied as died:
            raise self._cannot_start(str(died)) from None

    def _environment(self) -> dict[str, str]:
        env = {name: value for name, value in self._env.items() if name not in _UNWANTED} | self.variables
        before = env.get("PYTHONPATH")
        env["PYTHONPATH"] = os.pathsep.join([str(PROBE), *([before] if before else [])])
        if self._cache is not None:
            env["TORCHINDUCTOR_CACHE_DIR"] = str(self._cache.resolve())
        # One compiles in the main thread then: stacks show where, and no pool of workers is left behind.
        env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        return env

    def _death(self) -> ServerDied:
        text = ""
        if self._scratch is not None:
            with suppress(OSError):
                text = (self._scratch / "server.txt").read_text(errors="replace")[-4000:].strip()
        self.stop()
        return ServerDied(text or "the server ended without a word")

    def _cannot_start(self, text: str) -> ReproKitError:
        last = text.rsplit("\n", 1)[-1]
        if last.startswith("ModuleNotFoundError") and "'torch'" in last:
            return ReproKitError(f"{self._python} has no torch; name the interpreter that runs the failing script.")
        if "torch." in last and last.startswith(("ModuleNotFoundError", "ImportError", "AttributeError")):
            return ReproKitError(f"The torch of {self._python} is too old for repro-kit ({last}); upgrade it.")
        return ReproKitError(f"{self._python} cannot import torch ({last}); repair that installation.", Exit.FAILED)


def _end_strays(scratch: str) -> None:
    """Kill what a server that was itself killed has left: whatever has its directory on its command line or around it.

    Children of queries, that is; they have sessions of their own.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if any(scratch in text for text in (*process.cmdline(), *process.environ().values())):
                process.kill()
