"""The registry of optimizers, and what an optimizer declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.entries import Entries
from hfrnn.option import Option

if TYPE_CHECKING:
    from hfrnn.engine.network import Network


class Optimizer:
    """Base class of the declarations of optimizers. `hfrnn.register_optimizer` adds one.

    Attributes
    ----------
    about : str
        What the optimizer is, for lists of optimizers.
    options : tuple of Option
        The options that the optimizer has; several optimizers may share the same objects.
    takes : tuple of str
        Options of every run that only some optimizers use, and this one does: "state_noise".
    defaults : mapping
        Values of options, by name, unless they are given.
    on_gpu : bool
        Whether the optimizer can compute on a GPU.
    on_ranks : bool
        Whether several processes can train one network.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.training.methods.sgd import SGD
    >>> class Slow(SGD):
    ...     defaults = {**SGD.defaults, "learning_rate": 0.01}
    >>> registered = hfrnn.register_optimizer("slow", Slow)
    >>> hfrnn.TrainConfig(optimizer="slow").resolved().learning_rate
    0.01
    >>> issubclass(Slow, hfrnn.Optimizer)
    True
    """

    about: ClassVar[str] = ""
    options: ClassVar[tuple[Option, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}
    on_gpu: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    @classmethod
    def make(cls, config: Any, source: Any, net: Network) -> Any:
        """Return the method that trains a network.

        Parameters
        ----------
        config : hfrnn.TrainConfig
            The options of the run, resolved.
        source : hfrnn.sources.open.Source
            Its data.
        net : Network

        Returns
        -------
        hfrnn.training.methods.method.Method

        Raises
        ------
        InputError
            The options or the data do not fit the optimizer.
        """
        raise NotImplementedError

    @classmethod
    def manner(cls, config: Any) -> str:
        """Return how a run trains, in one word for the name of its folder."""
        return str(config.optimizer)


OPTIMIZERS: Entries[Optimizer] = Entries(
    "optimizer",
    Optimizer,
    {
        "hf": "hfrnn.training.methods.hf:HF",
        "sgd": "hfrnn.training.methods.sgd:SGD",
        "adam": "hfrnn.training.methods.adam:Adam",
        "soap": "hfrnn.training.methods.soap:SOAP",
        "muon": "hfrnn.training.methods.muon:Muon",
        "online": "hfrnn.training.methods.online:Online",
    },
)
"""The optimizers by the values of the option `optimizer`."""


def register_optimizer(
    name: str, optimizer: type[Optimizer] | None = None
) -> Callable[[type[Optimizer]], type[Optimizer]]:
    """Register an optimizer under a name, for `hfrnn.train` and `hfrnn train`. Can be used as a class decorator.

    Parameters
    ----------
    name : str
        The value of the option `optimizer`.
    optimizer : subclass of Optimizer, optional

    Returns
    -------
    callable
        The class decorator; not needed if `optimizer` is given.

    Raises
    ------
    InputError
        Another optimizer has that name, or the class is no subclass of Optimizer.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.training.methods.sgd import SGD
    >>> @hfrnn.register_optimizer("slower")
    ... class Slower(SGD):
    ...     defaults = {**SGD.defaults, "learning_rate": 0.01}
    >>> hfrnn.TrainConfig(optimizer="slower").resolved().learning_rate
    0.01
    """
    return OPTIMIZERS.register(name, optimizer)
