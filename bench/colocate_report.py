# SPDX-License-Identifier: Apache-2.0
"""What bench/colocate has measured, as a table to publish and an object to keep."""
import benchlib
from benchlib import median, percentile, summary

ORDER = ("alone", "default", "slices", "rubato", "hinted", "mps")


def order_of(run, regime):
    first = regime.split()[0]
    return (ORDER.index(first) if first in ORDER else len(ORDER), run.crowd_of(regime))


def of(cells, mode, regime):
    return [cell for cell in cells if cell["mode"] == mode and cell["regime"] == regime]


def ratios(cells, mode, regime, value, base="alone"):
    """value(cell) over that of the same round's alone, or of another base."""
    alone = {cell["round"]: value(cell) for cell in of(cells, mode, base)}
    return [value(cell) / alone[cell["round"]] for cell in of(cells, mode, regime) if cell["round"] in alone]


def jain(values):
    """1: all have the same; 1/n: one has everything."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values)) if any(values) else None


def left_by_requests(run, mode, number):
    """The part of the GPU's time that a round's requests leave, when they are served alone."""
    cells = [cell for cell in of(run.cells, mode, "alone") if cell["round"] == number]
    return 1 - cells[0]["served_us"] / 1e6 / cells[0]["took_s"] if cells else None


def left_of_gpu(run, mode, cell):
    """The part of the GPU's time that a cell's requests leave, when only their time on the GPU counts."""
    return 1 - run.request_gpu_us[mode] * cell["n_served"] / 1e6 / cell["took_s"]


def neighbours_summary(run, mode, cells):
    each = [sum(cell["best_effort_per_s"][i] * cell["took_s"] for cell in cells) / sum(cell["took_s"] for cell in cells)
            for i in range(run.crowd_of(cells[0]["regime"]))]
    kept, of_left, of_gpu_left = [], [], []
    for cell in cells:
        if cell["round"] < len(run.own_rates) and run.own_rates[cell["round"]] > 0:
            kept.append(sum(cell["best_effort_per_s"]) / run.own_rates[cell["round"]])
            left = left_by_requests(run, mode, cell["round"])
            if left is not None:
                of_left.append(kept[-1] / left)
            if mode in run.request_gpu_us:
                of_gpu_left.append(kept[-1] / left_of_gpu(run, mode, cell))
    return {"best_effort_per_s": sum(each), "each_per_s": each,
            "still_ms": [max(cell["still_ms"][:len(each)]) for cell in cells],
            "best_effort_kept": median(kept) if kept else None, "of_left": median(of_left) if of_left else None,
            "of_gpu_left": median(of_gpu_left) if of_gpu_left else None,
            "jain": jain(each) if len(each) > 1 else None}


def cell_summary(run, mode, regime):
    """One row: percentiles over all requests of the cell, medians of the ratios of its rounds."""
    cells = of(run.cells, mode, regime)
    pooled = [us for cell in cells for us in cell["latency_us"]]
    row = {"mode": mode, "regime": regime, "requests": len(pooled), **summary(pooled)}
    for name in ("p50", "p99"):
        against = ratios(run.cells, mode, regime, lambda cell, name=name: cell[name])
        row[f"{name}_ratio"] = median(against) if against else None
    against = ratios(run.cells, mode, regime, lambda cell: cell["p99"], "default")
    row["p99_to_default"] = median(against) if against else None
    against = ratios(run.cells, mode, regime, lambda cell: cell["p99"], "rubato")
    row["p99_to_rubato"] = median(against) if against else None
    service = ratios(run.cells, mode, regime, lambda cell: percentile(cell["service_us"], 99))
    row["service_p99_ratio"] = median(service) if service else None
    row["late_p99"] = percentile([us for cell in cells for us in cell["late_us"]], 99)
    for share in ("daemon_share", "hand_share"):
        row[share] = median([cell[share] for cell in cells])
    if regime != "alone":
        row.update(neighbours_summary(run, mode, cells))
    return row


def weight_lines(args, run):
    """What each weighed neighbour had, and by how much its share misses its weight's."""
    parts = [weight / sum(args.weights) for weight in args.weights]
    shares = [one / (sum(run.weighed) or 1) for one in run.weighed]
    off = max(abs(share / part - 1) for share, part in zip(shares, parts))
    yield (f"- weights {':'.join(map(str, args.weights))}, {args.weigh_seconds:g} s without requests: "
           f"{' + '.join(f'{one:.2f}' for one in run.weighed)} /s; shares off by {off:.1%} at most")
    if args.target_weights:
        yield (f"- target shares within {args.target_weights:.0%} of the weights: {off:.1%}, "
               f"**{'met' if off <= args.target_weights else 'missed'}**")


