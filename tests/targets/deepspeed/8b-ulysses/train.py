"""Trains llama-3-8b on 16 h100-sxm on random tokens: in its place comes a script with data, which the Trainer takes alike.

    --model FOLDER    a configuration, config.json, or a checkpoint
"""

import glob
import os
import time
from dataclasses import dataclass

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


@dataclass
class Job:
    model: str = "model"
    max_length: int = 4096


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, vocabulary, length):
        self.vocabulary, self.length = vocabulary, length

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        tokens = torch.randint(self.vocabulary, (self.length,), generator=torch.manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class StepTimes(TrainerCallback):
    """Prints what each step took, as `cleave calibrate` reads it."""

    ended = None

    def on_step_end(self, args, state, control, **kwargs):
        now = time.monotonic()
        if self.ended and state.is_world_process_zero:
            print(f"elapsed time per iteration (ms): {1000 * (now - self.ended):.1f}", flush=True)
        self.ended = now


def main():
    job, arguments = HfArgumentParser((Job, TrainingArguments)).parse_args_into_dataclasses()
    config = AutoConfig.from_pretrained(job.model).get_text_config()  # towers beside it are not trained
    config.use_cache = False
    dtype = torch.bfloat16 if arguments.bf16 else torch.float32
    files = [path for kind in ("*.safetensors", "pytorch_model*.bin") for path in glob.glob(os.path.join(job.model, kind))]
    if files or not os.path.isdir(job.model):
        model, loaded = AutoModelForCausalLM.from_pretrained(
            job.model,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            key_mapping={r"^language_model\.": "", r"^model\.language_model\.": "model."},  # of towers' checkpoints
        )
        if loaded["missing_keys"]:
            raise SystemExit(f"{job.model} lacks {len(loaded['missing_keys'])} weights of the model, "
                             f"one of them {min(loaded['missing_keys'])}")
    else:
        if arguments.process_index == 0:
            print(f"{job.model} has no *.safetensors and no pytorch_model*.bin: weights are random", flush=True)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    data = RandomTokens(config.vocab_size, job.max_length)
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[StepTimes()]).train()
    gib = torch.cuda.max_memory_reserved() / 2**30
    print(f"rank {arguments.process_index}: at most {gib:.2f} GiB reserved", flush=True)


if __name__ == "__main__":
    main()
