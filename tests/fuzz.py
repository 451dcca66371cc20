"""Feed damaged files to a reader, guided by the code that they reach, and keep those that break its promise.

Needs Linux and `pip install atheris`. A reader is tried for some minutes of processor time:

    python tests/fuzz.py npz --minutes 30 --folder found

The promise: a reader accepts a file or raises an error of hfrnn of one sentence with exit code 2; it shows no warning,
writes nothing, and is bounded in memory and time. Inputs that break it, one for each place in the code, are written to
the folder with what happened. The first inputs are files that our own writers made; `corpus-READER` in the folder keeps
those that reached new code, so that a later call goes on there. `python tests/fuzz.py npz --try FILE` tries one file.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

from fuzz_readers import LONGEST, READERS, Reader, run_folder

sys.path.append(str(Path(__file__).resolve().parents[1]))
MEMORY = 2**28
"""The memory of the machine, in bytes, as readers see it. A reader may take twice as much for a moment."""
SECONDS, HANG = 10, 60
"""Seconds of processor time that a reader may take, and those until the process ends if a library does not return."""
COVERED = ("hfrnn", "mido", "zipfile", "tomllib", "json", "csv", "safetensors")
"""Packages whose branches guide the search."""

# ---------------------------------------------------------------------- the promise


class _TooLongError(BaseException):
    """A reader has not come back in time."""


def _late(number: int, frame: object) -> None:
    raise _TooLongError


def broken(reader: Reader, content: bytes, folder: Path) -> str:
    """Return how a reader breaks its promise for the content of a file; "" if it holds it. It reads within a folder."""
    path = folder / reader.file
    path.write_bytes(content)
    before = _listed(folder)
    _forget_peak()
    began, held = time.monotonic(), _peak()
    handler = signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            why = _outcome(reader, path, zlib.crc32(content))
    except _TooLongError:
        why = f"it took more than {SECONDS} s of processor time\n{traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    if not why and (warned := [each for each in heard if "HfrnnWarning" not in str(each.category.__mro__)]):
        why = f"it warned: {warned[0].category.__name__} {warned[0].message} in {warned[0].filename}"
    if not why and _listed(folder) != before:
        why = f"it changed its folder: {sorted(before)} became {sorted(_listed(folder))}"
    if not why and (grown := _peak() - held) > 2 * MEMORY:
        why = f"it took {grown >> 20} MiB in {time.monotonic() - began:.1f} s"
    return why


def _outcome(reader: Reader, path: Path, choice: int) -> str:
    """Read a file; return "" if it is accepted or refused as it should be."""
    from hfrnn.cli.arguments import told
    from hfrnn.errors import HfrnnError
    from hfrnn.wording import visible

    try:
        reader.read(path, choice)
    except HfrnnError as error:
        for text in (str(error), told(error)):
            shown = visible(text)
            if error.exit_code != 2 or "\n" in shown or re.search(r"\w+Error\(|<class|object at 0x|Traceback", shown):
                return f"{type(error).__name__} with exit code {error.exit_code}: {text}\n{traceback.format_exc()}"
    except Exception:
        return traceback.format_exc()
    return ""


def _listed(folder: Path) -> dict[str, tuple[int, int]]:
    return {each.path: (each.stat().st_size, each.stat().st_mtime_ns) for each in os.scandir(folder)}


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the most memory that this process has held since `_forget_peak`, in bytes."""
    with contextlib.suppress(OSError, AttributeError):
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return 1024 * int(found[1])  # type: ignore[index]
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def small_machine() -> None:
    """Let readers see a machine with little memory."""
    import hfrnn.data.array_files as array_files
    import hfrnn.data.corpora as corpora
    import hfrnn.runs.checkpoint as checkpoint

    for module in (array_files, corpora, checkpoint):
        module.memory_share = lambda divisor: MEMORY // divisor


# ---------------------------------------------------------------------- the search


