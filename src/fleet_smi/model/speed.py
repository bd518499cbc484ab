"""How fast a model is, told by its name: a ranking for choosing, not a benchmark."""

import re
from functools import lru_cache

# Fastest first, by what matters for training and inference on tensors. A name is matched by
# whole words, and by the entry with the most letters among those that fit.
RANKED: tuple[str, ...] = (
    "GB300", "B300", "MI355X", "GB200", "B200", "MI350X", "B100", "MI325X", "GH200", "H200",
    "MI300X", "H100", "GH100", "MI300A", "H800", "H100 PCIe", "H800 PCIe",
    "RTX PRO 6000 Blackwell", "RTX PRO 6000", "H20", "RTX 5090", "RTX 5090 D",
    "RTX PRO 5000 Blackwell", "RTX 4090", "RTX 6000 Ada", "L40S", "A100", "A800", "RTX 4090 D",
    "L40", "MI250X", "MI250", "RTX PRO 4500 Blackwell", "RTX 5080", "RTX 5880 Ada",
    "RTX 5000 Ada", "L20", "RTX 4080 SUPER", "RTX 4080", "RTX 5070 Ti", "MI210", "A40",
    "RTX 3090 Ti", "RTX A6000", "RTX 3090", "RX 7900 XTX", "A30", "RTX PRO 4000 Blackwell",
    "RTX 4070 Ti SUPER", "RTX 4070 Ti", "RTX 5070", "RTX A5500", "RTX 3080 Ti", "RTX A5000",
    "RTX 4500 Ada", "RX 9070 XT", "RTX 4070 SUPER", "RTX 3080", "V100", "A10", "A10G", "MI100",
    "RX 7900 XT", "RTX 4070", "RTX 4000 Ada", "GB10", "RTX 5060 Ti", "RTX A4500", "RTX 3070 Ti",
    "L4", "TITAN V", "Quadro GV100", "RX 9070", "RTX 5060", "RTX 3070", "RTX A4000",
    "RTX 4060 Ti", "Quadro RTX 8000", "Quadro RTX 6000", "TITAN RTX", "RTX 2080 Ti",
    "RTX 3060 Ti", "RTX 4060", "RX 6900 XT", "RX 6800 XT", "RTX 5050", "RTX 2080 SUPER",
    "RTX 3060", "RTX 2080", "Quadro RTX 5000", "RTX 2000 Ada", "T4", "MI60", "MI50",
    "RTX 2070 SUPER", "RTX 2070", "A16", "RTX A2000", "Quadro RTX 4000", "A2", "RTX 2060 SUPER",
    "RTX 2060", "RTX 3050", "P100", "Quadro GP100", "TITAN Xp", "GTX 1080 Ti", "P40", "TITAN X",
    "GTX 1660 Ti", "GTX 1080", "GTX 1660", "GTX 1070 Ti", "GTX 1070", "T1000", "GTX 1650",
    "P6000", "P5000", "P4", "GTX 980 Ti", "M60", "M40", "GTX 1060", "GTX 980", "GTX 970", "P4000",
    "K80", "GTX 1050 Ti", "GTX 1050", "K40", "K40c", "K40m", "K20", "K20c", "K20m", "K20Xm",
    "T600", "T400", "GT 1030", "K2200", "GT 710",
)  # fmt: skip

UNRANKED = len(RANKED)


def _words(text: str) -> str:
    return f" {' '.join(re.findall('[a-z0-9]+', text.casefold()))} "


_BY_LENGTH = sorted(
    ((_words(fragment), rank) for rank, fragment in enumerate(RANKED)),
    key=lambda entry: -len(entry[0]),
)


@lru_cache(maxsize=1024)
def speed_rank(name: str | None) -> int:
    """The place of a model in the ranking, 0 for the fastest; an unknown one comes last."""
    words = _words(name or "")
    return next((rank for fragment, rank in _BY_LENGTH if fragment in words), UNRANKED)
