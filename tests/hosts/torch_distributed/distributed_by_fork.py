"""torch's own ``DistributedTest``, each test on forked ranks; BACKEND and WORLD_SIZE say which and how many.

torch's wheel holds the tests as a base class, without the short file of its repository that starts them.
"""

from __future__ import annotations

import torch.multiprocessing
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend


class TestDistributedByFork(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
