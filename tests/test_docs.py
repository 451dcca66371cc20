"""What README.md and docs/ say is so: code runs, quotations and links hold, commands parse, the site builds.

benchmarks/pages.py says how blocks are marked. The Python blocks of a page run in their order, in one namespace, in a
folder with two small runs, `runs/hf` and `runs/adam`, and for some pages a `book.txt`. A page that needs a package that
is not there is skipped. test_gallery.py runs the pages of the gallery.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from pages import FENCE, PROJECT, blocks, name
from support.code_of_pages import run_or_skip
from support.slow import slow_unless

import hfrnn
from hfrnn.cli import main
from hfrnn.cli.arguments import kernel_files
from hfrnn.data.kinds import KINDS
from hfrnn.gradcheck import TOLERANCES
from hfrnn.kernels import registry
from hfrnn.losses import LOSSES
from hfrnn.runs.optimizers import OPTIMIZERS

GALLERY = sorted((PROJECT / "docs" / "gallery").glob("*.md"))
DIARY = sorted((PROJECT / "benchmarks" / "diary").glob("*.md"))
DOCS = sorted((PROJECT / "docs").glob("*.md"))
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *DOCS, *GALLERY, *DIARY]


def having(kind: str, *languages: str) -> list[Path]:
    return [page for page in PAGES if any(block.mark == kind for block in blocks(page, *languages))]


# ---------------------------------------------------------------------- code


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "book.txt").write_text("It is a truth universally acknowledged, that books have words.\n" * 30, "utf-8")
    for optimizer, more in (("hf", {"gradient_symbols": 2000}), ("adam", {})):
        options = {"arch": "lstm", "hidden": 8, "updates": 2, "sample_length": 0, "optimizer": optimizer, **more}
        hfrnn.train(out=str(folder / "runs" / optimizer), backend="numpy", **options)
    return folder


@pytest.fixture
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the backend `auto` be NumPy, so that no loop is compiled for code that trains for a moment."""
    monkeypatch.setattr(registry, "choose_backend", lambda arch, on_gpu=True: ("numpy", "nothing is compiled"))


LONG = {"README.md", "docs/getting-started.md", "docs/damping.md", "docs/preconditioner.md", "docs/report.md"}
"""Pages whose code trains for seconds."""
BOOK = {"README.md", "docs/getting-started.md", "docs/report.md"}  # their readers have a book.txt
WITH_CODE = [page for page in having("", "python") if page not in GALLERY]


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("page", slow_unless(lambda page: name(page) not in LONG, WITH_CODE), ids=name)
def test_python_blocks_run(page: Path, desk: Path, tmp_path: Path) -> None:
    shutil.copytree(desk, tmp_path, dirs_exist_ok=True)
    if name(page) not in BOOK:
        (tmp_path / "book.txt").unlink()
    run_or_skip(page, tmp_path)


def test_quoted_lines_are_those_of_the_file_and_blocks_that_do_not_run_say_why() -> None:
    for page in PAGES:
        for block in blocks(page, "python"):
            assert not block.mark or len(block.about.split()) > (block.mark == "not run"), page
            if block.mark == "from":
                source = (PROJECT / block.about).read_text("utf-8")
                lines = [line.strip() for line in block.text.strip().splitlines()]
                assert "\n".join(lines) in "\n".join(line.strip() for line in source.splitlines()), (page, lines[0])


@contextlib.contextmanager
def forgetting_entries() -> Iterator[None]:
    """Forget the kinds of data, optimizers and kernels that a page, an example or a command registers."""
    before = [entries.of_users() for entries in (KINDS, OPTIMIZERS, LOSSES)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_kernels", dict(registry._kernels))
        yield
    for entries, known in zip((KINDS, OPTIMIZERS, LOSSES), before, strict=True):
        for each in set(entries.of_users()) - set(known):
            entries.forget(each)


no_entries_are_left = pytest.fixture(autouse=True)(forgetting_entries.__wrapped__)


EXAMPLES = [file for file in sorted((PROJECT / "hfrnn").rglob("*.py")) if ">>> " in file.read_text("utf-8")]


@pytest.mark.usefixtures("on_numpy", "few_gradcheck_cases")
@pytest.mark.parametrize("file", EXAMPLES, ids=name)
def test_doctests_hold(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import torch" in file.read_text("utf-8"):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    parts = file.relative_to(PROJECT).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    runner = doctest.DocTestRunner()
    for number, example in enumerate(each for each in doctest.DocTestFinder().find(module) if each.examples):
        (tmp_path / str(number)).mkdir()  # some examples train and write the run folder `run`
        monkeypatch.chdir(tmp_path / str(number))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an overflow, where an example is about it
            runner.run(example)
    result = runner.summarize(verbose=False)
    assert (result.attempted > 0, result.failed) == (True, 0)


def documented() -> dict[str, Any]:
    """The objects that the pages of the reference describe, by their full names."""
    found: dict[str, Any] = {}
    for page in sorted((PROJECT / "docs").glob("api-*.md")):
        module = "hfrnn"
        for line in page.read_text("utf-8").splitlines():
            if line.startswith((".. currentmodule:: ", ".. automodule:: ")):
                module = line.split()[-1]
            elif match := re.match(r"\.\. auto(?:class|function|exception):: (\S+)", line):
                path = match[1] if match[1].startswith("hfrnn.") else f"{module}.{match[1]}"
                found[path] = pkgutil.resolve_name(path)
    return found


def test_every_public_name_has_an_example_and_a_place_in_the_reference() -> None:
    described = documented()
    assert [path for path, each in described.items() if ">>> " not in (each.__doc__ or "")] == []
    public = {*hfrnn.__all__, *hfrnn.dynamics.__all__}
    assert public - {path.rpartition(".")[2] for path in described} == {"__version__", "dynamics", "torch"}


# ---------------------------------------------------------------------- commands


def commands(page: Path) -> list[list[str]]:
    """Every call of hfrnn in a page's shell blocks, as words."""
    lines = [line for block in blocks(page, "sh") for line in re.sub(r"\\\n", " ", block.text).splitlines()]
    calls = [part.strip() for line in lines for part in line.split("&&")]
    return [shlex.split(call, comments=True)[1:] for call in calls if call.startswith("hfrnn ")]


def check_command(words: list[str]) -> None:
    """Raise click.UsageError for a command or flag that there is not; the values of flags are not looked at."""
    command: click.Command = main
    while True:
        context = click.Context(command)
        words = command.make_parser(context).parse_args(list(words))[1]
        if not isinstance(command, click.Group) or not words:
            return
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]}")
        command, words = found, words[1:]


