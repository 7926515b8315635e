"""Prints how many branches of each folder gcovr's JSON counts, and writes those not reached."""
import json
import sys

report, missing, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
with open(report, encoding="utf-8") as file:
    files = json.load(file)["files"]

totals = {folder: [0, 0] for folder in folders}
lines = []
for one in sorted(files, key=lambda entry: entry["file"]):
    name = one["file"]
    folder = next((folder for folder in folders if name.startswith(folder + "/")), None)
    if folder is None:
        continue
    with open(name, encoding="utf-8") as file:
        text = file.read().splitlines()
    for line in one["lines"]:
        branches = [b for b in line["branches"] if not b.get("throw")]
        if not branches or line.get("gcovr/noncode"):
            continue
        totals[folder][0] += len(branches)
        not_taken = sum(1 for branch in branches if branch["count"] == 0)
        if not_taken == 0:
            totals[folder][1] += len(branches)
            continue
        totals[folder][1] += len(branches) - not_taken
        number = line["line_number"]
        lines.append(f"{name}:{number}: {not_taken} of {len(branches)}: {text[number - 1].strip()}")

with open(missing, "w", encoding="utf-8") as file:
    file.write("".join(line + "\n" for line in lines))
print(f"{'folder':<20} {'branches':>9} {'reached':>9} {'missing':>9}")
for folder, (branches, reached) in totals.items():
    share = 100 * (branches - reached) / max(branches, 1)
    print(f"{folder:<20} {branches:>9} {reached:>9} {share:>8.1f}%")
print(f"not reached: {len(lines)} lines, in {missing}")
