#!/usr/bin/env python3
"""Compares the speed of two builds: runs the same benchmarks of both by turns, and says which figures differ.

A figure differs if its medians do by more than 5 % and no round of the one build reached any round of the other. What
differs is measured once more, alone and in three times as many rounds; only what differs then, too, in the same
direction, is reported as slower or faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

# A change of the median that counts, if the rounds of the two builds don't overlap.
TOLERANCE = 1.05

COLLECTIVES = "alltoall,allgather,gather,scatter,bcast,reduce,allreduce,reduce_scatter_block,scan,barrier"


def bench(text, *arguments):
    return text, ["ib_a2a_bench", "--json", "-", "--iterations", "20", *arguments]


def google(name, *arguments):
    return name, [name, "--benchmark_format=json", "--benchmark_min_time=0.05", *arguments]


def cases():
    """(name, command) of each benchmark."""
    result = []
    for collective in COLLECTIVES.split(","):
        sizes = [] if collective == "barrier" else ["--sizes", "8,1K,64K,1M"]
        wanted = ["--collective", collective, *sizes]
        for ranks in ("2", "4"):
            result.append(bench(f"{collective} {ranks} ranks", "--ranks", ranks, *wanted))
        result.append(bench(f"{collective} 2 ranks, private", "--ranks", "2", "--user-memory", *wanted))
        result.append(bench(f"{collective} 2,2 loopback", "--layout", "2,2", "--transport", "loopback", *wanted))
    result += [google(name) for name in ("cached_call_bench", "dispatch_bench", "copy_bench")]
    # Of the many layouts those that take milliseconds each.
    result.append(google("program_bench", "--benchmark_filter=/(16x8|128x8)/middle"))
    result.append(("reduce_bench", ["reduce_bench", "--budget", "2", "--json", "-"]))
    return result


def figures(output):
    """The times in a benchmark's output, by name: smaller is better."""
    times = {}
    if output.lstrip().startswith("{\n"):  # of Google's library: one object
        for row in json.loads(output)["benchmarks"]:
            times[row["name"]] = float(row["real_time"])
        return times
    for line in output.splitlines():
        row = json.loads(line)
        if "median_us" in row:
            times[f"{row['algorithm']} {row['bytes_per_pair']}"] = float(row["median_us"])
        elif row.get("gigabytes_per_second"):  # 0: nothing is combined
            name = f"{row['type']} {row['operator']} {row['kernels']} {row['bytes']} {row['offset']}"
            times[name] = 1 / float(row["gigabytes_per_second"])
    return times


def run(folder, command):
    """None if the build has no such benchmark."""
    program = os.path.join(folder, command[0])
    if not os.access(program, os.X_OK):
        return None
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_builds.py: {program} ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    try:
        times = figures(done.stdout)
    except (ValueError, KeyError, ZeroDivisionError) as error:
        sys.exit(f"compare_builds.py: the output of {program} is not understood: {error!r}")
    return times


def measure(folders, command, rounds):
    """Two dicts, before and after: the times of each figure that both builds have, a round each."""
    both = ({}, {})
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for which in order:
            times = run(folders[which], command)
            if times is None:
                return None
            for name, time in times.items():
                both[which].setdefault(name, []).append(time)
    return both


def verdict(before, after):
    ratio = statistics.median(after) / statistics.median(before)
    if ratio > TOLERANCE and min(after) > max(before):
        return "slower"
    if ratio < 1 / TOLERANCE and max(after) < min(before):
        return "faster"
    return "same"


def algorithm_free(name):
    """The engine may have chosen another algorithm: the figure is the call's."""
    return name.split(" ", 1)[1] if name.startswith("auto ") else name


def compare(folders, name, command, rounds):
    """A row for each figure."""
    both = measure(folders, command, rounds)
    if both is None:
        return []
    rows = []
    again = None
    for figure in sorted(set(both[0]) & set(both[1])):
        before, after = both[0][figure], both[1][figure]
        result = verdict(before, after)
        if result != "same":
            again = again or measure(folders, command, 3 * rounds)
            before, after = again[0].get(figure, before), again[1].get(figure, after)
            if verdict(before, after) != result:
                result = "same"
        rows.append({
            "benchmark": name, "figure": algorithm_free(figure), "verdict": result,
            "before": statistics.median(before), "after": statistics.median(after),
            "ratio": statistics.median(after) / statistics.median(before),
            "least_ratio": min(after) / max(before), "greatest_ratio": max(after) / min(before),
        })
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Examples:\n  perf/compare_builds.py ../before/build/bin build/bin\n"
               "  perf/compare_builds.py ../before/build/bin build/bin --only bcast --rounds 15 --json -\n\n"
               "Exits with 1 if something is slower.")
    parser.add_argument("before", help="folder with the programs of the one build")
    parser.add_argument("after", help="and of the other")
    parser.add_argument("--rounds", type=int, default=7, help="of each benchmark and build (default: 7)")
    parser.add_argument("--only", default="", help="benchmarks whose names contain this")
    parser.add_argument("--json", metavar="FILE", help="write one object a figure to this file (-: standard output)")
    wanted = parser.parse_args()
    folders = (wanted.before, wanted.after)
    if wanted.rounds < 3:
        parser.error("--rounds takes 3 or more: fewer have no spread")
    for folder in folders:
        if not os.path.isdir(folder):
            parser.error(f"{folder} is no folder")
    chosen = [case for case in cases() if wanted.only in case[0]]
    if not chosen:
        parser.error(f"no benchmark has {wanted.only!r} in its name; there are: " + ", ".join(name for name, _ in cases()))

    text = sys.stderr if wanted.json == "-" else sys.stdout
    lines = sys.stdout if wanted.json == "-" else open(wanted.json, "w") if wanted.json else None
    counts = {"same": 0, "faster": 0, "slower": 0}
    for name, command in chosen:
        rows = compare(folders, name, command, wanted.rounds)
        if not rows:
            print(f"{name}: {command[0]} gives no figure that both builds have", file=text)
        for row in rows:
            counts[row["verdict"]] += 1
            print(f"{row['benchmark']:34} {row['figure']:40} {row['ratio']:.2f} "
                  f"({row['least_ratio']:.2f} to {row['greatest_ratio']:.2f}) {row['verdict']}", file=text, flush=True)
            if lines:
                print(json.dumps(row), file=lines, flush=True)
    print(", ".join(f"{count} {name}" for name, count in counts.items()), file=text)
    if not sum(counts.values()):
        sys.exit("compare_builds.py: the builds have no figure in common")
    sys.exit(1 if counts["slower"] else 0)


if __name__ == "__main__":
    main()
