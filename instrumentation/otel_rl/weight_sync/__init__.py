"""Whether an engine generates with the weights that the trainer has; only with ``OTEL_RL_SYNC_CHECK``.

Modules, each importing only those below it:
    check: when an engine is asked, and the event where its weights are not the trainer's.
    verdicts: one verdict per comparison of an engine with the trainer.
    trainer_updates: what the optimizers of this process have done, and what their parameters hold.
    tensor_sums: a sum of the bits of a tensor, which says whether two tensors hold the same values.
"""
