"""Options that a kernel declares: flags, TOML, help, checks and Python arguments are derived from the declaration."""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import all_values
from support.command_line import call_then_forget as call
from support.fake_device import register_device
from support.tiny_runs import FLAGS, OPTIONS, snapshot, text_file

import hfrnn
from hfrnn.arrays import gpu
from hfrnn.kernels import registry
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.folder import RunFolder

NAME = "rnn-scaled"
SOURCE = '''
import hfrnn
from hfrnn.arrays.initializers import normal
from hfrnn.kernels.rnn import RNN


@hfrnn.register_kernel("rnn-scaled")
class Scaled(RNN):
    """A plain network whose recurrent weights start with a given scale."""

    options = (
        hfrnn.Option("recurrent_scale", float, 0.25, "Standard deviation of the initial recurrent weights.", above=0),
        hfrnn.Option("gates", int, 1, "Number of gates.", least=1, unit="gates"),
        hfrnn.Option("cell", str, "plain", "Kind of cell.", choices=("plain", "fancy")),
        hfrnn.Option("lags", int, (1, 2), "Steps back.", many=True, least=1),
        hfrnn.Option("frozen", bool, False, "Keep the recurrent weights."),
    )

    def __init__(self, hidden, recurrent_scale=0.25, gates=1, cell="plain", lags=(1, 2), frozen=False):
        super().__init__(hidden)
        self.given = (recurrent_scale, gates, cell, tuple(lags), frozen)

    def initializers(self):
        return {"W_h": normal(self.given[0])}
'''
DEFAULTS = (0.25, 1, "plain", (1, 2), False)


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_kernels", dict(registry._kernels))


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A file that registers an architecture with five options."""
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "mine.py"


def refused(*arguments: object) -> str:
    return " ".join(call(*arguments, code=2).stderr.split())


def printed(*arguments: object) -> dict[str, Any]:
    return all_values(call("train", *arguments, "--print-config").stdout)


def test_a_run_takes_the_options_of_a_kernel_in_a_file_and_keeps_them(kernel: Path, tmp_path: Path) -> None:
    run, text = tmp_path / "run", text_file(tmp_path)
    start = ["train", "--kernel", kernel]
    own = ["--recurrent-scale", 0.5, "--cell", "fancy", "--lags", "2,7", "--frozen"]
    call(*start, text, *FLAGS, "--arch", NAME, *own, "--out", run)
    stored = all_values((run / "config.toml").read_text("utf-8"))
    expected = {"recurrent_scale": 0.5, "gates": 1, "cell": "fancy", "lags": [2, 7], "frozen": True}
    assert {name: stored[name] for name in expected} == expected
    assert "activation" not in stored
    call(*start, "--resume", run, "--updates", 3)
    assert "keeps its --recurrent-scale" in refused(*start, "--resume", run, "--recurrent-scale", 0.7)
    assert "bits per character" in call("evaluate", "--kernel", kernel, run).stdout
    assert call("sample", run, "--kernel", kernel, "--length", 5).stdout
    hfrnn.kernels.import_kernels(kernel)
    assert hfrnn.load(run).net.layers[0].kernel.given == (0.5, 1, "fancy", (2, 7), True)


def test_a_run_without_its_kernel_says_what_is_missing_and_is_still_reported(kernel: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("train", "--kernel", kernel, text_file(tmp_path), *FLAGS, "--arch", NAME, "--gates", 3, "--out", run)
    for command in ("evaluate", "sample"):
        assert f"architecture '{NAME}' is not known" in refused(command, run)
        assert "name the file that registers it: --kernel FILE" in refused(command, run)
    call("report", run, "-o", tmp_path / "page.html")
    assert re.search(r'"name": ?"gates", ?"values": ?\["3"\]', (tmp_path / "page.html").read_text("utf-8"))


def test_the_options_stand_in_toml_files_under_their_names(kernel: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'arch = "{NAME}"\nrecurrent-scale = 1\nlags = [3]\n', encoding="utf-8")
    found = printed("--kernel", kernel, "--config", file, "--gates", 4)
    assert [found[name] for name in ("recurrent_scale", "gates", "cell", "lags")] == [1.0, 4, "plain", [3]]
    text = call("train", "--kernel", kernel, "--config", file, "--print-config").stdout
    file.write_text(text, encoding="utf-8")
    assert call("train", "--kernel", kernel, "--config", file, "--print-config").stdout == text
    assert "recurrent_scale" not in printed("--kernel", kernel, "--config", file, "--arch", "lstm")


def test_help_lists_the_options_of_a_user_s_architecture(kernel: Path) -> None:
    text = call("train", "--kernel", kernel, "--help").stdout
    own = " ".join(text.split("Options of rnn-scaled:\n")[1].split())
    assert own.startswith("--recurrent-scale NUMBER Standard deviation of the initial recurrent weights. [def")
    assert "--frozen Keep the recurrent weights. [default: no]" in own


def test_the_options_are_arguments_in_python(kernel: Path, tmp_path: Path) -> None:
    hfrnn.kernels.import_kernels(kernel)
    text, options = text_file(tmp_path), {**OPTIONS, "updates": 1}
    result = hfrnn.train(text=text, out=tmp_path / "run", arch=NAME, recurrent_scale=2, **options)
    assert result.net.layers[0].kernel.given == (2.0, *DEFAULTS[1:])
    assert (result.config.recurrent_scale, result.config.gates) == (2.0, 1)
    assert RunFolder(tmp_path / "run").config() == result.config
    large = hfrnn.Network(NAME, 3, 200, 3, recurrent_scale=0.5)
    assert large.views(large.init())["layer0.W_h"].std() == pytest.approx(0.5, rel=0.05)
    assert hfrnn.Network(NAME, 3, 2, 3, gates=None).layers[0].kernel.given == DEFAULTS
    assert hfrnn.Network("lstm", 3, 2, 3, recurrent_scale=0.25, lags=(1, 2)).n_parameters  # their defaults


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("recurrent_scale", float("nan"), "is nan: give a finite number above 0"),
        ("gates", 0, "is 0: give a whole number of gates, 1 or more"),
        ("gates", 2**63, f"is {2**63}: give a number of at most {2**63 - 1}, so that it fits in 64 bits"),
        ("cell", "odd", "is 'odd': use one of plain, fancy"),
        ("frozen", 1, "is 1: give true or false"),
    ],
)
def test_every_way_in_checks_the_declaration(name: str, value: Any, sentence: str, kernel: Path) -> None:
    hfrnn.kernels.import_kernels(kernel)
    for call_it in (
        lambda: hfrnn.Network(NAME, 3, 2, 3, **{name: value}),
        lambda: TrainConfig(arch=NAME, **{name: value}),
        lambda: TrainConfig(**checked_options({"arch": NAME, name: value}, "c.toml")),
    ):
        with pytest.raises(hfrnn.InputError, match=f"^{name}=? {re.escape(sentence)}"):
            call_it()


def test_an_unknown_option_gets_the_nearest_name(kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'arch = "{NAME}"\nrecurent_scale = 1\n', encoding="utf-8")
    said = refused("train", "--kernel", kernel, "--config", tmp_path / "c.toml")
    assert "an option 'recurent_scale' that is not known (did you mean recurrent_scale?)" in said
    hfrnn.kernels.import_kernels(kernel)
    with pytest.raises(hfrnn.InputError, match=r"no option recurent_scale \(did you mean recurrent_scale\?\): it"):
        hfrnn.Network(NAME, 3, 2, 3, recurent_scale=1.0)


def test_the_command_checks_the_declaration_and_the_architecture(kernel: Path, tmp_path: Path) -> None:
    start = ["train", "--kernel", kernel, text_file(tmp_path)]
    before = snapshot(tmp_path)
    for flags, sentence in {
        f"{NAME} --recurrent-scale 0": "--recurrent-scale is 0: give a number above 0",
        f"{NAME} --lags 1,0": "--lags is 0: give a whole number, 1 or more",
        f"{NAME} --cell fanci": "Did you mean 'fancy'?",
        f"{NAME} --recurent-scale 1": "--recurrent-scale",
        "gru --gates 2": "--gates was given, and --arch is gru: it is for --arch rnn-scaled; leave it out",
        f"{NAME} --activation relu": "--arch is rnn-scaled: it is for --arch rnn, hornn, hornn-max, hornn-fofe, ",
    }.items():
        assert sentence in refused(*start, "--arch", *flags.split())
    assert "No such option" in refused("train", text_file(tmp_path), "--gates", 2)
    assert snapshot(tmp_path) == before


REFUSED = {
    '"seed", int, 1, "Seed."': "declares an option named seed, which every run has: rename it",
    '"quiet", int, 1, "Noise."': "option named quiet, and hfrnn train has a flag of that name: rename it",
    '"alpha", int, 1, "Rate."': "and mine declare the option alpha with different types: rename one",
    '"Gates", int, 1, "Gates."': "an option is named 'Gates': use lower-case letters, digits and underscores",
    '"gates", int, 0, "Gates.", least=1': "the default of gates is 0: give a whole number, 1 or more",
}


@pytest.mark.parametrize("declaration", REFUSED)
def test_a_declaration_that_cannot_be_is_refused(declaration: str, tmp_path: Path) -> None:
    source = "import hfrnn\n@hfrnn.register_kernel('mine')\nclass Mine(hfrnn.Kernel):\n"
    (tmp_path / "mine.py").write_text(f"{source}    options = (hfrnn.Option({declaration}),)\n", encoding="utf-8")
    assert REFUSED[declaration] in refused("train", "--kernel", tmp_path / "mine.py", "--print-config")


def test_plain_names_are_passed_on_by_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(hfrnn.kernels.rnn.RNN):
        options = ("decay",)

        def __init__(self, hidden: int, decay: object = None) -> None:
            super().__init__(hidden)
            self.decay = decay

    hfrnn.register_kernel("plain", Plain)
    assert hfrnn.Network("plain", 3, 2, 3, decay="x").layers[0].kernel.decay == "x"


def test_help_merges_options_that_architectures_share() -> None:
    text = " ".join(call("train", "--help-all").stdout.split())
    assert "--alpha FLOAT hornn-fofe, fofe-fnn: Weight of each earlier step, relative to the step after it. " in text
    assert "[default: 0.6] scrn: Share of its value that a context unit keeps in a step. [default: 0.95]" in text


@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_the_declared_defaults_are_those_of_the_constructor(arch: str) -> None:
    parameters = inspect.signature(registry.kernel_class(arch)).parameters
    declared = {name: option.default for name, option in registry.kernel_options(arch).items()}
    assert {name: each.default for name, each in parameters.items() if name != "hidden"} == declared


# ---------------------------------------------------------------------- the backend auto


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_gpu", lambda: gpu.Found(None, "there is no GPU"))


def test_a_backend_with_a_name_is_taken_as_it_is() -> None:
    for name in ("numpy", "numba", "cupy", "abacus"):
        assert registry.resolve_backend(name, "mlstm") == name
    assert hfrnn.Network("rnn", 3, 2, 3, backend="auto").backend.name == registry.resolve_backend("auto", "rnn")


def find_numba(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: object() if found else None)


@pytest.mark.usefixtures("no_gpu")
def test_the_choice_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", sys)  # can be imported
    for arch, numba, chosen, reason in (
        ("mlstm", True, "numba", ""), ("mlstm", False, "numpy", "; numba is not installed"),
        (NAME, True, "numpy", f"; numba has no loops for {NAME}"),
    ):  # fmt: skip
        find_numba(monkeypatch, numba)
        assert registry.choose_backend(arch) == (chosen, f"there is no GPU{reason}")
        assert registry.resolve_backend("auto", arch) == chosen


def test_auto_is_cupy_with_a_gpu_but_not_for_online_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    register_device(monkeypatch, "Model 1")
    assert registry.choose_backend("mlstm") == ("cupy", "Model 1")
    assert hfrnn.TrainConfig(optimizer="online", arch="lstm-krause").chosen_backend()[0] != "cupy"
    assert hfrnn.TrainConfig(arch="lstm-krause").chosen_backend()[0] == "cupy"


@pytest.mark.usefixtures("no_gpu")
def test_a_run_says_and_keeps_the_backend_that_auto_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", sys)  # can be imported
    find_numba(monkeypatch, False)
    out = call("train", text_file(tmp_path), *FLAGS[2:], "--out", tmp_path / "run").stdout
    assert "\nbackend   numpy (auto: there is no GPU; numba is not installed)\n" in out
    assert all_values((tmp_path / "run" / "config.toml").read_text("utf-8"))["backend"] == "numpy"
    assert printed("--arch", "mlstm")["backend"] == "numpy"
    find_numba(monkeypatch, True)
    assert printed("--arch", "mlstm")["backend"] == "numba"
    assert printed("--arch", "fnn")["backend"] == "numpy"
    assert printed("--resume", tmp_path / "run")["backend"] == "numpy"  # a run that is resumed keeps its backend
    assert printed("--resume", tmp_path / "run", "--backend", "auto")["backend"] == "numba"
    assert "\nbackend   numpy\n" in call("train", "--resume", tmp_path / "run", "--updates", 3).stdout
    find_numba(monkeypatch, False)
    for command in ("evaluate", "sample"):
        found = call(command, tmp_path / "run", "--json", "--backend", "auto").stdout
        assert json.loads(found) == json.loads(call(command, tmp_path / "run", "--json").stdout)
