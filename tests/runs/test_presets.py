"""The presets of the defaults of Hessian-free optimization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hfrnn.choices import PRESETS
from hfrnn.cli.train import merged
from hfrnn.data.kinds import kind_of
from hfrnn.errors import InputError
from hfrnn.option import ByData, Option
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.options import run_options

OF_PRESETS = {name: option for name, option in run_options().items() if option.presets is not None}
PUBLISHED = {
    "gradient_symbols": 100_000, "first_gradient_symbols": 10_000, "batch_growth": 1.15, "sequence_starts": "fixed",
    "curvature_fraction": 0.2, "cg_iterations": 100, "warm_start": 0.95, "mu_growth": 3.0, "least_damping": 0.0,
    "armijo": 0.01, "preconditioner": "none", "average": 0.7,
}  # fmt: skip
DATA = {"text": "python-manual", "large_text": "tinyshakespeare", "music": "jsb", "task": "addition", "arrays": "a.csv"}
CHEAP = {
    "cg_iterations": 2, "noise_limit": 0.5, "rho_every": 10, "preconditioner_exponent": 1.0, "preconditioner_parts": 50,
    "curvature_fraction": 0.2, "preconditioner_relative_shift": 0.5, "preconditioner_every": 40, "least_damping": 1.0,
    "first_gradient_symbols": 2_500, "compare_iterates": "low-rho", "momentum": 0.6,
}  # fmt: skip
"""What the preset of large texts has instead of that of texts."""


def declared(option: Option, preset: str, kind: str) -> Any:
    """Return what an option's declaration says for a preset, a kind of data and sequences of 100 steps."""
    value = getattr(option.presets, preset)
    value = value.of(kind) if isinstance(value, ByData) else value
    value = 100 * value.number if hasattr(value, "number") else value
    return 0 if value is None else value


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", DATA)
def test_a_preset_resolves_to_the_values_of_the_declarations(preset: str, kind: str) -> None:
    resolved = TrainConfig(preset=preset, data=DATA[kind]).resolved()
    assert {name: getattr(resolved, name) for name in OF_PRESETS} == {
        name: declared(option, preset, kind) for name, option in OF_PRESETS.items()
    }
    assert resolved.resolved() == resolved


def test_the_published_preset_has_the_values_of_the_papers() -> None:
    for data in DATA.values():
        resolved = TrainConfig(preset="published", data=data).resolved()
        assert {name: getattr(resolved, name) for name in PUBLISHED} == PUBLISHED
        assert resolved.preconditioner_shift is None


def test_tuned_is_the_default_and_depends_on_the_kind_of_data() -> None:
    found = {kind: TrainConfig(data=data).resolved() for kind, data in DATA.items()}
    assert {kind: each.preset for kind, each in found.items()} == dict.fromkeys(DATA, "tuned")
    assert [each.cg_iterations for each in found.values()] == [3, 2, 3, 4, 30]
    assert [each.curvature_fraction for each in found.values()] == [0.4, 0.2, 0.4, 0.4, 1.0]
    assert [each.gradient_symbols for each in found.values()] == [12_500, 12_500, 12_500, 12_500, 25_000]
    for name in ("flip-flop", "sine"):  # a target at every step
        assert TrainConfig(data=name).resolved().cg_iterations == 30
    assert TrainConfig(data="addition", length=40).resolved().gradient_symbols == 125 * 40
    assert {each.preconditioner for each in found.values()} == {"kronecker"}


def differing(large: TrainConfig, other: TrainConfig) -> dict[str, Any]:
    """The options of the preset that differ, with their values for the large text."""
    found = {name: (getattr(large.resolved(), name), getattr(other.resolved(), name)) for name in OF_PRESETS}
    return {name: value for name, (value, others) in found.items() if value != others}


def test_large_texts_have_cheap_updates() -> None:
    small = TrainConfig(data="python-manual")
    assert kind_of({}).about == kind_of({"data": "no such data"}).about == "a text"
    for data in ("tinyshakespeare", "ptb", "text8", "enwik8", "wikitext-2"):
        assert differing(TrainConfig(data=data), small) == CHEAP
    words = TrainConfig(data="ptb", level="word", optimizer="hf")  # 1.09 million
    assert differing(words, small) == {name: CHEAP[name] for name in CHEAP if name != "first_gradient_symbols"}
    assert differing(TrainConfig(data="tinyshakespeare", level="word", optimizer="hf"), small) == {}
    published = {"preset": "published", "data": "text8"}
    assert differing(TrainConfig(**published), TrainConfig(preset="published")) == {}


