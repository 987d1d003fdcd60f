"""What the cheapest flow costs, by a linear program of another library: scipy's HiGHS."""

from __future__ import annotations

import numpy as np

from scheduler.flow.network import Network


def cheapest(network: Network) -> float:
    """The cost of the cheapest flow that carries all supplies."""
    # Where it is needed: every process that shares the tests would load it to collect them.
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    arcs = np.arange(network.arcs)
    ones = np.ones(network.arcs)
    balance = coo_matrix(
        (
            np.concatenate((ones, -ones)),
            (np.concatenate((network.tail, network.head)), np.concatenate((arcs, arcs))),
        ),
        shape=(len(network.supply), network.arcs),
    )
    found = linprog(
        network.cost.astype(float),
        A_eq=balance.tocsr(),
        b_eq=network.supply.astype(float),
        bounds=np.stack((np.zeros(network.arcs), network.capacity.astype(float)), axis=1),
        method="highs-ds",
    )
    assert found.status == 0, found.message
    return float(found.fun)
