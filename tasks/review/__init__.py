"""Judging a stage's decisions by eye: a fair sample, labels, and the error rate they measure.

sample     which documents are shown, the same for any number of workers and shards
beside     what each is shown against: the duplicate that stayed, the nearest that passed, a similar one
near       of two documents that both stayed, those that are nearly duplicates
passages   what differs between two texts, and where a quoted span is
labels     what reviewers said, kept in the store beside the datasets
rates      the error rate per reason and what it means for the whole
page       all of it as one HTML file, with buttons that make a label file
"""
