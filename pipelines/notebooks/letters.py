"""A notebook of an account's data: charts, templates, contacts and loads, with queries to change."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Letters", sql_output="pandas")

with app.setup(hide_code=True):
    import re
    import sys
    from html import escape
    from textwrap import dedent
    from typing import Any

    import altair as alt
    import duckdb
    import marimo as mo

    from letters_source import LettersError
    from letters_source.report.charts import CHARTS, COLORS, Chart, bars
    from letters_source.report.dataset import open_tables
    from letters_source.report.queries import Rows, read
    from letters_source.report.summary import summarize
    from letters_source.tables import DATASET

    CARDS = 24
    HINT = "While a load writes a file, open the copy that `letters load --publish FILE` makes."
    STYLE = """
    <style>
    .letters { --ink: #20303c; --muted: #5d6b76; --contacts: #23688f; --templates: #b4512d; --good: #2d7a4f }
    .dark .letters { --ink: #e4e8ea; --muted: #9aa8b2; --contacts: #6db4d8; --templates: #e8946c; --good: #6cc494 }
    .letters { color: var(--ink); overflow-wrap: anywhere }
    .letters small { display: block; font-weight: 400; color: var(--muted) }
    .letters.answer::before { content: ""; display: block; height: 8px; margin-bottom: 1.5rem;
        background: repeating-linear-gradient(115deg, var(--templates) 0 18px, transparent 18px 30px,
        var(--contacts) 30px 48px, transparent 48px 60px) }
    .letters.answer > div { display: flex; flex-wrap: wrap; gap: 1rem 3rem }
    .letters.answer b { display: block; font: 600 2.5rem/1.1 serif }
    .letters.answer p { flex: 1 1 18rem; margin: 0; padding-left: 1rem; border-left: 4px solid var(--templates) }
    .letters.answer strong { display: block; color: var(--templates) }
    .letters.answer p.complete { border-color: var(--good) }
    .letters.answer p.complete strong { color: var(--good) }
    .letters.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 2rem }
    .letters.charts > div { min-width: 0 }
    .letters.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 1.5rem 1rem }
    .letters figure { margin: 0; font-size: 0.8rem }
    .letters .sheet { height: 10rem; margin: 0 auto 0.5rem; border: 1px solid #e3dfd5; box-shadow: 0 1px 4px #0002;
        padding: 0.75rem; overflow: hidden; background: #fffefb; color: #b4512d }
    .letters .sheet b { display: block; font: 600 0.75rem/1.2 serif }
    .letters .sheet b::after { content: ""; display: block; height: 10rem; margin-top: 0.75rem;
        background: repeating-linear-gradient(#e3dfd5 0 2px, transparent 2px 9px) }
    .letters .sheet img { width: 100%; height: 100%; object-fit: contain }
    .letters figcaption { font-weight: 600; text-align: center }
    </style>
    """


@app.cell(hide_code=True)
def _():
    mo.md("""
    # Letters
    """)
    return


@app.cell(hide_code=True)
def answer(db):
    mo.Html(STYLE + answered(summarize(db)))
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
    db, loaded, _trouble = None, None, ""
    try:
        # the cells above your question show empty tables in place of those that were not loaded
        db = open_tables(place.value, dataset.value, every_table=True)
        loaded = open_tables(place.value, dataset.value)
    except LettersError as error:
        _trouble = str(error)
    if _trouble and mo.app_meta().mode == "script":
        sys.exit(_trouble)
    mo.stop(loaded is None, mo.vstack([mo.callout(_trouble, kind="warn"), mo.md(HINT)]))
    # headings are shown only with data
    heading = mo.md
    return db, heading, loaded


@app.function(hide_code=True)
def answered(summary: dict[str, Any]) -> str:
    """Return what was loaded, and how complete it is, as HTML."""
    figures = "".join(
        f"<span><small>{name.capitalize()}</small><b>{'-' if number is None else f'{number:,}'}</b></span>"
        for name, number in summary["figures"].items()
    )
    kind = "complete" if summary["headline"] == "Complete" else ""
    texts = (f"<strong>{escape(summary['headline'])}</strong>{escape(summary['text'])}", escape(summary["loaded"]))
    read_from = f"<small>{escape(', '.join(summary['read_from']))}</small>"
    verdict = f'<p class="{kind}">{texts[0]}<small>{texts[1]}</small>{read_from}</p>'
    return f'<div class="letters answer"><div>{figures}{verdict}</div></div>'


@app.function(hide_code=True)
def drawn(chart: Chart, rows: Rows) -> mo.Html:
    """Show a chart, or its only value, under its title; without rows, which option loads its data."""
    wanted = f"Nothing to show: `letters load {chart.option}` loads it." if chart.option else "Nothing yet."
    heading = f"{chart.heading(rows)}: {chart.title}" if chart.title else chart.heading(rows)
    words = chart.sentence(rows) if rows else wanted
    return mo.vstack([mo.md(f"**{heading}**"), mo.md(words) if words else colored(chart.draw(rows), chart.counts)])


@app.function(hide_code=True)
def colored(chart: alt.LayerChart, counts: str) -> alt.LayerChart:
    """Return a chart as wide as its place, in the color of what it counts."""
    marks: dict[str, Any] = {mark: {"color": COLORS[counts]} for mark in ("bar", "line", "point")}
    shown: alt.LayerChart = chart.properties(width="container").configure(**marks, view={"stroke": None})
    return shown


@app.cell(hide_code=True)
def charts(db):
    _drawn = "".join(f"<div>{drawn(chart, read(db, chart.query)).text}</div>" for chart in CHARTS)
    mo.vstack([mo.md("## Charts"), mo.Html(f'<div class="letters charts">{_drawn}</div>')])
    return


@app.cell(hide_code=True)
def choice(heading):
    _words = "### Change a chart\n\nEach chart draws the rows of a query. Choose one and change its query."
    _charts = {f"{chart.group}: {chart.title}" if chart.title else chart.group: chart for chart in CHARTS}
    chosen = mo.ui.dropdown(_charts, value=next(iter(_charts)))
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
    _rows = [{name: row[name] for name in ("title", "product", "creator")} for row in _found]
    _table = mo.accordion({f"All {len(_found):,} as a table": mo.ui.table(_rows, selection=None)})
    mo.vstack([_count, mo.Html(f'<div class="letters gallery">{_cards}</div>'), _table])
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
            strftime(started_at, '%Y-%m-%d %H:%M') AS started, listing, rows_yielded AS rows, verdict, requests,
            retries, round(seconds, 2) AS seconds, account_id AS account
        FROM listing_audit
        WHERE listing IN ('templates', 'contacts')
        ORDER BY started_at DESC
        """,
        engine=db,
    )
    return (audits,)


@app.cell(hide_code=True)
def _(heading):
    heading("""
    ## A question of your own

    `marimo edit` opens this notebook with its cells. Change this query, or copy both cells. Rows with a name, a
    number and a place can be drawn as bars. A table that was not loaded does not exist here.
    """)
    return


@app.cell
def own_question(loaded):
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
        engine=loaded,
    )
    return (without_email,)


@app.cell
def own_chart(without_email):
    _rows = [{**row, "gathered": 1} for row in without_email.to_dict("records")]
    colored(bars(_rows), "contacts") if _rows else mo.md("Every contact has an email address.")
    return


@app.function(hide_code=True)
def card(template: dict[str, str], *, thumbnail: bool) -> str:
    """Return a template as a sheet in the shape of its paper, or as its thumbnail."""
    url = template["thumbnail"] if thumbnail else ""
    texts = (template["title"] or "Untitled", template["product"], template["creator"])
    title, product, creator = (f"<bdi>{escape(text)}</bdi>" for text in texts)
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
