#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache.
#
# Where the files that a source includes do not tell, ccache goes by what the preprocessor leaves of them. That has no comments and
# no macros: of headers in which only those have changed, it would hand out the older ones, compiled. g++ then takes a header in them
# for another file than the one to include `once`. So for precompiled headers files alone count.
#
# An older precompiled header in the place of the new one would count, too. No other clone has it, nor what is compiled with the new
# one, which differs each time it is made. So the older one goes first.
header='' output='' previous=''
for argument; do
  if [ "$argument" = c++-header ]; then header=yes; fi
  if [ "$previous" = -o ]; then output=$argument; fi
  previous=$argument
done
if [ -n "$header" ]; then
  export CCACHE_DEPEND=1
  rm -f "$output"
fi
exec "$@"
