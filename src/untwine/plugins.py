"""Plug-ins: parts of your own, from a file, a folder or an installed package.

A plug-in is Python code that registers models, metrics, datasets, networks or likelihoods when it
is imported. Imported are the files in `UNTWINE_PLUGINS`, to which `--plugin` and a study's
`plugins:` add, and installed packages with an entry point in the group `untwine`; all of them when
a name is first looked up. A run, a model or the results of a study only say what they need.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from untwine.errors import ParameterError, UnknownNameError
from untwine.tools.files import expand_user, resolve, sha256
from untwine.tools.terminal import warn

GROUP = "untwine"  # of entry points
VARIABLE = "UNTWINE_PLUGINS"  # paths, separated as in PATH
PREFIX = "untwine_plugin_"  # of the modules of files
Sources = dict[str, dict[str, bytes]]  # by name of a plug-in: its files by relative path


@dataclass(frozen=True)
class Plugin:
    """Which plug-in something was made with."""

    name: str  # of the file, the folder or the entry point
    version: str = ""  # of the package, or `__version__` of the module
    hash: str = ""  # twelve characters that stand for its source

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Plugin:
        return cls(data["name"], data.get("version", ""), data.get("hash", ""))


class Plugins:
    """The plug-ins of this process."""

    def __init__(self) -> None:
        self.loaded: dict[str, Plugin] = {}  # by the name of the module
        self.failures: dict[str, str] = {}  # why others are not, by path or entry point
        self._announced: str | None = None  # the value of the variable that was acted upon last
        self._busy = False
        self._warned: set[Plugin] = set()
        self._lock = threading.RLock()

    def load(
        self, forget: Callable[[str], None], check: Callable[[str], None], *, again: bool = False
    ) -> None:
        """Import what is announced and not imported yet; what fails is left out with a warning.

        Args:
            forget: removes what a module registered before it failed.
            check: refuses what a module has registered if it cannot be used.
            again: look even if nothing else has been announced since the last time.
        """
        announced = os.environ.get(VARIABLE, "")
        if announced == self._announced and not again:
            return
        with self._lock:
            if self._busy:  # a plug-in that looks up a name while it is imported
                return
            self._busy = True
            try:
                if self._announced is None:
                    for entry_point in entry_points(group=GROUP):
                        place = entry_point.name, entry_point.module, entry_point
                        self._load(*place, forget, check)
                for path in announced_paths():
                    self._load(str(path), module_name(path), path, forget, check)
                self._announced = announced
            finally:
                self._busy = False

    def _load(
        self,
        key: str,
        module: str,
        place: Path | EntryPoint,
        forget: Callable[[str], None],
        check: Callable[[str], None],
    ) -> None:
        if module in self.loaded or key in self.failures:
            return
        try:
            if isinstance(place, Path):
                imported = import_file(place, module)
                version = str(getattr(imported, "__version__", ""))
            else:
                imported = importlib.import_module(module)
                version = place.dist.version if place.dist else ""
            plugin = Plugin(place.name, version, hash_of(imported))
            check(module)
        except (Exception, SystemExit) as error:
            forget(module)
            if module.startswith(PREFIX):  # so that it is imported again once it is mended
                sys.modules.pop(module, None)
            self.failures[key] = f"{type(error).__name__}: {error}"
            warn(f"the plug-in {key} is left out, because it fails: {self.failures[key]}")
            return
        self.loaded[module] = plugin

    def owner(self, module: str) -> Plugin | None:
        """The plug-in to which a module belongs."""
        while module and module not in self.loaded:
            module = module.rpartition(".")[0]
        return self.loaded.get(module)

    def require(self, needed: Iterable[Plugin]) -> None:
        """Refuse what needs a plug-in that is not loaded; warn if its source has changed."""
        loaded = {plugin.name: plugin for plugin in self.loaded.values()}
        for plugin in needed:
            if plugin.name not in loaded:
                cure = (
                    f"name its file with --plugin or in {VARIABLE}"
                    if plugin.name.endswith(".py")
                    else f"install its package, or name its folder with --plugin or in {VARIABLE}"
                )
                raise UnknownNameError(f"this needs the plug-in {plugin}, not loaded here; {cure}")
            if plugin.hash != loaded[plugin.name].hash and plugin not in self._warned:
                self._warned.add(plugin)
                warn(f"the plug-in {plugin} has changed since this was made; results may differ")


plugins = Plugins()
_unpacked: Sources = {}  # in this process


def announce(path: str | Path) -> Path:
    """Name a plug-in for this process and for those it will start."""
    place = resolve(expand_user(path))
    if not source_of(place).is_file():
        raise ParameterError(
            f"there is no plug-in at {path}; name a .py file, or a folder with an __init__.py"
        )
    if os.pathsep in str(place):
        raise ParameterError(f"the path {place} must not contain {os.pathsep!r}; move the plug-in")
    if place not in announced_paths():
        os.environ[VARIABLE] = os.pathsep.join(map(str, [*announced_paths(), place]))
    return place


def announced_paths() -> list[Path]:
    """The files and folders in `UNTWINE_PLUGINS`."""
    words = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [resolve(expand_user(word)) for word in words if word.strip()]


def source_of(place: Path) -> Path:
    """The file to import for a plug-in."""
    return place / "__init__.py" if place.is_dir() else place


def module_name(place: Path) -> str:
    """The name of a plug-in's module: of one that is imported already, or a new one."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and Path(file) == source_of(place):
            return name
    return f"{PREFIX}{sha256(str(place).encode())[:8]}_{place.stem}"


def import_file(place: Path, name: str) -> ModuleType:
    """Import a file, or a folder as a package."""
    if name in sys.modules:
        return sys.modules[name]
    inside = [str(place)] if place.is_dir() else None
    spec = importlib.util.spec_from_file_location(
        name, source_of(place), submodule_search_locations=inside
    )
    if spec is None or spec.loader is None:
        raise ImportError("it is not a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and relative imports look for it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def hash_of(module: ModuleType) -> str:
    """Twelve characters that stand for the source of a module, or of all files of a package."""
    files = sorted(files_of(module).items())
    return sha256(b"\0".join(name.encode() + b"\0" + text for name, text in files))[:12]


def files_of(module: ModuleType) -> dict[str, bytes]:
    """The Python files of a module by their path in its folder; that of a single file is empty."""
    file = Path(module.__file__ or "")
    if not hasattr(module, "__path__"):
        return {"": file.read_bytes()} if file.is_file() else {}
    inside = sorted(file.parent.rglob("*.py"))
    return {path.relative_to(file.parent).as_posix(): path.read_bytes() for path in inside}


def pack() -> Sources:
    """The source of the plug-ins in `UNTWINE_PLUGINS`, to carry to another machine."""
    modules = {module_name(path): path.name for path in announced_paths()}
    return {
        name: files_of(sys.modules[module])
        for module, name in modules.items()
        if module in plugins.loaded
    }


def unpack(sources: Sources) -> None:
    """Announce plug-ins from another machine in place of those that are announced here."""
    if not sources or sources == _unpacked:
        return
    _unpacked.update(sources)
    folder = Path(tempfile.mkdtemp(prefix="untwine-plugins-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = ""
    for name, files in sources.items():
        for inside, text in files.items():
            path = folder / name / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        announce(folder / name)
