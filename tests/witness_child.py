"""A process in which a witness signs one branch of a log until it dies. It tells its parent of each that it answered."""

import asyncio

from tests.fault_support import killer
from tests.round_support import FakeClock
from tests.witness_support import LOG, Tree, witness
from verifier import merkle

STEPS = ("begun", "jobs-done", "before-commit", "committed", "delivered")
ROUNDS = 6


def sign_until_told(path, pipe, *, branch, kill_at, nth=4):
    """Have ROUNDS further checkpoints of this branch cosigned. SIGKILL this process at the nth step named `kill_at`.

    Sends ("done", size, root) for each cosignature that was answered, at last ("end", "done").
    """

    async def main():
        tree = Tree(branch=branch)
        with witness(path, FakeClock(1_800_000_000_000), LOG.vkey, step=killer(kill_at, nth)) as made:
            for _ in range(ROUNDS):
                reply = await made.add_checkpoint(tree.request(0, 1))
                old = int(reply.body) if reply.status == 409 else 0
                size = old + 1
                if old:
                    reply = await made.add_checkpoint(tree.request(old, size))
                if reply.status == 200:
                    pipe.send(("done", size, merkle.tree_root(tree.leaves(size))))
        pipe.send(("end", "done", None))

    asyncio.run(main())
    pipe.close()
