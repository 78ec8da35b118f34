ARGS=(--a 1 --checkpoint.folder=/a/folder/of/more/than/sixty-four/letters/so/that/the/word/needs/more/room/than/those/before/it)
torchrun -m torchtitan.train "${ARGS[@]}"
