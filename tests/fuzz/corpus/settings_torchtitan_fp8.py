from torchtitan.models.llama3.config_registry import llama3_405b
converters = [Float8LinearConverter.Config(filter_fqns=["lm_head", "router.gate"], emulate = False, recipe_name="rowwise"), Float8GroupedExpertsConverter.Config()]
config = llama3_405b()
config.model_spec = model_registry(flavor="405B", converters=converters)
for converter in converters:
    config.model_spec.model = converter.build().convert(config.model_spec.model)
config.model_spec = model_registry("8B", quantization=[LoRAConverter.Config(rank=8)])
