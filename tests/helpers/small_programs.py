"""Short programs without torch's compiler: how each ends, prints and writes must not depend on who watches.

`torch` is an empty module here, so that the probe starts, and a program takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NOTHING = "import torch\n"


@dataclass(frozen=True)
class SmallProgram:
    """The code of a script, options of the interpreter, files beside the script, and variables."""

    code: str
    flags: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


#: What a program may see of the interpreter, before and after it imports torch.
_STATE = """
import atexit, faulthandler, gc, locale, os, resource, signal, sys, threading, warnings
def state():
    yield sys.argv, sys.orig_argv if hasattr(sys, "orig_argv") else None, sys.flags, sys.path, len(sys.path_hooks)
    yield sorted(name for name in globals() if name.startswith("__")), sys._xoptions, sys.warnoptions, warnings.filters
    yield [signal.getsignal(number) for number in signal.valid_signals()], signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield [signal.getitimer(which) for which in range(3)], signal.alarm(0), signal.set_wakeup_fd(-1)
    yield sys.gettrace(), sys.getprofile(), threading._trace_hook, sys.unraisablehook is sys.__unraisablehook__
    yield sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode
    yield gc.get_threshold(), gc.isenabled(), gc.callbacks, gc.get_freeze_count(), gc.get_debug()
    yield locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), sys.stdout.encoding, sys.stdout.errors
    yield sys.stdout.line_buffering, sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), os.getcwd()
    yield os.umask(0o22), os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.nice(0), os.getgroups()
    yield [(name, resource.getrlimit(getattr(resource, name))) for name in dir(resource) if name.startswith("RLIMIT_")]
    yield threading.enumerate(), os.listdir("/proc/self/task") == [str(os.getpid())], "sitecustomize" in sys.modules
    yield [number for number in map(int, os.listdir("/proc/self/fd")) if number < 256]
    yield sorted(name for name in os.environ if name not in KNOWN)
