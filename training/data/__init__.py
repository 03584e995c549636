"""Token shards to batches: files, components, schedule, streams; `TokenDataset` joins them."""

from training.data.dataset import TokenDataset, rank_indices
from training.data.files import DataError, DocumentSpan, TokenFiles

__all__ = ["DataError", "DocumentSpan", "TokenDataset", "TokenFiles", "rank_indices"]
