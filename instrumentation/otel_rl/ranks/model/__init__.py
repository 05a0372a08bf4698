"""The ranks as all readers see them: whatever told it, a ring, a span or a dump of PyTorch.

Modules, each importing only those below it:
    collectives: a collective of a group, that a rank has entered it, and a wait for it.
    groups: a process group, by the text that all its ranks write.
    rank_sets: a set of ranks in little room: ranges with strides.
"""