KNOWN = "PYTHONPATH", "REPRO_PROBE_ORDERS", "REPRO_PROBE_TOKEN", "TORCH_FR_BUFFER_SIZE"
"""

PROGRAMS: dict[str, SmallProgram] = {
    # What is there.
    "the state of the interpreter": SmallProgram(_STATE + "print(*state(), sep='\\n')"),
    "the state with torch": SmallProgram(_STATE + NOTHING + "print(*state(), sep='\\n')"),
    "the modules that are there": SmallProgram(
        "import sys\nprint(sorted(name for name in sys.modules if name.partition('.')[0] != 'repro_probe'))"
    ),
    "finders of modules": SmallProgram("import sys\nprint([it for it in sys.meta_path if isinstance(it, type)])"),
    "options of the interpreter": SmallProgram(_STATE + NOTHING + "print(*state(), sep='\\n')", ("-O", "-u", "-B")),
    "development mode": SmallProgram(NOTHING + "print(1)", ("-X", "dev")),
    "warnings are errors": SmallProgram(NOTHING + "import warnings\nwarnings.warn('w')", ("-W", "error")),
    "isolated": SmallProgram(_STATE + "print(*state(), sep='\\n')", ("-I",)),
    "without variables": SmallProgram(_STATE + "print(*state(), sep='\\n')", ("-E",)),
    "without site": SmallProgram("import sys\nprint(len(sys.modules), sys.meta_path)", ("-S",)),
    "another locale": SmallProgram(_STATE + NOTHING + "print(*state(), 'ä', sep='\\n')", (), {}, {"LC_ALL": "C"}),
    "another encoding": SmallProgram(NOTHING + "print('ä')", (), {}, {"PYTHONIOENCODING": "latin-1"}),
    # Modules of the program's own.
    "files called like modules of the standard library": SmallProgram(
        "import json, typing, traceback, queue\nprint(json.mine, typing.mine, traceback.mine, queue.mine)",
        (),
        {f"{name}.py": "mine = __file__" for name in ("json", "typing", "traceback", "queue")},
    ),
    "a file that hides what torch needs": SmallProgram(
        "try:\n    import torch\nexcept Exception as error:\n    print(type(error), error)\nraise ValueError(1)",
        (),
        {"typing.py": "mine = 1", "torch.py": "from typing import Any"},
    ),
    "a sitecustomize": SmallProgram(
        "import sys, sitecustomize\nprint(sys.mark, sitecustomize.__file__, sys.path[-1])",
        (),
        {"site/sitecustomize.py": "import sys\nsys.mark = 1\nsys.path.append('/further')"},
        {"PYTHONPATH": "{scripts}/site"},
    ),
    "a sitecustomize that fails": SmallProgram(
        NOTHING + "import sys\nprint('sitecustomize' in sys.modules)",
        (),
        {"site/sitecustomize.py": "raise ValueError('mine')"},
        {"PYTHONPATH": "{scripts}/site"},
    ),
    "an import hook": SmallProgram(
        "import sys\nclass Mine:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('torch', 'helper'): print(name)\n"
        "sys.meta_path.insert(0, Mine())\nimport torch, helper\nprint(torch.__spec__, torch.__loader__)",
        (),
        {"helper.py": ""},
    ),
    "other finders": SmallProgram(
        "import sys\nsys.meta_path[:] = [it for it in sys.meta_path if isinstance(it, type)]\n"
        "import torch\nprint(sys.meta_path)"
    ),
    "is there a torch": SmallProgram(
        "import importlib.util as u\nprint(u.find_spec('torch').origin, u.find_spec('torch.none'))\n"
        "import torch, importlib\nprint(importlib.reload(torch) is torch)"
    ),
    "no torch": SmallProgram("import sys\nsys.path[:] = sys.path[1:]\nimport torch_is_not_there"),
    "torch again": SmallProgram("import torch, sys\ndel sys.modules['torch']\nimport torch\nprint(torch.__file__)"),
    "torch in a thread": SmallProgram(
        "import threading\ndef go():\n    import torch\n    raise ValueError(torch.__name__)\n"
        "one = threading.Thread(target=go)\none.start(); one.join()"
    ),
    # Alarms and signals.
    "an alarm that nobody handles": SmallProgram(
        "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\n" + NOTHING + "time.sleep(20)"
    ),
    "an alarm after torch": SmallProgram(
        NOTHING + "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(20)"
    ),
    "an alarm with a handler": SmallProgram(
        NOTHING + "import signal, time\ndef stop(*_): raise TimeoutError('mine')\nsignal.signal(signal.SIGALRM, stop)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(20)"
    ),
    "alarms of a loop": SmallProgram(
        NOTHING + "import asyncio, signal\nasync def main():\n    done = asyncio.Event()\n"
        "    asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, done.set)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.05)\n    await done.wait()\n    print(signal.alarm(0))\n"
        "asyncio.run(main())"
    ),
    "stacks of its own": SmallProgram(
        NOTHING + "import faulthandler, signal, sys\nfile = open('stack.txt', 'w')\nfaulthandler.enable(file)\n"
        "faulthandler.register(signal.SIGUSR1, file, all_threads=False)\nsignal.raise_signal(signal.SIGUSR1)\n"
        "faulthandler.dump_traceback_later(0.05, exit=True, file=file)\nimport time\ntime.sleep(20)"
    ),
    "death by every signal": SmallProgram(
        NOTHING + "import os, signal\nfor number in signal.valid_signals() - {signal.SIGSTOP, signal.SIGTSTP,"
        " signal.SIGTTIN, signal.SIGTTOU}:\n    pid = os.fork()\n    if pid == 0:\n"
        "        if number != signal.SIGKILL: signal.signal(number, signal.SIG_DFL)\n"
        "        os.kill(os.getpid(), number)\n        os._exit(3)\n    print(number, os.waitpid(pid, 0)[1])"
    ),
    "a crash": SmallProgram(NOTHING + "import os\nprint('unwritten')\nos.abort()"),
    "a wrong address": SmallProgram(NOTHING + "import ctypes\nctypes.string_at(0)"),
    "an interrupt": SmallProgram(
        NOTHING + "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)"
    ),
    "an end on demand": SmallProgram(
        NOTHING + "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "os.kill(os.getpid(), signal.SIGTERM)"
    ),
    # Ends.
    "an end at once": SmallProgram(NOTHING + "import os\nprint('lost')\nos._exit(7)"),
    "an end with a text": SmallProgram(NOTHING + "raise SystemExit('text')"),
    "an end with an object": SmallProgram(NOTHING + "raise SystemExit((1, 'two'))"),
    "an end with a large number": SmallProgram(NOTHING + "import sys\nsys.exit(2**40 + 300)"),
    "an end with true": SmallProgram(NOTHING + "import sys\nsys.exit(True)"),
    "an end of a thread": SmallProgram(
        NOTHING + "import sys, threading\none = threading.Thread(target=lambda: sys.exit(4))\none.start(); one.join()"
    ),
    "an exception with a cause": SmallProgram(
        NOTHING + "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('ä\\udc80') from error"
    ),
    "an exception that cannot be shown": SmallProgram(
        NOTHING + "class Odd(Exception):\n    def __str__(self): raise Odd\nraise Odd"
    ),
    "an exception of a class that ends": SmallProgram(
        NOTHING + "class Odd(Exception):\n    def __str__(self): raise SystemExit(9)\nraise Odd"
    ),
    "an exception that is no Exception": SmallProgram(NOTHING + "class Own(BaseException): pass\nraise Own('mine')"),
    "a hook for exceptions": SmallProgram(
        "import sys\nsys.excepthook = lambda *given: print('hook', given[:2])\n" + NOTHING + "raise ValueError(1)"
    ),
    "a hook that fails": SmallProgram(
        NOTHING + "import sys\ndef hook(*_): raise KeyError('hook')\nsys.excepthook = hook\nraise ValueError(1)"
    ),
    "a hook around the hook": SmallProgram(
        NOTHING + "import sys\nbefore = sys.excepthook\n"
        "sys.excepthook = lambda *given: (print('mine'), before(*given))\nraise ValueError(1)"
    ),
    "too deep": SmallProgram(NOTHING + "def deeper(n): return deeper(n + 1)\ndeeper(0)"),
    "no Python": SmallProgram("import torch\nprint(1\n"),
    "what is done at the end": SmallProgram(
        "import atexit\natexit.register(print, 'first')\n" + NOTHING + "atexit.register(print, 'second')\n"
        "@atexit.register\ndef fails(): raise ValueError('at the end')\nprint('now')"
    ),
    "an exception nobody can raise": SmallProgram(
        NOTHING + "class Odd:\n    def __del__(self): raise ValueError('gone')\nkept = Odd()\ndel kept\nlast = Odd()"
    ),
    "no output left": SmallProgram(NOTHING + "import sys\nsys.stdout.close()\nsys.stderr = None\nraise ValueError"),
    "another program": SmallProgram(
        NOTHING + "import os\nos.execv('/bin/sh', ['sh', '-c', 'sleep 0.1; kill -ALRM $$'])"
    ),
    # Memory, files and limits.
    "cycles from before torch": SmallProgram(
        "import gc, weakref\nclass Node: pass\none = Node(); one.own = one\nalive = weakref.ref(one)\n"
        "heard = []\ngc.callbacks.append(lambda phase, _: heard.append(phase))\n" + NOTHING + "del one\n"
        "gc.collect()\nprint(alive(), heard[-2:])"
    ),
    "no garbage collection": SmallProgram("import gc\ngc.disable()\n" + NOTHING + "print(gc.isenabled())"),
    "all files closed": SmallProgram(
        NOTHING + "import os\nos.closerange(3, 256)\nfile = open('own.txt', 'w')\nprint(file.fileno())\nos.fork()\n"
        "os.abort()"
    ),
    "few files": SmallProgram(
        "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))\n"
        + NOTHING
        + "print(os.listdir('.'))\n"
        "pid = os.fork()\n_ = pid and os.waitpid(pid, 0)\nprint(pid == 0)"
    ),
    "a mask for files": SmallProgram(
        "import os\nos.umask(0o077)\n" + NOTHING + "open('a', 'w')\nprint(os.stat('a').st_mode)"
    ),
    "no working directory": SmallProgram(
        "import os\nos.mkdir('d'); os.chdir('d'); os.rmdir('../d')\n" + NOTHING + "print(1)"
    ),
    "files and bytes": SmallProgram(
        NOTHING + "import os, sys\nos.makedirs('a/b')\nopen('a/b/c.bin', 'wb').write(bytes(range(256)))\n"
        "sys.stdout.buffer.write(b'\\xff\\n')\nsys.stderr.write('no end')\nos.write(1, b'early\\n')"
    ),
    "input": SmallProgram(NOTHING + "import sys\nprint(repr(sys.stdin.read()))\ninput('more?')"),
    "no variables": SmallProgram(
        "import os\nos.environ.clear()\n" + NOTHING + "print(dict(os.environ).keys() - {'TORCH_FR_BUFFER_SIZE'})"
    ),
    # Other processes.
    "a fork": SmallProgram(
        "import os, sys\nos.register_at_fork(before=lambda: print('before', flush=True))\n"
        + NOTHING
        + "pid = os.fork()\n"
        "if pid == 0: raise ValueError('child')\nprint(os.waitpid(pid, 0)[1])"
    ),
    "processes": SmallProgram(
        "import multiprocessing, sys\ndef work(x):\n    import torch\n    return x * 2, sys.path, torch.__name__\n"
        "if __name__ == '__main__':\n    for how in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(how).Pool(1) as pool: print(pool.map(work, [1, 2]))"
    ),
    "a process with other variables": SmallProgram(
        NOTHING + "import subprocess, sys\ncode = 'import sys, os; print(sys.path, os.listdir(\"/proc/self/fd\"))'\n"
        "for more in ({'env': {}}, {'close_fds': False}, {'stdin': -3, 'start_new_session': True}):\n"
        "    print(subprocess.run([sys.executable, '-c', code], capture_output=True, **more))"
    ),
    "a tracer": SmallProgram(
        "import sys\nseen = []\ndef own(): pass\ndef trace(frame, *_):\n"
        "    if frame.f_code.co_filename == __file__: seen.append(frame.f_code.co_name)\n"
        "sys.setprofile(lambda frame, *_: trace(frame))\n" + NOTHING + "own()\nsys.setprofile(None)\nprint(seen)"
    ),
}
