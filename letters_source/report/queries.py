"""The report's SQL queries on the views of `open_tables`; they return few rows however large the account is."""

from typing import Any

import duckdb

from letters_source.destination.sql import literal
from letters_source.report.dataset import FINISHED
from letters_source.service.listings import LISTINGS
from letters_source.tables import LOAD_ID, TABLES, VERDICTS, tables_of

Rows = list[dict[str, Any]]

MOST_BARS = 15
NONE, NOT_ASKED = "none", "not asked or none"
"""The names of rows without a value, and without one of the values that were asked for."""
ISO = "%Y-%m-%dT%H:%M:%SZ"
DAY, MINUTE = "%b %-d, %Y", "%b %-d, %Y, %H:%M"
GRAINS = {
    "hour": ("1 HOUR", 2.5, "", MINUTE),
    "day": ("1 DAY", 60, "", DAY),
    "week": ("7 DAY", 420, "week of ", DAY),
    "month": ("1 MONTH", 1830, "", "%b %Y"),
    "quarter": ("3 MONTH", 5490, "quarter from ", "%b %Y"),
    "year": ("1 YEAR", 21960, "", "%Y"),
    "century": ("100 YEAR", 9999999, "century from ", "%Y"),
}
"""Period lengths: the interval, the longest span in days, and how a period's start is written."""
FACETS = tuple(table.name for table in TABLES if table.origin == "facet")
IGNORED = f"(listing IN {FACETS} AND rows_yielded + rows_rejected = 0 AND count_last > 0)"
"""Whether the service ignored the filter of an audited facet, whose rows are not loaded then."""


def read(connection: duckdb.DuckDBPyConnection, query: str) -> Rows:
    """Return a query's rows, with text made safe to display."""
    found = connection.execute(query)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, map(printable, row), strict=True)) for row in found.fetchall()]


def printable(value: Any) -> Any:
    """Return a value with control and text-direction characters replaced by spaces."""
    if not isinstance(value, str):
        return value
    return "".join(letter if letter.isprintable() else " " for letter in value).strip()


def top(counts: str) -> str:
    """Return the query of the largest numbers in a query of `name` and `number`; the last row sums up the others."""
    return f"""
        WITH counts AS ({counts}),
        ranked AS (SELECT *, least(row_number() OVER (ORDER BY number DESC, name), {MOST_BARS}) AS place FROM counts)
        SELECT CASE count(*) WHEN 1 THEN any_value(name) ELSE count(*) || ' others' END AS name,
            sum(number)::BIGINT AS number, place, count(*) AS gathered
        FROM ranked GROUP BY place ORDER BY place
    """


def share(value: str, rows: str, default: str = NONE) -> str:
    """Return the query of how many rows have each value; an empty value is called none, or the given default."""
    return top(f"SELECT {short(value, literal(default))} AS name, count(*) AS number FROM {rows} GROUP BY 1")


def short(value: str, default: str) -> str:
    """Return the expression of a value's first 80 characters, or of the default for an empty one."""
    return f"coalesce(nullif(left(trim({value}), 80), ''), {default})"


def facet(table: str, value: str, default: str = NONE) -> str:
    """Return the query of how many contacts have each status; no rows unless the facet was loaded."""
    is_honored = f"EXISTS (FROM ({LAST_FACETS}) WHERE listing = {literal(table)} AND NOT is_ignored)"
    rows = f"contacts LEFT JOIN {of_parent(table, 'contact')} WHERE EXISTS (FROM {table}) OR {is_honored}"
    return share(value, rows, default)


def of_parent(table: str, parent: str) -> str:
    """Return a child table with the condition that joins it to its parent; accounts may have the same ids."""
    return f"{table} ON {table}.{parent}_id = {parent}s.id AND {table}.account_id = {parent}s.account_id"


def periods(moment: str, table: str, days: str = "0") -> str:
    """Return the query of how many rows fall into each period: at most about 60, none shorter than the rows' days."""
    grains = ", ".join(f"('{name}', INTERVAL {step}, {most})" for name, (step, most, *_) in GRAINS.items())
    names = " ".join(
        f"WHEN '{name}' THEN strftime(since, '{prefix}{form}')" for name, (*_, prefix, form) in GRAINS.items()
    )
    # DuckDB counts a month as 30 days, so the days of a longer month get a tolerance of a tenth
    return f"""
        WITH moments AS (SELECT {moment} AS moment, {days} AS days FROM {table} WHERE {moment} IS NOT NULL),
        span AS (SELECT epoch(max(moment) - min(moment)) / 86400 AS span, max(days) AS days FROM moments),
        grains(grain, step, most_days) AS (VALUES {grains}),
        fit AS (SELECT grain, step FROM grains, span WHERE span <= most_days AND epoch(step) / 86400 >= 0.9 * days
            ORDER BY most_days LIMIT 1),
        counts AS (SELECT grain, step, date_trunc(grain, moment)::TIMESTAMP AS since, count(*) AS number
            FROM moments, fit GROUP BY ALL)
        SELECT strftime(since, '{ISO}') AS since, strftime(since + step, '{ISO}') AS until,
            CASE grain {names} END AS name, number, grain
        FROM counts ORDER BY counts.since
    """


