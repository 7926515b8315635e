"""same_figures.py OURS THEIRS...: whether the numbers in a file agree with those in others as far as these agree among
themselves: ours may lie outside of theirs by no more than these lie apart, or by one in the last digit printed."""

import decimal
import sys


def figures(path):
    with open(path, encoding="utf-8") as file:
        return [decimal.Decimal(word) for word in file.read().replace("D", "E").split() if is_number(word)]


def is_number(word):
    try:
        return decimal.Decimal(word.replace("D", "E")).is_finite()
    except decimal.InvalidOperation:
        return False


def main():
    ours, theirs = figures(sys.argv[1]), [figures(path) for path in sys.argv[2:]]
    if not ours or any(len(one) != len(ours) for one in theirs):
        sys.exit(f"{sys.argv[1]} has {len(ours)} numbers, the others {[len(one) for one in theirs]}")
    for at, value in enumerate(ours):
        given = [one[at] for one in theirs]
        last = max(decimal.Decimal((0, (1,), one.as_tuple().exponent)) for one in given + [value])
        low, high = min(given), max(given)
        slack = max(high - low, last)
        if not low - slack <= value <= high + slack:
            sys.exit(f"number {at + 1} is {value}; Open MPI's own algorithms give {low} to {high}")


main()