@pytest.mark.parametrize(("options", "l2"), [
    ({"data": "tinyshakespeare"}, 1.17e-5), ({"data": "tinyshakespeare", "l2": 0.0}, 0.0), ({}, 0.0),
    ({"data": "tinyshakespeare", "preset": "published"}, 0.0), ({"data": "tinyshakespeare", "optimizer": "adam"}, 0.0),
])  # fmt: skip
def test_the_penalty_of_a_large_text_follows_from_its_size(options: dict[str, Any], l2: float) -> None:
    assert TrainConfig(**options).resolved().l2 == pytest.approx(l2, rel=1e-2)


@pytest.mark.parametrize(("size", "level", "cheap"), [
    (999_999, "char", False), (1_000_000, "char", True), (1_000_000, "byte", True), (4_999_999, "word", False),
    (5_000_000, "word", True),
])  # fmt: skip
def test_the_size_of_its_file_makes_a_text_large(tmp_path: Path, size: int, level: str, cheap: bool) -> None:
    book = tmp_path / "book.txt"
    book.write_bytes(b"a" * size)
    config = TrainConfig(text=str(book), level=level)
    expected = {name: CHEAP[name] for name in CHEAP if level != "word" or name != "first_gradient_symbols"}
    assert differing(config, TrainConfig()) == (expected if cheap else {})
    resolved = config.resolved()
    book.unlink()
    assert resolved.resolved() == resolved  # the values are those that the size gave


