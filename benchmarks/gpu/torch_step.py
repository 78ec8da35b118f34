"""Training steps of a cleave model description in PyTorch, as its users write them: torch.compile, scaled_dot_product_attention, fused
AdamW, bf16 autocast over fp32 weights. Reads the models of benchmarks/gpu/first_day (GPT-2 and Llama shapes); prints one JSON object.

usage: torch_step.py MODEL.json --batch SEQUENCES --steps N [--device cuda] [--no-compile]"""
import argparse
import json
import time
import torch
import torch.nn.functional as F
from torch import nn


def unfold(layers):
    for layer in layers:
        if "repeat" in layer:
            for _ in range(layer["repeat"]):
                yield from unfold(layer["layers"])
        else:
            yield layer


ACTIVATIONS = {"gelu": lambda x: F.gelu(x, approximate="tanh"), "gelu_erf": F.gelu, "relu": F.relu}
GATES = {"swiglu": F.silu, "geglu": F.gelu}


def norm_of(layer, hidden):
    return nn.RMSNorm(hidden, eps=1e-5) if layer.get("norm") == "rms_norm" else nn.LayerNorm(hidden, eps=1e-5)


class Attention(nn.Module):
    def __init__(self, layer, hidden, sequence):
        super().__init__()
        self.heads, self.kv_heads = layer["heads"], layer.get("kv_heads", layer["heads"])
        self.width = layer.get("head_dim", hidden // self.heads)
        self.norm = norm_of(layer, hidden)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.width, bias=layer.get("qkv_bias", False))
        self.out = nn.Linear(self.heads * self.width, hidden, bias=layer.get("output_bias", False))
        self.rotates = "rope_base" in layer
        if self.rotates:
            frequency = layer["rope_base"] ** (-torch.arange(0, self.width, 2).float() / self.width)
            angle = torch.outer(torch.arange(sequence).float(), frequency)
            self.register_buffer("cos", angle.cos().repeat(1, 2), persistent=False)
            self.register_buffer("sin", angle.sin().repeat(1, 2), persistent=False)

    def rotate(self, x):
        low, high = x.chunk(2, dim=-1)
        return (x * self.cos + torch.cat((-high, low), dim=-1) * self.sin).to(x.dtype)

    def forward(self, x):
        b, t, _ = x.shape
        sizes = [self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width]
        q, k, v = (y.view(b, t, -1, self.width).transpose(1, 2) for y in self.qkv(self.norm(x)).split(sizes, dim=-1))
        if self.rotates:
            q, k = self.rotate(q), self.rotate(k)
        shared = {"enable_gqa": True} if self.kv_heads < self.heads else {}
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, **shared)
        return x + self.out(y.transpose(1, 2).reshape(b, t, -1))


class Mlp(nn.Module):
    def __init__(self, layer, hidden):
        super().__init__()
        bias, inner = layer.get("bias", False), layer["inner"]
        self.norm, self.gated = norm_of(layer, hidden), layer["activation"] in GATES
        self.activation = GATES[layer["activation"]] if self.gated else ACTIVATIONS[layer["activation"]]
        self.up = nn.Linear(hidden, inner * (2 if self.gated else 1), bias=bias)
        self.down = nn.Linear(inner, hidden, bias=bias)

    def forward(self, x):
        y = self.up(self.norm(x))
        if self.gated:
            gate, up = y.chunk(2, dim=-1)
            return x + self.down(self.activation(gate) * up)
        return x + self.down(self.activation(y))


def begin(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def parameters(model, description, vocabulary):
    """As cleave counts them: without the rows that fill up the vocabulary."""
    tables = 1 if description.get("tied_embedding", False) else 2
    return sum(w.numel() for w in model.parameters()) - tables * (vocabulary - description["vocab_size"]) * description["hidden"]


class Model(nn.Module):
    def __init__(self, description, vocabulary):
        super().__init__()
        hidden, sequence = description["hidden"], description["sequence"]
        layers = list(unfold(description["layers"]))
        self.tokens = nn.Embedding(vocabulary, hidden)
        learned = max((layer.get("learned_positions", 0) for layer in layers if layer["kind"] == "embedding"), default=0)
        self.positions = nn.Embedding(learned, hidden) if learned else None
        others = {layer["kind"] for layer in layers} - {"embedding", "attention", "mlp", "head", "loss"}
        if others:
            raise SystemExit(f"no counterpart here of layers of kind {', '.join(sorted(others))}")
        makers = {"attention": lambda layer: Attention(layer, hidden, sequence), "mlp": lambda layer: Mlp(layer, hidden)}
        self.blocks = nn.Sequential(*[makers[layer["kind"]](layer) for layer in layers if layer["kind"] in makers])
        last = next(layer for layer in layers if layer["kind"] == "head")
        self.norm = norm_of(last, hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if description.get("tied_embedding", False):
            self.head.weight = self.tokens.weight
        self.apply(begin)

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model")
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--device", default="cuda")
    p.add_argument("--no-compile", action="store_true")
    o = p.parse_args()
    with open(o.model, encoding="utf-8") as file:
        description = json.load(file)
    vocabulary = (description["vocab_size"] + 127) // 128 * 128  # as cleave pads it
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(description, vocabulary).to(o.device)
    step_model = model if o.no_compile else torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=o.device == "cuda")
    tokens = torch.randint(0, description["vocab_size"], (o.batch, description["sequence"] + 1), device=o.device)
    wait = torch.cuda.synchronize if o.device == "cuda" else (lambda: None)
    times, loss = [], None
    for _ in range(o.steps):
        wait()
        start = time.perf_counter()
        with torch.autocast(o.device, dtype=torch.bfloat16):
            loss = step_model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if o.device == "cuda" else 0
    print(json.dumps({"torch": torch.__version__, "step_s": times, "last_loss": loss.item(), "peak_bytes": peak,
                      "parameters": parameters(model, description, vocabulary)}))


if __name__ == "__main__":
    main()
