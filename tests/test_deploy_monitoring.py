"""deploy/prometheus and deploy/grafana: every alert has its entry and its test, every metric exists, promtool agrees."""

import json
import re

import pytest
import yaml
from prometheus_client import generate_latest

from beacon.settings import Settings
from beacon.web.application import build_web
from beacon.web.metrics_routes import registries_of
from tests.deploy_support import DEPLOY, RUNBOOK, anchors, run, samples
from tests.outside_tools import need_promtool

PROMETHEUS = DEPLOY / "prometheus"
RULES = PROMETHEUS / "beacon.rules.yml"
RULES_TEST = PROMETHEUS / "beacon.rules.test.yml"
DASHBOARD = DEPLOY / "grafana" / "fair-beacon.json"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
NAMES = [alert["alert"] for alert in ALERTS]
OF_PROMETHEUS = {"up": {"job", "instance"}}


def metrics_of(expression):
    """Each metric that an expression selects, with the labels that its selector names."""
    plain = re.sub(r"\$__\w+", "1m", expression)
    words = re.finditer(r"\b((?:beacon_|up\b|node_|process_)\w*)(?:\{([^}]*)\})?", plain)
    return [(word[1], set(re.findall(r"(\w+) *(?:=|!)[=~]?", word[2] or ""))) for word in words]


def check_metrics(expression):
    known = samples() | OF_PROMETHEUS
    found = metrics_of(expression)
    assert found, expression
    for name, labels in found:
        assert name in known, f"{name} of {expression}"
        assert labels <= known[name] | {"job", "instance"}, f"{labels} of {expression}"


def test_what_is_no_metric_of_the_service_is_noticed():
    for expression in ("rate(beacon_request_total[5m])", 'beacon_listeners{route="/"}', "node_load1"):
        with pytest.raises(AssertionError):
            check_metrics(expression)


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_an_alert_is_about_metrics_that_exist_and_leads_to_its_entry(alert):
    check_metrics(alert["expr"])
    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert alert["annotations"]["summary"]
    file, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert (file, anchor) == (RUNBOOK.name, alert["alert"].lower())
    assert anchor in anchors(RUNBOOK.read_text(encoding="utf-8"))


def test_the_runbook_has_no_alert_that_is_not():
    headings = re.findall(r"(?m)^### (Beacon\w+)$", RUNBOOK.read_text(encoding="utf-8"))
    assert sorted(headings) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_each_alert_is_seen_firing():
    cases = yaml.safe_load(RULES_TEST.read_text())["tests"]
    fired = {case["alertname"] for test in cases for case in test.get("alert_rule_test", ()) if case["exp_alerts"]}
    for test in cases:
        for case in test.get("promql_expr_test", ()):
            fired |= {
                name for sample in case["exp_samples"] for name in re.findall(r'alertname="(\w+)"', sample["labels"])
            }
    assert fired == set(NAMES)


def test_the_labels_of_the_service_are_those_of_the_tests():
    known = samples() | OF_PROMETHEUS
    for test in yaml.safe_load(RULES_TEST.read_text())["tests"]:
        for series in test["input_series"]:
            ((name, labels),) = metrics_of(series["series"])
            assert labels - {"job", "instance"} == known[name] - {"job", "instance"}, series


def test_promtool_takes_the_files_and_the_alerts_fire_as_they_should():
    promtool = need_promtool()
    run(promtool, "check", "config", PROMETHEUS / "prometheus.yml")
    run(promtool, "test", "rules", RULES_TEST)


def test_promtool_would_notice(tmp_path):
    promtool = need_promtool()
    text = RULES.read_text()
    (tmp_path / RULES_TEST.name).write_bytes(RULES_TEST.read_bytes())
    for old, new in (("beacon_witness_lag_seconds > 60", "beacon_witness_lag_seconds > 50"), ("for: 3m", "for: 3h")):
        assert old in text
        (tmp_path / RULES.name).write_text(text.replace(old, new))
        assert "FAILED" in run(promtool, "test", "rules", tmp_path / RULES_TEST.name, code=1)


def test_promtool_has_nothing_against_the_metrics_themselves():
    promtool = need_promtool()
    registries = registries_of(build_web(Settings.model_construct(origin="o")))
    shown = b"".join(map(generate_latest, registries)).decode()
    assert "# TYPE beacon_requests_total counter" in shown
    assert run(promtool, "check", "metrics", input=shown) == ""
    assert "counter metrics should have" in run(
        promtool,
        "check",
        "metrics",
        input="# HELP beacon_requests Requests\n# TYPE beacon_requests counter\nbeacon_requests 1\n",
        code=3,
    )


# --- the dashboard ----------------------------------------------------------------------------------------------------

PANELS = json.loads(DASHBOARD.read_text())["panels"]


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_shows_what_exists_on_a_place_of_its_own(panel):
    assert panel["targets"]
    for target in panel["targets"]:
        check_metrics(target["expr"])
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(re.findall(r"\w+", target["expr"])) | {
            label for name, _ in metrics_of(target["expr"]) for label in (samples() | OF_PROMETHEUS)[name]
        } | {"instance"}
        assert target["datasource"] == panel["datasource"]
    place = panel["gridPos"]
    assert place["x"] in range(25 - place["w"])
    cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
    for other in PANELS:
        there = other["gridPos"]
        assert other is panel or not any(
            there["x"] <= x < there["x"] + there["w"] and there["y"] <= y < there["y"] + there["h"] for x, y in cells
        )


def test_the_dashboard_has_what_grafana_asks_of_one():
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "fair-beacon"
    assert isinstance(dashboard["schemaVersion"], int)
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert {panel["type"] for panel in PANELS} == {"stat", "timeseries"}
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert set(variables) == {"datasource", "instance"}
    check_metrics(variables["instance"]["definition"].removeprefix("label_values("))
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(PANELS)))
    assert used == {"datasource", "instance", "__rate_interval"}


def test_promtool_reads_every_expression_of_the_dashboard(tmp_path):
    promtool = need_promtool()
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(expressions)
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run(promtool, "check", "rules", file)
