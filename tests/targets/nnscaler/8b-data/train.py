"""Trains llama-3-8b on 8 h100-sxm on random tokens: in place of RandomTokens comes a data set of one's own.

    torchrun ... train.py -f train.yaml
"""

import os
import sys
import time

import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM


def named(block, name, classes={}):
    """The block, of a class of that name: autodist's pivots and recompute_modules are names of classes."""
    kind = type(block)
    if (kind, name) not in classes:
        classes[kind, name] = type(name, (kind,), {"__module__": __name__})
    block.__class__ = classes[kind, name]


class Model(torch.nn.Module):
    """The loss of a causal model of transformers. stage_blocks: how many blocks each stage has."""

    def __init__(self, config, stage_blocks=()):
        super().__init__()
        config = AutoConfig.from_pretrained(config).get_text_config()  # towers beside it are not trained
        config.use_cache = False
        self.model = AutoModelForCausalLM.from_config(config)
        lists = [m for m in self.model.modules() if isinstance(m, torch.nn.ModuleList)]
        blocks = next(m for m in lists if len(m) == config.num_hidden_layers)
        starts = {sum(stage_blocks[:s]) for s in range(1, len(stage_blocks))}
        for i, block in enumerate(blocks):
            named(block, "PlannedBlockOfStage" if i in starts else "PlannedBlock")

    def forward(self, sample):
        logits = self.model(input_ids=sample["tokens"], use_cache=False, return_dict=False)[0]
        logits = logits.view(-1, logits.size(-1)).float()
        return torch.nn.functional.cross_entropy(logits, sample["labels"].view(-1))


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, config, sequence):
        self.vocabulary, self.sequence = AutoConfig.from_pretrained(config).get_text_config().vocab_size, sequence

    def __len__(self):
        return 1 << 24

    def __getitem__(self, index):
        shape, seed = (self.sequence + 1,), torch.Generator().manual_seed(index)
        tokens = torch.randint(self.vocabulary, shape, generator=seed)
        return {"tokens": tokens[:-1], "labels": tokens[1:].clone()}


def step_ends(trainer, *unused, last=[]):
    """Prints what each step took, as `cleave calibrate` reads it."""
    now = time.monotonic()
    if last and trainer.rank == 0:
        print(f"elapsed time per iteration (ms): {1000 * (now - last[0]):.1f}", flush=True)
    last[:] = [now]


def training_ends(trainer):
    gib = torch.cuda.max_memory_reserved() / 2**30
    print(f"rank {trainer.rank}: at most {gib:.2f} GiB reserved in the last step", flush=True)


def number_ranks(stages):
    """Replicas of a stage are neighbours, as planned; nnScaler would make the stages of a replica so."""
    stage, replica = divmod(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) // stages)
    os.environ["RANK"] = str(replica * stages + stage)


def main():
    with open(sys.argv[sys.argv.index("-f") + 1]) as file:
        number_ranks(yaml.safe_load(file)["compute_config"]["plan_ngpus"])
    import nnscaler
    from nnscaler.cli.trainer import Trainer

    try:
        Trainer(sys.argv[1:]).run()
    finally:
        nnscaler.uninit()


if __name__ == "__main__":
    main()
