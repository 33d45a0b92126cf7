"""What reading one input costs and does: processor time, memory, and effects outside a folder."""

import contextlib
import ctypes
import io
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"),
    *("os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.rmtree", "shutil.move"),
}
ALARMS = {
    "network": {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"},
    "program": {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"},
    "unpickled": {"pickle.find_class"},
}
ALARM_OF = {event: alarm for alarm, events in ALARMS.items() for event in events}
HARMLESS = ("/dev/null", "/proc/self")


class Hang(BaseException):
    """Raised in the work after its time is up."""


@dataclass
class Cost:
    """Of one piece of work."""

    seconds: float = 0.0  # of the processor
    bytes: int = 0  # of memory at the peak, above what was there before
    effects: list[str] = field(default_factory=list)  # outside the folder
    messages: str = ""  # on stderr


class Watch:
    """Watches the process from now on; a hook cannot be removed.

    Args:
        place: where files may be made, changed and read.
        private: what nothing may open.
    """

    def __init__(self, place: Path, private: Path) -> None:
        self._place, self._private = os.path.realpath(place), os.path.realpath(private)
        self._cost: Cost | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
        sys.addaudithook(self._hear)
        for alarm in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(alarm, _ring)

    def _hear(self, event: str, arguments: tuple) -> None:
        cost = self._cost
        if cost is None:
            return
        if (event in ALARM_OF or event in CHANGES or event == "open") and _is_compiler():
            return
        if event in ALARM_OF:
            cost.effects.append(f"{ALARM_OF[event]}: {event} {arguments!r:.200}")
        elif event == "open":
            path, mode, flags = (*arguments, None, None)[:3]
            writes = bool((flags or 0) & WRITE_FLAGS) or bool(set(mode or "") & set("wax+"))
            self._judge(event, path, writes, follows=not (flags or 0) & os.O_NOFOLLOW)
        elif event in CHANGES and not isinstance(arguments[0], int):
            folder = arguments[-1] if isinstance(arguments[-1], int) else -1
            base = f"/proc/self/fd/{folder}" if folder > 2 else "."
            self._judge(event, os.path.join(base, os.fsdecode(arguments[0])), True)

    def _judge(self, event: str, path: object, writes: bool, follows: bool = True) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        try:
            where = os.path.realpath(os.fsdecode(path))
            if not follows:  # a link itself, which is then refused
                folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
                where = os.path.join(os.path.realpath(folder), name)
        except ValueError:  # a null character: no file
            return
        inside = where.startswith((self._place, *HARMLESS))
        if where.startswith(self._private) or (writes and not inside):
            self._cost.effects.append(f"{event} {where}")

    @contextlib.contextmanager
    def measure(self, max_seconds: float):
        """The cost of what is done inside, which is known afterwards.

        Work that takes so long ends in `Hang`, and so does waiting for ten times as long.
        """
        self._trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        cost, errors = Cost(), io.StringIO()
        before, start = _memory("VmRSS"), time.process_time()
        _set_alarms(max_seconds)
        try:
            with contextlib.redirect_stderr(errors):
                self._cost = cost
                yield cost
        finally:
            self._cost = None
            _set_alarms(0)
            cost.seconds = time.process_time() - start
            cost.bytes = _memory("VmHWM") - before
            cost.messages = errors.getvalue()


def _is_compiler() -> bool:
    """Whether numba is reading or writing its cache of compiled loops."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba."):
            return True
        frame = frame.f_back
    return False


def _set_alarms(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)


def _ring(*_) -> None:
    raise Hang


def _memory(kind: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return 1024 * int(line.split()[1])
    raise LookupError(kind)
