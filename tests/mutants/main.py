#!/usr/bin/python3 -B
"""Mutation testing of the engine: see docs/mutants.md."""

import argparse
import collections
import difflib
import hashlib
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import bench
from mutations import GROUP_OF, GROUPS, Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.jsonl")
FOLDERS = tuple(bench.TESTS)
MOST_LEFT = 5  # in a hundred
NO_MUTANTS = ("unbuildable", "same")  # verdicts; the next one of the seed takes their place


def name_of(mutant: Mutant) -> str:
    return hashlib.sha256(mutant.key.encode()).hexdigest()[:10]


def mutants_in(folder: str) -> list[Mutant]:
    files = sorted(path for path in (ROOT / folder).iterdir() if path.suffix in (".cc", ".h"))
    return [mutant for path in files for mutant in mutants_of(f"{folder}/{path.name}", path.read_text())]


class Sample:
    """The mutants of one folder that a seed stands for: of each group as many, of the kinds of a group by turns. Each mutant's
    place follows from itself and the seed, so that a change of the sources changes little of it."""

    def __init__(self, folder: str, seed: int, count: int):
        self._wanted = {group: (count + i) // len(GROUPS) for i, group in enumerate(reversed(GROUPS))}
        place = lambda mutant: hashlib.sha256(f"{seed}|{mutant.key}".encode()).hexdigest()  # noqa: E731
        self._queues = collections.defaultdict(list)
        for mutant in sorted(mutants_in(folder), key=place, reverse=True):
            self._queues[mutant.kind].append(mutant)

    def walk(self, verdict_of) -> Iterator[Mutant]:
        """All that count, and before them those whose place they take. `verdict_of` says what has come of one once the caller
        has taken it."""
        queues = {kind: list(queue) for kind, queue in self._queues.items()}
        turns = {group: itertools.cycle(kinds) for group, kinds in GROUPS.items()}
        left = dict(self._wanted)
        while any(left.values()):
            for group in GROUPS:
                if left[group] == 0:
                    continue
                kinds = [kind for kind in GROUPS[group] if queues.get(kind)]
                if not kinds:
                    left[group] = 0
                    continue
                kind = next(kind for kind in turns[group] if kind in kinds)
                while queues[kind]:
                    mutant = queues[kind].pop()
                    yield mutant
                    if verdict_of(mutant) not in NO_MUTANTS:
                        left[group] -= 1
                        break


class Results:
    """One line of JSON for each try, the newest last. Several runs may add to it at the same time."""

    def __init__(self, path: Path):
        self._path, self._read = path, 0
        self.tries = collections.defaultdict(list)  # by key
        self.refresh()

    def refresh(self) -> None:
        if not self._path.exists():
            return
        with self._path.open() as file:
            file.seek(self._read)
            for line in file:
                one = json.loads(line)
                self.tries[one["key"]].append(one)
                self._read += len(line.encode())

    def verdict(self, mutant: Mutant) -> str | None:
        tries = self.tries.get(mutant.key)
        return tries[-1]["verdict"] if tries else None

    def add(self, mutant: Mutant, result: dict) -> None:
        one = {"name": name_of(mutant), "file": mutant.file, "line": mutant.line, "kind": mutant.kind,
               "before": mutant.before, "after": mutant.after, **result, "key": mutant.key}  # fmt: skip
        with self._path.open("a") as file:
            file.write(json.dumps(one) + "\n")
        self.refresh()


def walk_all(args, results: Results) -> Iterator[Mutant]:
    """One of each folder by turns."""
    walks = [Sample(folder, args.seed, args.count).walk(results.verdict) for folder in FOLDERS]
    missing = object()
    for row in itertools.zip_longest(*walks, fillvalue=missing):
        yield from (mutant for mutant in row if mutant is not missing)


def equivalents() -> dict[str, str]:
    """Why no test can tell them from the engine, by key."""
    found = {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        one = json.loads(line)
        found[one["mutant"]] = one["why"]
    return found


def described(mutant: Mutant, place: int | None = None) -> str:
    short = lambda text: " ".join(text.split())  # noqa: E731
    return f"{name_of(mutant)} {mutant.file}:{place or mutant.line} {mutant.kind}: {short(mutant.before)!r} -> {short(mutant.after)!r}"


def difference(mutant: Mutant) -> str:
    text = (ROOT / mutant.file).read_text()
    return "".join(difflib.unified_diff(text.splitlines(True), mutant.apply(text).splitlines(True),
                                        f"a/{mutant.file}", f"b/{mutant.file}"))  # fmt: skip


class Tries:
    """Tries mutants until the time is over."""

    def __init__(self, args, results: Results):
        self._results = results
        self._bench = bench.Bench(ROOT, args.scratch, args.jobs)
        self._until = time.monotonic() + args.minutes * 60 if args.minutes else None

    def run(self, args) -> None:
        self._bench.prepare()
        equivalent = equivalents()
        verdict = self._results.verdict
        # Headers last: much is compiled for each.
        for suffixes in (".cc", (".cc", ".h")):
            for mutant in walk_all(args, self._results):
                if not mutant.file.endswith(suffixes):
                    continue
                again = args.survivors and verdict(mutant) == "survived" and mutant.key not in equivalent
                if args.only != "tests" and (again or verdict(mutant) is None):
                    if not self._try(mutant, self._bench.try_lockstep):
                        return
                # What nobody can tell is tried on lockstep alone: that may show that it is not so.
                if mutant.key in equivalent:
                    continue
                if args.only != "lockstep" and (verdict(mutant) == "passed" or (again and args.only == "tests")):
                    if not self._try(mutant, self._bench.try_tests):
                        return

    def _try(self, mutant: Mutant, how) -> bool:
        if self._until is not None and time.monotonic() > self._until:
            print("the time is over; the next run goes on from here")
            return False
        result = how(mutant)
        self._results.add(mutant, result)
        print(f"{time.strftime('%H:%M:%S')} {result['verdict']:<11} {result.get('by', '')[:24]:<24} "
              f"{result['build_s']:5.1f} s + {result.get('test_s', 0):4.1f} s  {described(mutant)[:150]}",
              flush=True)  # fmt: skip
        return True


def report(args, results: Results) -> float:
    """Prints the counts, and returns how many in a hundred are left."""
    equivalent = equivalents()
    known = {mutant.key for folder in FOLDERS for mutant in mutants_in(folder)}
    for key in equivalent.keys() - known:
        print(f"no mutant of the sources as they are, so it may go from {EQUIVALENT.name}: {key}")
    rows = collections.defaultdict(collections.Counter)
    left, pending, seconds = [], 0, 0.0
    for mutant in walk_all(args, results):
        tries = results.tries.get(mutant.key, [])
        seconds += sum(one["build_s"] + one.get("test_s", 0) for one in tries)
        tried = ("killed", "survived", "passed") if mutant.key in equivalent else ("killed", "survived")
        ends = [one for one in tries if one["verdict"] in tried]
        if not ends:
            pending += results.verdict(mutant) not in NO_MUTANTS
            continue
        last = ends[-1]
        killed = last["verdict"] == "killed"
        for row in (rows[bench.folder_of(mutant.file), GROUP_OF[mutant.kind]], rows["all", ""]):
            row["mutants"] += 1
            row["killed before"] += ends[0]["verdict"] == "killed"
            row["by lockstep"] += killed and last["by"] == "lockstep"
            row["by tests"] += killed and last["by"] != "lockstep"
            row["equivalent"] += not killed and mutant.key in equivalent
            row["left"] += not killed and mutant.key not in equivalent
        if not killed and mutant.key not in equivalent:
            left.append(mutant)
        if killed and mutant.key in equivalent:
            print(f"not equivalent, for {last['by']} notices: {described(mutant)}")
    columns = ("mutants", "killed before", "by lockstep", "by tests", "equivalent", "left")
    print(f"{'folder':<18}{'group':<12}" + "".join(f"{column:>15}" for column in columns))
    for folder, group in [*itertools.product(FOLDERS, GROUPS), ("all", "")]:
        print(f"{folder:<18}{group:<12}" + "".join(f"{rows[folder, group][column]:>15}" for column in columns))
    total = rows["all", ""]
    for mutant in left:
        print(described(mutant))
    percent = 100 * total["left"] / max(total["mutants"], 1)
    print(f"left: {percent:.1f} %; {pending} not tried yet; {seconds / max(total['mutants'], 1):.0f} s a mutant")
    return percent


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run test mutants", description="Changes the engine in one place at a time and "
                                     "sees whether lockstep and the quick tests notice.")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="which mutants (1)")
    parser.add_argument("--count", type=int, default=100, help="how many of each folder (100)")
    parser.add_argument("--jobs", type=int, default=2, help="processes of the build and of lockstep (2)")
    parser.add_argument("--minutes", type=float, help="stop after so many; the next run goes on")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build-mutants", help="folder for copy, build and results")
    parser.add_argument("--survivors", action="store_true", help="try those again that have survived")
    parser.add_argument("--only", choices=("lockstep", "tests"), help="try them on nothing else")
    parser.add_argument("--report", action="store_true", help="what has come of them so far")
    parser.add_argument("--show", metavar="NAME", help="print that one as a patch")
    parser.add_argument("--equivalent", nargs=2, metavar=("NAME", "WHY"), help="note that nobody can tell that one from the engine")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    if args.show or args.equivalent:
        name = args.show or args.equivalent[0]
        found = [mutant for folder in FOLDERS for mutant in mutants_in(folder) if name_of(mutant) == name]
        if not found:
            print(f"mutants: there is no mutant {name} of the sources as they are", file=sys.stderr)
            return 1
        if args.show:
            print(difference(found[0]), end="")
        else:
            with EQUIVALENT.open("a") as file:
                file.write(json.dumps({"why": args.equivalent[1], "mutant": found[0].key}) + "\n")
        return 0
    results = Results(args.scratch / "results.jsonl")
    if not args.report:
        bench.adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(1))
        Tries(args, results).run(args)
    percent = report(args, results)
    return 0 if args.report or percent <= MOST_LEFT else 1


if __name__ == "__main__":
    sys.exit(main())
