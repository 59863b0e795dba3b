"""Which keys of a batch say where documents end: one table of names and their kinds, and names that look alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

Kind = Literal["segment ids", "position ids", "lengths", "cumulative lengths", "mask"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# In the order in which they are read. The writers of the less common names:
NAMES: dict[str, Kind] = {
    "segment_ids": "segment ids",
    "seq_idx": "segment ids",  # transformers' DataCollatorWithFlattening
    "sequence_id": "segment ids",  # llm-foundry
    "segmentation": "segment ids",
    "input_segment_ids": "segment ids",  # axlearn
    "inputs_segment_ids": "segment ids",  # Grain's packers, T5X
    "inputs_segmentation": "segment ids",  # MaxText
    "cu_seqlens_padded": "cumulative lengths",  # Megatron: the places in memory, before the lengths without padding
    "cu_seqlens_q_padded": "cumulative lengths",
    "cu_seqlens": "cumulative lengths",  # NeMo
    "cu_seqlens_q": "cumulative lengths",
    "cu_seq_lens": "cumulative lengths",
    "cu_seq_lens_q": "cumulative lengths",  # transformers and TRL
    "cu_doc_lens": "cumulative lengths",  # OLMo-core
    "seq_start_id": "cumulative lengths",  # NeMo's packed files
    "seq_lengths": "lengths",  # TRL's pack_dataset
    "seq_lens": "lengths",  # torchtune
    "doc_lens": "lengths",  # OLMo-core
    "position_ids": "position ids",  # transformers, TRL, Megatron
    "input_pos": "position ids",  # torchtune
    "positions": "position ids",  # torchtitan
    "input_positions": "position ids",  # axlearn
    "inputs_positions": "position ids",  # Grain's packers
    "inputs_position": "position ids",  # MaxText
    "attention_mask": "mask",
}
# Written after the name of the ids, or after the part of it before `_ids`: Grain's packers make `<name>_segment_ids`.
SUFFIXES: dict[str, Kind] = {
    "segment_ids": "segment ids",
    "segmentation": "segment ids",
    "seq_idx": "segment ids",
    "cu_seqlens": "cumulative lengths",
    "seq_lengths": "lengths",
    "seq_lens": "lengths",
    "doc_lens": "lengths",
    "position_ids": "position ids",
    "positions": "position ids",
    "position": "position ids",
    "pos": "position ids",
    "attention_mask": "mask",
}
# These list starts and leave out the end, which is the number of tokens.
WITHOUT_END = frozenset({"seq_start_id"})
# Cumulative lengths over a whole batch: read from a batch, not from single examples.
OF_WHOLE_BATCH = tuple(name for name, kind in NAMES.items() if kind == "cumulative lengths" and name not in WITHOUT_END)

# Known names that say nothing about these ids' documents, or nothing that the names above do not say.
_HARMLESS = re.compile(
    r"""
    (\w+_)?(loss|label|target|completion|assistant|response|prompt|answer|special_token|instance|mlm|perm|reward)s?(_\w+)?_masks?
    | (pixel|image|video|audio|vision|visual|speech|feature|input_feature|aspect_ratio|cross_attention)s?_\w+
    | (encoder|decoder|global|head|router|expert)_(attention_)?mask
    | max_(seq_?len|doc_len|length)s?(_\w+)?
    | cu_seqlens_(unpadded_)?argmin
    | bool_masked_pos | pos_tags? | cache_position
    """,
    re.VERBOSE,
)
# Names that repeat a boundary; alone they are not read.
_SIDE = re.compile(r"cu_seq_?lens_(k|kv|unpadded|k_padded|kv_padded)")
_LOOKS = re.compile(
    r"""
    segment | position | boundar | mask | seq_?len | doc_?len | (^|_)cu_ | pack(_|$|ed|ing)
    | (^|_)(docs?|documents?|pos|len|lens|lengths?|eod|eos|bos|starts?|ends?)(_|$)
    | (^|_)(seq|sequence|sample|example|chunk)_?(id|idx|index|start|end|offset|size)s?(_|$)
    """,
    re.VERBOSE,
)


class Sorted(NamedTuple):
    """The names of a batch, sorted by their part in its boundaries."""

    masks: tuple[str, ...]
    ends: tuple[tuple[str, Kind], ...]  # those that say where documents end, with their kinds
    side: tuple[str, ...]  # those that repeat the others
    unknown: tuple[str, ...]  # those that look like boundaries and are not understood

    @property
    def silent(self) -> bool:
        """Whether no name has to do with boundaries."""
        return not (self.masks or self.ends or self.side or self.unknown)


def sort_names(
    names: Iterable[str], ids_key: str, boundary_keys: Mapping[str, Kind], ignore: Iterable[str] = ()
) -> Sorted:
    """Sort the keys of a batch by the table; `boundary_keys` comes before it, `ignore` leaves keys out.

    A key may carry the name of the ids before its own (`input_ids_positions`, `input_segment_ids`). A key with the
    name of another feature before it (`targets_segmentation`) belongs to that one.
    """
    ignored = set(ignore)
    names = [name for name in names if isinstance(name, str) and name != ids_key and name not in ignored]
    own = _prefixes(ids_key)
    others = {prefix for name in names if not _LOOKS.search(_lower(name)) for prefix in _prefixes(name)} - set(own)
    known: dict[str, Kind] = {name: kind for name, kind in boundary_keys.items() if name in names}
    prefixed: dict[str, Kind] = {}
    plain: dict[str, Kind] = {}
    side, unknown = [], []
    for name in names:
        if name in known:
            continue
        for prefix in own:
            if name.startswith(f"{prefix}_") and (kind := SUFFIXES.get(name[len(prefix) + 1 :])):
                prefixed[name] = kind
                break
        else:
            kinds_of_others = [
                SUFFIXES.get(name[len(prefix) + 1 :]) for prefix in others if name.startswith(f"{prefix}_")
            ]
            if any(kinds_of_others):
                if "mask" not in kinds_of_others:  # the padding of another feature says nothing of these ids
                    side.append(name)
            elif name in NAMES:
                plain[name] = NAMES[name]
            elif _SIDE.fullmatch(name):
                side.append(name)
            elif _looks(name):
                unknown.append(name)
    order = {name: at for at, name in enumerate(NAMES, 1)}
    kinds = {kind: at for at, kind in enumerate(dict.fromkeys(NAMES.values()))}
    # By kind; of one kind, the names with a prefix first.
    found = [(kinds[kind], order.get(name, 0), name) for name, kind in {**plain, **prefixed}.items()]
    known |= {name: prefixed.get(name) or plain[name] for _, _, name in sorted(found)}
    masks = tuple(name for name, kind in known.items() if kind == "mask")
    ends = tuple((name, kind) for name, kind in known.items() if kind != "mask")
    return Sorted(masks, ends, tuple(side), tuple(unknown))


def _lower(name: str) -> str:
    """Return a name in lower case with underscores: `docLens` and `doc-lens` are `doc_lens`."""
    return re.sub(r"\W", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower()


def _looks(name: str) -> bool:
    """Tell whether a name looks like a boundary."""
    lower = _lower(name)
    return _LOOKS.search(lower) is not None and _HARMLESS.fullmatch(lower) is None


def _prefixes(name: str) -> list[str]:
    """Return the prefixes of a feature's boundaries: of `prompt_input_ids` also `prompt_input` and `prompt`."""
    parts = name.split("_")
    found = [name]
    while len(parts) > 1 and parts[-1] in ("ids", "id", "tokens", "token", "input", "inputs"):
        parts.pop()
        found.append("_".join(parts))
    return found


