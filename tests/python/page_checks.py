"""What holds for every page, from a reading of its HTML by the standard library alone."""

import csv
import html.parser
import json
import math
import re
import statistics

SECTIONS = ["asked", "policies", "compared", "time", "moves", "links", "failed", "reading"]
NEVER_CLOSED = {"meta", "br", "link", "img", "input", "hr"}
METRICS = ("time_s", "excess_ratio", "regret", "over_plan", "slowdown", "bytes_moved", "stopped_s", "thrashes", "rest_s",
           "accesses_lost")


class Page(html.parser.HTMLParser):
    """`sections`, `against_static` by (scenario, policy), `worse` than that, `values` by (scenario,
    policy, metric), `scripts` by id, `figures`, `offences`."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.ids, self.values, self.best = [], [], {}, set()
        self.scripts, self.offences, self.open, self.policy_order = {}, [], [], []
        self.against_static, self.worse = {}, set()
        self.script, self.scenario, self.policy, self.text = None, None, None, ""
        self.feed(text)
        self.close()
        self.offences += [f"<{tag}> is not closed" for tag in self.open]
        self.figures = json.loads(self.scripts["figures"])
        self.scenarios = json.loads(self.scripts["scenarios"])

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in NEVER_CLOSED:
            self.open.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        for name in ("src", "href", "action", "data"):
            if name in found and not found[name].startswith("#"):
                self.offences.append(f"<{tag} {name}={found[name]}>")
        if tag == "section":
            self.sections.append(found["id"])
        elif tag == "script":
            self.script = found.get("id", f"script {len(self.scripts)}")
            self.scripts[self.script] = ""
        elif tag == "table":
            self.scenario = found.get("data-scenario")
        elif tag == "tr" and self.scenario:
            self.policy = found.get("data-policy")
            self.policy_order.append((self.scenario, self.policy))
        elif tag == "td" and "data-baseline" in found:
            self.against_static[self.scenario, self.policy] = found["data-baseline"]
            if "bad" in (found.get("class") or "").split():
                self.worse.add((self.scenario, self.policy))
        elif tag == "td" and "data-metric" in found:
            key = (self.scenario, self.policy, found["data-metric"])
            self.values[key] = (found["data-mean"], found["data-half"])
            if "best" in (found.get("class") or "").split():
                self.best.add(key)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.offences.append(f"</{tag}> at {self.getpos()}")
        if tag == "script":
            self.script = None
        if tag == "table":
            self.scenario = None

    def handle_data(self, data):
        if self.script:
            self.scripts[self.script] += data
        else:
            self.text += data


def check_frame(test, folder, frame):
    """A frame of cells has the rows of `results.csv`, in its order and with its numbers."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    test.assertEqual(list(frame["id"]), [row["id"] for row in rows])
    for name in rows[0]:
        for row, found in zip(rows, frame[name]):
            wanted = row[name] if isinstance(found, str) else float(row[name] or "nan")
            same = wanted == found or (wanted != wanted and found != found)
            test.assertTrue(same, f"{row['id']}: {name}: {wanted} {found}")


def expected_values(folder):
    """Means over seeds as the page should have them, from `results.csv`."""
    groups = {}
    with (folder / "results.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            scenario = f"{row['trace']} on {row['machine']}, router {row['router']}"
            for metric in METRICS:
                values = groups.setdefault((scenario, row["policy"], metric), [])
                if row[metric] and (metric != "regret" or row["bound_tight"] == "1"):
                    values.append(float(row[metric]))
    return groups


def expected_ratios(folder):
    """Geometric means over seeds of the time over that of `static`, from `results.csv`."""
    costs = {}
    with (folder / "results.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if float(row["accesses_lost"] or 0) == 0 and row["time_s"]:
                scenario = f"{row['trace']} on {row['machine']}, router {row['router']}"
                costs.setdefault((scenario, row["policy"]), {})[row["seed"]] = float(row["time_s"])
    ratios = {}
    for (scenario, policy), by_seed in costs.items():
        base = costs.get((scenario, "static"), {})
        found = [cost / base[seed] for seed, cost in by_seed.items() if base.get(seed, 0) > 0]
        if found:
            ratios[scenario, policy] = statistics.geometric_mean(found)
    return ratios


def check_page(test, folder):
    """All that holds for the page of a folder with a `results.csv`. Returns the page."""
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    test.assertEqual(page.offences, [])
    test.assertEqual(page.sections, SECTIONS)
    test.assertEqual(len(page.ids), len(set(page.ids)))
    test.assertNotRegex(page.text, r"\bnan\b|None")
    ratios = {key: float(value) for key, value in page.against_static.items() if value}
    wanted = expected_ratios(folder)
    test.assertEqual(set(ratios), set(wanted))
    for key, value in wanted.items():
        test.assertTrue(math.isclose(ratios[key], value, rel_tol=1e-12), key)
    expected = expected_values(folder)
    test.assertEqual(set(page.values), set(expected))
    for key, values in expected.items():
        mean, half = page.values[key]
        if not values:
            test.assertEqual((mean, half), ("", ""), key)
            continue
        test.assertTrue(math.isclose(float(mean), statistics.fmean(values), rel_tol=1e-12), key)
        test.assertEqual(half == "", len(values) < 2, key)
    return page


def numbers_of(series):
    """A series of Plotly, packed or not."""
    import base64
    import struct

    if isinstance(series, list):
        return series
    data = base64.b64decode(series["bdata"])
    kind = re.fullmatch(r"f([48])", series["dtype"]).group(1)
    return list(struct.unpack(f"<{len(data) // int(kind)}{'f' if kind == '4' else 'd'}", data))
