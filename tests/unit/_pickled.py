"""What another process would receive."""

import pickle
from typing import TypeVar

T = TypeVar("T")


def pickled(value: T) -> T:
    there: T = pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes
    return there