def test_commands_and_their_flags_exist() -> None:
    for words in (words for page in PAGES for words in commands(page)):
        with forgetting_entries():
            for file in kernel_files(words):
                if (PROJECT / file).exists():
                    registry.import_kernels(PROJECT / file)
            check_command(words)
    with pytest.raises(click.UsageError):
        check_command(["train", "--hiden", "3"])


# ---------------------------------------------------------------------- links, and the site


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in (*PAGES, PROJECT / "CHANGELOG.md"):
        text = FENCE.sub("", page.read_text("utf-8"))
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if not re.match(r"\w+:", link):
                path, _, anchor = link.partition("#")
                target = page.parent / path if path else page
                assert target.exists(), (page, link)
                assert not anchor or anchor in anchors(target), (page, link)


def test_readme_counts_the_checks_of_gradcheck() -> None:
    page = (PROJECT / "README.md").read_text("utf-8")
    metrics = sum(len(hfrnn.Network(arch, n_in=3, hidden=8, n_out=3).metrics) for arch in registry.BUILT_IN)
    others = len(TOLERANCES) - 3  # one check for each of the three metrics that an architecture serves
    assert re.findall(r"makes (\d+) checks", page) == [str(metrics + others * len(registry.BUILT_IN))]


def test_no_text_installs_hfrnn_by_its_name() -> None:
    # the name is on no package index: extras are installed from a copy of the project
    by_name = re.compile(r"pip3? install[^\n&;|]*[ '\"](hfrnn\b(?!/)|git\+)|\bhfrnn\[\w")
    code = [file for root in ("hfrnn", "benchmarks", "examples") for file in (PROJECT / root).rglob("*.py")]
    for file in (*PAGES, PROJECT / "pyproject.toml", *code):
        found = by_name.search(file.read_text("utf-8"))
        assert not found, f"{name(file)}: {found[0]}"


NAMED = re.compile(
    r"(?<![\w/.-])((?:hfrnn|tests|benchmarks|docs|examples|findings|results)/[\w./*-]+|[\w./*-]+-(?:cpu|gpu)[\w*-]*\.json)"
)
NOT_YET = {  # the pages say: not measured
    "products-gpu.json",
    "cooperative-gpu.json",
    "on-a-gpu.json",
    "benchmarks/results/papers/hf_wikipedia/probe.json",
}


def test_files_that_a_page_names_exist() -> None:
    places = [PROJECT, PROJECT / "benchmarks", PROJECT / "benchmarks" / "results"]
    for page in (*PAGES, PROJECT / "CHANGELOG.md", PROJECT / "benchmarks" / "README.md"):
        for file in set(NAMED.findall(page.read_text("utf-8"))) - NOT_YET:
            pattern = re.sub(r"(?<=/)(?!README)[A-Z]+(?=[/.])", "*", file.rstrip(".-/"))  # results/TABLE/CELL.json
            assert any(next(place.glob(pattern), None) for place in places), (page, file)


def test_every_command_has_a_place_in_the_reference() -> None:
    page = (PROJECT / "docs" / "api-command-line.md").read_text("utf-8")
    for first, command in main.commands.items():
        for sub in command.commands if isinstance(command, click.Group) else [""]:
            assert f"```{{hfrnn-help}} {f'{first} {sub}'.strip()} --help" in page, (first, sub)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_or_the_network(tmp_path: Path) -> None:
    for package in ("furo", "myst_parser"):
        pytest.importorskip(package, reason="Sphinx is not installed (extra docs)")
    site = tmp_path / "site"
    flags = ["-q", "-W", "--keep-going", "-d", str(tmp_path / "trees")]
    build = [sys.executable, "-m", "sphinx", *flags, str(PROJECT / "docs"), str(site)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = r"""<(?:script|link|img)\b[^>]*?(?:src|href)=["'](?:https?:)?//|@import|url\(["']?(?:https?:)?//"""
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not re.search(loaded, file.read_text("utf-8")), file