def loads(listing: str) -> str:
    """Return the query of how many rows each load brought; no rows if there was only one load."""
    return f"""
        SELECT strftime({utc("started_at")}, '{ISO}') AS at, strftime({utc("started_at")}, '{MINUTE}') AS name,
            rows_yielded AS number, coalesce(account_id, '') AS account
        FROM listing_audit WHERE listing = '{listing}' QUALIFY count(*) OVER () > 1 ORDER BY started_at
    """


def utc(moment: str) -> str:
    """Return the expression of a moment in UTC, whatever the connection's time zone."""
    return f"make_timestamp(epoch_us({moment}))"


def unfinished(listing: str) -> str:
    """Return the query of the loads that left rows, did not finish, and were not followed by one that did."""
    found = " UNION ".join(f"SELECT {LOAD_ID.name} FROM {table.name}" for table in tables_of(listing))
    last = f"SELECT max({LOAD_ID.name}::DOUBLE) FROM listing_audit WHERE listing = '{listing}'"
    is_unfinished = f"{LOAD_ID.name} NOT IN (FROM {FINISHED})"
    return f"FROM ({found}) WHERE {is_unfinished} AND coalesce({LOAD_ID.name}::DOUBLE > ({last}), true)"


def if_kept(column: str, listing: str) -> str:
    """Return the expression of a personal column; null if the last load did not keep its values as they were."""
    policy = f"SELECT arg_max(pii ->> '{column}', started_at) FROM listing_audit WHERE listing = '{listing}'"
    return f"CASE WHEN coalesce(({policy}), 'keep') = 'keep' THEN {column} END"


LAST_FACETS = f"""
    SELECT listing, bool_and{IGNORED} AS is_ignored
    FROM (FROM listing_audit WHERE listing IN {FACETS}
        QUALIFY rank() OVER (PARTITION BY listing, account_id ORDER BY {LOAD_ID.name}::DOUBLE DESC) = 1)
    GROUP BY listing
"""
LABELED = f"""
    SELECT {short(if_kept("title", "contacts"), "'label ' || id")} AS name,
        count(DISTINCT (account_id, contact_id)) AS number
    FROM contacts__contact_labels GROUP BY 1
"""
PRODUCTS = f"templates LEFT JOIN {of_parent('templates__product', 'template')}"

# an unknown verdict counts as weaker than the others, as in tables.weakest
WEAKEST = f"arg_min(verdict, coalesce(list_position({list(VERDICTS)}, verdict), 0))"

# the service is not in the audits of version 0.1.0
READ_FROM = """
    SELECT CASE WHEN accounts > 3 THEN accounts || ' accounts' WHEN accounts > 1 THEN 'accounts ' || account
        ELSE 'account ' || account END AS account, environment, service
    FROM (SELECT count(DISTINCT account_id) AS accounts,
            string_agg(DISTINCT account_id, ', ' ORDER BY account_id) AS account,
            string_agg(DISTINCT environment, ', ' ORDER BY environment) AS environment,
            string_agg(DISTINCT service, ', ' ORDER BY service) AS service
        FROM (FROM (FROM listing_audit UNION ALL BY NAME SELECT NULL::VARCHAR AS service WHERE false)
            QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY started_at DESC) = 1))
"""
LAST_READ = f"""
    SELECT listing, coalesce(is_ignored, false) AS is_ignored
    FROM (SELECT DISTINCT listing FROM listing_audit) LEFT JOIN ({LAST_FACETS}) USING (listing)
"""
FIGURES = """
    SELECT (SELECT count(*) FROM contacts) AS contacts, (SELECT count(*) FROM templates) AS templates,
        (SELECT count(DISTINCT (account_id, id)) FROM contacts__contact_labels) AS labels
"""
UNFINISHED = " UNION ALL ".join(map(unfinished, LISTINGS))
NEWEST = f"""
    SELECT listing, sum(rows_yielded)::BIGINT AS rows, max(filters) AS filters,
        sum(rows_rejected)::BIGINT AS rejected, {WEAKEST} AS verdict,
        strftime({utc("max(started_at)")}, '{MINUTE}') AS at
    FROM (FROM listing_audit WHERE listing IN ('contacts', 'templates')
        QUALIFY row_number() OVER (PARTITION BY listing, account_id ORDER BY started_at DESC) = 1)
    GROUP BY listing ORDER BY listing
"""
PROPERTY = "split_part(listing, '__', 2)"
"""What a facet tells: the part of its name after that of its listing."""
LAST_LOADS = f"""
    SELECT strftime({utc("min(started_at)")}, '{MINUTE}') AS at,
        sum(rows_yielded) FILTER (listing = 'contacts')::BIGINT AS contacts,
        sum(rows_yielded) FILTER (listing = 'templates')::BIGINT AS templates,
        sum(rows_rejected)::BIGINT AS rejected, sum(requests)::BIGINT AS requests, sum(seconds) AS seconds,
        {WEAKEST} FILTER (NOT {IGNORED}) AS verdict,
        replace(string_agg(DISTINCT {PROPERTY}, ', ' ORDER BY {PROPERTY}) FILTER ({IGNORED}), '_', ' ') AS ignored
    FROM listing_audit GROUP BY _dlt_load_id ORDER BY min(started_at) DESC LIMIT 20
"""
GALLERY = f"""
    SELECT title, thumbnail_url, product_type, paper_size, {if_kept("full_name", "templates")} AS creator
    FROM {PRODUCTS} LEFT JOIN {of_parent("templates__creator", "template")}
    ORDER BY try_cast(templates.id AS BIGINT) DESC, templates.id, templates.account_id
"""
