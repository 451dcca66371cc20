"""Every option of a run: those of this file, of the kinds of data (`data/kinds/`) and of the optimizers.

Flags, keys of TOML files, checks, messages and help texts are derived from the declarations.
"""

from __future__ import annotations

import functools
from typing import Any

from hfrnn.choices import AUTO, BACKENDS, DEVICE_SHARE, DTYPES, HOST_MEMORY, INITIALIZERS
from hfrnn.data.kinds import KINDS
from hfrnn.errors import InputError, Message
from hfrnn.losses import loss_options
from hfrnn.option import ByData, Need, Option, Presets
from hfrnn.runs.optimizers import OPTIMIZERS

DEFAULT_MINUTES = 4.0
"""Minutes of a run without another limit."""


def _a_stack(chosen: Any) -> Message | None:
    return Message("{hidden} asks for one layer: it is for a stack of layers") if len(chosen.hidden) == 1 else None


GROUPS = ("Data", "Network", "Optimizer", "First-order optimizers", "Running")
"""The headings of options, in their order."""
A_STACK = Need("hidden", unless=_a_stack)
SUTSKEVER = Need("initializer", ("sutskever",))

_network = functools.partial(Option, group="Network")
_shape = functools.partial(_network, shapes=True)
_optimizer = functools.partial(Option, group="Optimizer")
_running = functools.partial(Option, group="Running")