def together_lines(args, run):
    """The neighbours' rates together, without requests."""
    sums = run.together
    kept = [under / by_default for by_default, under in zip(sums["default"], sums["rubato"]) if by_default > 0]
    if not kept:
        return
    yield (f"- {args.trainers} neighbours together, without requests: {median(sums['default']):.1f}/s by default, "
           f"{median(sums['rubato']):.1f}/s under Rubato: {median(kept):.1%} (by round: "
           f"{', '.join(f'{one:.1%}' for one in kept)})")
    if args.target_together:
        yield (f"- target together ≥ {args.target_together:.0%} of their sum by default: {median(kept):.1%}, "
               f"**{'met' if median(kept) >= args.target_together else 'missed'}**")


def target_lines(args, rows, renice_ms):
    def line(what, value, met):
        return f"- target {what}: {value}, **{'met' if met else 'missed'}**"

    for row in (row for row in rows if row["regime"].split()[0] in ("rubato", "hinted", "mps")):
        name = f"{row['mode']}, {row['regime']}"
        at_most = [("p50", "p50", args.target_p50), ("p99", "p99", args.target_p99),
                   ("service p99", "service_p99", args.target_p99)]
        for words, key, target in at_most:
            ratio = row[f"{key}_ratio"]
            if target and ratio:
                yield line(f"({name}) {words} ≤ {target} × alone", f"{ratio:.3f}", ratio <= target)
        if args.target_p99_default and row["p99_to_default"]:
            yield line(f"({name}) p99 ≤ {args.target_p99_default:g} × default", f"{row['p99_to_default']:.3f}",
                       row["p99_to_default"] <= args.target_p99_default)
        at_least = [("best-effort ≥ {:.0%} of one's own rate", "best_effort_kept", args.target_rate, ".1%"),
                    ("best-effort ≥ {:.0%} of what the requests leave", "of_left", args.target_left, ".1%"),
                    ("Jain's fairness ≥ {}", "jain", args.target_jain, ".4f")]
        for words, key, target, form in at_least:
            if target and row[key]:
                yield line(f"({name}) {words.format(target)}", format(row[key], form), row[key] >= target)
        if args.target_daemon:
            both = row["daemon_share"] + row["hand_share"]
            yield line(f"({name}) daemon ≤ {args.target_daemon:.0%} of a core",
                       f"{row['daemon_share']:.2%} ({both:.2%} with its hand)", row["daemon_share"] <= args.target_daemon)
    for row in (row for row in rows if row["regime"] in args.policies and args.target_p99_rubato):
        ratio = row["p99_to_rubato"]
        yield line(f"({row['mode']}, {row['regime']}) p99 ≤ {args.target_p99_rubato:g} × rubato", f"{ratio:.3f}",
                   ratio <= args.target_p99_rubato)
    if args.target_renice_ms and renice_ms:
        yield line(f"renice < {args.target_renice_ms:g} ms", f"at most {max(renice_ms):.1f} ms",
                   max(renice_ms) < args.target_renice_ms)


def note_lines(args, run, rows, renice_ms):
    if 0 in run.own_rates:
        yield f"- one neighbour did nothing while it was alone, in {run.own_rates.count(0)} rounds"
    if run.own_rates:
        yield f"- one neighbour's own rate: {median(run.own_rates):.1f}/s (median of {len(run.own_rates)} rounds)"
    for row in rows:
        if len(row.get("each_per_s", [])) > 1:
            yield (f"- {row['mode']}, {row['regime']}: the neighbours' rates "
                   f"{' + '.join(f'{one:.2f}' for one in row['each_per_s'])} /s")
    for row in rows:
        if row.get("still_ms"):
            yield (f"- {row['mode']}, {row['regime']}: the longest that a neighbour finished nothing, by round: "
                   f"{', '.join(f'{ms:.0f}' for ms in row['still_ms'])} ms")
    for mode, gpu_us in run.request_gpu_us.items():
        parts = [f"{row['regime']} {row['of_gpu_left']:.1%}" for row in rows
                 if row["mode"] == mode and row.get("of_gpu_left")]
        yield (f"- {mode}: a request is {gpu_us / 1e3:.2f} ms of GPU work when nothing waits for the host; of what "
               f"that leaves, the neighbours have: {', '.join(parts)}")
    for regime, said in run.policy_said.items():
        lines = sorted({line.split("] ")[-1] for text in said for line in text.splitlines()})
        yield f"- {regime}: its log said: {'; '.join(lines) or 'nothing'}"
    if run.weighed:
        yield from weight_lines(args, run)
    yield from together_lines(args, run)
    if renice_ms:
        yield (f"- `rubato renice`: {len(renice_ms)} calls, first {renice_ms[0]:.1f} ms, median "
               f"{median(renice_ms):.1f} ms, longest {max(renice_ms):.1f} ms (process start included)")
    if args.trainer_run < args.trainers and not args.mps:
        for mode in args.modes:
            p50 = [cell["p50"] / 1e3 for cell in of(run.cells, mode, "default")]
            if len(p50) > 1:
                yield (f"- reversed: {mode} p50 under default {p50[0]:.2f} ms before the first renice, "
                       f"{', '.join(f'{ms:.2f}' for ms in p50[1:])} ms after renicing back")
    yield from (f"- {note}" for note in run.notes)
    # A class that was not granted in full is said behind a semicolon.
    for said in sorted({call["said"] for call in run.session.calls if call["args"][0] == "renice"}):
        if ";" in said:
            yield f"- `rubato renice` said: {said}"
    yield "- the load generator woke late by (p99): " + ", ".join(
        f"{row['mode']} {row['regime']} {row['late_p99'] / 1e3:.2f} ms" for row in rows)


