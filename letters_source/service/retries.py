"""How often, and after how long, a failed request is sent again: the only retry loop for requests.

Which failures are worth a retry is said by `responses` and `failures`.
"""

from collections import Counter
from collections.abc import Callable
from random import uniform

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay
from tenacity.stop import stop_base

from letters_source.errors import MalformedResponse
from letters_source.service.responses import Again

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30
# how often to try a page on trial if a smaller one may succeed: twice, or once after a timeout, which is long
TRIAL_TRIES, TRIAL_TIMEOUTS = 2, 1


def retrying(
    budget: float, sleep: Callable[[float], None], before_retry: Callable[[RetryCallState], None], *, is_trial: bool
) -> Retrying:
    """Return a retrier: it calls a function until it succeeds, a retry cannot help, or `budget` seconds have passed."""
    return Retrying(
        retry=retry_if_exception(may_pass),
        wait=wait_seconds,
        stop=StopAfterTries(is_trial=is_trial) | stop_before_delay(budget),
        sleep=sleep,
        before_sleep=before_retry,
        reraise=True,
    )


def may_pass(error: BaseException) -> bool:
    """Return whether a retry may succeed."""
    return isinstance(error, Again) or (isinstance(error, MalformedResponse) and error.transient)


def failure(state: RetryCallState) -> Again:
    """Return why the last try failed; a body that is not JSON may have been cut short, so it is tried up to 3 times."""
    error = state.outcome and state.outcome.exception()
    return error if isinstance(error, Again) else Again("a body that is not JSON", tries=3)


def wait_seconds(state: RetryCallState) -> float:
    """Return the wait that the service asks for, plus jitter; otherwise exponential backoff with full jitter."""
    again = failure(state)
    if again.wait is not None:
        return again.wait + uniform(0, 0.1)
    return uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**state.attempt_number))


class StopAfterTries(stop_base):
    """Stops when one kind of failure has used up its tries; other failures in between do not count."""

    def __init__(self, *, is_trial: bool) -> None:
        self._is_trial = is_trial
        self._met: Counter[str] = Counter()

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Return whether the last failure's kind has used up its tries; called once after each try."""
        again = failure(retry_state)
        self._met[str(again)] += 1
        tries = self._tries(again)
        return tries is not None and self._met[str(again)] >= tries

    def _tries(self, again: Again) -> int | None:
        if self._is_trial and again.may_be_size:
            return TRIAL_TIMEOUTS if again.is_late else TRIAL_TRIES
        return again.tries
