"""Days on which what the tests keep is asked again, and others."""

import datetime

import verdicts


def day_of(name, due):
    """A date, YYYY-MM-DD, on which `name` is of the day's part, or is not."""
    days = (datetime.date(2026, 1, 1) + datetime.timedelta(n) for n in range(verdicts.DAYS))
    turn = int(verdicts.digest(name), 16) % verdicts.DAYS
    return next(d for d in days if (d.toordinal() % verdicts.DAYS == turn) == due).isoformat()
