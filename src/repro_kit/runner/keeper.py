"""Keeps one command and all that descends from it: ends them at the limits, or when repro-kit ends, however it ends.

``python -I -S keeper.py SOCKET``, started by `kept.py`. The order comes over the socket, the report goes back over it,
and its end of file says that repro-kit wants no more, or has died. Two processes do the work, so that no single kill
leaves anything: the watcher starts the command and keeps the limits; the guard is its parent and takes over when the
watcher is gone, and the watcher sees when the guard is. Where the system offers it (Linux) they adopt every descendant
that loses its parent: a daemon, a child with a session of its own. Standard library only, and little of it: a start of
this file is part of every run.
"""

import marshal
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

_LINUX = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SAMPLE = 0.2  # seconds between looks at the memory
_UNKILLABLE = 10.0  # seconds after which a process that SIGKILL does not end is given up (it hangs in the kernel)
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main(descriptor: int) -> None:
    """The guard: start the watcher, wait for its end, end what it has left."""
    repro_kit = os.getppid()
    os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=descriptor)
    order = _receive(connection)
    if order is None:
        return
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    watched_read, watched_write = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        os.close(watched_write)
        _watch(order, connection, watched_read)
    connection.close()
    _let_go()
    os.waitpid(watcher, 0)
    end_descendants()
    if os.getppid() != repro_kit:
        _clear_up(order["scratch"])


def _clear_up(scratch: list[str]) -> None:
    """Remove what repro-kit cannot remove any more."""
    import shutil

    for path in scratch:
        shutil.rmtree(path, ignore_errors=True)


def _receive(connection: socket.socket) -> dict[str, Any] | None:
    """The order, preceded by its length; None when repro-kit has ended before it was whole."""
    data = b""
    while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "big"):
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        data += piece
    order: dict[str, Any] = marshal.loads(data[8:])
    return order


def _watch(order: dict[str, Any], connection: socket.socket, guard: int) -> NoReturn:
    """The watcher's whole life: run the command as ordered, end it and all its descendants, report."""
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        woken = _wake_at_exits()
        pid, problem = _start(order)
        _let_go()
        report = {"problem": problem} if problem else _keep(pid, order, connection.fileno(), guard, woken)
        end_descendants(pid)
    except BaseException as error:
        report = {"problem": (0, f"{type(error).__name__}: {error}")}
        end_descendants()
    try:
        if report is not None:
            connection.sendall(marshal.dumps(report))
    finally:
        os._exit(0)  # also when repro-kit has ended, and nobody reads it


def _wake_at_exits() -> int:
    """A descriptor that becomes readable when a child exits."""
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _let_go() -> None:
    """Close the command's input and output here, so that whoever reads them sees their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _start(order: dict[str, Any]) -> tuple[int, tuple[int, str] | None]:
    """Start the command in a session of its own; its process, or what is wrong with it (errno, text)."""
    problem_read, problem_write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it ended before that was set
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command shall not
                signal.signal(number, signal.SIG_DFL)
            _limit_files(order["file_size"])
            os.chdir(order["cwd"])
            os.execvpe(order["argv"][0], order["argv"], order["env"])
        except OSError as error:
            os.write(problem_write, marshal.dumps((error.errno or 0, error.strerror or str(error))))
        except BaseException as error:
            os.write(problem_write, marshal.dumps((0, str(error))))
        finally:
            os._exit(127)
    os.close(problem_write)
    with os.fdopen(problem_read, "rb") as file:
        problem = file.read()
    return pid, marshal.loads(problem) if problem else None


def _limit_files(size: int | None) -> None:
    if size is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _keep(pid: int, order: dict[str, Any], connection: int, guard: int, woken: int) -> dict[str, Any] | None:
    """Wait until the command ends or exceeds a limit; None when it is not wanted any more, or the guard is gone."""
    started = time.monotonic()
    timeout, limit = order["timeout"], order["memory"]
    status: int | None = None
    peak, over, timed_out = 0, False, False
    events = select.poll()
    for descriptor in (connection, guard, woken):
        events.register(descriptor, select.POLLIN)
    while status is None:
        if order["measure"]:
            peak = max(peak, _memory())
            over = limit is not None and peak > limit
        left = timeout - (time.monotonic() - started) if timeout is not None else None
        timed_out = left is not None and left <= 0
        if over or timed_out:
            break
        waits = [seconds for seconds in (left, _SAMPLE if order["measure"] else None) if seconds is not None]
        ready = {descriptor for descriptor, _ in events.poll(min(waits) * 1000 if waits else None)}
        status = _reap(pid)
        if status is None and ready & {connection, guard}:
            return None
        if woken in ready:
            os.read(woken, 1 << 16)
    seconds = time.monotonic() - started
    return {"status": status, "timed_out": timed_out, "over_memory": over, "peak_memory": peak, "seconds": seconds}


def _reap(command: int) -> int | None:
    """Take in every child that has ended; the exit code of `command` when it is among them."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == command:
            status = os.waitstatus_to_exitcode(ended)
        if pid == 0:
            return status


def end_descendants(group: int | None = None) -> None:
    """Kill all that descends from this process, and what that starts meanwhile, until nothing is left.

    Gives up on what is not this user's, and on what the kernel does not let go. Where orphans are adopted by the
    system, those that have stayed in the command's `group` are found by that.
    """
    seen: set[int] = set()
    beyond: set[int] = set()
    deadline = time.monotonic() + _UNKILLABLE
    while time.monotonic() < deadline:
        alive = set(_descendants()) - beyond
        beyond |= {pid for pid in alive if not _kill(pid)}
        if group is not None and not _LINUX:
            _kill(-group)
        if not _reap_ended() or (beyond and not alive - beyond):
            return
        if alive <= seen:  # on their way out
            time.sleep(0.001)
        seen |= alive


def _kill(pid: int) -> bool:
    """Kill a process, or a group by its negative number; whether that is allowed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _reap_ended() -> bool:
    """Take in the children that have ended; whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants() -> list[int]:
    """Every process below this one."""
    descendants: list[int] = []
    below = _lookup()
    waiting = below(os.getpid())
    while waiting:
        pid = waiting.pop()
        descendants.append(pid)
        waiting += below(pid)
    return descendants


def _lookup() -> Any:
    """A function that tells the children of a process."""
    if os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        return _listed_children
    table = _all_parents()
    return lambda parent: [pid for pid, parent_of_pid in table.items() if parent_of_pid == parent]


def _listed_children(pid: int) -> list[int]:
    """What the kernel lists as the children of each thread of `pid`."""
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:  # it ended meanwhile
        return children
    return children


def _all_parents() -> dict[int, int]:
    """The parent of every process there is, where the kernel lists no children."""
    parents: dict[int, int] = {}
    if not _LINUX:
        with os.popen("ps -A -o pid= -o ppid=") as table:
            return {int(pid): int(parent) for pid, parent in (row.split() for row in table)}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
    return parents


def _memory() -> int:
    """Bytes that all descendants have in memory; 0 where the system has no /proc."""
    total = 0
    for pid in _descendants() if _LINUX else ():
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
    return total


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


if __name__ == "__main__":
    main(int(sys.argv[1]))