def number(value, form):
    return "–" if value is None else format(value, form)


def neighbours_work(args):
    if args.train == "copy":
        return " copying both ways"
    return f" training {args.train}" if args.programs == "torch" else ""


def head_line(args, facts):
    n = args.trainers
    how = "under MPS" if args.mps else ", ".join(
        words for words, n_such in (("{} under `rubato run`".format("all" if args.trainer_run == n else args.trainer_run),
                                     args.trainer_run),
                                    ("{} started plain, then reniced".format("all" if args.trainer_run == 0 else
                                                                             n - args.trainer_run),
                                     n - args.trainer_run)) if n_such)
    return (f"{benchlib.machine_line(facts)}; {args.programs} programs, {n} neighbour{'s' if n > 1 else ''}"
            f"{neighbours_work(args)} ({how})"
            f"{', the latency program under `rubato run`' if args.latency_run else ''}"
            f"{f', as user {args.user}' if args.user else ''}; {args.rate:g} requests/s"
            f"{f' of {args.batch} images' if args.programs == 'torch' and set(args.modes) & {'graph', 'eager'} else ''}"
            f"{' that are copied to the GPU first' if args.copy_input else ''}.")


def report(args, facts, run, failure):
    """(Markdown, its rows) of whatever was measured."""
    regimes = sorted(run.regimes, key=lambda regime: order_of(run, regime))
    rows = [cell_summary(run, mode, regime) for mode in args.modes for regime in regimes
            if of(run.cells, mode, regime)]
    renice_ms = [call["ms"] for call in run.session.calls if call["args"][0] == "renice"]
    head = ["mode", "regime", "requests", "p50 ms", "p90", "p99", "max", "p50 × alone", "p99 × alone",
            "service p99 × alone", "best-effort /s", "of one's own", "of what is left", "Jain", "daemon, of a core",
            "its hand"]
    body = [[row["mode"], row["regime"], str(row["requests"]),
             *(f"{row[p] / 1e3:.2f}" for p in ("p50", "p90", "p99", "max")), number(row["p50_ratio"], ".3f"),
             number(row["p99_ratio"], ".3f"), number(row["service_p99_ratio"], ".3f"),
             number(row.get("best_effort_per_s"), ".1f"), number(row.get("best_effort_kept"), ".1%"),
             number(row.get("of_left"), ".1%"), number(row.get("jain"), ".4f"), number(row["daemon_share"], ".2%"),
             number(row["hand_share"], ".2%")]
            for row in rows]
    if facts["gpu"] is None and run.latency.ready:
        facts["gpu"] = run.latency.ready["gpu"]
    lines = [f"### {args.title}", "", head_line(args, facts), "", benchlib.table(head, body), "",
             *note_lines(args, run, rows, renice_ms), *target_lines(args, rows, renice_ms)]
    if failure is not None:
        lines.append(f"- **failed**: {failure}")
    return "\n".join(lines) + "\n", rows


def document(args, facts, run, failure):
    """All that was measured: to be kept whatever becomes of the report."""
    return {"tool": "colocate", "machine": facts, "options": vars(args), "rounds": run.cells,
            "own_rates": run.own_rates, "request_gpu_us": run.request_gpu_us, "weighed": run.weighed,
            "together": run.together, "programs": [p.ready for p in run.session.programs],
            "rubato_calls": run.session.calls, "ps": run.ps, "policy_said": run.policy_said, "notes": run.notes, "failure": failure and str(failure)}
