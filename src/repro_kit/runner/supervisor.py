"""Run one command, and end the command and all its descendants at a limit or when repro-kit ends for any reason.

`SupervisedCommand` starts ``python -I -S supervisor.py SOCKET``. The socket carries the order in and the report back.
When repro-kit closes the socket, or dies, the supervisor ends the command.

The supervisor is two processes, so that nothing survives when one of the two is killed. The watcher starts the command
and enforces the limits. The guard is the parent of the watcher: the guard ends the descendants when the watcher is
gone, and the watcher ends them when the guard is gone. On Linux both adopt every descendant that loses its parent,
such as a daemon. This file imports little of the standard library, and nothing else, since every run starts it.
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
_SAMPLE = 0.2  # seconds between measurements of the memory
_UNKILLABLE = 10.0  # seconds to wait for a process that SIGKILL does not end, because it hangs in the kernel
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main(descriptor: int) -> None:
    """Run the guard: start the watcher, wait for its end, and end the processes that it left."""
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
    """Remove the directories that repro-kit left behind when it died."""
    import shutil

    for path in scratch:
        shutil.rmtree(path, ignore_errors=True)


def _receive(connection: socket.socket) -> dict[str, Any] | None:
    """Receive the order, which follows its length. Return None when repro-kit ended before it sent the whole order."""
    data = b""
    while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "big"):
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        data += piece
    order: dict[str, Any] = marshal.loads(data[8:])
    return order


def _watch(order: dict[str, Any], connection: socket.socket, guard: int) -> NoReturn:
    """Run the watcher: run the command as ordered, end all its descendants, report, and exit."""
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        woken = _wake_at_exits()
        pid, problem = _start(order)
        _let_go()
        report = {"problem": problem} if problem else _supervise(pid, order, connection.fileno(), guard, woken)
        end_descendants(pid)
    except BaseException as error:
        report = {"problem": (0, f"{type(error).__name__}: {error}")}
        end_descendants()
    try:
        if report is not None:
            connection.sendall(marshal.dumps(report))
    finally:
        os._exit(0)  # also when repro-kit has ended, and nobody reads the report


def _wake_at_exits() -> int:
    """Return a descriptor that becomes readable when a child exits."""
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _let_go() -> None:
    """Close this process's copies of the command's input and output, so that their reader sees the end of file."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _start(order: dict[str, Any]) -> tuple[int, tuple[int, str] | None]:
    """Start the command in a new session. Return its process id, and (errno, text) when the start failed."""
    problem_read, problem_write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent ended before the death signal was set
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, the command must not
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


def _supervise(pid: int, order: dict[str, Any], connection: int, guard: int, woken: int) -> dict[str, Any] | None:
    """Wait until the command ends or exceeds a limit. Return None when repro-kit or the guard is gone."""
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
    """Reap every child that has ended. Return the exit code of `command` when it is one of these children."""
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
    """Kill every descendant of this process, and every process that these start meanwhile, until none is left.

    Processes of other users, and processes that hang in the kernel, are left alone. On systems where this process
    cannot adopt orphans, the orphans in the command's process group `group` are killed.
    """
    seen: set[int] = set()
    beyond: set[int] = set()
    deadline = time.monotonic() + _UNKILLABLE
    while time.monotonic() < deadline:
        alive = set(descendants()) - beyond
        beyond |= {pid for pid in alive if not _kill(pid)}
        if group is not None and not _LINUX:
            _kill(-group)
        if not _reap_ended() or (beyond and not alive - beyond):
            return
        if alive <= seen:  # all were killed before, and are about to end
            time.sleep(0.001)
        seen |= alive


def _kill(pid: int) -> bool:
    """Kill a process, or a process group by its negative number. Return whether that is allowed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _reap_ended() -> bool:
    """Reap the children that have ended. Return whether any child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def descendants() -> list[int]:
    """Return every descendant of this process."""
    found: list[int] = []
    below = _lookup()
    waiting = below(os.getpid())
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += below(pid)
    return found


def _lookup() -> Any:
    """Return a function from a process to its children."""
    if os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        return _listed_children
    table = _all_parents()
    return lambda parent: [pid for pid, parent_of_pid in table.items() if parent_of_pid == parent]


def _listed_children(pid: int) -> list[int]:
    """Return the children that the kernel lists for the threads of `pid`."""
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:  # the process ended meanwhile
        return children
    return children


def _all_parents() -> dict[int, int]:
    """Return the parent of every process, for a kernel that does not list children."""
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
    """Return the bytes of memory that all descendants use; 0 if the system has no /proc."""
    total = 0
    for pid in descendants() if _LINUX else ():
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