@contextlib.contextmanager
def place_to_read(reader: Reader) -> Iterator[Path]:
    """Make a folder in memory where a reader reads; a copy of a run folder if its file is one of a run."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="hfrnn-fuzz-", dir=memory if memory.is_dir() else None) as made:
        folder = Path(made, "in")
        if reader.run:
            shutil.copytree(run_folder(), folder)
        else:
            folder.mkdir()
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def keep(folder: Path, name: str, content: bytes, why: str) -> bool:
    """Write an input that broke the promise, unless one is kept that broke it at the same place and is no longer."""
    own = [line for line in why.splitlines() if "/hfrnn/" in line]
    place = (own[-1:], re.sub(r"\d+", "", why[-60:]))
    found = folder / f"{name}-{hashlib.sha256(repr(place).encode()).hexdigest()[:8]}"
    if found.exists() and found.stat().st_size <= len(content):
        return False
    found.write_bytes(content)
    found.with_suffix(".txt").write_text(why)
    return True


def search(name: str, seconds: float, folder: Path) -> None:
    """Search in this process for some seconds of processor time, and end the process."""
    import atheris

    with atheris.instrument_imports(include=list(COVERED)):
        reader = READERS[name]
        with place_to_read(reader) as place:
            for content in reader.valid():  # imports what the reader uses
                broken(reader, content, place)
    small_machine()

    def change(content: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if reader.change is not None and rng.random() < 0.7:
            with contextlib.suppress(Exception):  # the content is no file of this kind
                changed = reader.change(content, lambda part: atheris.Mutate(part, len(part) + 64), rng)
                if len(changed) <= most:
                    return changed
        return bytes(atheris.Mutate(content, most))

    tried, end = 0, time.process_time() + seconds
    with place_to_read(reader) as place:

        def attempt(content: bytes) -> None:
            nonlocal tried
            tried += 1
            if time.process_time() > end:
                print(f"tried {tried:,} files", flush=True)
                shutil.rmtree(place.parent, ignore_errors=True)
                os._exit(0)
            if why := broken(reader, content, place):
                keep(folder, name, content, why)

        flags = [f"-timeout={HANG}", f"-max_len={LONGEST}", "-rss_limit_mb=3000",
                 f"-artifact_prefix={folder}/{name}-process-", "-print_final_stats=1", "-verbosity=1"]  # fmt: skip
        atheris.Setup([sys.argv[0], *flags, str(folder / f"corpus-{name}")], attempt, custom_mutator=change)
        atheris.Fuzz()


def _used() -> float:
    """Return the processor time of the searches that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Search in a process of its own, which is started again after it died, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--minutes", type=float, default=30.0, help="of processor time")
    parser.add_argument("--folder", type=Path, default=Path("fuzzed"), help="where failing inputs go")
    parser.add_argument("--try", type=Path, dest="one", metavar="FILE", help="try one file and say what happens")
    parser.add_argument("--here", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    reader, folder = READERS[given.reader], given.folder.resolve()
    if given.one is not None:
        small_machine()
        with place_to_read(reader) as place:
            print(broken(reader, given.one.resolve().read_bytes(), place) or "the promise holds")
        return 0
    corpus = folder / f"corpus-{given.reader}"
    corpus.mkdir(parents=True, exist_ok=True)
    if given.here is not None:
        search(given.reader, given.here, folder)
    for content in reader.valid():
        (corpus / hashlib.sha1(content).hexdigest()).write_bytes(content)
    starts = 0
    while (left := 60 * given.minutes - _used()) > 1:
        starts += 1
        command = [sys.executable, __file__, given.reader, "--folder", str(folder), "--here", str(left)]
        with (folder / f"log-{given.reader}.txt").open("ab") as log:
            subprocess.run(command, stdout=log, stderr=log, check=False)
    found = sorted(each.name for each in folder.glob(f"{given.reader}-*") if each.suffix != ".txt")
    print(f"{given.reader}: {_used() / 60:.1f} minutes, {starts} process(es), {len(found)} kept", *found, sep="\n  ")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
