#!/bin/bash
# LAMMPS: a Lennard-Jones liquid, whose energies and pressure are sums over all ranks.
source "$(dirname "$0")/common.sh"
cat >in.melt <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 5 every 1
fix 1 all nve
thermo_style custom step temp epair etotal press
thermo_modify format float %.14g
thermo 10
run 100
END
readonly RANKS=4 RUN="lmp -in in.melt -log none -nocite"
# The table of the steps; what follows are times.
steps() { sed -n '/^ *Step /,/^Loop/p' "$1" | grep -v '^Loop' >"$2"; }
# shellcheck disable=SC2086  # a command and its arguments
other_algorithms $RANKS out $RUN
for algorithm in $ALLREDUCE_ALGORITHMS; do steps "out.$algorithm" "steps.$algorithm"; done
# shellcheck disable=SC2086
preloaded $RANKS $RUN >out.ours
steps out.ours steps.ours
expect_figures steps
expect_engine allreduce bcast reduce barrier scan
