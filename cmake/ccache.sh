#!/bin/sh
# ccache.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache.
#
# Where the files that a source includes do not tell, ccache goes by what the preprocessor leaves of them. That has no comments and
# no macros: of headers in which only those have changed, it would hand out the older ones, compiled. g++ then takes a header in them
# for another file than the one to include `once`. So for precompiled headers files alone count.
for argument; do
  if [ "$argument" = c++-header ]; then export CCACHE_DEPEND=1; fi
done
exec "$@"
