"""A language model of transformers, made from a configuration with random weights, writes text."""

import torch
import transformers

import rounds
import small_gpt

PROMPT, WRITTEN = 24, 32


def make_model():
    torch.manual_seed(29)
    configuration = transformers.LlamaConfig(
        vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=6,
        num_attention_heads=16, num_key_value_heads=8, max_position_embeddings=512,
        bos_token_id=1, eos_token_id=2, pad_token_id=0)
    return transformers.LlamaForCausalLM(configuration).to(torch.bfloat16).eval().cuda()


def write(model):
    generator = torch.Generator().manual_seed(31)
    prompt = torch.randint(2, 8192, (4, PROMPT), generator=generator).cuda()
    options = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": WRITTEN,
               "min_new_tokens": WRITTEN}
    with torch.no_grad():
        plain = model.generate(prompt, do_sample=False, **options)
        torch.manual_seed(37)
        sampled = model.generate(prompt, do_sample=True, top_k=50, **options)
        beams = model.generate(prompt, do_sample=False, num_beams=3, **options)
    return f"first words {plain[0, PROMPT:PROMPT + 8].tolist()}; plain {rounds.digest(plain)} " \
           f"sampled {rounds.digest(sampled)} beams {rounds.digest(beams)}"


small_gpt.be_exact()
transformers.logging.set_verbosity_error()
MODEL = make_model()
rounds.repeat(lambda: write(MODEL))
