"""The run's log under kills, resumes and readers."""

from __future__ import annotations

from training.metrics import MetricsLog, Tail, read_rows, truncate_after


def test_rows_after_the_checkpoint_and_a_torn_last_line_go_on_resume(tmp_path):
    log = MetricsLog(tmp_path)
    for step in range(1, 8):
        log.row(kind="step", step=step, loss=1.0 / step)
    with log.metrics.open("a") as file:
        file.write('{"kind": "step", "st')
    assert truncate_after(log.metrics, 5) == 2
    log.row(kind="step", step=6, loss=0.5)
    assert [row["step"] for row in read_rows(log.metrics)] == [1, 2, 3, 4, 5, 6]


def test_a_tail_gives_each_new_row_once_also_across_a_truncation(tmp_path):
    log = MetricsLog(tmp_path)
    for step in (1, 2, 3):
        log.row(step=step)
    tail = Tail(log.metrics)
    log.row(step=4)
    assert [row["step"] for row in tail.rows()] == [4]
    truncate_after(log.metrics, 2)
    log.row(step=3)
    assert [row["step"] for row in tail.rows()] in ([], [3])  # a row of the same size as one already seen may be passed
    log.row(step=4)
    assert [row["step"] for row in tail.rows()] == [4]
    with log.metrics.open("a") as file:
        file.write('{"step": 5')
        file.flush()
        assert tail.rows() == []
        file.write("}\n")
    assert [row["step"] for row in tail.rows()] == [5]
