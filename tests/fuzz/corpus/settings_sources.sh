#!/bin/bash
DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &> /dev/null && pwd)"
[ -n "$ONCE" ] && return
ONCE=1
source "$DIR/conf/a.sh" 2 4
. `dirname $0`/b.env || exit 1
load() { source ${BASH_SOURCE%/*}/conf/$1.sh; return; }
load c; cd "$(dirname $(dirname $(realpath $0)))/.."; source scripts/d.sh
(cd conf; . ./e.sh); pushd x; source $SLURM_SUBMIT_DIR/f.sh; popd; source <(echo TP=2)
source $NOWHERE/g.sh; source
torchrun train.py --training.local_batch_size $1 --tensor-model-parallel-size ${2:-1} --micro-batch-size 1 --num-layers 2
