"""The content-addressed store: datasets, their manifests and accounts, and the keys that name them.

filesystem.py   a store URL (local folder, s3://, memory://) with atomic writes
account.py      in = kept + dropped(reason) + quarantined(reason)
manifest.py     what a dataset folder holds; written last
keys.py         content keys: input digests + config + code version
tables.py       records <-> Parquet
dataset.py      reading a finished dataset, and the references that name the current ones
collect.py      garbage collection
"""
