"""What a callback does with its record changes neither the run nor other callbacks."""

import pytest
from support.tiny_runs import callback, metrics, tiny_train

import hfrnn


class Spoils(hfrnn.Callback):
    """Changes everything that it is given."""

    def __init__(self):
        self.trainer = None

    def on_start(self, trainer):
        self.trainer = trainer

    def on_update(self, record):
        for given in (record, self.trainer.last, self.trainer.best):
            given.update(valid_bits=-1.0, valid_loss=-1.0, update=999)


def test_a_callback_that_changes_its_record_does_not_falsify_the_run(tmp_path):
    read = []
    result = tiny_train(tmp_path, callbacks=(Spoils(), callback(on_update=read.append)))
    records = metrics(tmp_path / "run")
    assert [each["update"] for each in read] == [each["update"] for each in records] == [1, 2]
    best = min(records, key=lambda each: each["valid_loss"])
    assert result.summary["best"]["valid_bits"] == best["valid_bits"] > 0
    assert result.summary["last"]["update"] == 2


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path):
    wrong = [[object()], hfrnn.Callback(), [hfrnn.Callback], "x", {"a": 1}]
    for callbacks in wrong:
        with pytest.raises(hfrnn.InputError, match="callbacks is"):
            hfrnn.train(text="text.txt", out=tmp_path / "run", callbacks=callbacks)
    assert not list(tmp_path.iterdir())
