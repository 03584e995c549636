"""Language identification against lid.176 and CLD2 alone, on the shared sets, by CPU seconds of one process.

    python benchmarks/languages.py [--languages] [--repeats 3]

Both peers are run by themselves on the whole text, as their packages offer it. A name counts as right if it is the base
language of the label (zh for zh-Hans, fa for pes; `base`). The data folder is DANLU_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tasks.clean.language.code_shape import code_share
from tasks.clean.language.identify import IdentifyConfig, identify, ranked
from tasks.clean.language.paragraphs import language_shares
from tasks.clean.language.scripts import code_points, han_counts
from tasks.clean.language.second_opinion import cld2_shares
from tasks.clean.language.stage import LanguageConfig, looks_like_code

SETS = ("ntrex_lines", "ntrex_docs", "ud_gsd_hans_hant", "lingua_sentences", "udhr")
SAME = """
aa aar; af afr; ak aka; am amh; ar arb ara arz; ay ayr; az aze azj azb; ba bak; be bel; bg bul; bi bis; bm bam;
bn ben; bo bod; bs bos; ca cat; ch cha; co cos; cs ces; cv chv; cy cym; da dan; de deu; dv div; dz dzo; ee ewe;
el ell; en eng; eo epo; es spa; et est; eu eus; fa fas pes prs; ff fuc fuf fuv fuv2; fi fin; fj fij; fo fao; fr
fra; fy fri; ga gle; gd gla; gl glg; gn gug; gu guj; gv glv; ha hau; he heb iw; hi hin; hr hrv; ht hat; hu hun;
hy hye; id ind; ig ibo; ii iii; io ido; is isl; it ita; ja jpn; jv jav jw; ka kat; kg kng; kk kaz; kl kal; km
khm; kn kan; ko kor; ku kmr; ky kir; la lat; lb ltz; lg lug; ln lin; lo lao; lt lit; lv lav; mg mlg plt; mi mri;
mk mkd; ml mal; mn mon khk; mr mar; ms msa; mt mlt; my mya; nb nob no; nd nde; ne nep; ng ndo; nl nld; nn nno;
nr nbl; nv nav; ny nya; oc oci; om orm; pa pan; pl pol; ps pus pbu; pt por; qu quz quy qul qud qva qvc qvh qvn
qwh qxa qxn qxu; rm roh; ro ron; ru rus; rw kin; sa san; sd snd; si sin; sk slk; sl slv; sm smo; sn sna; so som;
sq sqi als; sr srp; ss ssw; st sot; sv swe; sw swa swh; ta tam; te tel; tg tgk; th tha; ti tir; tk tuk; tl fil
tgl; tn tsn; to ton; tr tur; tt tat; ty tah; ug uig; uk ukr; ur urd; uz uzb uzn; ve ven; vi vie; wo wol; xh xho;
yo yor; zh zho cmn wuu; zu zul
"""  # names of one base language in the sets and in the models; of all others: what stands before a - or _
BASE = {name: names.split()[0] for names in SAME.split(";") for name in names.split()}


def base(name: str) -> str:
    """The base language of a label or of a model's name: zh-Hans -> zh, pes -> fa."""
    first = name.replace("_", "-").split("-")[0]
    return BASE.get(first, first)


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(folder / "langid" / f"{name}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def by_lid(text: str) -> str:
    return ranked(text, k=1)[0][0]


def by_cld2(text: str) -> str:
    return next(iter(cld2_shares(text)), "und")


def by_danlu(text: str) -> str:
    return identify(text).language


SYSTEMS: dict[str, Callable[[str], str]] = {"lid.176": by_lid, "CLD2": by_cld2, "danlu": by_danlu}


def accuracy(data: dict[str, list[dict[str, Any]]], languages: bool) -> None:
    print(f"{'set':<18}{'n':>6}" + "".join(f"{name:>9}" for name in SYSTEMS))
    for name, items in data.items():
        right = {key: [base(call(row["text"])) == base(row["label"]) for row in items] for key, call in SYSTEMS.items()}
        print(f"{name:<18}{len(items):>6}" + "".join(f"{sum(hits) / len(items):>9.3f}" for hits in right.values()))
        if languages:
            per_language(items, right)


def per_language(items: list[dict[str, Any]], right: dict[str, list[bool]]) -> None:
    counts = Counter(row["label"] for row in items)
    for label, count in sorted(counts.items()):
        shares = (sum(hit for hit, row in zip(hits, items, strict=True) if row["label"] == label) / count
                  for hits in right.values())  # fmt: skip
        print(f"  {label:<16}{count:>6}" + "".join(f"{share:>9.3f}" for share in shares))


def scripts(data: dict[str, list[dict[str, Any]]]) -> None:
    print("\nSimplified or Traditional         n   right   of those with a telling character")
    for name in ("ntrex_docs", "ntrex_lines", "ud_gsd_hans_hant"):
        items = [row for row in data[name] if row["label"] in ("zh-Hans", "zh-Hant")]
        hits = [identify(row["text"]).language == row["label"] for row in items]
        telling = [hit for hit, row in zip(hits, items, strict=True) if sum(han_counts(code_points(row["text"]))[1:3])]
        print(f"  {name:<26}{len(items):>7}{sum(hits) / len(hits):>8.4f}   {sum(telling)} of {len(telling)}")
    print("\nCantonese, as named by danlu")
    for name in ("ntrex_docs", "ntrex_lines"):
        named = Counter(identify(row["text"]).language for row in data[name] if row["label"] == "yue")
        false = sum(identify(row["text"]).language == "yue" for row in data[name] if row["label"] != "yue")
        print(f"  {name:<26}{dict(named)}; others called yue: {false}")


def code_and_mixed(folder: Path, data: dict[str, list[dict[str, Any]]]) -> None:
    config, items = LanguageConfig(), rows(folder, "code_and_mixed")
    code = [row["text"] for row in items if row["label"] == "code"]
    prose = [row["text"] for items in data.values() for row in items]
    found, false = (sum(looks_like_code(text, config) for text in texts) for texts in (code, prose))
    print(f"\ncode: recall {found} of {len(code)}; {false} of {len(prose)} texts of prose called code")
    more = corpus(folder)
    for name, texts in more.items():
        print(f"  {name:<26}{sum(code_share(text) >= config.min_code_lines for text in texts):>5} of {len(texts)}")
    mixed = [row["text"] for row in items if row["label"] == "mixed"]
    pure = [row["text"] for row in data["ntrex_docs"]]
    hits, wrong = (sum(bool(shares(text)) for text in texts) for texts in (mixed, pure))
    print(f"mixed documents: recall {hits} of {len(mixed)}; {wrong} of {len(pure)} others given a second language")


def shares(text: str) -> dict[str, float]:
    config = IdentifyConfig()
    return language_shares(text, identify(text, config), config, 0.1)


def corpus(folder: Path) -> dict[str, list[str]]:
    """Prose of the corpus that begins as plain text or Markdown."""
    import zstandard

    found: dict[str, list[str]] = {}
    for name in ("zh_hans_docs", "zh_classical", "zh_hant_mixed", "other_langs_news"):
        with (folder / "corpus" / f"{name}.jsonl.zst").open("rb") as file:
            stream = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(file)
            found[name] = [json.loads(line)["text"] for line in io.TextIOWrapper(stream, "utf-8", newline="\n")]
    return found


def speed(folder: Path, data: dict[str, list[dict[str, Any]]], repeats: int) -> None:
    print("\nMB/s of UTF-8 a core, runs in turn, medians     lid.176    danlu    ratio   with shares   ratio")
    texts = corpus(folder) | {name: [row["text"] for row in data[name]] for name in ("ntrex_docs", "ntrex_lines")}
    calls: dict[str, Callable[[str], object]] = {"lid": by_lid, "danlu": by_danlu, "shares": shares}
    for name, items in texts.items():
        size = sum(len(text.encode("utf-8", "replace")) for text in items) / 1e6
        times: dict[str, list[float]] = {key: [] for key in calls}
        for _ in range(repeats):
            for key, call in calls.items():
                started = time.process_time()
                for text in items:
                    call(text)
                times[key].append(time.process_time() - started)
        lid, danlu, mixed = (size / statistics.median(values) for values in times.values())
        print(f"  {name:<43}{lid:>10.1f}{danlu:>9.1f}{danlu / lid:>9.2f}{mixed:>14.1f}{mixed / lid:>8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--languages", action="store_true", help="one line a language as well")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(os.environ.get("DANLU_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"no folder {folder}: set DANLU_DATA to where the shared data is")
    data = {name: rows(folder, name) for name in SETS}
    accuracy(data, arguments.languages)
    scripts(data)
    code_and_mixed(folder, data)
    speed(folder, data, arguments.repeats)


if __name__ == "__main__":
    main()
