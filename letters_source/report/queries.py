"""Which questions of a dataset does a person ask? Each as a query of its tables.

They are meant for the connection of `opening.open_tables`, and return few rows, however large the account.
"""

from typing import Any

import duckdb

from letters_source.report.dataset import FINISHED
from letters_source.service.listings import LISTINGS
from letters_source.tables import LOAD_ID, tables_of

Rows = list[dict[str, Any]]

MOST_BARS = 15
ISO = "%Y-%m-%dT%H:%M:%SZ"
MINUTE = "%-d %B %Y, %H:%M"
GRAINS = (
    ("hour", "1 HOUR", 2.5, MINUTE),
    ("day", "1 DAY", 60, "%-d %B %Y"),
    ("week", "7 DAY", 420, "week of %-d %B %Y"),
    ("month", "1 MONTH", 1830, "%B %Y"),
    ("quarter", "3 MONTH", 5490, "quarter from %B %Y"),
    ("year", "1 YEAR", 21960, "%Y"),
    ("century", "100 YEAR", 9999999, "century from %Y"),
)
"""Lengths of time, the most days that are cut into them, and what they are called."""


def read(connection: duckdb.DuckDBPyConnection, query: str) -> Rows:
    """A query's rows, their texts fit to be shown."""
    found = connection.execute(query)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, map(shown, row), strict=True)) for row in found.fetchall()]


def shown(value: Any) -> Any:
    """A value without the characters that cannot be printed, or would turn the text around them."""
    if not isinstance(value, str):
        return value
    return "".join(letter if letter.isprintable() else " " for letter in value).strip()


def most(counted: str) -> str:
    """The query of the largest numbers; what goes beyond `MOST_BARS` is gathered in the last.

    Args:
        counted: a query of `name` and `number`.
    """
    return f"""
        WITH counted AS ({counted}),
        ranked AS (SELECT *, least(row_number() OVER (ORDER BY number DESC, name), {MOST_BARS}) AS place FROM counted)
        SELECT CASE count(*) WHEN 1 THEN any_value(name) ELSE count(*) || ' others' END AS name,
            sum(number)::BIGINT AS number, place,
            count(*) AS gathered
        FROM ranked GROUP BY place ORDER BY place
    """


def share(value: str, rows: str) -> str:
    """The query of how many rows have each value; an empty one is called none."""
    name = f"coalesce(nullif(left(trim({value}), 80), ''), 'none')"
    return most(f"SELECT {name} AS name, count(*) AS number FROM {rows} GROUP BY 1")


def facet(table: str, value: str) -> str:
    """The query of how many contacts have each status; nothing, if none has any."""
    rows = f"contacts LEFT JOIN {table} ON contact_id = id WHERE EXISTS (FROM {table})"
    return share(value, rows)


def periods(moment: str, table: str) -> str:
    """The query of how many rows fall into each hour, day, week, month, ...: whichever gives 60 periods at most."""
    grains = ", ".join(f"('{name}', INTERVAL {step}, {most_days})" for name, step, most_days, _ in GRAINS)
    words = " ".join(f"WHEN '{name}' THEN strftime(since, '{form}')" for name, _, _, form in GRAINS)
    return f"""
        WITH moments AS (SELECT {moment} AS moment FROM {table} WHERE {moment} IS NOT NULL),
        span AS (SELECT epoch(max(moment) - min(moment)) / 86400 AS days FROM moments),
        grains(grain, step, most_days) AS (VALUES {grains}),
        fit AS (SELECT grain, step FROM grains, span WHERE days <= most_days ORDER BY most_days LIMIT 1),
        counted AS (SELECT grain, step, date_trunc(grain, moment)::TIMESTAMP AS since, count(*) AS number
            FROM moments, fit GROUP BY ALL)
        SELECT strftime(since, '{ISO}') AS since, strftime(since + step, '{ISO}') AS until,
            CASE grain {words} END AS name, number, grain
        FROM counted ORDER BY counted.since
    """


