"""A notebook of an account's data: charts, templates, contacts and loads, with queries to change."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Letters", sql_output="pandas")

with app.setup(hide_code=True):
    import re
    import sys
    from html import escape
    from itertools import zip_longest
    from textwrap import dedent

    import duckdb
    import marimo as mo

    from letters_source import SettingsError
    from letters_source.report.charts import CHARTS, Chart, bars
    from letters_source.report.dataset import open_tables
    from letters_source.report.queries import Rows, read
    from letters_source.tables import DATASET

    CARDS = 24
    HINT = "While a load writes a file, open the copy that `letters load --publish FILE` makes."
    STYLE = """
    <style>
    div:has(> figure) { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: 1.5rem 1rem }
    figure { margin: 0; font-size: 0.8rem; overflow-wrap: anywhere }
    figure .sheet { height: 10rem; margin: 0 auto 0.5rem; border: 1px solid #8884; box-shadow: 0 1px 4px #0003;
        padding: 0.75rem; overflow: hidden; background: #fff; color: #444 }
    figure .sheet b { display: block; font: 600 0.7rem/1.2 serif }
    figure .sheet b::after { content: ""; display: block; height: 10rem; margin-top: 0.75rem;
        background: repeating-linear-gradient(#bbb8 0 2px, transparent 2px 9px) }
    figure .sheet img { width: 100%; height: 100%; object-fit: contain }
    figure figcaption { font-weight: 600; text-align: center }
    figure small { display: block; font-weight: 400; opacity: 0.75 }
    </style>
    """


@app.cell(hide_code=True)
def _():
    mo.md("""
    # Letters

    The templates and contacts of an account, as they were loaded. This notebook never changes them.
    """)
    return


@app.cell(hide_code=True)
def fields():
    place = mo.ui.text(
        str(mo.cli_args().get("from") or "letters.duckdb"),
        label="DuckDB file, or folder of Parquet files",
        full_width=True,
    )
    dataset = mo.ui.text(str(mo.cli_args().get("dataset") or DATASET), label="Dataset", full_width=True)
    mo.hstack([place, dataset], widths=[3, 1])
    return dataset, place


@app.cell(hide_code=True)
def opened(dataset, place):
    db, _trouble = None, ""
    try:
        db = open_tables(place.value, dataset.value)
    except SettingsError as error:
        _trouble = str(error)
    if _trouble and mo.app_meta().mode == "script":
        sys.exit(_trouble)
    mo.stop(db is None, mo.vstack([mo.callout(_trouble, kind="warn"), mo.md(HINT)]))
    # headings are shown only with data
    heading = mo.md
    return db, heading


@app.cell(hide_code=True)
def _(heading):
    heading("""
    ## Loads

    Each time a listing was loaded, newest first. The verdict says how it was shown to be complete; an incomplete
    listing is not loaded.
    """)
    return


@app.cell
def loads(db):
    audits = mo.sql(
        f"""
        SELECT
            started_at, listing, account_id, rows_yielded AS rows, verdict, requests, retries,
            round(seconds, 2) AS seconds
        FROM listing_audit
        WHERE listing IN ('templates', 'contacts')
        ORDER BY started_at DESC
        """,
        engine=db,
    )
    return (audits,)


@app.function(hide_code=True)
def drawn(chart: Chart, rows: Rows) -> mo.Html:
    """Show a chart under its title, or which option loads its data."""
    wanted = f"Not loaded yet: `letters load {chart.option}`." if chart.option else "Nothing yet."
    shown = chart.draw(rows).properties(width="container") if rows else mo.md(wanted)
    return mo.vstack([mo.md(f"**{titled(chart)}**"), shown])


@app.function(hide_code=True)
def titled(chart: Chart) -> str:
    """Return a chart's whole title."""
    return f"{chart.group}: {chart.title}" if chart.title else chart.group


@app.cell(hide_code=True)
def charts(db):
    _drawn = [drawn(chart, read(db, chart.query)) for chart in CHARTS]
    _pairs = zip_longest(_drawn[::2], _drawn[1::2], fillvalue="")
    mo.vstack([mo.md("## Charts"), *(mo.hstack(pair, widths="equal", gap=2) for pair in _pairs)], gap=2)
    return


@app.cell(hide_code=True)
def choice(heading):
    _words = "### Change a chart\n\nEach chart draws the rows of a query. Choose one and change its query."
    chosen = mo.ui.dropdown({titled(chart): chart for chart in CHARTS}, value=titled(CHARTS[0]))
    mo.vstack([heading(_words), chosen])
    return (chosen,)


@app.cell(hide_code=True)
def editor(chosen):
    query = mo.ui.code_editor(dedent(chosen.value.query).strip(), language="sql", debounce=500)
    query
    return (query,)


@app.cell(hide_code=True)
def changed(chosen, db, query):
    tried(chosen.value, db, query.value)
    return


@app.function(hide_code=True)
def tried(chart: Chart, db: duckdb.DuckDBPyConnection, query: str) -> mo.Html:
    """Draw a query's rows, or show them as a table if the chart cannot draw them."""
    rows: Rows = []
    try:
        rows = read(db, query)
        return drawn(chart, rows)
    except duckdb.Error as error:
        return mo.callout(str(error), kind="warn")
    except (KeyError, TypeError):
        return mo.ui.table(rows, selection=None)


@app.cell(hide_code=True)
def switch(heading):
    wanted = mo.ui.text(label="Title contains")
    thumbnails = mo.ui.switch(label="Show thumbnails (loaded from the service)")
    mo.vstack([heading("## Templates"), mo.hstack([wanted, thumbnails], justify="start", gap=2)])
    return thumbnails, wanted


@app.cell
def found_templates(db):
    templates = mo.sql(
        f"""
        SELECT
            coalesce(title, '') AS title,
            coalesce(thumbnail_url, '') AS thumbnail,
            coalesce(paper_size, '') AS size,
            concat_ws(' · ', product_type, paper_type, paper_size, envelope_type, postage_type, delivery_type)
                AS product,
            coalesce(full_name, '') AS creator
        FROM templates
        LEFT JOIN templates__product AS product
            ON product.template_id = templates.id AND product.account_id = templates.account_id
        LEFT JOIN templates__creator AS creator
            ON creator.template_id = templates.id AND creator.account_id = templates.account_id
        ORDER BY title, templates.id
        """,
        output=False,
        engine=db,
    )
    return (templates,)


@app.cell(hide_code=True)
def gallery(templates, thumbnails, wanted):
    _found = [row for row in templates.to_dict("records") if wanted.value.casefold() in row["title"].casefold()]
    _cards = "".join(card(row, thumbnail=thumbnails.value) for row in _found[:CARDS])
    _count = mo.md(f"{min(CARDS, len(_found))} of {len(templates)} templates")
    mo.vstack([_count, mo.Html(f"{STYLE}<div>{_cards}</div>")])
    return


@app.cell(hide_code=True)
def _(heading):
    heading("""
    ## Contacts

    The newest 10,000, to search, sort and filter.
    """)
    return


@app.cell
def found_contacts(db):
    contacts = mo.sql(
        f"""
        SELECT full_name, company_name, address1, city, state, zip, email, is_verified, created_at, labels
        FROM contacts
        LEFT JOIN (
            SELECT account_id, contact_id, string_agg(title, ', ' ORDER BY position) AS labels
            FROM contacts__contact_labels GROUP BY account_id, contact_id
        ) AS labeled ON labeled.contact_id = contacts.id AND labeled.account_id = contacts.account_id
        ORDER BY created_at DESC, id
        LIMIT 10000
        """,
        engine=db,
    )
    return (contacts,)


@app.cell(hide_code=True)
def _(heading):
    heading("""
    ## A question of your own

    `marimo edit` opens this notebook with its cells. Change this query, or copy both cells. Rows with a name, a
    number and a place can be drawn as bars.
    """)
    return


@app.cell
def own_question(db):
    without_email = mo.sql(
        f"""
        SELECT
            coalesce(state, 'none') AS name, count(*) AS number,
            row_number() OVER (ORDER BY number DESC, name) AS place
        FROM contacts
        WHERE coalesce(email, '') = ''
        GROUP BY state
        ORDER BY place
        LIMIT 10
        """,
        engine=db,
    )
    return (without_email,)


@app.cell
def own_chart(without_email):
    _rows = [{**row, "gathered": 1} for row in without_email.to_dict("records")]
    bars(_rows) if _rows else mo.md("Every contact has an email address.")
    return


@app.function(hide_code=True)
def card(template: dict[str, str], *, thumbnail: bool) -> str:
    """Return a template as a sheet in the shape of its paper, or as its thumbnail."""
    url = template["thumbnail"] if thumbnail else ""
    title, product, creator = (f"<bdi>{escape(template[name])}</bdi>" for name in ("title", "product", "creator"))
    picture = f'<img src="{escape(url)}" alt="" referrerpolicy="no-referrer">' if is_web(url) else f"<b>{title}</b>"
    sheet = f'<div class="sheet" style="aspect-ratio: {shape(template["size"])}">{picture}</div>'
    caption = f"<figcaption>{title}<small>{product}</small><small>{creator}</small></figcaption>"
    return f"<figure>{sheet}{caption}</figure>"


@app.function(hide_code=True)
def is_web(url: str) -> bool:
    """Whether a thumbnail has a web address, which is safe to load."""
    return url.startswith(("http://", "https://"))


@app.function(hide_code=True)
def shape(size: str) -> str:
    """Return width / height of a paper size such as 8.5x11, in inches; letter size by default."""
    sides = re.fullmatch(r"\s*([\d.]{1,6})\s*x\s*([\d.]{1,6})\s*", size)
    return "{} / {}".format(*sides.groups()) if sides else "8.5 / 11"


if __name__ == "__main__":
    app.run()