DATA = Option(
    "data", str, None,
    "What to train on instead of a text: a corpus, task or music by name, a file of arrays (.npz, .npy, .mat, .h5), "
    "tables (.csv, .tsv, .dat, .txt, .parquet, .xlsx: one or more recordings) or a folder of MIDI files (.mid, .midi).",
    otherwise="python-manual", several=True, group="Data",
)  # fmt: skip
GENERAL: tuple[Option, ...] = (
    _shape("arch", str, "mlstm", "Architecture of the network; `hfrnn info` lists all."),
    _shape("hidden", int, (128,), "Hidden units of each layer; several sizes with commas make a stack.", many=True),
    _shape(
        "embedding", int, None, "Size of a symbol embedding, trained with the network.", least=1, unit="columns",
        otherwise="one-hot symbols",
    ),
    _shape("bias", bool, None, "Give the hidden layers biases.", otherwise="the architecture's own"),
    _shape("output_bias", bool, None, "Give the output a bias.", otherwise="the architecture's own"),
    _shape("direct_input", bool, True, "Connect the input to the layers above the first too.", needs=(A_STACK,)),
    _shape(
        "direct_output", bool, True, "Connect all hidden layers to the output, not only the last one.",
        needs=(A_STACK,),
    ),
    _shape("learn_initial_state", bool, False, "Learn the hidden state before the first step, instead of zeros."),
    _shape("feedthrough", bool, False, "Let the outputs depend directly on the input of their step too."),
    _shape(
        "classes", int, None, "Classes of a class softmax, formed by how often symbols occur.", least=1, unit="classes",
        zero="for a full softmax", otherwise="a full softmax",
    ),
    _network(
        "l2", float, None, "Adds l2/2 * |theta|^2 to the objective.", least=0,
        otherwise="13/symbols of a large text with {preset:tuned}, 0.3/steps of recordings that are not cut, else 0",
    ),
    _network(
        "state_noise", float, 0.0,
        "Standard deviation of noise that training adds to the input of every hidden unit at every step.", least=0,
    ),
    _network(
        "initializer", str, "papers",
        "Initial weights: as in the papers, Sutskever's sparse ones, or orthogonal recurrent matrices.",
        choices=INITIALIZERS,
    ),
    _network(
        "spectral_radius", float, 1.1, "Spectral radius of the initial recurrent weights.", needs=(SUTSKEVER,), above=0,
    ),
    _network(
        "input_scale", float, None, "Standard deviation of the initial input weights of the first layer.", above=0,
        otherwise="{init_scale}, else the initializer's own",
    ),
    _network(
        "init_scale", float, None, "Standard deviation of all initial weights.", above=0,
        otherwise="the initializer's own",
    ),
    _network(
        "density", float, None, "Share of the connections between hidden units that exist, drawn from {seed}.", above=0,
        most=1, otherwise="all",
    ),
    _network(
        "connectivity", str, None,
        "NumPy file (.npz) that says which weights exist and which signs they keep, by name of the parameter.",
        path=True,
    ),
    _network(
        "excitatory", float, None,
        "Share of excitatory hidden units (Dale's law): no weight that leaves a hidden unit changes its sign.", least=0,
        most=1, otherwise="no fixed signs",
    ),
    _network("excitatory_output", bool, False, "Let only excitatory units feed the output, with weights of 0 or more."),
    _network(
        "init_from", str, None, "Run folder, or file of hfrnn.save, to start from: its best weights and its symbols.",
        path=True,
    ),
    _network("dtype", str, "float32", "Type of the numbers to compute with.", choices=DTYPES),
    _optimizer(
        "average", float, None,
        "Decay per update of the running average of the weights, which is validated and saved; 0 for no average.",
        least=0, below=1, presets=Presets(ByData(text=0.999, music=0.999, task=0.999, arrays=0.0), 0.7),
    ),
    _optimizer(
        "validate_every", int, None, "Updates between validations.", least=1,
        otherwise="one epoch; with hf, as much work as 20 validations",
    ),
    _running(
        "epochs", int, None, "Stop after this many passes over the training part, those of a resumed run included.",
        least=1,
    ),
    _running("patience", int, None, "Stop after this many validations without an improvement.", least=1),
    _running("out", str, None, "Run folder to create.", otherwise="a new one under runs/"),
    _running("updates", int, None, "Stop after this many updates, those of a resumed run included.", least=1),
    _running(
        "minutes", float, None, "Stop after this many minutes; a resumed run counts from 0 again.", above=0,
        otherwise=f"{DEFAULT_MINUTES:g} without {{updates}} or {{epochs}}",
    ),
    _running(
        "target_bits", float, None,
        "Stop when the validation loss (without validation, the training loss) is at most this, in bits.", above=0,
    ),
    _running("keep", int, 0, "Number of latest checkpoints to keep, last included; best is always kept.", least=0),
    _running(
        "restarts", int, None,
        "Number of runs, one after another, with {seed}, {seed} + 1, ... and the limits for each; the best is kept.",
        least=1, unit="runs", otherwise="one run",
    ),
    _running("seed", int, 0, "Seed of the initial weights and of everything drawn at random.", least=0),
    _running(
        "backend", str, AUTO,
        "What to compute with; auto is cupy with a usable GPU, else numba where it is installed and helps, else numpy.",
        choices=(AUTO, *BACKENDS),
    ),
    _running(
        "threads", int, None, "Number of threads; results do not depend on it.", least=1, otherwise="all processors",
    ),
    _running(
        "shards", int, None,
        "Least number of shards of a batch: give ranks times threads. The last bits of results depend on it.", least=1,
        otherwise="2; 1 on a GPU",
    ),
    _running(
        "rank_timeout", float, 300.0, "Seconds that a rank of mpiexec waits for another one, before all end.", above=0,
        most=1e6,
    ),
    _running(
        "checkpoint", str, "auto", "States to store: auto, all, sqrt, or a number of steps from one to the next.",
        digits=True,
    ),
    _running(
        "memory", str, None, "Memory that {checkpoint:auto} may use: a number of bytes, such as 4GiB or 500MB.",
        digits=True, otherwise=f"{HOST_MEMORY // 2**30}GiB; on a GPU {DEVICE_SHARE:.0%} of its free memory",
    ),
    _running(
        "sample_length", int, 300, "Symbols of a sample text, drawn at updates 1, 2, 4, ... and at the end", least=1,
        zero="for none",
    ),
)  # fmt: skip
"""The options that are of no kind of data and of no optimizer."""


def run_options() -> dict[str, Option]:
    """Return the declarations of all options of a run, by name, with those that users registered."""
    return _assembled(KINDS.classes(), OPTIMIZERS.classes(), tuple(loss_options().values()))


@functools.lru_cache(maxsize=4)
def _assembled(data: tuple[Any, ...], optimizers: tuple[Any, ...], of_losses: tuple[Option, ...]) -> dict[str, Option]:
    """Return the declarations with those of kinds of data, optimizers and losses, in the order of the help page."""
    choice = Option(
        "optimizer", str, "hf", "Optimizer; hf is Hessian-free optimization.", choices=OPTIMIZERS.names(),
        group="Optimizer",
    )  # fmt: skip
    found: dict[str, Option] = {}
    of_entries = [option for entry in (*data, *optimizers) for option in entry.options]
    for option in sorted(
        (DATA, choice, *of_entries, *of_losses, *GENERAL), key=lambda option: GROUPS.index(option.group)
    ):
        if found.setdefault(option.name, option) != option:
            raise InputError(f"two declarations of the option {option.name} differ: rename one of the two options")
    return found
