"""What a document of a language group begins with: `<CODE>` before program text (config: `document_markers`).

The tokenizer knows no languages and gives back every string as it was, so it cannot add a marker by itself. The shards
stage puts it there, as it puts EOS at the end. In a text the same letters are the same token, so a prompt for code is
"<CODE>" followed by the code, in `transformers` too.

in    ids of documents, their languages
out   the same ids, with the marker of the document's group in front, where it has one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.store.dataset import Dataset
from tasks.store.filesystem import digest_of
from tasks.tokenizer.sample import group_of


@dataclass(frozen=True, kw_only=True)
class Markers:
    """Group → id, and the groups there are."""

    ids: Mapping[str, int]
    groups: Mapping[str, float]

    @classmethod
    def of(cls, tokenizer: Dataset) -> Markers:
        """Those of a dataset of the tokenizer stage; none where its facts name none."""
        manifest = tokenizer.manifest
        return cls(ids=manifest.facts.get("markers", {}), groups=manifest.config.get("language_shares", {}))

    @property
    def digest(self) -> str:
        """For the key of what is encoded with them."""
        return digest_of([sorted(self.ids.items()), sorted(self.groups)])

    def mark(self, ids: Sequence[np.ndarray], languages: Sequence[str]) -> list[np.ndarray]:
        """`ids` of documents in `languages`, int32, each with its marker."""
        if not self.ids:
            return list(ids)
        known = {language: self.ids.get(group_of(language, self.groups)) for language in set(languages)}
        marks = {language: np.array([i], np.int32) for language, i in known.items() if i is not None}
        return [
            np.concatenate([marks[language], each]) if language in marks else each
            for each, language in zip(ids, languages, strict=True)
        ]
