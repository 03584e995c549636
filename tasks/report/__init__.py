"""The run report: one HTML file that a person reads to believe (or doubt) a run.

`build.py` collects and renders, `figures.py` turns manifests into tables, `samples.py` picks the records that are
shown, `plots.py` draws the training curves, `template.py` and `style.py` hold the page. The page is in Python
modules, not data files, so that a change of it changes the stage's code version like any other change.
"""

from tasks.report.build import STAGE, ReportConfig, render

__all__ = ["STAGE", "ReportConfig", "render"]
