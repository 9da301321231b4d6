"""One process, one plugin, one job: commands come as JSON lines on stdin, one JSON answer each goes to stdout.

The plugin is the one that PJRT_NAMES_AND_LIBRARY_PATHS names; this program is ordinary JAX.
  {"do": "compile"}                      seconds to compile the job's program, cold
  {"do": "check", "path": F}             runs it from the start, saves its results as F (.npz)
  {"do": "time", "seconds": S}           repeats its step for about S seconds: min and median seconds of a step, their
                                         number, and seconds of processor time of all threads for each; with "skip": N
                                         after N steps that are not looked at
"""
import functools
import json
import os
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import models

CONTEXT, BATCH, HEADS, STEPS = 128, 4, 8, 20


def corpus():
    """A small synthetic text of sentences, as bytes mapped to 0..vocab-1."""
    rng = np.random.default_rng(7)
    who = ["the core", "a plugin", "the shim", "one host", "the kernel", "a buffer"]
    verb = ["reads", "writes", "compiles", "checks", "copies", "folds", "returns"]
    what = ["a small program", "every operand", "the second shape", "two constants", "its own layout", "all results"]
    text = ". ".join(f"{rng.choice(who)} {rng.choice(verb)} {rng.choice(what)}" for _ in range(600))
    letters = sorted(set(text))
    return np.array([letters.index(c) for c in text], np.int32), len(letters)


class Train:
    """Twenty Adam steps of a small GPT on the corpus; a step is one batch, waited for."""

    def __init__(self):
        self.text, vocab = corpus()
        self.init = jax.jit(lambda seed: models.adam_init(models.gpt_init(seed, vocab, CONTEXT)))
        self.program = jax.jit(functools.partial(models.adam_step, heads=HEADS), donate_argnums=0)
        self.count = 0

    def batch(self):
        rng = np.random.default_rng(1000 + self.count)
        starts = rng.integers(0, len(self.text) - CONTEXT - 1, BATCH)
        self.count += 1
        return np.stack([self.text[s:s + CONTEXT + 1] for s in starts])

    def compile(self):
        self.state = self.init(3)
        jax.block_until_ready(self.state)
        return compiled(self, self.program, self.state, self.batch())

    def check(self):
        self.count, losses = 0, []
        self.state = self.init(3)
        for _ in range(STEPS):
            self.state, loss = self.run(self.state, self.batch())
            losses.append(float(loss))
        return {"loss": np.array(losses), "embed": np.asarray(self.state["params"]["embed"])}

    def prepare(self):
        self.fixed = jax.device_put(self.batch())

    def step(self):
        self.state, loss = self.run(self.state, self.fixed)
        loss.block_until_ready()


class Infer:
    """ResNet-18 on one image of 224 x 224; a step is one inference, waited for."""

    def __init__(self):
        self.params = jax.device_put(models.resnet_init(5))
        self.image = jax.device_put(np.random.default_rng(6).standard_normal((1, 224, 224, 3)).astype(np.float32))
        self.program = jax.jit(models.resnet)

    def compile(self):
        return compiled(self, self.program, self.params, self.image)

    def check(self):
        return {"logits": np.asarray(self.run(self.params, self.image))}

    def prepare(self):
        pass

    def step(self):
        self.run(self.params, self.image).block_until_ready()


class Generate:
    """Token by token with a key-value cache; a step is one token, the host reads it before the next."""
    PROMPT, TOKENS, ROOM, VOCAB = 32, 64, 256, 512

    def __init__(self):
        self.params = jax.jit(lambda seed: models.gpt_init(seed, self.VOCAB, self.ROOM))(11)
        self.params["position"] *= 20  # an untrained model repeats itself; strong positions make it say many tokens
        self.prompt = np.random.default_rng(12).integers(0, self.VOCAB, (1, self.PROMPT)).astype(np.int32)
        self.prefill = jax.jit(functools.partial(models.gpt_prefill, heads=HEADS, context=self.ROOM))
        self.program = jax.jit(functools.partial(models.gpt_decode, heads=HEADS), donate_argnums=1)

    def compile(self):
        token, _, cache = self.prefill(self.params, self.prompt)
        return compiled(self, self.program, self.params, cache, token, np.int32(self.PROMPT))

    def start(self):
        self.token, logits, self.cache = self.prefill(self.params, self.prompt)
        self.position = self.PROMPT
        return logits

    def advance(self):
        self.token, logits, self.cache = self.run(self.params, self.cache, self.token, np.int32(self.position))
        self.position += 1
        return int(self.token), logits

    def check(self):
        logits, tokens = [np.asarray(self.start())], [int(self.token)]
        for _ in range(self.TOKENS):
            token, scores = self.advance()
            tokens.append(token)
            logits.append(np.asarray(scores))
        return {"tokens": np.array(tokens), "logits": np.stack(logits)}

    def prepare(self):
        self.start()

    def step(self):
        if self.position == self.ROOM:
            self.position = self.PROMPT  # the next token overwrites the first generated row
        self.advance()


class Dispatch:
    """A jitted addition of two scalars: what one call costs from Python, waited for."""

    def __init__(self):
        self.program = jax.jit(lambda a, b: a + b)
        self.x = jnp.float32(1.5)

    def compile(self):
        return compiled(self, self.program, self.x, self.x, keep=self.program)

    def check(self):
        return {"sum": np.asarray(self.program(self.x, self.x))}

    def prepare(self):
        pass

    def step(self):
        self.program(self.x, self.x).block_until_ready()


JOBS = {"train": Train, "infer": Infer, "generate": Generate, "dispatch": Dispatch}


def compiled(job, program, *args, keep=None):
    """Compiles `program` for `args` and keeps it as job.run; seconds from lowered module to loaded executable."""
    lowered = program.lower(*args)
    start = time.perf_counter()
    executable = lowered.compile()
    seconds = time.perf_counter() - start
    job.run = keep or executable
    return seconds


def timed(job, seconds, skip=0):
    for _ in range(skip):
        job.step()
    clock, steps, processor, end = time.perf_counter, [], time.process_time(), time.perf_counter() + seconds
    while True:
        start = clock()
        job.step()
        now = clock()
        steps.append(now - start)
        if now >= end and len(steps) >= 3:
            return {"min": min(steps), "median": statistics.median(steps), "steps": len(steps),
                    "processor": (time.process_time() - processor) / len(steps)}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints goes to stderr
    start = time.perf_counter()
    device = jax.devices()[0]
    ready = time.perf_counter() - start
    jax.jit(lambda x: x * 2)(jnp.float32(1)).block_until_ready()
    job = JOBS[sys.argv[1]]()

    def answer(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    answer(platform=device.client.platform_version, device=str(device), devices_seconds=ready)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "compile":
                answer(seconds=job.compile())
            elif command["do"] == "check":
                np.savez(command["path"], **job.check())
                job.prepare()
                job.step()
                answer(ok=True)
            elif command["do"] == "time":
                answer(**timed(job, command["seconds"], command.get("skip", 0)))
            else:
                answer(error=f"unknown command {command['do']!r}")
        except Exception as e:  # the whole trace is in stderr's file
            import traceback
            traceback.print_exc()
            answer(error=f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")


if __name__ == "__main__":
    main()