def check_boundary_keys(boundary_keys: Mapping[str, Kind] | None, ignore: Iterable[str]) -> dict[str, Kind]:
    """Return the option `boundary_keys` as a dict; refuse kinds that do not exist and names that `ignore` has too."""
    if boundary_keys is None:
        return {}
    if not isinstance(boundary_keys, Mapping):
        raise TypeError(
            f"boundary_keys is a {type(boundary_keys).__name__}; it must be a mapping of names to kinds, for example "
            "{'doc_numbers': 'segment ids'}"
        )
    ignored = set(ignore)
    for name, kind in boundary_keys.items():
        if kind not in KINDS:
            raise ValueError(f"boundary_keys: {name!r} is of kind {kind!r}; known kinds are {', '.join(KINDS)}")
        if name in ignored:
            raise ValueError(f"boundary_keys and ignore both name {name!r}; leave it out of one of them")
    return dict(boundary_keys)


def not_understood(name: str) -> str:
    """Return the message about a key that looks like a boundary and is not read."""
    kinds = ", ".join(repr(kind) for kind in KINDS[1:])
    return (
        f"the batch has {name!r}, which by its name tells where documents end, and it is not known what it means: say "
        f"so with boundary_keys={{{name!r}: 'segment ids'}} (or {kinds}), or leave it out with ignore=({name!r},)"
    )
