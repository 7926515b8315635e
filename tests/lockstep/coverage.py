"""Prints how many branches of each folder were reached, and writes the lines that have others.

coverage.py BUILD LISTED MISSING FOLDER...

Reads the counters below BUILD with gcov. LISTED says what lockstep cannot reach, or need not: reasons, each
after "# ", and below it the lines that it holds for, "FILE: TEXT OF THE LINE", or whole files, "FILE: *".
All other lines with branches not reached go to MISSING.

Counted is what somebody has written: a call that may throw is no branch, nor is a line of closing braces,
where things end. What a template or a constructor is compiled to several times is one: a branch that one of
them takes is reached.
"""
import collections
import json
import os
import re
import subprocess
import sys

ENDS = re.compile(r"[})\];,]*$")


def choices(branches):
    """Whether each branch was taken, without those of calls that may throw and go on if they do not."""
    kept = []
    skips = False
    for branch in branches:
        if skips:
            skips = False
        elif not branch["throw"]:
            kept.append(branch)
        elif kept and kept[-1]["fallthrough"]:
            kept.pop()
        else:
            skips = True
    return [branch["count"] > 0 for branch in kept]


def merge(copies):
    """Of a line, over all that it is compiled to."""
    return [any(copy[i] for copy in copies if i < len(copy)) for i in range(max(map(len, copies)))]


def read_counters(build, root):
    """File -> line -> whether each of its branches was taken."""
    files = collections.defaultdict(lambda: collections.defaultdict(list))
    for folder, _, names in os.walk(build):
        for name in names:
            if not name.endswith(".gcda"):
                continue
            output = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", name], cwd=folder,
                                    capture_output=True, text=True, check=True).stdout
            report = json.loads(output.splitlines()[0])
            for file in report["files"]:
                path = os.path.relpath(os.path.join(report["current_working_directory"], file["file"]), root)
                for line in file["lines"]:
                    if taken := choices(line["branches"]):
                        files[path][line["line_number"]].append(taken)
    return {path: {number: merge(copies) for number, copies in lines.items()} for path, lines in files.items()}


def read_listed(path):
    with open(path, encoding="utf-8") as file:
        return {line for line in file.read().splitlines() if line and not line.startswith("#")}


def main(build, listed_path, missing_path, *folders):
    listed = read_listed(listed_path)
    totals = {folder: [0, 0, 0] for folder in folders}
    missing = []
    met = set()
    for name, lines in sorted(read_counters(build, os.getcwd()).items()):
        folder = next((folder for folder in folders if name.startswith(folder + "/")), None)
        if folder is None:
            continue
        with open(name, encoding="utf-8") as file:
            text = file.read().splitlines()
        for number, taken in sorted(lines.items()):
            source = text[number - 1].strip()
            if ENDS.match(source):
                continue
            not_taken = taken.count(False)
            totals[folder][0] += len(taken)
            totals[folder][1] += not_taken
            known = {f"{name}: {source}", f"{name}: *"} & listed
            if not_taken and known:
                met |= known
                totals[folder][2] += not_taken
            elif not_taken:
                missing.append(f"{name}:{number}: {not_taken} of {len(taken)}: {source}")
    with open(missing_path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in missing))
    print(f"{'folder':<20} {'branches':>9} {'not reached':>12} {'of these listed':>16} {'not listed':>11}")
    for folder, (branches, not_reached, known) in totals.items():
        share = 100 * (not_reached - known) / max(branches - known, 1)
        print(f"{folder:<20} {branches:>9} {not_reached:>12} {known:>16} {share:>10.1f}%")
    print(f"not listed: {len(missing)} lines, in {missing_path}; listed, but reached: {len(listed - met)}")
    for line in sorted(listed - met):
        print(f"  {line}")


main(*sys.argv[1:])
