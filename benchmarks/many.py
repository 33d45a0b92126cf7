"""Many models at once: processes against threads, and seeds stacked in one process.

python benchmarks/many.py [--rounds 5] [--quick]

alone     the trainer in one process with one thread; several seeds come one after another
threads   the same with as many threads as there are cores
workers   a process with one thread on every core, each training a seed of its own, as studies do
stack K   K seeds as stacked tensors in one process with one thread (untwine.stacking)
plain 8   as in PyTorch's guide to ensembles: functional_call under vmap, autograd, fused Adam
stacks    a process with one thread on every core, each training a stack of 8

All processes are started before and warmed up, take turns of half a second, and their rates are
added where several work at a time. What starting a process costs is in study.py.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import torch
from harness import Result, section, show, table
from torch.func import functional_call, stack_module_state, vmap

import untwine
from untwine.data import mix
from untwine.recording import Terms, Unlike
from untwine.stacking import stacked
from untwine.train import fit

CORES = os.cpu_count() or 1
SECONDS = 0.5
CHECKED = 20  # steps after which the weights of a stack are compared with those of single runs


@dataclass(frozen=True)
class Case:
    """A piece of work."""

    model: str
    data: str
    network: str
    latent: int = 10
    batch: int = 64

    def build(self, seed):
        data = untwine.dataset(self.data)
        numbers = {"latent": self.latent, "network": self.network, "seed": seed}
        return untwine.build(self.model, data, **numbers), data

    def told(self):
        return f"{self.model}, {self.data}, {self.network}, batch {self.batch}"


PROCESSES = (
    Case("vae", "sprites(size=64)", "conv-k4"),
    Case("vae", "sprites(size=32)", "conv"),
    Case("vae", "digits", "mlp"),
    Case("vae", "sprites(size=16)", "mlp"),
    Case("vae", "circle", "mlp"),
    Case("vae", "circle", "mlp-toy", latent=2, batch=100),
)
STACKED = (
    Case("vae", "circle", "mlp-toy", latent=2, batch=100),
    Case("intel-clusters", "circle", "mlp-toy", latent=2, batch=100),
    Case("vae", "circle", "mlp"),
    Case("beta-tcvae", "circle", "mlp"),
    Case("vae", "sprites(size=16)", "mlp"),
    Case("beta-tcvae", "sprites(size=16)", "mlp"),
    Case("vae", "digits", "mlp"),
    Case("beta-tcvae", "digits", "mlp"),
    Case("vae", "sprites(size=32)", "conv"),
)
SIZES = (2, 4, 8, 16)


@dataclass(frozen=True)
class Way:
    """How many processes do what, with how many threads and seeds each."""

    kind: str = "alone"
    seeds: int = 1
    threads: int = 1
    processes: int = 1


ALONE, THREADS = Way(), Way(threads=CORES)
WORKERS, STACKS = Way(processes=CORES), Way("stack", 8, processes=CORES)
PLAIN = Way("plain", 8)
STACK = {size: Way("stack", size) for size in SIZES}


def alone(case, seeds, first):
    """A turn of the trainer; its clock starts with the second step."""
    model, data = case.build(first)

    def turn():
        times = []

        def stop():
            times.append(time.perf_counter())
            return times[-1] - times[0] > SECONDS and len(times) > 2

        try:
            fit(model, data, steps=10**9, batch=case.batch, quiet=True, device="cpu", stop=stop)
        except KeyboardInterrupt:
            return case.batch * (len(times) - 2) / (times[-1] - times[1])

    return turn


def repeat(step, images):
    """Steps for the length of a turn; images a second."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        count += 1
    return images * count / (time.perf_counter() - began)


def stack_of(case, seeds, first):
    models, data = zip(*(case.build(first + k) for k in range(seeds)), strict=True)
    numbers = range(first, first + seeds)
    return stacked(models, data[0], numbers, batch=case.batch, lr=1e-4)


def stack(case, seeds, first):
    whole = stack_of(case, seeds, first)
    return lambda: repeat(whole.advance, case.batch * seeds)


def plain(case, seeds, first):
    """An ensemble in the words of PyTorch's guide; its noise is not that of single runs."""
    models, data = zip(*(case.build(first + k) for k in range(seeds)), strict=True)
    parts = [Terms(model) for model in models]
    weights, buffers = stack_module_state(parts)
    optimiser = torch.optim.Adam(weights.values(), 1e-4, fused=True)
    orders = [data[0].batches(case.batch, mix(k, 0), torch.device("cpu")) for k in range(seeds)]
    clock, done = torch.zeros((), dtype=torch.long), iter(range(10**9))

    def losses(weights, buffers, x):
        return functional_call(parts[0], (weights, buffers), (clock, x))

    def step():
        now = next(done)
        x = data[0].take(torch.cat([order.at(now) for order in orders]))
        terms = vmap(losses, randomness="different")(
            weights, buffers, x.unflatten(0, (seeds, case.batch))
        )
        optimiser.zero_grad(set_to_none=True)
        terms["loss"].sum().backward()
        optimiser.step()

    return lambda: repeat(step, case.batch * seeds)


