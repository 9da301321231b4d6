"""Writes the table of results into docs/notes/applications.md, between its two markers."""
import math
import statistics

BEGIN, END = "<!-- begin: ./dev applications --table -->", "<!-- end -->"


def ratio(row, what):
    if what not in row:
        return ""
    text = f"{row[what]:.2f}"
    return f"**{text}**" if row[what] > 1.1 else text


def make_table(rows):
    lines = ["| program | library | agrees | largest error | first call | later calls | memory |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        error = f"{r['error']:.0e}" if r.get("error") else ("0" if "error" in r else "")
        agrees = "yes" if r["result"] == "agrees" else f"**{r['result']}**"
        lines.append(f"| {r['name']} | {r['library']} | {agrees} | {error} | {ratio(r, 'first')} | {ratio(r, 'steady')} | {ratio(r, 'memory')} |")
    means = []
    for what in ("first", "steady", "memory"):
        values = [r[what] for r in rows if what in r]
        means.append(f"{math.exp(statistics.fmean(map(math.log, values))):.2f}" if values else "")
    agree = sum(r["result"] == "agrees" for r in rows)
    lines.append(f"| geometric mean | | {agree} of {len(rows)} | | {' | '.join(means)} |")
    return "\n".join(lines)


def write(path, rows):
    text = path.read_text()
    if text.count(BEGIN) != 1 or END not in text.split(BEGIN)[1]:
        raise SystemExit(f"{path}: the markers of the table are missing")
    head, rest = text.split(BEGIN)
    path.write_text(f"{head}{BEGIN}\n{make_table(rows)}\n{END}{rest.split(END, 1)[1]}")
