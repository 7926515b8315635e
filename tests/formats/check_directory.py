#!/usr/bin/env python3
"""Imports all MSCCL programs (*.xml) under a directory, and changes them.

For each: `ib_sched import` proves it or refuses it with the step and the reason; what it proves is
run by processes that compare every byte, and comes back the same from export and import. Then
dependencies are taken out, one a copy: each copy is refused, or proved and run.

  tests/formats/check_directory.py DIRECTORY [--bin build/bin] [--mutants 3] [--servers 1]
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

REASON = re.compile(r"(rank \d+|line \d+|unknown collective|chunks can't be divided)")


def call(arguments, **more):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True,
                          timeout=600, check=False, **more)


# MSCCL's solver calls these "custom".
CUSTOM = {"Broadcast": "bcast", "Gather": "gather", "Reduce": "reduce", "Scatter": "scatter"}


def custom(path):
    """What the program does, where its name alone says it."""
    root = ET.parse(path).getroot()
    name = root.get("name", "").split("(")[0]
    if root.get("coll") != "custom" or name not in CUSTOM:
        return []
    return ["--collective", CUSTOM[name]]


class Checker:
    def __init__(self, options, work):
        self.bin, self.work, self.servers = Path(options.bin), work, options.servers
        self.wrong = []

    def complain(self, path, what):
        self.wrong.append(f"{path}: {what}")
        print(f"WRONG {path}: {what}", flush=True)

    def imported(self, path, name, to):
        """The error's line, or None where it is proved."""
        done = call([self.bin / "ib_sched", "import", path, "--name", name, "--servers",
                     self.servers, "--json", to, *custom(path)])
        if done.returncode == 0:
            return None
        lines = done.stderr.strip().split("\n")
        if done.returncode != 1 or len(lines) != 1 or str(path) not in lines[0] or \
                not REASON.search(lines[0]):
            self.complain(path, f"status {done.returncode}: {done.stderr.strip()[:300]}")
        return lines[0]

    def runs(self, path, programs, name):
        header = json.loads((programs / "p.jsonl").open().readline())
        ranks = len(header["server_of"])
        done = call([self.bin / "ib_a2a_bench", "--collective", header["collective"], "--root",
                     header.get("root", 0), "--ranks", ranks, "--servers", self.servers,
                     "--algorithm", name, "--sizes", "24,100008", "--iterations", "2", "--check"],
                    env={**os.environ, "IBCOLL_PROGRAMS": str(programs)})
        if done.returncode != 0 or done.stdout.count(name) != 2:
            self.complain(path, f"runs wrong: {(done.stderr or done.stdout).strip()[:300]}")

    def same_again(self, path, programs, name):
        xml, again = self.work / "again.xml", self.work / "again.jsonl"
        done = call([self.bin / "ib_sched", "export", "--program", programs / "p.jsonl",
                     "--output", xml])
        if done.returncode != 0:
            self.complain(path, f"is not exported: {done.stderr.strip()[:300]}")
        elif self.imported(xml, name, again) is not None or \
                again.read_bytes() != (programs / "p.jsonl").read_bytes():
            self.complain(path, "is another program after export and import")

    def proved(self, path, again):
        """Whether it is; then it runs right, too."""
        programs = self.work / "programs"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        refusal = self.imported(path, "imported_here", programs / "p.jsonl")
        if refusal is None:
            self.runs(path, programs, "imported_here")
            if again:
                self.same_again(path, programs, "imported_here")
        return refusal


def without_dependency(path, count, to):
    """Writes copies, each without one dependency; gives what was taken out of which."""
    text = ET.parse(path)
    places = [step for step in text.getroot().iter("step") if int(step.get("depid", -1)) >= 0]
    chosen = random.Random(1).sample(places, min(count, len(places)))
    for number, step in enumerate(chosen):
        before = step.get("depid"), step.get("deps")
        step.set("depid", "-1")
        step.set("deps", "-1")
        copy = to / f"mutant{number}.xml"
        text.write(copy)
        yield copy, before
        step.set("depid", before[0])
        step.set("deps", before[1])


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("directory")
    options.add_argument("--bin", default="build/bin")
    options.add_argument("--mutants", type=int, default=3, help="copies of each (default 3)")
    options.add_argument("--servers", type=int, default=1)
    options = options.parse_args()
    files = sorted(Path(options.directory).rglob("*.xml"))
    if not files:
        sys.exit(f"{options.directory}: no *.xml")
    counts = {"proved": 0, "refused": 0, "mutants proved": 0, "mutants refused": 0}
    with tempfile.TemporaryDirectory() as work:
        checker = Checker(options, Path(work))
        for path in files:
            refusal = checker.proved(path, True)
            counts["refused" if refusal else "proved"] += 1
            if refusal:
                print(f"refused: {refusal}", flush=True)
                continue
            for copy, _ in without_dependency(path, options.mutants, Path(work)):
                refusal = checker.proved(copy, False)
                counts["mutants refused" if refusal else "mutants proved"] += 1
    print(f"{len(files)} files: " + ", ".join(f"{n} {what}" for what, n in counts.items()) +
          f"; {len(checker.wrong)} wrong")
    return 1 if checker.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
