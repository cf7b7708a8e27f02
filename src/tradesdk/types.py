"""Types for annotations, and for a rate limiter or a retry policy of your own."""

from ._exports import exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._http.retry import Failure as Failure
    from ._http.retry import FailureCause as FailureCause
    from ._http.retry import Operation as Operation
    from ._http.retry import RetryAction as RetryAction
    from ._http.retry import RetryWait as RetryWait
    from ._values.http import RateClaim as RateClaim
    from .models.market import MarketModel as MarketModel
    from .models.stream import StreamItem as StreamItem

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = exports(
        __name__,
        {
            "_http.retry": "Failure FailureCause Operation RetryAction RetryWait",
            "_values.http": "RateClaim",
            "models.market": "MarketModel",
            "models.stream": "StreamItem",
        },
    )
