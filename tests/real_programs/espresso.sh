#!/bin/bash
# Quantum ESPRESSO: silicon to self-consistency, with forces and stress.
source "$(dirname "$0")/common.sh"
cat >si.in <<'END'
&control
  calculation = 'scf', prefix = 'si', pseudo_dir = '/usr/share/espresso/pseudo', outdir = './out'
  tprnfor = .true., tstress = .true.
/
&system
  ibrav = 2, celldm(1) = 10.20, nat = 2, ntyp = 1, ecutwfc = 18.0
/
&electrons
  conv_thr = 1.0d-10
/
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.27 0.25 0.25
K_POINTS automatic
 2 2 2 1 1 1
END
readonly RANKS=4 RUN="pw.x -in si.in"
# Energies, forces and stress; not the estimates of what is left, which are rounding.
results() { sed -nE '/^!|highest occupied|force =|total   stress|Total force/{s/Total SCF.*//;p}' "$1" >"$2"; }
# shellcheck disable=SC2086  # a command and its arguments
other_algorithms $RANKS out $RUN 2>notes
for algorithm in $ALLREDUCE_ALGORITHMS; do results "out.$algorithm" "results.$algorithm"; done
# shellcheck disable=SC2086
preloaded $RANKS $RUN >out.ours 2>>notes
results out.ours results.ours
expect_figures results
expect_line results.ours '^!'
expect_engine alltoall alltoallv bcast allreduce reduce barrier
