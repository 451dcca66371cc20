"""What a notebook shows of a run; a stand-in takes the place of IPython."""

import sys
from types import SimpleNamespace

import pytest
from support.tiny_runs import tiny_train

from hfrnn.training import notebook
from hfrnn.training.callbacks import ROWS, log_table
from hfrnn.training.notebook import in_notebook


class ZMQInteractiveShell:
    """The name that the shell of a notebook's kernel has."""


@pytest.fixture
def shown(monkeypatch):
    """What a notebook has shown, in a process that looks like its kernel."""
    texts = []

    def display(content, display_id):
        texts.append(content._repr_html_())
        return SimpleNamespace(update=lambda content: texts.append(content._repr_html_()))

    module = SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(notebook, "SECONDS", 0.0)
    return texts


def test_a_notebook_shows_the_progress_of_a_run_and_then_its_result(tmp_path, shown):
    result = tiny_train(tmp_path, updates=3)
    assert len(shown) == 1 + 3 + 1
    assert "update 2, training loss" in shown[2]
    assert "best validation loss" in shown[2]
    assert result.describe() in shown[-1]


def test_elsewhere_nothing_is_shown(monkeypatch):
    for module in (None, SimpleNamespace(get_ipython=lambda: None), SimpleNamespace(get_ipython=lambda: "terminal")):
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert not in_notebook()


def test_the_log_is_a_small_table_with_the_first_and_the_last_record(tmp_path):
    table = log_table([{"update": n, "seconds": 61.0, "train_loss": 2.0 / n, "mu": None} for n in range(1, 1001)])
    assert 3 <= table.count("<tr>") - 1 <= ROWS
    assert "<td>1</td><td>1:01</td><td>2.000</td>" in table
    assert "<td>1,000</td>" in table
    assert "<th>mu</th>" not in table
    result = tiny_train(tmp_path)
    assert log_table(result.log) in result._repr_html_()


def test_a_result_with_odd_names_is_escaped(tmp_path):
    result = tiny_train(tmp_path, "<b>run")
    assert "<b>" not in result._repr_html_()
