"""Exact duplicates."""

from tasks.dedup import exact


def test_one_of_each_text_stays_and_names_the_rest(run_on, make_document, read_kept, read_removed):
    web = make_document("甲乙丙\r\n  丁", source="web", name="1")
    book = make_document("甲乙丙丁", source="book", name="2")
    other = make_document("another text", source="web", name="3")
    config = exact.ExactConfig(source_priority={"book": 5})
    dataset = run_on(exact.STAGE, config, [[web, other], [book]])
    assert {d.id for d in read_kept(dataset)} == {book.id, other.id}
    assert read_removed(dataset) == {web.id: {"reason": "exact_duplicate", "kept_id": book.id, "similarity": 1.0}}
    assert dataset.manifest.account.total().dropped == {"exact_duplicate": 1}


def test_survivors_do_not_depend_on_shards(run_on, make_document, read_kept):
    documents = [make_document(text, name=str(i)) for i, text in enumerate(["a b", "a  b", " a b", "c", "c\n", "d"])]
    found = [
        {d.id for d in read_kept(run_on(exact.STAGE, exact.ExactConfig(), shards))}
        for shards in ([documents], [documents[::-1]], [documents[i::3] for i in range(3)], [[], documents])
    ]
    assert all(ids == found[0] for ids in found) and len(found[0]) == 3


def test_an_empty_dataset_passes(run_on):
    assert run_on(exact.STAGE, exact.ExactConfig(), []).shards == []
