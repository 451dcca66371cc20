"""Music as piano rolls, known by name. The network predicts the next chord."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hfrnn.data.kinds.data_kind import DataKind, Earlier
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.data.music import Music as Rolls
    from hfrnn.data.ragged import RaggedPool


class Music(DataKind):
    """Pieces of music: piano rolls."""

    about = "music"
    named = "music"
    preset = "music"
    score_names = ("music", "pieces", "nats_per_time_step")
    scores_outputs = False

    def __init__(self, music: Rolls) -> None:
        self.name, self.source, self.sha256, self.music = music.name, music.source, music.sha256, music

    @classmethod
    def names(cls) -> tuple[str, ...]:
        from hfrnn.data.music import COLLECTIONS

        return tuple(COLLECTIONS)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        from hfrnn.data.corpora import located
        from hfrnn.data.music import COLLECTIONS

        return [*located([*COLLECTIONS[options["data"]].files])]

    @classmethod
    def loss_name(cls, options: Mapping[str, Any]) -> str:
        return "nats"

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> Music:
        from hfrnn.data.music import load_music

        return cls(load_music(options["data"]))

    def prepare(self, earlier: Earlier | None = None) -> None:
        from hfrnn.data.music import music_batch

        self._pool = music_batch(self.music.train)
        n = self._pool.x.shape[1]
        self.network = {"n_in": n, "n_out": n, "loss": "logistic"}
        self.validation = music_batch(self.music.valid) if self.music.valid else None

    def pool(self, epoch: int) -> RaggedPool:
        return self._pool

    def part(self, name: str) -> RaggedPool:
        from hfrnn.data.music import music_batch

        return music_batch(self.music.part(name))

    def lines(self) -> list[str]:
        music = self.music
        train, valid, test = counted(len(music.train), "piece"), len(music.valid), len(music.test)
        lines = [f"music     {self.name}: {train} to train on, {valid} to validate, {test} to test"]
        return [*lines, f"          {music.note}"] if music.note else lines
