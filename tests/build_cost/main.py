#!/usr/bin/python3 -B
"""What a build from nothing costs, against the figures in the tree: see --help."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path(__file__).with_name("figures.json")
MOST_ABOVE = 10  # in a hundred
LIMITS = json.loads(Path(__file__).with_name("limits.json").read_text())
BUILD = ROOT / "build-cost"


def core_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cost_of(*command: str) -> float:
    """What a command takes of a core, in seconds."""
    before = core_seconds()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "CCACHE_DISABLE": "1"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        print("\n".join(done.stdout.splitlines()[-40:]), file=sys.stderr)
        sys.exit(f"build_cost: {' '.join(command)} failed (messages above)")
    return core_seconds() - before


def yardstick() -> float:
    source = Path(__file__).with_name("yardstick.cc")
    return cost_of("g++", "-std=c++20", "-O2", "-g1", "-c", str(source), "-o", str(BUILD / "yardstick.o"))


def build(*targets: str) -> float:
    return cost_of("cmake", "--build", str(BUILD), "--target", *targets)


def library_bytes() -> int:
    stripped = BUILD / "stripped.so"
    subprocess.run(["strip", "-o", str(stripped), str(BUILD / "libibcoll.so")], check=True)
    return stripped.stat().st_size


def measure() -> dict:
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir()
    sticks = [yardstick()]
    cost_of("cmake", "--preset", "release", "-B", str(BUILD))
    bench = build("ib_a2a_bench")
    sticks.append(yardstick())
    product = build("ibcoll_tools", "libibcoll.so", "perf/all", "integrations/mpi/all", "integrations/ucc/all")
    sticks.append(yardstick())
    tests = build("all")
    sticks.append(yardstick())
    stick, everything = statistics.median(sticks), bench + product + tests
    found = {
        "bench_s": round(bench, 1),
        "everything_s": round(everything, 1),
        "yardstick_s": round(stick, 2),
        "bench": round(bench / stick, 1),
        "everything": round(everything / stick, 1),
        "tests": round(tests / stick, 1),
        "tests_share": round(tests / everything, 3),
        "library_bytes": library_bytes(),
    }
    shutil.rmtree(BUILD)
    return found


def complaints(found: dict, figures: dict) -> list[str]:
    texts = []
    for name in figures.keys() & {"bench", "everything", "tests", "library_bytes"}:
        limit = figures[name] * (1 + MOST_ABOVE / 100)
        if found[name] > limit:
            texts.append(f"{name} is {found[name]}, more than {MOST_ABOVE} % above the {figures[name]} of {FIGURES.name}")
    for name, limit in LIMITS.items():
        if name == "yardstick_s":
            continue
        value, where = found[name], ""
        if name.endswith("_s"):
            value, where = round(found[name.removesuffix("_s")] * LIMITS["yardstick_s"], 1), " on the machine of the limits"
        if value > limit:
            texts.append(f"{name} is {value}{where}, above the limit of {limit}")
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run test build-cost",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="""Builds everything in an empty folder without the compiler cache, and fails where that costs more than
10 % above the figures in tests/build_cost/figures.json, or more than tests/build_cost/limits.json allows.
Times are those of a core, of all processes together. Machines differ, and so do hours of one, so times
are compared as multiples of what a file takes that never changes (yardstick.cc). The limits are in
seconds of a machine on which that file takes as long as limits.json says.

  bench, bench_s            ./run bench: the library and ib_a2a_bench
  everything, everything_s  all tools, benchmarks, integrations and tests
  tests                     what only tests need
  tests_share               the same, of everything
  library_bytes             libibcoll.so, stripped
  yardstick_s               the file, median of four""",
    )
    parser.add_argument("--update", action="store_true", help="write the figures instead of comparing them")
    parser.add_argument("--json", metavar="FILE", help="write what was measured as JSON; -: standard output")
    args = parser.parse_args()
    found = measure()
    line = json.dumps(found)
    if args.json == "-":
        print(line)
    else:
        print(f"./run bench {found['bench_s']} s of a core, everything {found['everything_s']} s, of it tests "
              f"{100 * found['tests_share']:.0f} %; {found['bench']} and {found['everything']} times the yardstick, which took "
              f"{found['yardstick_s']} s; libibcoll.so, stripped, {found['library_bytes'] / 1e6:.2f} MB")  # fmt: skip
        if args.json:
            Path(args.json).write_text(line + "\n")
    if args.update:
        FIGURES.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if not figures:
        print(f"build_cost: there is no {FIGURES.name} to compare with; --update writes it", file=sys.stderr)
    texts = complaints(found, figures)
    for text in texts:
        print(f"build_cost: {text}", file=sys.stderr)
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main())
