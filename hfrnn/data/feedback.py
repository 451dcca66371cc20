"""Which inputs of a step are outputs of the step before, by the names or numbers that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from hfrnn.errors import InputError, Message
from hfrnn.wording import counted


def feedback_columns(
    chosen: Sequence[str] | None, input_names: Sequence[str], output_names: Sequence[str], ahead: int, n_in: int,
    n_out: int,
) -> list[int | None] | None:  # fmt: skip
    """Return for each output the input that it is one step later, counted from 0; None for an output without one.

    Parameters
    ----------
    chosen : sequence of str, optional
        An input for each output, by name or by number from 1; 0 for none. By default the columns of a table that are
        inputs and targets, or without names None: all inputs in their order.
    input_names, output_names : sequences of str
        The columns of a table; empty for arrays.
    ahead : int
        Rows of a table from an input to the target that it predicts.
    n_in, n_out : int
        The numbers of inputs and outputs.

    Raises
    ------
    InputError
        No target is an input of the next row, or what was chosen does not fit.
    """
    if output_names and ahead != 1:
        raise _no_feedback(input_names, output_names, ahead)
    if chosen is not None:
        return _chosen(chosen, input_names, n_in, n_out)
    if not output_names:
        return None
    found = [input_names.index(name) if name in input_names else None for name in output_names]
    if all(each is None for each in found):
        raise _no_feedback(input_names, output_names, ahead)
    return found


def _no_feedback(input_names: Sequence[str], output_names: Sequence[str], ahead: int) -> InputError:
    reads, predicts = (", ".join(names[:12]) for names in (input_names, output_names))
    return InputError(Message(
        "the network reads {0} and predicts {1}, {2} ahead: a run on its own outputs needs a column that is in "
        "{inputs} and in {targets}, and {ahead:1}", reads, predicts, counted(ahead, "row"),
    ))  # fmt: skip


def _chosen(chosen: Sequence[str], input_names: Sequence[str], n_in: int, n_out: int) -> list[int | None]:
    if len(chosen) != n_out:
        raise InputError(Message(
            "{feedback!s} is {0}, and the network has {1}: give an input for each, and 0 for an output that is not fed "
            "back", ",".join(chosen), counted(n_out, "output"),
        ))  # fmt: skip
    found: list[int | None] = []
    for each in chosen:
        if each in input_names:
            found.append(input_names.index(each))
        elif each.isdecimal() and len(each) < 9 and int(each) <= n_in:
            found.append(int(each) - 1 if int(each) else None)
        else:
            names = f", or a name of {', '.join(input_names[:12])}" if input_names else ""
            raise InputError(Message(
                "{feedback!s} names the input {0}: give numbers from 1 to {1}, and 0 for an output that is not fed "
                "back{2}", each, n_in, names,
            ))  # fmt: skip
    used = [each for each in found if each is not None]
    if not used or len(set(used)) < len(used):
        raise InputError(Message(
            "{feedback!s} is {0}: give a different input for each output that is fed back, at least one",
            ",".join(chosen),
        ))  # fmt: skip
    return found
