import math

from tasks.report.curves import panels, read_metrics
from tasks.report.plots import Panel, draw, thin


def test_thinning_keeps_the_spike_of_one_step():
    points = [(float(i), 1.0) for i in range(50_000)]
    points[31_337] = (31_337.0, 99.0)
    thinned = thin(points)
    assert len(thinned) <= 802 and (31_337.0, 99.0) in thinned and thinned == sorted(thinned)


def test_values_that_are_not_finite_are_not_drawn():
    assert thin([(1, math.nan), (2, math.inf), (3, 4.0)]) == [(3, 4.0)]


def test_a_panel_is_the_same_bytes_each_time_and_ids_differ_between_panels():
    panel = Panel(title="Loss", series={"training": [(1, 2.0), (2, 1.0)]}, reference=3.0, reference_label="ln")
    assert draw(panel) == draw(panel)
    other = draw(Panel(title="Gradient norm", series={"norm": [(1, 2.0), (2, 1.0)]}, log_scale=True))
    ids = [set(part.split('"')[0] for part in svg.split('id="')[1:]) for svg in (draw(panel), other)]
    assert ids[0] and not ids[0] & ids[1]


def test_a_curve_of_zeros_is_drawn_although_its_axis_is_logarithmic():
    assert "<svg" in draw(Panel(title="Gradient norm", series={"norm": [(1, 0.0), (2, 0.0)]}, log_scale=True))


def test_rows_become_panels_by_kind_and_a_missing_quantity_has_none():
    lines = [b'{"kind": "step", "step": 1, "loss": 6.0}\n', b'{"kind": "validation", "step": 1, "loss": 7.0}\n']
    [panel] = panels(read_metrics(lines, "metrics.jsonl"), 512)
    assert panel.series == {"training": [(1, 6.0)], "validation": [(1, 7.0)]}
    assert panel.reference == math.log(512)
