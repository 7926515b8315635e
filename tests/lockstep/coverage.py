"""Prints how many branches of each folder were reached, and writes the lines that have others.

coverage.py BUILD LISTED MISSING FOLDER...
coverage.py --check LISTED

Reads the counters below BUILD with gcov. LISTED says what lockstep cannot reach, or need not: reasons, each
after "# ", and below it the lines that it holds for, "FILE: TEXT OF THE LINE", or whole files, "FILE: *".
All other lines with branches not reached go to MISSING. Fails where an entry of LISTED names no line that
there is, which is all that --check does.

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


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file.read().splitlines()]


def names_a_line(entry):
    name, _, text = entry.partition(": ")
    return os.path.exists(name) and (text == "*" or text in lines_of(name))


def read_listed(path):
    """Its entries, each of which names a line of the sources."""
    listed = {number: line for number, line in enumerate(lines_of(path), 1) if line and not line.startswith("#")}
    gone = [f"{path}:{number}: there is no such line any more: {entry}" for number, entry in listed.items()
            if not names_a_line(entry)]
    if gone:
        sys.exit("\n".join(gone))
    return set(listed.values())


def main(build, listed_path, missing_path, *folders):
    listed = read_listed(listed_path)
    totals = {folder: [0, 0, 0] for folder in folders}
    missing = []
    met = set()
    for name, lines in sorted(read_counters(build, os.getcwd()).items()):
        folder = next((folder for folder in folders if name.startswith(folder + "/")), None)
        if folder is None:
            continue
        text = lines_of(name)
        for number, taken in sorted(lines.items()):
            source = text[number - 1]
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


if sys.argv[1] == "--check":
    read_listed(sys.argv[2])
else:
    main(*sys.argv[1:])
