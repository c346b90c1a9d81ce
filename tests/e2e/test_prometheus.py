# SPDX-License-Identifier: Apache-2.0
"""Metrics as a real Prometheus reads them: its own checks, a scrape, the alerts, and every query of the dashboard."""
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from harness import BUILD, HERE, eventually, main, skip
from programs import BEST_EFFORT, Daemon, hinter, spinners
from test_account import free_port, request, served, without_metrics

PACKAGING = os.path.join(HERE, "../../packaging")
RULES = os.path.join(PACKAGING, "prometheus/rubato.rules.yml")


def promtool(*args, text=None):
    done = subprocess.run(["promtool", *args], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr.strip(), done
    return done.stdout


class Prometheus:
    def __init__(self, s, target):
        self.port, folder = free_port(), os.path.join(s.dir, "prometheus")
        os.mkdir(folder)
        with open(os.path.join(folder, "config.yml"), "w") as f:
            f.write(f"""
global: {{scrape_interval: 250ms, evaluation_interval: 1s}}
rule_files: ["{RULES}"]
scrape_configs: [{{job_name: rubato, static_configs: [{{targets: ["127.0.0.1:{target}"]}}]}}]
""")
        promtool("check", "config", os.path.join(folder, "config.yml"))
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen(["prometheus", f"--config.file={folder}/config.yml", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}"], stderr=self.log)
        s.programs.append(self)

    def get(self, path, **query):
        """The data of an answer; None while it is not up."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?" + urllib.parse.urlencode(query)
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:
                return None
            raise AssertionError(f"{query}: {e.read().decode()}") from e
        except OSError:
            return None

    def query(self, text):
        data = self.get("query", query=text)
        return data["result"] if data else []

    def end(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(20)
        self.log.close()


def test_alerts(s):
    promtool("check", "rules", RULES)
    promtool("test", "rules", os.path.join(PACKAGING, "prometheus/rubato.rules.test.yml"))
    with open(RULES) as f:
        assert len(re.findall(r"^ +- alert: ", f.read(), re.M)) == 3


def dashboard_queries():
    with open(os.path.join(PACKAGING, "grafana/rubato.json")) as f:
        board = json.load(f)
    queries = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    assert len(board["panels"]) >= 6 and all(p["title"] and p["description"] for p in board["panels"])
    for name, value in ("instance", ".*"), ("gpu", ".*"), ("class", ".*"), ("__rate_interval", "5s"):
        queries = [q.replace("$" + name, value) for q in queries]
    assert not any("$" in q for q in queries), queries
    return queries


def check_all_families(s, port):
    """Those of a policy in eBPF, too, if it was built."""
    policy = os.path.join(BUILD, "policies/lc_be.bpf.o")
    if os.path.exists(policy):
        s.rubato("policy", "load", policy, "--engine", "vm")
        scrape = lambda: request(("127.0.0.1", port))[2]
        eventually("the policy is told of", lambda: "rubato_policy_seconds_total" in scrape())  # scrapes share snapshots
    promtool("check", "metrics", text=request(("127.0.0.1", port))[2])
    if os.path.exists(policy):
        s.rubato("policy", "unload")


def test_prometheus_reads_everything(s):
    if without_metrics(s):
        return
    port = free_port()
    daemon = Daemon(s, "--metrics", port)
    eventually("it is served", lambda: served(("127.0.0.1", port)))
    a, b = spinners(s, ("--memory", "100M"), ())
    p = hinter(s)
    prometheus = Prometheus(s, port)

    def work():
        """Some requests, all of them late."""
        p.ask("begin 1")
        p.ask("end 0")
        return True
    eventually("it has scraped both", lambda: work() and len(prometheus.query("rubato_program_used_seconds_total")) >= 3)
    target, = prometheus.get("targets")["activeTargets"]
    assert target["health"] == "up" and target["lastError"] == "", target
    check_all_families(s, port)
    # A renice changes the class, and no counter's labels.
    before, = prometheus.query(f'rubato_program_turns_total{{pid="{a.pid}"}}')
    s.rubato("renice", a.pid, "--priority", "8")
    klass = lambda: [r["metric"]["class"] for r in prometheus.query(f'rubato_program_info{{pid="{a.pid}"}}')]
    eventually("its class is another", lambda: klass() == ["normal"])
    after, = prometheus.query(f'rubato_program_turns_total{{pid="{a.pid}"}}')
    assert before["metric"] == after["metric"] and "class" not in after["metric"], (before, after)
    s.rubato("renice", a.pid, *BEST_EFFORT)
    info, = prometheus.query(f'rubato_program_info{{pid="{b.pid}"}}')
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", info["metric"]["gpu_uuid"]), info
    gpu, = prometheus.query("rubato_gpu_info")
    assert gpu["metric"]["uuid"] == info["metric"]["gpu_uuid"]
    limit, = prometheus.query("rubato_program_memory_limit_bytes")
    assert limit["metric"]["pid"] == str(a.pid) and float(limit["value"][1]) == 100 * 2**20, limit
    memory = prometheus.query("rubato_program_memory_bytes > 0")
    assert {m["metric"]["pid"] for m in memory} >= {str(a.pid), str(b.pid)}, memory
    for query in dashboard_queries():
        eventually(f"an answer to {query}", lambda: work() and prometheus.query(query))
    rules = prometheus.get("rules")["groups"][0]["rules"]
    assert len(rules) == 3 and all(r["health"] in ("ok", "unknown") for r in rules), rules
    os.kill(daemon.pid, signal.SIGTERM)
    eventually("the alert is pending", lambda: prometheus.query('ALERTS{alertname="RubatoDown"}'))


if __name__ == "__main__":
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        skip("prometheus is not installed")
    main()