def compared(case, seeds, first):
    """Whether stacked seeds end as those that were trained alone, bit for bit."""
    whole = stack_of(case, seeds, first)
    for _ in range(CHECKED):
        whole.advance()

    def same(seed, model):
        single, data = case.build(seed)
        fit(single, data, steps=CHECKED, batch=case.batch, seed=seed, quiet=True, device="cpu")
        pairs = zip(single.parameters(), model.parameters(), strict=True)
        return all(torch.equal(mine, theirs) for mine, theirs in pairs)

    found = float(
        all(same(first + k, model) for k, model in enumerate(s.model for s in whole.states))
    )
    return lambda: found


KINDS = {"alone": alone, "stack": stack, "plain": plain, "compared": compared}


def worker(number):
    """In a process: do what every line asks for, and print its rate; 0 where it is refused."""
    turns, before = {}, None
    for line in sys.stdin:
        asked = json.loads(line)
        case, way = Case(**asked["case"]), Way(**asked["way"])
        turns, before = (turns if case == before else {}), case
        torch.set_num_threads(way.threads)
        try:
            if way not in turns:
                turns[way] = KINDS[way.kind](case, way.seeds, 100 * number)
                turns[way]()  # warm up
            print(turns[way](), flush=True)
        except (Unlike, RuntimeError) as reason:
            print(f"{way.kind} of {case.told()}: {reason}"[:200], file=sys.stderr)
            turns[way] = lambda: 0.0
            print(0.0, flush=True)


class Crew:
    """Processes that wait for work."""

    def __init__(self):
        command = [sys.executable, __file__, "worker"]
        self.processes = [
            subprocess.Popen(
                [*command, str(k)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for k in range(CORES)
        ]

    def turn(self, case, way):
        """Let as many processes as the way wants work at the same time; images a second."""
        busy = self.processes[: way.processes]
        for process in busy:
            print(json.dumps({"case": asdict(case), "way": asdict(way)}), file=process.stdin)
            process.stdin.flush()
        return sum(float(process.stdout.readline()) for process in busy)

    def rounds(self, case, ways, count):
        """{way: rates of all rounds}, after a round that warms up."""
        rates = {way: [] for way in ways}
        for number in range(count + 1):
            for way in ways:
                show(f"{case.told()}: round {number} of {count}, {way.kind} {way.seeds}")
                rate = self.turn(case, way)
                if number:
                    rates[way].append(rate)
        show("")
        return rates

    def close(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


def ratio(these, those):
    """`1.52 (1.48 to 1.60)`: round by round, or a dash for what was refused."""
    if not all(these):
        return "refused"
    return Result.of([a / b for a, b in zip(these, those, strict=True)]).told(".2f")


def processes(crew, rounds):
    section(
        "Many models at once",
        f"The same runs in {CORES} processes of one thread and in one process of {CORES} threads, "
        "in the trainer's steady state: images a second, added over processes.",
    )
    rows = []
    for case in PROCESSES:
        r = crew.rounds(case, (ALONE, THREADS, WORKERS), rounds)
        one = Result.of(r[ALONE])
        rows.append(
            [
                case.told(),
                one.told(),
                ratio(r[THREADS], r[ALONE]),
                ratio(r[WORKERS], r[ALONE]),
                ratio(r[WORKERS], r[THREADS]),
            ]
        )
    table(
        [
            "work",
            "one process, one thread: images/s",
            f"{CORES} threads, times that",
            f"{CORES} processes, times that",
            "processes over threads",
        ],
        rows,
    )


def stacks(crew, rounds):
    print(
        "Several seeds of one model in one process with one thread (`untwine.stacking`), as "
        "multiples of the trainer that takes one seed after another with one thread. `plain` is "
        "vmap as in PyTorch's guide to ensembles, which does not end as single runs do. The last "
        f"but one column sets {CORES} processes with a stack of eight each against {CORES} "
        "processes that train single runs. The last says whether four stacked seeds had, after "
        f"{CHECKED} steps, the weights of single runs bit for bit; what cannot have them is "
        "refused.\n"
    )
    rows = []
    for case in STACKED:
        ways = [ALONE, THREADS, WORKERS, *STACK.values(), PLAIN, STACKS]
        r = crew.rounds(case, ways, rounds)
        same = crew.turn(case, Way("compared", 4))
        columns = [THREADS, WORKERS, *STACK.values(), PLAIN]
        rows.append(
            [
                case.told(),
                *(ratio(r[way], r[ALONE]) for way in columns),
                ratio(r[STACKS], r[WORKERS]),
                "yes" if same else "no",
            ]
        )
    table(
        [
            "work",
            f"{CORES} threads",
            f"{CORES} processes",
            *(f"stack {size}" for size in SIZES),
            "plain 8",
            "stacks over processes",
            "same bits",
        ],
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description="Processes, threads and stacks.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    options = parser.parse_args()
    crew = Crew()
    try:
        processes(crew, 1 if options.quick else options.rounds)
        stacks(crew, 1 if options.quick else options.rounds)
    finally:
        crew.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(int(sys.argv[2]))
    else:
        main()