def loads(listing: str) -> str:
    """The query of how many rows each load brought, if there were several."""
    return f"""
        SELECT strftime({utc("started_at")}, '{ISO}') AS at,
            strftime({utc("started_at")}, '{MINUTE}') AS name,
            rows_yielded AS number, verdict, coalesce(account_id, '') AS account
        FROM listing_audit WHERE listing = '{listing}' QUALIFY count(*) OVER () > 1 ORDER BY started_at
    """


def utc(moment: str) -> str:
    """A moment as a timestamp of UTC, whatever the time zone of the connection."""
    return f"make_timestamp(epoch_us({moment}))"


def unfinished(listing: str) -> str:
    """The query of the loads that brought rows of a listing, did not finish, and were followed by none that did."""
    found = " UNION ".join(f"SELECT {LOAD_ID.name} FROM {table.name}" for table in tables_of(listing))
    last = f"SELECT max({LOAD_ID.name}::DOUBLE) FROM listing_audit WHERE listing = '{listing}'"
    return f"""
        FROM ({found}) WHERE {LOAD_ID.name} NOT IN (FROM {FINISHED})
            AND coalesce({LOAD_ID.name}::DOUBLE > ({last}), true)
    """


LABELED = """
    SELECT coalesce(nullif(left(trim(CASE WHEN kept THEN title END), 80), ''), 'label ' || id) AS name,
        count(DISTINCT contact_id) AS number
    FROM contacts__contact_labels,
        (SELECT coalesce(arg_max(pii ->> 'title', started_at), 'keep') = 'keep' AS kept
         FROM listing_audit WHERE listing = 'contacts')
    GROUP BY 1
"""
PRODUCTS = "templates LEFT JOIN templates__product ON template_id = templates.id"

FIGURES = """
    SELECT (SELECT count(*) FROM contacts) AS contacts, (SELECT count(*) FROM templates) AS templates,
        (SELECT count(DISTINCT id) FROM contacts__contact_labels) AS labels
"""
UNFINISHED = " UNION ALL ".join(map(unfinished, LISTINGS))
NEWEST = f"""
    SELECT listing, sum(count_last)::BIGINT AS count, sum(rows_yielded)::BIGINT AS rows, max(filters) AS filters,
        sum(rows_rejected)::BIGINT AS rejected, sum(misfit_values)::BIGINT AS misfits, max(verdict) AS verdict,
        strftime({utc("max(started_at)")}, '{MINUTE}') AS at
    FROM (FROM listing_audit WHERE listing IN ('contacts', 'templates')
        QUALIFY row_number() OVER (PARTITION BY listing, account_id ORDER BY started_at DESC) = 1)
    GROUP BY listing ORDER BY listing
"""
LAST_LOADS = f"""
    SELECT strftime({utc("min(started_at)")}, '{MINUTE}') AS at,
        sum(rows_yielded) FILTER (listing = 'contacts')::BIGINT AS contacts,
        sum(rows_yielded) FILTER (listing = 'templates')::BIGINT AS templates,
        sum(rows_rejected)::BIGINT AS rejected, sum(requests)::BIGINT AS requests, sum(seconds) AS seconds,
        max(verdict) AS verdict
    FROM listing_audit GROUP BY _dlt_load_id ORDER BY min(started_at) DESC LIMIT 20
"""
GALLERY = """
    SELECT templates.id, title, thumbnail_url, product_type, paper_size, CASE WHEN kept THEN full_name END AS creator
    FROM templates
    LEFT JOIN templates__product AS product ON product.template_id = templates.id
    LEFT JOIN templates__creator AS creator ON creator.template_id = templates.id,
        (SELECT coalesce(arg_max(pii ->> 'full_name', started_at), 'keep') = 'keep' AS kept
         FROM listing_audit WHERE listing = 'templates')
    ORDER BY try_cast(templates.id AS BIGINT) DESC, templates.id LIMIT 60
"""