def test_a_share_of_a_text_that_is_gone_is_not_one_that_was_given(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_bytes(b"a" * 1_000_000)
    config = TrainConfig(text=str(book), curvature_symbols=700).resolved()
    book.unlink()
    assert TrainConfig(**config.given).curvature_symbols == config.replace(seed=1).curvature_symbols == 700


def test_without_a_preconditioner_there_is_no_limit_of_the_noise() -> None:
    assert TrainConfig(data="tinyshakespeare", preconditioner="none").resolved().noise_limit == 0.0
    assert TrainConfig(data="tinyshakespeare", preconditioner="diagonal").resolved().noise_limit == 0.5
    assert TrainConfig(data="tinyshakespeare", noise_limit=0.0).resolved().noise_limit == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_given_options_win_over_a_preset(preset: str) -> None:
    given: dict[str, Any] = {
        "gradient_symbols": 4_000, "first_gradient_symbols": 5_000, "batch_growth": 1.5, "curvature_fraction": 0.75,
        "cg_iterations": 33, "warm_start": 0.25, "mu_growth": 7.0, "least_damping": 0.3, "armijo": 0.2,
        "preconditioner": "diagonal", "preconditioner_parts": 3, "preconditioner_every": 4, "average": 0.25,
    }  # fmt: skip
    resolved = TrainConfig(preset=preset, **given).resolved()
    assert {name: getattr(resolved, name) for name in given} == given
    zero = dict.fromkeys(("gradient_symbols", "first_gradient_symbols", "warm_start", "mu_growth", "average"), 0)
    resolved = TrainConfig(preset=preset, **zero).resolved()
    assert {name: getattr(resolved, name) for name in zero} == zero


def test_the_first_gradient_batch_is_not_larger_than_the_others() -> None:
    for gradient, first in {None: 5_000, 400: 400, 0: 0, 50_000: 5_000}.items():
        assert TrainConfig(gradient_symbols=gradient).resolved().first_gradient_symbols == first


def strengths(config: TrainConfig) -> tuple[float | None, float | None, float | None]:
    found = config.resolved()
    return found.mu, found.lambda_, found.least_damping


@pytest.mark.parametrize(
    ("damping", "own", "weaker"),
    [("structural", (0.1, 0.01, 0.1), (0.01, 0.001, 1.0)), ("tikhonov", (None, 1.0, 0.001), (None, 0.1, 0.01)),
     ("structural+tikhonov", (0.1, 0.1, 0.01), (0.01, 0.01, 0.1)), ("line-search", (None, None, 0.1), (None, None, 1))],
)  # fmt: skip
def test_the_damping_of_large_texts_is_weaker_at_first(damping: str, own: Any, weaker: Any) -> None:
    assert strengths(TrainConfig(damping=damping)) == pytest.approx(own)
    assert strengths(TrainConfig(damping=damping, data="ptb")) == pytest.approx(weaker)
    assert strengths(TrainConfig(damping=damping, data="ptb", preset="published"))[:2] == own[:2]


@pytest.mark.parametrize(("given", "expected"), [
    ({"mu": 0.3}, (0.3, 0.01, 0.1)), ({"lambda_": 0.0}, (0.1, 0.0, 0.1)), ({"lambda_": 0.02}, (0.1, 0.02, 0.1)),
    ({"least_damping": 0.5}, (0.01, 0.001, 0.5)), ({"mu": 0.3, "least_damping": 0.5}, (0.3, 0.01, 0.5)),
])  # fmt: skip
def test_a_given_strength_may_become_weaker(given: dict[str, float], expected: Any) -> None:
    assert strengths(TrainConfig(data="ptb", **given)) == expected


@pytest.mark.parametrize(("options", "shift"), [
    ({}, None), ({"damping": "tikhonov"}, None), ({"lambda_": 0.0}, None), ({"damping": "line-search"}, None),
    ({"lambda_": 0.0, "data": "addition"}, 1e-3), ({"damping": "none", "data": "addition"}, 1e-3),
    ({"lambda_": 0.0, "preconditioner_relative_shift": 0.0}, 1e-3),
    ({"damping": "line-search", "preconditioner_shift": 0.5}, 0.5),
    ({"damping": "line-search", "preconditioner": "none"}, None),
])  # fmt: skip
def test_a_preconditioner_without_lambda_or_relative_shift_has_a_shift(options, shift) -> None:
    chosen = TrainConfig(**options).resolved()
    assert chosen.preconditioner_shift == shift
    assert chosen.resolved() == chosen


def written(path: Path, config: TrainConfig) -> str:
    path.write_text(config.resolved().to_toml({"hfrnn": "0.1.0"}), "utf-8")
    return str(path)


@pytest.mark.parametrize("options", [
    {"data": "ptb", "lambda_": 0.05}, {"mu": 0.3, "lambda_": 0.0}, {"data": "ptb", "damping": "line-search"},
    {"data": "ptb", "optimizer": "sgd"}, {"preset": "published"},
])  # fmt: skip
def test_a_resumed_run_has_the_options_that_it_began_with(tmp_path: Path, options: dict[str, Any]) -> None:
    config = TrainConfig(**options).resolved()
    written(tmp_path / "config.toml", config)
    found = RunFolder(tmp_path).config()
    assert (found.given, found.followed) == (config.given, config.followed)


def test_a_preset_or_the_size_of_another_text_replaces_the_defaults_in_a_file(tmp_path: Path) -> None:
    file = written(tmp_path / "c.toml", TrainConfig(data="tinyshakespeare", cg_iterations=7))
    full = merged({"preset": "published"}, file)[1].resolved()
    assert {name: getattr(full, name) for name in PUBLISHED} == {**PUBLISHED, "cg_iterations": 7}
    full = merged({"data": "python-manual"}, file)[1].resolved()
    assert differing(full, TrainConfig()) == {"cg_iterations": 7}
    assert strengths(full) == strengths(TrainConfig())


def test_another_damping_replaces_strengths_in_a_file_that_nobody_gave(tmp_path: Path) -> None:
    for given in ({}, {"lambda_": 0.05}):
        file = written(tmp_path / "c.toml", TrainConfig(data="ptb", **given))
        other = merged({"damping": "tikhonov"}, file)[1]
        assert strengths(other) == strengths(TrainConfig(data="ptb", damping="tikhonov", **given))
    file = written(tmp_path / "c.toml", TrainConfig(data="ptb", lambda_=0.05, least_damping=1.0))
    assert strengths(merged({}, file)[1]) == (0.1, 0.05, 1.0)


def test_a_preset_is_for_hessian_free_optimization_and_options_of_a_preconditioner_for_the_tuned_one() -> None:
    assert {TrainConfig(optimizer="sgd", preset=preset).resolved().average for preset in PRESETS} == {0.995}
    with pytest.raises(InputError, match="preset= was given, and optimizer= is adam"):
        merged({"preset": "tuned", "optimizer": "adam"}, None)
    merged({"preconditioner_parts": 5}, None)
    for given in ({"preset": "published"}, {"preconditioner": "none"}):
        with pytest.raises(InputError, match="preconditioner= is none: it is for preconditioner='kronecker'"):
            merged({"preconditioner_parts": 5, **given}, None)
    with pytest.raises(InputError, match=r"preconditioner_relative_shift= is 0\.2, and preconditioner_shift= is 0\.5"):
        TrainConfig(preconditioner_relative_shift=0.2, preconditioner_shift=0.5)
