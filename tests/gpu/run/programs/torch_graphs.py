"""CUDA graphs in PyTorch: a captured training step, and captured forward passes on side streams."""

import torch

import rounds
import small_gpt

STEPS, SERVED = 10, 12


def train():
    model = small_gpt.make(3, "cuda", layers=2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    words = small_gpt.batch(0, "cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # Before a capture, everything has to have run once.
        for _ in range(2):
            optimiser.zero_grad(set_to_none=True)
            small_gpt.loss_of(model, words).backward()
            optimiser.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimiser.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = small_gpt.loss_of(model, words)
        loss.backward()
        optimiser.step()
    losses = []
    for step in range(STEPS):
        words.copy_(small_gpt.batch(step, "cuda"))
        graph.replay()
        losses.append(loss.clone())
    return rounds.digest(torch.stack(losses), *model.parameters())


def serve():
    """Two graphs, replayed on two streams that wait for each other now and then."""
    model = small_gpt.make(5, "cuda", layers=2).eval()
    streams, graphs, inputs, outputs = [], [], [], []
    for number in range(2):
        stream = torch.cuda.Stream()
        words = small_gpt.batch(number, "cuda")[:, :-1].contiguous()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            model(words)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
            output = model(words)
        streams.append(stream)
        graphs.append(graph)
        inputs.append(words)
        outputs.append(output)
    sums = []
    for step in range(SERVED):
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                inputs[number].copy_(small_gpt.batch(10 * step + number, "cuda")[:, :-1])
                graphs[number].replay()
                sums.append(outputs[number].argmax(-1))
        if step % 4 == 0:
            streams[0].wait_stream(streams[1])
    torch.cuda.synchronize()
    return rounds.digest(*sums)


small_gpt.be_exact()
rounds.repeat(lambda: f"training {train()} serving {serve()}")
