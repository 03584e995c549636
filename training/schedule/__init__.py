"""The learning rate: a function of the step, and for `staged` of a small state that goes into the checkpoint."""
