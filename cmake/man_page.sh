#!/bin/bash
# man_page.sh HELP2MAN TOOL PAGE: makes a tool's manual page of what its --help says. help2man sets options
# and commands; it would fill examples and tables like paragraphs, so these go in as they are.
set -euo pipefail
help2man=$1 tool=$2 page=$3
name=$(basename "$tool")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$tool" --help >"$dir/all"
# What follows the options and commands is the tool's own text: from its first line that is neither indented nor
# one of their headings.
awk -v options="$dir/options" -v own="$dir/own" '
  /^(Options|Positionals|Subcommands|Usage):/ { set = 1 }
  set && !in_own && /^[^ ]/ && !/^(Options|Positionals|Subcommands|Usage):/ { in_own = 1 }
  { print > (in_own ? own : options) }' "$dir/all"
touch "$dir/own"

# Each command has options of its own.
sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' "$dir/options" >"$dir/commands"
while read -r command; do
  printf '\nOptions of %s:\n' "$command"
  "$tool" "$command" --help | sed '1,/^Options:/d; /--help/d'
done <"$dir/commands" >>"$dir/options"
# As help2man wants them: two blanks before what an option does, also where its name fills the column. Lines
# that are indented further are lines of a table, marked here for what follows below.
sed -Ei 's/^(  -[a-zA-Z]),--/\1, --/; s/^(  -.{26}) ([A-Z])/\1  \2/; s/^( {30}) +([^ ])/\1@LINE@\2/' "$dir/options"

{
  printf '[NAME]\n%s \\- ' "$name"
  # The first sentence, as a phrase.
  sed -n '1{s/[.:] .*//;s/\.$//;s/-/\\-/g;s/^./\l&/;p;q}' "$dir/all"
  # Headings of the own text are sections, paragraphs notes.
  awk '
    function section(title) { printf "%s\n[%s]\n.nf\n", (open ? ".fi" : ""), title; open = 1 }
    /^[A-Z][A-Za-z ]*:$/ { sub(":", ""); section(toupper($0)); last = ""; next }
    /^[^ ]/ && last != "NOTES" { section("NOTES"); last = "NOTES" }
    /^ / { last = "" }
    { gsub(/\\/, "\\e"); gsub(/-/, "\\-"); sub(/^[.'"'"']/, "\\\\\\&&"); print }
    END { if (open) print ".fi" }' "$dir/own"
  cat <<'END_OF_SECTIONS'

[EXIT STATUS]
.TP
0
All went well.
.TP
1
Input could not be read, output could not be written, or what was asked for failed.
.TP
2
Wrong usage.
.PP
One line on standard error says why.

[SEE ALSO]
The library's interface stands in ibcoll/ibcoll.h and ibcoll/ibcoll.hpp;
.B ./run docs
makes a reference of it in a clone of the source.
END_OF_SECTIONS
} >"$dir/sections"

printf '#!/bin/sh\n[ "$1" = --help ] && exec cat "%s"\nexec "%s" "$1"\n' "$dir/options" "$(realpath "$tool")" >"$dir/$name"
chmod +x "$dir/$name"
mkdir -p "$(dirname "$page")"
"$help2man" --no-info --section 1 --manual ibcoll --include "$dir/sections" "$dir/$name" >"$dir/page"
sed -z 's/[ \n]*@LINE@/\n.br\n/g' "$dir/page" >"$page"
